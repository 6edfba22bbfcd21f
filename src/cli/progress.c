#define _DEFAULT_SOURCE /* struct winsize */
#include "cli/progress.h"

#include "cli/show.h"

#include <assert.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define BAR_COLUMNS 20

void weir_progress_init(struct weir_progress *progress)
{
    *progress = (struct weir_progress){.terminal = isatty(STDERR_FILENO) == 1};
}

/* Read each time, because users resize windows. */
static int columns(void)
{
    struct winsize size;
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
    return known ? size.ws_col : 80;
}

/* Cuts the text to so many characters; continuation bytes of UTF-8 do not count. */
static void cut(char *text, int characters)
{
    for (; *text != '\0'; text++) {
        if (((unsigned char)*text & 0xc0) != 0x80 && characters-- <= 0) {
            *text = '\0';
            return;
        }
    }
}

static void draw_bar(char *line, size_t bytes, double part, const char *text)
{
    static const char full[] = "####################", empty[] = "....................";
    static_assert(sizeof full == BAR_COLUMNS + 1 && sizeof empty == sizeof full, "of its size");
    if (part < 0) {
        snprintf(line, bytes, "%s", text);
        return;
    }
    double whole = part > 1 ? 1 : part;
    int done = (int)(whole * BAR_COLUMNS);
    snprintf(line, bytes, "[%.*s%.*s] %3d %%  %s", done, full, BAR_COLUMNS - done, empty,
             (int)(whole * 100), text);
}

static void say(struct weir_progress *progress, double part, const char *text)
{
    char line[WEIR_PROGRESS_TEXT_MAX], percent[16] = "";
    if (part >= 0) {
        snprintf(percent, sizeof percent, ", %d %%", (int)((part > 1 ? 1 : part) * 100));
    }
    snprintf(line, sizeof line, "%.300s%s", text, percent);
    if (strcmp(line, progress->text) != 0) {
        weir_show_text(stderr, line);
        fputc('\n', stderr);
        memcpy(progress->text, line, sizeof line);
    }
}

void weir_progress_show(struct weir_progress *progress, double part, const char *text)
{
    char line[WEIR_PROGRESS_TEXT_MAX];
    if (!progress->terminal) {
        say(progress, part, text);
        return;
    }
    draw_bar(line, sizeof line, part, text);
    cut(line, columns() - 1); /* the last column would make some terminals go on to the next line */
    fputc('\r', stderr);
    weir_show_text(stderr, line);
    fputs("\033[K", stderr);
    fflush(stderr);
    progress->drawn = true;
}

void weir_progress_clear(struct weir_progress *progress)
{
    if (progress->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->drawn = false;
    }
}
