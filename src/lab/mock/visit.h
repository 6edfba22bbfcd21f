/* visit.h - one connection to the mock, and the request that it has at hand.
 *
 * A connection reads a request to its end, waits, writes the reply and reads the next: one thing at
 * a time, so pipelined requests are answered in their order and wait in the socket. The mock's role
 * decides what is replied, and when. A request is inside from its last byte to the last byte of its
 * reply; whatever closes its connection in between counts it as gone. */
#ifndef WEIR_LAB_MOCK_VISIT_H
#define WEIR_LAB_MOCK_VISIT_H

#include "lab/mock/discard.h"
#include "lab/mock/mock.h"
#include "lab/mock/websocket.h"
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

/* Documents that are made in the memory for texts: with a head they have to fit into a buffer. */
#define WEIR_MOCK_DOCUMENT_BYTES_MAX 60000

struct weir_mock;
struct weir_mock_llm;
struct weir_mock_turn;
struct weir_mock_reply;
struct weir_visit;

/* What a mock is. The functions of a visit end with one of the calls below that says how it goes
 * on. */
struct weir_mock_role {
    bool (*open)(struct weir_mock *mock);      /* once there is a loop; false without memory */
    void (*tell)(struct weir_mock *mock);      /* says on stdout what was counted */
    void (*close)(struct weir_mock *mock);     /* once no connection is left */
    void (*begin)(struct weir_visit *visit);   /* the head of a request has come */
    void (*ask)(struct weir_visit *visit);     /* all of it has */
    void (*resume)(struct weir_visit *visit);  /* the moment that was waited for */
    void (*written)(struct weir_visit *visit); /* what was to be sent has been */

    /* The reply has been written, or the connection is gone. There may be nothing to end. */
    void (*end)(struct weir_visit *visit, bool complete);
};

/* What all connections share. */
struct weir_mock {
    const struct weir_mock_role *role;
    const struct weir_mock_settings *settings;
    struct weir_loop loop;
    struct weir_buffer_pool buffers;
    struct weir_slab visits;
    struct weir_link all_visits;
    struct weir_mock_counts counts;
    struct weir_mock_rate bucket;
    uint64_t replies; /* begun; numbers them */
    uint64_t random;
    char text[WEIR_BUFFER_LARGE];        /* a document while it is written */
    char packed[WEIR_BUFFER_LARGE];      /* the same, compressed */
    char filler[WEIR_MOCK_FILLER_BYTES]; /* what bodies of a given size consist of */
    struct weir_mock_llm *llm;           /* of a provider, whose own it is */
};

enum weir_visit_state {
    WEIR_VISIT_HEAD,     /* of a request is read */
    WEIR_VISIT_BODY,     /* of a request is thrown away */
    WEIR_VISIT_WAITING,  /* for the moment of the reply, or of more of it */
    WEIR_VISIT_REPLYING, /* bytes are to be written */
    WEIR_VISIT_ECHOING,  /* a WebSocket */
    WEIR_VISIT_LEAVING   /* the reply is out; what still comes in is thrown away */
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
    uint64_t due_ns;       /* WAITING, LEAVING: until then */
    struct weir_buffer in; /* begins with the head at hand, until its reply has been written */
    struct weir_buffer out;
    uint64_t filler_bytes; /* of the body, to be written behind `out` */
    uint64_t number;       /* of the reply */
    uint32_t events_left;  /* to be written */
    struct weir_websocket_echo echo;
    struct weir_discard body;
    struct weir_mock_turn *turn; /* of a provider: the request as its own; or null */
    struct weir_http1_head head;
};

/* Takes over a connection that was accepted. */
void weir_visit_open(struct weir_mock *mock, int fd);

/* At once, whatever it was doing. Safe to call twice. */
void weir_visit_close(struct weir_visit *visit);

/* Closes the connection at once by a reset. */
void weir_visit_reset(struct weir_visit *visit);

/* ---- for the role: how it goes on ---- */

/* The role is asked again at that moment; a client that goes away before is closed. */
void weir_visit_wait(struct weir_visit *visit, uint64_t due_ns);

/* Sends what has been appended to `out`, if that could be written, and then tells the role. */
void weir_visit_send(struct weir_visit *visit, bool written);
void weir_visit_reply(struct weir_visit *visit, const struct weir_mock_reply *reply);
void weir_visit_reply_error(struct weir_visit *visit, uint16_t status, const char *document);

/* All has been sent: on to the next request. */
void weir_visit_finish(struct weir_visit *visit);

/* All has been sent, and the connection is a WebSocket from now on. */
void weir_visit_echo(struct weir_visit *visit);

#endif
