/* log.c - puts the lines of the log together, as text or as JSON, and gives them to its line file.
 *
 * Any thread may log. Opening and closing come from the main thread, which closes it when no other
 * thread is left; between them the settings are atomic, and the file stays the same object. */
#define _POSIX_C_SOURCE 200809L
#include "log/log.h"

#include "base/clock.h"
#include "base/slice.h"
#include "log/line_file.h"
#include "wire/json_writer.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Lines are rare, but may come all at once. */
#define BUFFER_BYTES 262144

/* The line of JSON without its names has room, whatever the sentence holds: six bytes for one. */
static_assert(WEIR_LOG_MESSAGE_BYTES_MAX * 6 + 512 <= WEIR_LINE_BYTES_MAX, "a sentence fits");

static struct {
    _Atomic(struct weir_line_file *) file; /* null: it is not open */
    atomic_int level;
    atomic_int format;
    atomic_bool has_file;
    _Atomic uint64_t lines[WEIR_LOG_LEVEL_COUNT];
    _Atomic uint64_t dropped; /* by files that are closed */
} process_log = {.level = WEIR_LOG_WARN};

const char *weir_log_level_name(enum weir_log_level level)
{
    static const char *const names[] = {"debug", "info", "warn", "error"};
    assert(level < WEIR_LOG_LEVEL_COUNT);
    return names[level];
}

/* ---- a line ---- */

static void put_digits(char *to, uint32_t number, uint32_t digits)
{
    for (uint32_t i = digits; i-- > 0; number /= 10) {
        to[i] = (char)('0' + number % 10);
    }
}

void weir_log_time(uint64_t wall_ns, char text[WEIR_LOG_TIME_BYTES])
{
    time_t seconds = (time_t)(wall_ns / WEIR_NS_PER_SECOND);
    struct tm utc;
    memcpy(text, "0000-00-00T00:00:00.000Z", WEIR_LOG_TIME_BYTES);
    if (gmtime_r(&seconds, &utc) == NULL) {
        return;
    }
    put_digits(text, (uint32_t)utc.tm_year + 1900, 4);
    put_digits(text + 5, (uint32_t)utc.tm_mon + 1, 2);
    put_digits(text + 8, (uint32_t)utc.tm_mday, 2);
    put_digits(text + 11, (uint32_t)utc.tm_hour, 2);
    put_digits(text + 14, (uint32_t)utc.tm_min, 2);
    put_digits(text + 17, (uint32_t)utc.tm_sec, 2);
    put_digits(text + 20, (uint32_t)(wall_ns / WEIR_NS_PER_MS % 1000), 3);
}

struct named_value {
    const char *name;
    struct weir_slice value;
};

#define NAMES_MAX 9
static_assert(sizeof(struct weir_log_names) == NAMES_MAX * sizeof(struct weir_slice),
              "each name has its word");

/* Those that there are. */
static uint32_t list_names(const struct weir_log_names *names, struct named_value list[NAMES_MAX])
{
    const struct named_value all[NAMES_MAX] = {
        {"request_id", names->request_id},
        {"listener", names->listener},
        {"route", names->route},
        {"upstream", names->upstream},
        {"address", names->address},
        {"gate", names->gate},
        {"key", names->key},
        {"tenant", names->tenant},
        {"client", names->client},
    };
    uint32_t count = 0;
    for (uint32_t i = 0; i < NAMES_MAX; i++) {
        if (all[i].value.bytes > 0) {
            list[count++] = all[i];
        }
    }
    return count;
}

/* A text that is made piece by piece; what does not fit is left out. */
struct line {
    char *data;
    size_t capacity;
    size_t bytes;
};

static void put_raw(struct line *line, struct weir_slice text)
{
    size_t room = line->capacity - line->bytes;
    size_t bytes = text.bytes < room ? text.bytes : room;
    memcpy(line->data + line->bytes, text.data, bytes);
    line->bytes += bytes;
}

