/* folder.h - a folder of a test program's own, which is there while its tests run. */
#ifndef WEIR_TESTS_FOLDER_H
#define WEIR_TESTS_FOLDER_H

#include "unit/helpers.h"

#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/weir-test-XXXXXX";

static inline int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

/* All that is in it. */
static inline int clear_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'/*", folder);
    return system(command);
}

static inline int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

#endif
