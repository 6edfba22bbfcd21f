/* exchange.h - one request and its reply, from the moment its head is complete.
 * docs/internals/proxy.md tells how it lives.
 *
 * An exchange owns its gate ticket, so whatever ends it gives the permit back; where permits belong
 * to flows, it is a request of one, and its gate ticket only stands for the key. It reads what its
 * client sends through the client's buffer, and what the upstream sends through the backend's;
 * nothing is copied in between. */
#ifndef WEIR_PROXY_EXCHANGE_H
#define WEIR_PROXY_EXCHANGE_H

#include "config/match.h"
#include "frontend/body_pace.h"
#include "frontend/client.h"
#include "gates/gate_ticket.h"
#include "gates/problem.h"
#include "proxy/body.h"
#include "proxy/filter.h"
#include "upstream/upstream.h"

enum weir_exchange_state {
    WEIR_EXCHANGE_READING,    /* its body, or the start of it, is read before it stands in line */
    WEIR_EXCHANGE_WAITING,    /* in line */
    WEIR_EXCHANGE_PAUSED,     /* for a while, before it stands in line, or does so once more */
    WEIR_EXCHANGE_CONNECTING, /* admitted; to a server */
    WEIR_EXCHANGE_SENDING,    /* the request goes out; no final reply yet */
    WEIR_EXCHANGE_JUDGING,    /* the final reply's head is there, and a filter holds it back */
    WEIR_EXCHANGE_REPLYING,   /* the upstream's reply goes to the client */
    WEIR_EXCHANGE_TUNNEL,     /* a WebSocket: bytes go both ways until one side closes */
    WEIR_EXCHANGE_FINISHING,  /* the rest of the reply, or an answer of ours, goes to the client */
    WEIR_EXCHANGE_OVER        /* waits only for a post that is under way */
};

/* How far a reply is, before and after its final head. */
enum weir_reply_progress {
    WEIR_REPLY_NONE,        /* nothing has come */
    WEIR_REPLY_HEARD,       /* bytes have, if only of an interim one, which the client has whole */
    WEIR_REPLY_INTERIM_CUT, /* the client has a part of an interim one; what follows is the rest */
    WEIR_REPLY_BEGUN        /* the client has bytes of the final one */
};

/* Whether it is a session of its client with the upstream, and not a request that a reply ends. */
enum weir_exchange_session {
    WEIR_SESSION_NONE,
    WEIR_SESSION_ASKED, /* the client asks for an event stream, on a route with sessions */
    WEIR_SESSION_OPEN   /* the upstream has begun one, which may be quiet for as long as it likes */
};

/* How it stands at its gate. */
enum weir_exchange_place {
    WEIR_PLACE_NONE,     /* not at all */
    WEIR_PLACE_OWN,      /* its ticket stands in line or holds a permit */
    WEIR_PLACE_BORROWED, /* it waits for a filter's permit or has it; its ticket only names the key
                          */
    WEIR_PLACE_LEAVING   /* it has left, and a post to it is still under way */
};

/* The longest id of a request that is taken over from its client. */
#define WEIR_REQUEST_ID_BYTES_MAX 128

/* What a request needs to stand in line, kept while the start of its body is read. */
struct weir_body_start {
    uint16_t key_bytes;
    uint8_t priority; /* enum weir_priority */
    char key[WEIR_NAME_BYTES_MAX];
};

/* The head of a request, kept until its model decides on its route. */
struct weir_kept_head {
    struct weir_http1_head *head;
    struct weir_buffer bytes;
    struct weir_match match; /* of the path; its captures are parts of `bytes` */
    uint64_t arrived_ns;
};

/* The request, on its way to a server. */
struct weir_exchange_request {
    struct weir_buffer head;       /* as the server gets it */
    uint32_t open_bytes;           /* of it: what does not depend on which server */
    uint32_t prefix_bytes;         /* of these, and does: what the path has in front now */
    uint32_t head_sent;            /* of it */
    uint32_t body_ready;           /* of the client's buffer: checked, to be sent */
    uint32_t body_sent;            /* of these, while they are kept */
    struct weir_body body;         /* as it comes from the client */
    struct weir_body_pace pace;    /* of the client, while it sends the body */
    struct weir_body_start *start; /* while it is read; else null */
    struct weir_kept_head *kept;   /* until its model decides on its route; else null */
    struct weir_body_spool *spool; /* of a long body that is read as a whole; else null */
    uint8_t minor;                 /* of the client's version */
    uint8_t method;                /* enum weir_http_method */
    uint8_t upgrade;               /* enum weir_http1_upgrade */
    bool persists;                 /* the client wants to go on with its connection afterwards */
    bool repeatable; /* a server may get it twice: its method, or an Idempotency-Key, allows it */
    bool sent;       /* all of it */
    bool keeps_body; /* all of the body stays in its buffer or file, for another attempt */
    bool expects;    /* the client waits for a 100 before it sends the body */
};