static void put_escaped(struct line *line, struct weir_slice text, bool quoted)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];
        char escape[] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
        bool control = c < ' ' || c == 0x7f;
        if (control) {
            put_raw(line, (struct weir_slice){escape, sizeof escape});
        } else if (quoted && (c == '"' || c == '\\')) {
            put_raw(line, (struct weir_slice){(char[]){'\\', (char)c}, 2});
        } else {
            put_raw(line, (struct weir_slice){&text.data[i], 1});
        }
    }
}

/* Whether it can stand behind '=' as it is. */
static bool is_plain_word(struct weir_slice text)
{
    bool plain = true;
    for (size_t i = 0; plain && i < text.bytes; i++) {
        unsigned char c = (unsigned char)text.data[i];
        plain = c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '=';
    }
    return plain;
}

static void put_text(struct line *line, enum weir_log_level level, const char *event,
                     const struct weir_log_names *names, struct weir_slice message)
{
    struct named_value list[NAMES_MAX];
    uint32_t count = list_names(names, list);
    put_raw(line, weir_slice_of(" "));
    put_raw(line, weir_slice_of(weir_log_level_name(level)));
    put_raw(line, weir_slice_of(" "));
    put_raw(line, weir_slice_of(event));
    put_raw(line, weir_slice_of(": "));
    put_escaped(line, message, false);
    for (uint32_t i = 0; i < count; i++) {
        bool plain = is_plain_word(list[i].value);
        put_raw(line, weir_slice_of(" "));
        put_raw(line, weir_slice_of(list[i].name));
        put_raw(line, weir_slice_of(plain ? "=" : "=\""));
        put_escaped(line, list[i].value, !plain);
        put_raw(line, weir_slice_of(plain ? "" : "\""));
    }
}

static bool put_json(struct weir_json *json, const char *time, enum weir_log_level level,
                     const char *event, const struct weir_log_names *names,
                     struct weir_slice message)
{
    struct named_value list[NAMES_MAX];
    uint32_t count = list_names(names, list);
    weir_json_open(json, '{');
    weir_json_put_string(json, "time", (struct weir_slice){time, WEIR_LOG_TIME_BYTES});
    weir_json_put_string(json, "level", weir_slice_of(weir_log_level_name(level)));
    weir_json_put_string(json, "event", weir_slice_of(event));
    weir_json_put_string(json, "message", message);
    for (uint32_t i = 0; i < count; i++) {
        weir_json_put_string(json, list[i].name, list[i].value);
    }
    weir_json_close(json, '}');
    return !json->failed;
}

/* Returns how long the line is, with its line feed. */
static size_t compose_line(char room[WEIR_LINE_BYTES_MAX], enum weir_log_level level,
                           const char *event, const struct weir_log_names *names,
                           struct weir_slice message)
{
    static const struct weir_log_names none;
    char time[WEIR_LOG_TIME_BYTES];
    size_t bytes;
    names = names == NULL ? &none : names;
    weir_log_time(weir_wall_ns(), time);
    if (atomic_load_explicit(&process_log.format, memory_order_relaxed) == WEIR_LOG_JSON) {
        struct weir_json json;
        weir_json_init(&json, room, WEIR_LINE_BYTES_MAX - 1);
        if (!put_json(&json, time, level, event, names, message)) {
            weir_json_init(&json, room, WEIR_LINE_BYTES_MAX - 1);
            bool fits = put_json(&json, time, level, event, &none, message);
            assert(fits);
        }
        bytes = json.bytes;
    } else {
        struct line line = {.data = room, .capacity = WEIR_LINE_BYTES_MAX - 1};
        put_raw(&line, (struct weir_slice){time, sizeof time});
        put_text(&line, level, event, names, message);
        bytes = line.bytes;
    }
    room[bytes] = '\n';
    return bytes + 1;
}

/* ---- the log ---- */

bool weir_log_writes(enum weir_log_level level)
{
    return (int)level >= atomic_load_explicit(&process_log.level, memory_order_relaxed);
}

bool weir_log_has_file(void)
{
    return atomic_load_explicit(&process_log.has_file, memory_order_relaxed);
}

