/* wire_head.h - a head that was accepted is written anew and must be accepted again, as the same.
 */
#ifndef WEIR_FUZZ_WIRE_HEAD_H
#define WEIR_FUZZ_WIRE_HEAD_H

#include "wire.h"
#include "wire/head_writer.h"

/* Larger than any head: what is written may have a few blanks more than what was read. */
#define WRITTEN_BYTES_MAX (WEIR_HTTP1_HEAD_BYTES_MAX + 2 * WEIR_HTTP1_FIELDS_MAX)

static inline void write_first_line(struct weir_head_writer *writer,
                                    const struct weir_http1_head *head, const char *data)
{
    if (head->kind == WEIR_HTTP1_REQUEST) {
        weir_head_request(writer, weir_http1_slice(data, head->method_name),
                          weir_http1_slice(data, head->target));
    } else {
        struct weir_slice reason = weir_http1_slice(data, head->reason);
        weir_head_copy(writer, weir_slice_of("HTTP/1.1 "));
        weir_head_number(writer, head->status);
        weir_head_copy(writer, weir_slice_of(" "));
        weir_head_part(writer, reason);
        weir_head_close(writer);
    }
    /* Writers speak HTTP/1.1; a head of HTTP/1.0 means other things. */
    if (!writer->failed && head->minor == 0) {
        size_t version = head->kind == WEIR_HTTP1_REQUEST ? writer->bytes - 3 : 7;
        writer->data[version] = '0';
    }
}

/* What was read, written and read again. */
static inline void must_survive_writing(const struct reading *reading,
                                        const struct weir_http1_head *head, const char *data)
{
    static char written[WRITTEN_BYTES_MAX];
    struct weir_head_writer writer;
    struct weir_http1_head again;
    weir_head_init(&writer, written, sizeof written);
    write_first_line(&writer, head, data);
    for (uint16_t i = 0; i < head->field_count; i++) {
        weir_head_field(&writer, weir_http1_name(data, &head->fields[i]),
                        weir_http1_value(data, &head->fields[i]));
    }
    must(weir_head_end(&writer));
    if (writer.bytes > WEIR_HTTP1_HEAD_BYTES_MAX) {
        return;
    }
    struct reading wide = *reading;
    wide.limits = (struct weir_http1_limits){WEIR_HTTP1_HEAD_BYTES_MAX, WEIR_HTTP1_HEAD_BYTES_MAX,
                                             WEIR_HTTP1_FIELDS_MAX};
    begin_head(&wide, &again);
    must(weir_http1_parse(&again, written, writer.bytes) == WEIR_HTTP1_DONE);
    must(again.head_bytes == writer.bytes);
    must_mean_the_same(head, data, &again, written);
}

/* Everything that holds of any bytes taken for a head, with usual limits and with narrow ones. */
static inline void try_head(struct reading reading, const uint8_t *data, size_t bytes)
{
    static const struct weir_http1_limits limits[] = {{8192, 32768, 100}, {40, 96, 3}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct input input = input_of(data, bytes);
        struct weir_http1_head head;
        reading.limits = limits[i];
        if (read_head(&reading, &input, &head) == WEIR_HTTP1_DONE &&
            reading.kind != WEIR_HTTP1_TRAILERS) {
            must_survive_writing(&reading, &head, input.data);
        }
        give_back(&input);
    }
}

#endif
