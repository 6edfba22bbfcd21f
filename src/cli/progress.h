/* progress.h - progress on stderr: on a terminal one line that is redrawn in place, elsewhere a
 * line for each change. */
#ifndef WEIR_CLI_PROGRESS_H
#define WEIR_CLI_PROGRESS_H

#include <stdbool.h>

#define WEIR_PROGRESS_TEXT_MAX 400

struct weir_progress {
    bool terminal;
    bool drawn; /* the line is on the screen */
    char text[WEIR_PROGRESS_TEXT_MAX];
};

void weir_progress_init(struct weir_progress *progress);

/* Shows a part from 0 to 1, and a text, which may be cut; a part below 0 is unknown. */
void weir_progress_show(struct weir_progress *progress, double part, const char *text);

/* Takes the line away, so that something else may be written there. */
void weir_progress_clear(struct weir_progress *progress);

#endif
