/* command_log.c - keeps the end of a command's log, and finds progress lines in it. It does no I/O
 * and takes no lock: a log belongs to one attempt, and so to one thread. */
#include "runner/command_log.h"

#include "wire/chars.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define ROOM_BYTES       (2 * WEIR_COMMAND_LOG_BYTES_MAX)
#define NUMBER_BYTES_MAX 64

void weir_command_log_deinit(struct weir_command_log *log)
{
    free(log->bytes);
    log->bytes = NULL;
}

/* ---- what is kept ---- */

static void keep(struct weir_command_log *log, struct weir_slice bytes)
{
    if (log->bytes == NULL && !log->refused) {
        log->bytes = malloc(ROOM_BYTES);
        log->refused = log->bytes == NULL;
    }
    if (log->refused || bytes.bytes == 0) {
        return;
    }
    if (bytes.bytes > WEIR_COMMAND_LOG_BYTES_MAX) {
        bytes.data += bytes.bytes - WEIR_COMMAND_LOG_BYTES_MAX;
        bytes.bytes = WEIR_COMMAND_LOG_BYTES_MAX;
    }
    if (bytes.bytes > ROOM_BYTES - log->used) {
        memmove(log->bytes, log->bytes + log->used - WEIR_COMMAND_LOG_BYTES_MAX,
                WEIR_COMMAND_LOG_BYTES_MAX);
        log->used = WEIR_COMMAND_LOG_BYTES_MAX;
    }
    memcpy(log->bytes + log->used, bytes.data, bytes.bytes);
    log->used += bytes.bytes;
}

struct weir_slice weir_command_log_kept(const struct weir_command_log *log)
{
    size_t count = log->used < WEIR_COMMAND_LOG_BYTES_MAX ? log->used : WEIR_COMMAND_LOG_BYTES_MAX;
    const char *start = log->bytes == NULL ? "" : log->bytes + log->used - count;
    return (struct weir_slice){start, count};
}

/* ---- text ---- */

/* Includes the C1 control characters, U+0080 to U+009F. */
static bool is_control(const char *character, size_t length)
{
    uint8_t first = (uint8_t)character[0];
    if (length == 1) {
        return first < 0x20 || first == 0x7f;
    }
    return length == 2 && first == 0xc2 && (uint8_t)character[1] < 0xa0;
}

size_t weir_command_text_clean(struct weir_slice text, char *to, size_t bytes_max)
{
    size_t written = 0;
    while (text.bytes > 0) {
        size_t length = weir_text_character(text);
        const char *character = length == 0 ? "?" : text.data;
        size_t step = length == 0 ? 1 : length;
        if (!is_control(character, step)) {
            if (step > bytes_max - written) {
                break;
            }
            memcpy(to + written, character, step);
            written += step;
        }
        text.data += step;
        text.bytes -= step;
    }
    return written;
}

static bool is_space(char c)
{
    return weir_char_is_blank(c) || c == '\r' || c == '\n';
}

static struct weir_slice trim(struct weir_slice text)
{
    while (text.bytes > 0 && is_space(text.data[0])) {
        text.data++;
        text.bytes--;
    }
    while (text.bytes > 0 && is_space(text.data[text.bytes - 1])) {
        text.bytes--;
    }
    return text;
}

struct weir_slice weir_command_text_last_line(struct weir_slice text)
{
    text = trim(text);
    size_t start = text.bytes;
    while (start > 0 && text.data[start - 1] != '\n') {
        start--;
    }
    return trim((struct weir_slice){text.data + start, text.bytes - start});
}

/* ---- progress ---- */

/* A decimal number. What strtod() accepts besides, such as nan, is text. */
static bool read_number(struct weir_slice word, double *number)
{
    char copy[NUMBER_BYTES_MAX];
    bool any = false;
    if (word.bytes == 0 || word.bytes >= sizeof copy) {
        return false;
    }
    for (size_t i = 0; i < word.bytes; i++) {
        any = any || weir_char_is_digit(word.data[i]);
        if (!weir_char_is_digit(word.data[i]) && memchr("+-.eE", word.data[i], 5) == NULL) {
            return false;
        }
    }
    memcpy(copy, word.data, word.bytes);
    copy[word.bytes] = '\0';
    char *end;
    double value = strtod(copy, &end);
    if (!any || end != copy + word.bytes || isnan(value)) {
        return false;
    }
    *number = value < 0 ? 0 : value > 1 ? 1 : value;
    return true;
}

static void read_progress(struct weir_command_log *log, struct weir_slice rest)
{
    rest = trim(rest);
    size_t word = 0;
    while (word < rest.bytes && !is_space(rest.data[word])) {
        word++;
    }
    double number = -1;
    if (read_number((struct weir_slice){rest.data, word}, &number)) {
        rest = trim((struct weir_slice){rest.data + word, rest.bytes - word});
    }
    if (!log->news) {
        log->progress = -1;
    }
    log->progress = number >= 0 ? number : log->progress;
    log->text_bytes = weir_command_text_clean(rest, log->text, sizeof log->text);
    log->news = log->news || number >= 0 || log->text_bytes > 0;
}

static void end_line(struct weir_command_log *log)
{
    static const char WORD[] = "weir-progress:";
    size_t word = sizeof WORD - 1;
    if (log->line_bytes >= word && memcmp(log->line, WORD, word) == 0) {
        read_progress(log, (struct weir_slice){log->line + word, log->line_bytes - word});
    }
    log->line_bytes = 0;
}

static void add_to_line(struct weir_command_log *log, const char *bytes, size_t count)
{
    size_t room = sizeof log->line - log->line_bytes;
    size_t taken = count < room ? count : room;
    memcpy(log->line + log->line_bytes, bytes, taken);
    log->line_bytes += taken;
}

void weir_command_log_take(struct weir_command_log *log, struct weir_slice bytes)
{
    keep(log, bytes);
    const char *at = bytes.data;
    const char *end = bytes.data + bytes.bytes;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        add_to_line(log, at, (size_t)((newline == NULL ? end : newline) - at));
        if (newline == NULL) {
            return;
        }
        end_line(log);
        at = newline + 1;
    }
}

void weir_command_log_end(struct weir_command_log *log)
{
    end_line(log);
}

bool weir_command_log_progress(struct weir_command_log *log, double *progress,
                               struct weir_slice *text)
{
    if (!log->news) {
        return false;
    }
    *progress = log->progress;
    *text = (struct weir_slice){log->text, log->text_bytes};
    log->news = false;
    return true;
}