/* The reply, on its way to the client. */
struct weir_exchange_reply {
    struct weir_buffer head; /* its head, or all of one of our own; also interim ones */
    struct weir_buffer tail; /* what is left of it once the backend is gone */
    struct weir_body body;   /* as it comes from the server */
    uint64_t bytes;          /* that the client has got, of heads and bodies */
    uint32_t ready;          /* of the tail or the backend's buffer: checked, to be sent */
    uint16_t status;
    uint8_t progress; /* enum weir_reply_progress */
};

struct weir_exchange {
    struct weir_gate_ticket gate_ticket;
    struct weir_dead dead;
    struct weir_post
        again; /* to go on later in the turn or the next; `arrive` is null unless it is under way */
    struct weir_client *client; /* null once it is over */
    struct weir_worker *worker;
    struct weir_worker_config *worker_config;
    const struct weir_config_route *route;
    uint32_t gate; /* an index of the config's, or WEIR_CONFIG_NONE: it needs no permit */
    struct weir_tally *tally; /* the route's, or that of requests without any */
    struct weir_backend *backend;
    const struct weir_filter_list *filters; /* of its route */
    void *filter_states[WEIR_FILTERS_MAX];
    uint32_t hooks;       /* those that its filters have: 1 << enum weir_filter_hook each */
    uint8_t state;        /* enum weir_exchange_state */
    uint8_t place;        /* enum weir_exchange_place */
    uint8_t session;      /* enum weir_exchange_session */
    uint8_t failovers;    /* how often it has left a lane for another one */
    uint8_t abandoned;    /* enum weir_abandon + 1: it has given its client up; 0: it has not */
    uint8_t id_bytes;     /* of its id */
    bool tried_again;     /* its lane has had the request before */
    bool moves;           /* its ticket goes back for another lane, where its tenant is charged */
    bool reached;         /* a server of a lane that it left has had it */
    bool reconnected;     /* this attempt goes to its second connection */
    bool server_failed;   /* what ended it is the server's fault, as the breaker understands it */
    bool completed;       /* the client has got all of the reply */
    uint64_t lanes_tried; /* by bit: the lanes that have admitted it, where there are several */
    uint64_t urls_tried;  /* by bit: the servers of its lane that this attempt has not reached */
    struct weir_exchange_request request;
    struct weir_exchange_reply reply;
    uint64_t api_key;     /* by which its tenant is known, as weir_api_keys_find() says; 0: none */
    uint64_t retry_at_ns; /* the earliest that a lane that failed has named; 0: none */
    uint64_t arrived_ns;
    uint64_t admitted_ns;
    uint64_t deadline_ns;                  /* for the first byte; WEIR_NEVER: none */
    char tenant_text[WEIR_NAME_BYTES_MAX]; /* the gate ticket's, as is the flow */
    char flow_text[WEIR_NAME_BYTES_MAX];
    char id_text[WEIR_REQUEST_ID_BYTES_MAX]; /* see weir_exchange_id() */
};

/* The request's id, which the client, the upstream and the logs know it by: the client's
 * X-Request-Id if that can be used, else made. */
static inline struct weir_slice weir_exchange_id(const struct weir_exchange *exchange)
{
    return (struct weir_slice){exchange->id_text, exchange->id_bytes};
}

/* Whether one of its filters has that hook. */
static inline bool weir_exchange_has_hook(const struct weir_exchange *exchange,
                                          enum weir_filter_hook hook)
{
    return (exchange->hooks >> hook & 1) != 0;
}

/* Whether it stands in line or holds a permit. */
static inline bool weir_exchange_has_place(const struct weir_exchange *exchange)
{
    return exchange->place == WEIR_PLACE_OWN || exchange->place == WEIR_PLACE_BORROWED;
}

/* The proxy: each request is an exchange. */
extern const struct weir_service weir_proxy;

/* Begins the exchange of the head that the client has read, and leaves the client without it. */
void weir_exchange_begin(struct weir_client *client);

#endif
