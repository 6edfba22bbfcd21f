/* stream.h - a connection's bytes in and out, without blocking and without needless system calls.
 *
 * The stream remembers what the descriptor is ready for until a call finds out otherwise. A read
 * that returns less than its room has emptied the socket, and a short write has filled it, so the
 * call that would only return EAGAIN is saved. The calls go through a small table of functions, so
 * that TLS (net/tls.h) can replace plain sockets. */
#ifndef WEIR_NET_STREAM_H
#define WEIR_NET_STREAM_H

#include "net/loop.h"

#include <sys/types.h>
#include <sys/uio.h>

/* Results of reading and writing besides a number of bytes. */
#define WEIR_STREAM_END    0  /* reading: the peer sends no more */
#define WEIR_STREAM_AGAIN  -1 /* not now; `ready` will be called */
#define WEIR_STREAM_BROKEN -2 /* no more at all */

struct weir_stream;

/* How bytes go. Reading and writing are called only while `readable` or `writable` says so, and
 * take that back once they know better; their results are those of weir_stream_read() and
 * weir_stream_write(). */
struct weir_stream_kind {
    ssize_t (*read)(struct weir_stream *stream, void *bytes, size_t count);
    ssize_t (*write)(struct weir_stream *stream, const struct iovec *parts, int part_count);
    void (*finish)(struct weir_stream *stream);
    void (*close)(struct weir_stream *stream);
};

struct weir_stream {
    struct weir_watch watch; /* the owner sets `ready`, which calls weir_stream_note() first */
    const struct weir_stream_kind *kind;
    void *layer; /* what the kind keeps of its own; null for the plain one */
    bool readable;
    bool writable;
    bool hung;   /* the peer has closed its side, or it is broken */
    bool broken; /* nothing goes in either direction any more */
};

/* A plain stream over a connected or connecting socket, which it takes over. Not yet watched. */
void weir_stream_init(struct weir_stream *stream, int fd,
                      void (*ready)(struct weir_watch *watch, uint32_t what));

/* Remembers what the loop has reported. */
void weir_stream_note(struct weir_stream *stream, uint32_t what);

/* At least one byte, or one of the results above. */
ssize_t weir_stream_read(struct weir_stream *stream, void *bytes, size_t count);
ssize_t weir_stream_write(struct weir_stream *stream, const struct iovec *parts, int part_count);

/* Says that no more will be written; reading goes on. */
void weir_stream_finish(struct weir_stream *stream);

/* Safe to call twice. */
void weir_stream_close(struct weir_stream *stream);

#endif
