/* man.h - weir(1), the manual page: the commands and flags from their tables, and a frame around
 * them. In mdoc(7), which man, groff and mandoc read. */
#ifndef WEIR_CLI_MAN_H
#define WEIR_CLI_MAN_H

#include <stdio.h>

/* Writes the page. */
void weir_man_print(FILE *out);

#endif