void weir_log_event_list(enum weir_log_level level, const char *event,
                         const struct weir_log_names *names, const char *format, va_list arguments)
{
    char message[WEIR_LOG_MESSAGE_BYTES_MAX + 1];
    char line[WEIR_LINE_BYTES_MAX];
    if (!weir_log_writes(level)) {
        return;
    }
    vsnprintf(message, sizeof message, format, arguments);
    size_t bytes = compose_line(line, level, event, names, weir_slice_of(message));
    struct weir_line_file *file = atomic_load_explicit(&process_log.file, memory_order_acquire);
    atomic_fetch_add_explicit(&process_log.lines[level], 1, memory_order_relaxed);
    if (file != NULL) {
        weir_line_file_put(file, (struct weir_slice){line, bytes});
    } else if (write(STDERR_FILENO, line, bytes) < 0) {
        atomic_fetch_add_explicit(&process_log.dropped, 1, memory_order_relaxed);
    }
}

void weir_log_event(enum weir_log_level level, const char *event,
                    const struct weir_log_names *names, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    weir_log_event_list(level, event, names, format, arguments);
    va_end(arguments);
}

/* In the file's own thread. The log cannot tell of itself, so stderr does. */
static void report_failure(void *context, int error, uint64_t dropped)
{
    (void)context;
    if (!weir_log_has_file()) {
        return;
    }
    if (error != 0) {
        fprintf(stderr,
                "weir: the log cannot be written: %s. Lines are dropped until it can be again; "
                "stderr does not get them. Free room, or name another log.file\n",
                strerror(error));
    } else {
        weir_log_event(WEIR_LOG_WARN, "log_lost", NULL,
                       "The log can be written again. %llu lines have been lost so far.",
                       (unsigned long long)dropped);
    }
}

bool weir_log_open(const struct weir_log_settings *settings)
{
    struct weir_line_file *file = atomic_load(&process_log.file);
    bool fresh = file == NULL;
    if (fresh) {
        file = weir_line_file_create(BUFFER_BYTES);
        if (file == NULL) {
            errno = ENOMEM;
            return false;
        }
        weir_line_file_set_report(file, report_failure, NULL);
    }
    if (!weir_line_file_open(file, settings->file)) {
        int why = errno;
        if (fresh) {
            weir_line_file_destroy(file);
        }
        errno = why;
        return false;
    }
    atomic_store(&process_log.level, settings->level);
    atomic_store(&process_log.format, settings->format);
    atomic_store(&process_log.has_file, settings->file.bytes > 0);
    atomic_store_explicit(&process_log.file, file, memory_order_release);
    return true;
}

void weir_log_reopen(void)
{
    struct weir_line_file *file = atomic_load(&process_log.file);
    if (file != NULL && !weir_line_file_reopen(file)) {
        weir_log_event(WEIR_LOG_ERROR, "log_reopen", NULL,
                       "The log's file cannot be opened again: %s. Lines still go to the old file.",
                       strerror(errno));
    }
}

void weir_log_close(void)
{
    struct weir_line_file *file = atomic_exchange(&process_log.file, NULL);
    if (file != NULL) {
        uint64_t dropped = weir_line_file_counts(file).dropped;
        weir_line_file_destroy(file);
        atomic_fetch_add(&process_log.dropped, dropped);
    }
    atomic_store(&process_log.level, WEIR_LOG_WARN);
    atomic_store(&process_log.format, WEIR_LOG_TEXT);
    atomic_store(&process_log.has_file, false);
}

void weir_log_flush(void)
{
    struct weir_line_file *file = atomic_load(&process_log.file);
    if (file != NULL) {
        weir_line_file_flush(file);
    }
}

struct weir_log_counts weir_log_counts(void)
{
    struct weir_line_file *file = atomic_load_explicit(&process_log.file, memory_order_acquire);
    struct weir_log_counts counts = {
        .dropped = atomic_load_explicit(&process_log.dropped, memory_order_relaxed)};
    for (uint32_t i = 0; i < WEIR_LOG_LEVEL_COUNT; i++) {
        counts.lines[i] = atomic_load_explicit(&process_log.lines[i], memory_order_relaxed);
    }
    if (file != NULL) {
        counts.dropped += weir_line_file_counts(file).dropped;
    }
    return counts;
}
