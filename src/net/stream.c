/* stream.c - the plain kind of a stream: recv() and send() on a socket that does not block. A
 * stream belongs to the thread of the loop that watches it. */
#include "net/stream.h"

#include "base/hints.h"

#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

static ssize_t result_of_failure(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK ? WEIR_STREAM_AGAIN : WEIR_STREAM_BROKEN;
}

static ssize_t plain_read(struct weir_stream *stream, void *bytes, size_t count)
{
    ssize_t got;
    do {
        got = recv(stream->watch.fd, bytes, count, 0);
    } while (got == -1 && errno == EINTR);
    if (got == -1) {
        got = result_of_failure();
    }
    /* A short read has emptied the socket, unless the end is still to be read. */
    bool emptied = got == WEIR_STREAM_AGAIN || (got > 0 && (size_t)got < count && !stream->hung);
    if (emptied) {
        stream->readable = false;
    }
    return got;
}

static size_t sum(const struct iovec *parts, int part_count)
{
    size_t total = 0;
    for (int i = 0; i < part_count; i++) {
        total += parts[i].iov_len;
    }
    return total;
}

/* Not inlined, because the struct msghdr on the stack would give every plain send() a stack
 * protector. */
static WEIR_APART ssize_t send_message(int fd, const struct iovec *parts, int part_count)
{
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = (size_t)part_count};
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* Not writev(), because a peer that has gone must not raise SIGPIPE. */
static ssize_t plain_write(struct weir_stream *stream, const struct iovec *parts, int part_count)
{
    int fd = stream->watch.fd;
    size_t total = sum(parts, part_count);
    ssize_t sent;
    assert(total > 0);
    do {
        /* With one part, send() saves copying a struct msghdr into the kernel. */
        sent = part_count == 1 ? send(fd, parts[0].iov_base, parts[0].iov_len, MSG_NOSIGNAL)
                               : send_message(fd, parts, part_count);
    } while (sent == -1 && errno == EINTR);
    if (sent == -1) {
        sent = result_of_failure();
    }
    if (sent == WEIR_STREAM_AGAIN || (sent > 0 && (size_t)sent < total)) {
        stream->writable = false;
    }
    return sent;
}

static void plain_finish(struct weir_stream *stream)
{
    shutdown(stream->watch.fd, SHUT_WR);
}

static void plain_close(struct weir_stream *stream)
{
    weir_watch_close(&stream->watch);
}

static const struct weir_stream_kind plain = {plain_read, plain_write, plain_finish, plain_close};

void weir_stream_init(struct weir_stream *stream, int fd,
                      void (*ready)(struct weir_watch *watch, uint32_t what))
{
    *stream = (struct weir_stream){.watch = {.fd = fd, .ready = ready}, .kind = &plain};
}

void weir_stream_note(struct weir_stream *stream, uint32_t what)
{
    stream->readable |= (what & WEIR_READY_READ) != 0;
    stream->writable |= (what & WEIR_READY_WRITE) != 0;
    stream->hung |= (what & WEIR_READY_HUNG) != 0;
    stream->broken |= (what & WEIR_READY_BROKEN) != 0;
}

ssize_t weir_stream_read(struct weir_stream *stream, void *bytes, size_t count)
{
    assert(count > 0);
    return stream->readable ? stream->kind->read(stream, bytes, count) : WEIR_STREAM_AGAIN;
}

ssize_t weir_stream_write(struct weir_stream *stream, const struct iovec *parts, int part_count)
{
    return stream->writable ? stream->kind->write(stream, parts, part_count) : WEIR_STREAM_AGAIN;
}

void weir_stream_finish(struct weir_stream *stream)
{
    stream->kind->finish(stream);
    stream->writable = false;
}

void weir_stream_close(struct weir_stream *stream)
{
    if (stream->watch.fd >= 0) {
        stream->kind->close(stream);
    }
    stream->readable = false;
    stream->writable = false;
}
