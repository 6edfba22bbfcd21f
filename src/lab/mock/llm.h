/* llm.h - the mock as a provider of language models: its settings.
 *
 * The rules are what may change while it runs: each is a word, `tokens=250000/m`, which is the same
 * as a flag, in a schedule and in a call of /mock/set (settings.h). docs/reference/mock.md
 * describes all of it from outside. */
#ifndef WEIR_LAB_MOCK_LLM_H
#define WEIR_LAB_MOCK_LLM_H

#include "lab/mock/quota.h"
#include "weir/types.h"

/* Of a reply: its text has to fit into a buffer with everything around it, four bytes for each. */
#define WEIR_MOCK_OUTPUT_MAX 12000

/* Rules that change at given moments. */
#define WEIR_MOCK_CHANGES_MAX 64

struct weir_mock_rules {
    struct weir_mock_quota_rules quota;
    uint32_t concurrency_max;    /* inside at once; 0: no limit */
    uint32_t slots;              /* served at once, while others wait inside; 0: no limit */
    uint16_t full_status;        /* of those that are too many at once: 429 or 503 */
    uint32_t fail_share;         /* of WEIR_MOCK_SHARE_ALL */
    uint16_t fail_status;        /* 0: what the dialect has for an overload */
    bool headers;                /* replies state the limits */
    bool retry_after;            /* refusals tell how long to wait */
    uint64_t first_token_ns;     /* median of the time until the first token */
    double first_spread;         /* by which its logarithm deviates */
    struct weir_mock_limit pace; /* tokens of one reply; 0 of them: all at once */
    uint32_t output;             /* median of a reply's tokens, up to WEIR_MOCK_OUTPUT_MAX */
    double output_spread;
    uint32_t output_max;        /* where a request states no maximum; up to WEIR_MOCK_OUTPUT_MAX */
    uint32_t input_noise_share; /* by which the input's count is off at most */
    uint32_t chunk;             /* tokens in one event of a stream, at least 1 */
    uint32_t tools_share;       /* of the requests with tools that are answered with a call */
};

/* What happens at a moment. The texts are the caller's. */
struct weir_mock_change {
    uint64_t at_ns; /* from the start */
    struct weir_slice name;
    struct weir_slice value;
};

enum weir_mock_dialect {
    WEIR_MOCK_NO_LLM, /* it is no provider */
    WEIR_MOCK_OPENAI,
    WEIR_MOCK_ANTHROPIC,
};

struct weir_mock_llm_settings {
    enum weir_mock_dialect dialect;
    struct weir_slice key; /* that callers must know; empty: any will do */
    struct weir_mock_rules rules;
    uint32_t change_count;
    struct weir_mock_change changes[WEIR_MOCK_CHANGES_MAX]; /* the earliest first */
};

#endif
