/* progress.h - how far something has come, on stderr: on a terminal one line that is drawn again in
 * place, elsewhere a line whenever what there is to say has changed. */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <stdbool.h>

#define WEIR_PROGRESS_TEXT_MAX 400

struct weir_progress {
    bool terminal;
    bool drawn; /* the line is there */
    char text[WEIR_PROGRESS_TEXT_MAX];
};

void weir_progress_init(struct weir_progress *progress);

/* Shows a part from 0 to 1, and a text of others, which may be cut; a part below 0 is not known. */
void weir_progress_show(struct weir_progress *progress, double part, const char *text);

/* Takes the line away, so that something else may be written there. */
void weir_progress_clear(struct weir_progress *progress);

#endif
