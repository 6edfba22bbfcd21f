/* hints.h - what the compiler cannot know about which way the code usually goes. */
#ifndef WEIR_BASE_HINTS_H
#define WEIR_BASE_HINTS_H

#define weir_unlikely(condition) __builtin_expect(!!(condition), 0)

/* Kept out of line, so that it does not cost the path around it any registers. */
#define WEIR_APART __attribute__((noinline))

/* The same for what hardly ever happens, which is also made small rather than fast. */
#define WEIR_COLD __attribute__((cold, noinline))

#endif
