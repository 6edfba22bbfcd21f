/* Any bytes as lines and bodies: the same is told however they arrive, and what was told is written
 * anew and must be told again. */
#include "wire.h"
#include "wire/line_protocol.h"

#define TOLD_MAX 65536

/* What has been told, written in the protocol's own words. */
struct told {
    enum weir_line_event event; /* the last one */
    enum weir_line_fault fault;
    size_t used;
    size_t bytes;
    char text[TOLD_MAX];
};

static void put(struct told *told, const char *data, size_t bytes)
{
    must(bytes <= TOLD_MAX - told->bytes);
    memcpy(told->text + told->bytes, data, bytes);
    told->bytes += bytes;
}

static void put_command(struct told *told, const struct weir_lines *lines)
{
    static const char *const names[] = {"SUBMIT", "STATUS", "CAPACITY", "AUTH", "QUIT"};
    char number[32];
    put(told, names[lines->command], strlen(names[lines->command]));
    if (lines->id.bytes > 0) {
        put(told, " ", 1);
        put(told, lines->id.data, lines->id.bytes);
    }
    if (lines->command == WEIR_LINE_SUBMIT) {
        must(lines->body_bytes <= WEIR_LINE_BODY_MAX);
        int bytes = snprintf(number, sizeof number, " %llu", (unsigned long long)lines->body_bytes);
        put(told, number, (size_t)bytes);
    }
    struct weir_slice words = lines->parameters, word;
    while (weir_line_word(&words, &word)) {
        must(word.bytes > 0);
        put(told, " ", 1);
        put(told, word.data, word.bytes);
    }
    put(told, "\n", 1);
}

static void read_part(struct weir_lines *lines, const char *data, size_t end, struct told *told)
{
    do {
        struct weir_slice rest = {data + told->used, end - told->used};
        struct weir_slice piece = {0};
        size_t used = 0;
        told->event = weir_lines_next(lines, rest, &used, &piece);
        must(used <= rest.bytes);
        if (told->event == WEIR_LINE_COMMAND) {
            must(used <= WEIR_LINE_BYTES_MAX);
            put_command(told, lines);
        } else if (told->event == WEIR_LINE_BODY) {
            must(piece.data == rest.data && piece.bytes == used && used > 0);
            put(told, piece.data, piece.bytes);
        } else if (told->event == WEIR_LINE_END) {
            must(used == 1 || used == 2);
            put(told, "\n", 1);
        } else {
            must(used == 0);
        }
        told->used += used;
    } while (told->event != WEIR_LINE_NEED_MORE && told->event != WEIR_LINE_FAULT);
    told->fault = lines->fault;
}

/* In pieces of `step` bytes. */
static void read_all(struct input *input, size_t step, struct told *told)
{
    struct weir_lines lines;
    weir_lines_init(&lines);
    told->used = told->bytes = 0;
    size_t end = 0;
    do {
        end = input->bytes - end < step ? input->bytes : end + step;
        show(input, end);
        read_part(&lines, input->data, end, told);
    } while (end < input->bytes && told->event == WEIR_LINE_NEED_MORE);
    show(input, input->bytes);
}

static void must_be_equal(const struct told *a, const struct told *b)
{
    must(a->event == b->event);
    must(a->fault == b->fault);
    must(a->bytes == b->bytes);
    must(memcmp(a->text, b->text, a->bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct told whole, other;
    static const size_t steps[] = {1, 2, 7};
    if (bytes > TOLD_MAX / 2) {
        return 0;
    }
    struct input input = input_of(data, bytes);
    read_all(&input, SIZE_MAX, &whole);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        read_all(&input, steps[i], &other);
        must_be_equal(&whole, &other);
        must(whole.used == other.used);
    }
    give_back(&input);
    struct input again = input_of((const uint8_t *)whole.text, whole.bytes);
    read_all(&again, SIZE_MAX, &other);
    must(other.event == WEIR_LINE_NEED_MORE);
    must(other.bytes == whole.bytes);
    must(memcmp(other.text, whole.text, whole.bytes) == 0);
    give_back(&again);
    return 0;
}
