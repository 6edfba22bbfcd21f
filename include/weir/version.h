/* version.h - which libweir this is.
 *
 * The macros tell the version of the headers that a program was compiled with, weir_version() that
 * of the library with which it runs. Up to 1.0 a new minor version may break the API and the ABI; a
 * patch never does. */
#ifndef WEIR_VERSION_H
#define WEIR_VERSION_H

#include "weir/types.h"

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 2
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION       "0.2.0"

/* For #if: WEIR_VERSION_NUMBER >= WEIR_VERSION_OF(0, 2, 0). */
#define WEIR_VERSION_OF(major, minor, patch) ((major)*1000000 + (minor)*1000 + (patch))
#define WEIR_VERSION_NUMBER \
    WEIR_VERSION_OF(WEIR_VERSION_MAJOR, WEIR_VERSION_MINOR, WEIR_VERSION_PATCH)

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, such as "0.2.0". */
WEIR_API const char *weir_version(void);

#ifdef __cplusplus
}
#endif
#endif
