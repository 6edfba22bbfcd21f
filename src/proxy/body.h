/* body.h - where the body of a message ends, and which of its bytes have been checked.
 *
 * A body is passed on as it came, chunk sizes and all, without a copy. This tells how many of the
 * bytes at hand belong to the message and may go on, and when it is over. Trailers are held back
 * until all of them are there and have been checked.
 *
 * A request's chunk extensions and trailers do not go to a server. Both are optional and rare, and
 * servers exist that do not read trailers: they take the first trailer line for the next request
 * on the connection, and another client gets its reply. RFC 9112 (section 7.1.1) and RFC 9110
 * (section 6.5.1) let an intermediary leave both out. */
#ifndef WEIR_PROXY_BODY_H
#define WEIR_PROXY_BODY_H

#include "wire/chunked.h"
#include "wire/http1.h"

enum weir_body_state {
    WEIR_BODY_GOES_ON,
    WEIR_BODY_ENDED,
    WEIR_BODY_FAULT /* `fault` says which */
};

struct weir_body {
    enum weir_http1_framing framing;
    enum weir_body_state state;
    uint64_t left_bytes; /* LENGTH: to come */
    uint64_t bytes;      /* may go on, so far */
    uint64_t bytes_max;
    struct weir_chunked chunked;
    uint32_t trailer_bytes; /* looked at without finding their end */
    bool in_trailers;
    enum weir_http_fault fault;
};

/* The most that trailers may take; they are held back until they are complete. */
#define WEIR_TRAILER_BYTES_MAX 8192

/* The body that a judged head announces. A fault at once if it is longer than `bytes_max`. */
void weir_body_init(struct weir_body *body, const struct weir_http1_head *head, uint64_t bytes_max);

/* Looks at bytes that follow those accepted before, and returns how many more may go on. Bytes that
 * it does not accept yet come again with the next call. */
size_t weir_body_accept(struct weir_body *body, struct weir_slice input);

/* As weir_body_accept(), for a request on its way to a server: chunk extensions and trailers are
 * taken out of `data`. What may go on then stands at its front, the bytes that are not accepted yet
 * have moved up behind it, and `*bytes` is how many there are in all. After a fault the bytes are
 * of no use. A body without extensions and trailers is not touched; otherwise each byte moves once.
 */
size_t weir_body_accept_for_server(struct weir_body *body, char *data, size_t *bytes);

/* Takes the frames away from the next bytes of a body in chunks, which have been checked: its data
 * moves to the front, and the result is how much that is. Trailers are left out. */
size_t weir_body_strip_frames(struct weir_chunked *chunked, char *data, size_t bytes);

/* The sender has closed its side: the end of one kind of body, a fault for the others. */
void weir_body_close(struct weir_body *body);

#endif
