/* visit.h - one connection to the mock, and the request that it has at hand.
 *
 * A connection reads a request to its end, waits as long as the settings say, writes the reply and
 * begins anew: one thing at a time, so pipelined requests are answered in their order and wait in
 * the socket. A request is inside from its last byte to the last byte of its reply; whatever closes
 * its connection in between counts it as gone. */
#ifndef WEIR_MOCK_VISIT_H
#define WEIR_MOCK_VISIT_H

#include "mock/discard.h"
#include "mock/mock.h"
#include "mock/websocket.h"
#include "net/stream.h"

/* Connections at once; the descriptor limit is usually lower. */
#define WEIR_MOCK_CONNECTIONS_MAX 65536

#define WEIR_MOCK_FILLER_BYTES 65536

struct weir_mock_counts {
    uint64_t active; /* inside now */
    uint64_t most;   /* inside at once */
    uint64_t served;
    uint64_t refused;
    uint64_t failed;
    uint64_t reset;
    uint64_t gone;
    uint64_t connections; /* that have brought a request */
};

/* What all connections share. */
struct weir_mock {
    const struct weir_mock_settings *settings;
    struct weir_loop loop;
    struct weir_buffer_pool buffers;
    struct weir_slab visits;
    struct weir_link all_visits;
    struct weir_mock_counts counts;
    struct weir_mock_bucket bucket;
    uint64_t replies; /* begun; numbers them */
    uint64_t random;
    char text[WEIR_BUFFER_LARGE];        /* a document while it is written */
    char filler[WEIR_MOCK_FILLER_BYTES]; /* what bodies of a given size consist of */
};

enum weir_visit_state {
    WEIR_VISIT_HEAD,     /* of a request is read */
    WEIR_VISIT_BODY,     /* of a request is thrown away */
    WEIR_VISIT_WAITING,  /* for the time of the reply */
    WEIR_VISIT_REPLYING, /* bytes are to be written */
    WEIR_VISIT_PAUSING,  /* until the next event of the reply */
    WEIR_VISIT_ECHOING,  /* a WebSocket */
    WEIR_VISIT_LEAVING   /* all is said; what still comes in is thrown away */
};

enum weir_visit_fate {
    WEIR_FATE_SERVE,
    WEIR_FATE_FAIL,
    WEIR_FATE_RESET,
    WEIR_FATE_HANG
};

struct weir_visit {
    struct weir_stream stream;
    struct weir_timer timer;
    struct weir_post resume;
    struct weir_dead dead;
    struct weir_link link;
    struct weir_mock *mock;
    uint8_t state;         /* enum weir_visit_state */
    uint8_t fate;          /* enum weir_visit_fate, of the request that is inside */
    bool inside;           /* the request is counted as active */
    bool counted;          /* the connection has been */
    bool last;             /* the connection ends with this reply */
    bool resuming;         /* the post is under way */
    bool closed;           /* and freed as soon as it is not */
    uint64_t due_ns;       /* WAITING, PAUSING, LEAVING: until then */
    struct weir_buffer in; /* begins with the head at hand, until its reply has been written */
    struct weir_buffer out;
    uint64_t filler_bytes; /* of the body, to be written behind `out` */
    uint64_t number;       /* of the reply */
    uint32_t events_left;  /* to be written */
    struct weir_echo echo;
    struct weir_discard body;
    struct weir_http1_head head;
};

/* Takes over a connection that was accepted. */
void weir_visit_open(struct weir_mock *mock, int fd);

/* At once, whatever it was doing. Safe to call twice. */
void weir_visit_close(struct weir_visit *visit);

#endif
