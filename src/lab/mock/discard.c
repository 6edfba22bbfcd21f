#include "lab/mock/discard.h"

#include <assert.h>

void weir_discard_init(struct weir_discard *discard, const struct weir_http1_head *head)
{
    assert(head->framing != WEIR_FRAMING_UNTIL_CLOSE);
    *discard = (struct weir_discard){.is_chunked = head->framing == WEIR_FRAMING_CHUNKED};
    if (discard->is_chunked) {
        weir_chunked_init(&discard->chunked, UINT64_MAX);
    } else if (head->framing == WEIR_FRAMING_LENGTH) {
        discard->left_bytes = head->content_length;
    }
}

/* Begins from the first trailer with each arrival: trailers are rare and short, and mostly one
 * empty line. */
static enum weir_http1_result take_trailers(struct weir_slice input, size_t *used)
{
    static const struct weir_http1_limits limits = {16, WEIR_DISCARD_TRAILER_BYTES_MAX,
                                                    WEIR_HTTP1_FIELDS_MAX};
    struct weir_http1_head trailers;
    weir_http1_init_trailers(&trailers, limits);
    enum weir_http1_result result = weir_http1_parse(&trailers, input.data, input.bytes);
    if (result == WEIR_HTTP1_DONE) {
        *used += trailers.head_bytes;
    }
    return result;
}

static enum weir_http1_result take_chunks(struct weir_discard *discard, struct weir_slice input,
                                          size_t *used)
{
    while (!discard->in_trailers) {
        struct weir_slice data;
        struct weir_slice rest = {input.data + *used, input.bytes - *used};
        size_t taken;
        enum weir_chunked_event event = weir_chunked_next(&discard->chunked, rest, &taken, &data);
        if (event == WEIR_CHUNKED_FAULT) {
            return WEIR_HTTP1_FAULT;
        }
        *used += taken;
        if (event == WEIR_CHUNKED_BODY && discard->look != NULL) {
            discard->look(discard->context, data);
        }
        if (event == WEIR_CHUNKED_NEED_MORE) {
            return WEIR_HTTP1_NEED_MORE;
        }
        discard->in_trailers = event == WEIR_CHUNKED_END;
    }
    return take_trailers((struct weir_slice){input.data + *used, input.bytes - *used}, used);
}

enum weir_http1_result weir_discard_take(struct weir_discard *discard, struct weir_slice input,
                                         size_t *used)
{
    *used = 0;
    if (discard->is_chunked) {
        return take_chunks(discard, input, used);
    }
    *used = input.bytes < discard->left_bytes ? input.bytes : (size_t)discard->left_bytes;
    discard->left_bytes -= *used;
    if (*used > 0 && discard->look != NULL) {
        discard->look(discard->context, (struct weir_slice){input.data, *used});
    }
    return discard->left_bytes == 0 ? WEIR_HTTP1_DONE : WEIR_HTTP1_NEED_MORE;
}
