/* stream.h - what the server and the client of streamed replies agree on, for bench/llm.
 *
 * A stream is the reply to a chat completion in OpenAI's form: one server-sent event after the
 * other, each in a chunk and a write of its own, and "data: [DONE]" as the last. An event's id is
 * the moment at which it was sent. Both programs run on one machine and read the same clock, so the
 * client knows how long each event took. */
#ifndef WEIR_BENCH_STREAM_H
#define WEIR_BENCH_STREAM_H

#include <stdint.h>

#define STREAM_EVENTS             200 /* of a reply, the last one included */
#define STREAM_REQUEST_BODY_BYTES 4096
#define STREAM_CONNECTIONS_MAX    1024

/* How an event starts that has an id, the 20 digits of nanoseconds which follow, and the other. */
#define STREAM_EVENT_START  "data: {\"id\":\"chatcmpl-"
#define STREAM_STAMP_DIGITS 20
#define STREAM_LAST_EVENT   "data: [DONE]"

#define STREAM_NS_PER_SECOND UINT64_C(1000000000)

uint64_t stream_now_ns(void);

/* Says what is wrong, with errno's text if that is not 0, and ends the program with status 1. */
_Noreturn void stream_give_up(const char *what);

/* A number of a program's arguments, from `least` to `most`; ends the program with status 2 if it
 * is none. */
uint64_t stream_number(const char *name, const char *text, uint64_t least, uint64_t most);

/* A new non-blocking socket of TCP that sends at once what it is given. */
int stream_socket(void);

/* Such a socket on its way to a port of this machine. */
int stream_connect(uint16_t port);

/* What sockets are watched with. */
int stream_epoll(void);

/* Watches a socket for everything, each change told once. */
void stream_watch(int epoll, int socket, void *owner);

/* Waits a moment for changes, and calls `changed` with the owner of each socket that has one. */
void stream_turn(int epoll, void (*changed)(void *owner));

#endif
