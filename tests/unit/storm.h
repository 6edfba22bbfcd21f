/* storm.h - what the storms of several threads share: how anybody of them says that something is
 * wrong, since cmocka's assertions are for the main thread only. */
#ifndef WEIR_TESTS_STORM_H
#define WEIR_TESTS_STORM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

static atomic_uint storm_wrong;

/* Only the first is told. */
static inline void expect_in_storm(bool right, const char *what)
{
    if (!right && atomic_fetch_add(&storm_wrong, 1) == 0) {
        fprintf(stderr, "# wrong: %s\n", what);
    }
}

#define expect_right(condition) expect_in_storm((condition), #condition)

#endif
