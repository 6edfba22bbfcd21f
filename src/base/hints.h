/* hints.h - what the compiler cannot know about which way the code usually goes. */
#ifndef WEIR_BASE_HINTS_H
#define WEIR_BASE_HINTS_H

#include <stddef.h>

#define weir_unlikely(condition) __builtin_expect(!!(condition), 0)

/* Kept out of line, so that it does not cost the path around it any registers. */
#define WEIR_APART __attribute__((noinline))

/* Kept out of line as well, and small rather than fast, because it hardly ever happens. */
#define WEIR_COLD __attribute__((cold, noinline))

/* What is there is needed soon, and has left the cache: it comes back while something else is done.
 * It need not be there any more. */
static inline void weir_foresee(const void *memory, size_t bytes)
{
    for (size_t at = 0; at < bytes; at += 64) {
        __builtin_prefetch((const char *)memory + at);
    }
}

#endif
