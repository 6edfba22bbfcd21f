/* types.h - the few types that every header of libweir shares.
 *
 * Times are nanoseconds of one monotonic clock that the caller reads; the library never does. A
 * clock that counts from its machine's start, as CLOCK_MONOTONIC does, stays below 2^63.
 * A duration or moment of WEIR_NEVER means "not at all". Memory comes from an allocator that the
 * caller may hand in. */
#ifndef WEIR_TYPES_H
#define WEIR_TYPES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Attributes of functions; compilers that do not know one go without it. */
#if defined(__GNUC__)
#define WEIR_API        __attribute__((visibility("default")))
#define WEIR_MUST_CHECK __attribute__((warn_unused_result))
#else
#define WEIR_API
#define WEIR_MUST_CHECK
#endif

#define WEIR_NEVER         UINT64_MAX
#define WEIR_NS_PER_MS     UINT64_C(1000000)
#define WEIR_NS_PER_SECOND UINT64_C(1000000000)
#define WEIR_NS_PER_MINUTE (UINT64_C(60) * WEIR_NS_PER_SECOND)
#define WEIR_NS_PER_HOUR   (UINT64_C(3600) * WEIR_NS_PER_SECOND)
#define WEIR_NS_PER_DAY    (UINT64_C(86400) * WEIR_NS_PER_SECOND)

/* The longest duration that a setting or a request may name; 146 years, so that sums of a few of
 * them and a clock reading do not overflow. */
#define WEIR_DURATION_MAX_NS (UINT64_MAX / 4)

/* Bytes that belong to another owner; not terminated. */
struct weir_slice {
    const char *data;
    size_t bytes;
};

static inline struct weir_slice weir_slice_of(const char *text)
{
    struct weir_slice slice = {text, strlen(text)};
    return slice;
}

/* Where memory comes from. `release` gets the size that was asked for. A null allocator pointer
 * stands for malloc and free wherever one is taken. */
struct weir_allocator {
    void *context;
    void *(*allocate)(void *context, size_t bytes); /* null when there is none left */
    void (*release)(void *context, void *memory, size_t bytes);
};

/* A place in a doubly linked list. Private to the library. */
struct weir_link {
    struct weir_link *next;
    struct weir_link *previous;
};

#endif
