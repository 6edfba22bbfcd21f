/* mock.h - an emulated upstream: answers every request as its settings say, and counts.
 *
 * It is what Weir is tried, tested and measured with, so it knows everything that makes an upstream
 * scarce, slow or unreliable, and it is cheap: one thread, one read and one write per request, no
 * allocation per request. It has two roles: any upstream, or a provider of language models.
 * docs/reference/mock.md describes it from outside. */
#ifndef WEIR_LAB_MOCK_MOCK_H
#define WEIR_LAB_MOCK_MOCK_H

#include "lab/mock/llm.h"
#include "net/socket.h"

/* Shares of requests are parts of a million: four digits behind the point of a percentage. */
#define WEIR_MOCK_SHARE_ALL 1000000u

/* The reply's body is the short document rather than so many bytes. */
#define WEIR_MOCK_DOCUMENT UINT64_MAX

#define WEIR_MOCK_BODY_BYTES_MAX  (UINT64_C(1) << 40)
#define WEIR_MOCK_EVENTS_MAX      1000000000u
#define WEIR_MOCK_CONCURRENCY_MAX 1000000000u

struct weir_mock_settings {
    struct weir_address listen;
    uint64_t latency_ns;          /* from a complete request to its reply */
    uint64_t jitter_ns;           /* plus or minus so much */
    uint32_t concurrency_max;     /* inside at once; 0: no limit */
    struct weir_mock_limit limit; /* 0 tokens: no limit */
    uint32_t fail_share;          /* the three together are at most WEIR_MOCK_SHARE_ALL */
    uint32_t reset_share;
    uint32_t hang_share;
    uint64_t body_bytes;  /* or WEIR_MOCK_DOCUMENT */
    uint32_t events;      /* of the body; 0: it is in one piece */
    uint64_t interval_ns; /* between events */
    uint64_t seed;

    /* A provider of language models instead; then of the above only `listen` and `seed` count. */
    const struct weir_mock_llm_settings *llm; /* or null */
};

/* Serves until SIGTERM or SIGINT, says on stdout where it listens and at the end what it counted.
 * Returns the exit status: 0, or 1 after saying on stderr what went wrong. Requires settings within
 * the bounds above. */
int weir_mock_run(const struct weir_mock_settings *settings);

#endif
