/* Any bytes as server-sent events: the same events however they arrive, and the same as those of a
 * reader that has everything at once and goes line by line, as the standard tells it. */
#include "wire.h"
#include "wire/sse.h"

/* What a stream says. Events without data are told as well. */
struct record {
    char *text;
    size_t bytes;
};

static void note(struct record *record, const void *bytes, size_t count)
{
    memcpy(record->text + record->bytes, bytes, count);
    record->bytes += count;
}

static void note_event(struct record *record, struct weir_slice name, bool has_data, uint64_t end)
{
    note(record, "\n", 1);
    note(record, name.data, name.bytes);
    note(record, has_data ? "=" : "-", 1);
    note(record, &end, sizeof end);
}

static struct record record_for(const struct input *input)
{
    struct record record = {malloc(64 + 16 * input->bytes), 0};
    must(record.text != NULL);
    return record;
}

static struct record read_all(struct input *input, size_t step)
{
    struct record record = record_for(input);
    struct weir_sse sse;
    uint64_t begin = 0;
    weir_sse_init(&sse);
    for (size_t at = 0, end = 0; end < input->bytes;) {
        end = input->bytes - end < step ? input->bytes : end + step;
        show(input, end);
        for (;;) {
            size_t used;
            struct weir_slice data = {0};
            enum weir_sse_token token =
                weir_sse_next(&sse, (struct weir_slice){input->data + at, end - at}, &used, &data);
            at += used;
            must(sse.offset == at && at <= end);
            if (token == WEIR_SSE_MORE) {
                must(at == end);
                break;
            }
            must(sse.begin == begin);
            if (token == WEIR_SSE_DATA) {
                must(data.bytes > 0 && sse.has_data);
                note(&record, data.data, data.bytes);
            } else {
                must(!sse.name_long || sse.name_bytes == WEIR_SSE_NAME_BYTES_MAX);
                note_event(&record, (struct weir_slice){sse.name, sse.name_bytes}, sse.has_data,
                           at);
                begin = at;
            }
        }
    }
    show(input, input->bytes);
    return record;
}

/* ---- line by line ---- */

static bool is_field(struct weir_slice line, const char *name, struct weir_slice *value)
{
    size_t bytes = strlen(name);
    if (line.bytes < bytes || memcmp(line.data, name, bytes) != 0) {
        return false;
    }
    *value = (struct weir_slice){line.data + bytes, line.bytes - bytes};
    if (value->bytes == 0) {
        return true;
    }
    if (value->data[0] != ':') {
        return false;
    }
    size_t skip = value->bytes > 1 && value->data[1] == ' ' ? 2 : 1;
    *value = (struct weir_slice){value->data + skip, value->bytes - skip};
    return true;
}

/* The data of a line that has no end is told as far as it is there; not so if its field is not
 * known yet. */
static struct record read_lines(const struct input *input)
{
    struct record record = record_for(input);
    struct weir_slice name = {"", 0}, value;
    bool has_data = false;
    size_t at = input->bytes >= 3 && memcmp(input->data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < input->bytes) {
        struct weir_slice line = {input->data + at, 0};
        while (at < input->bytes && input->data[at] != '\r' && input->data[at] != '\n') {
            at++;
            line.bytes++;
        }
        bool ended = at < input->bytes;
        size_t end = at + 1;
        if (ended) {
            at += input->data[at] == '\r' && end < input->bytes && input->data[end] == '\n' ? 2 : 1;
        }
        if (is_field(line, "data", &value)) {
            bool known = ended || line.bytes > 4;
            note(&record, "\n", known && has_data);
            has_data = has_data || known;
            note(&record, value.data, value.bytes);
        } else if (is_field(line, "event", &value)) {
            name = value;
        } else if (line.bytes == 0) {
            if (name.bytes > WEIR_SSE_NAME_BYTES_MAX) {
                name.bytes = WEIR_SSE_NAME_BYTES_MAX;
            }
            note_event(&record, name, has_data, end);
            name.bytes = 0;
            has_data = false;
        }
    }
    return record;
}

static void must_be_equal(const struct record *a, const struct record *b)
{
    must(a->bytes == b->bytes);
    must(memcmp(a->text, b->text, a->bytes) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const size_t steps[] = {SIZE_MAX, 1, 2, 7};
    struct input input = input_of(data, bytes);
    struct record lines = read_lines(&input);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct record record = read_all(&input, steps[i]);
        must_be_equal(&lines, &record);
        free(record.text);
    }
    free(lines.text);
    give_back(&input);
    return 0;
}
