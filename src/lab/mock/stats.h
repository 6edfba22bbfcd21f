/* stats.h - what an emulated provider has counted: in all, by the second, and by tenant.
 *
 * Every count goes to the sum since the start and to that of its second; the last
 * WEIR_MOCK_SECONDS seconds are kept. So both a whole run and any part of it can be judged by what
 * the provider saw. Nothing here reads a clock. */
#ifndef WEIR_LAB_MOCK_STATS_H
#define WEIR_LAB_MOCK_STATS_H

#include "weir/types.h"
#include "wire/json_writer.h"

#define WEIR_MOCK_SECONDS          600
#define WEIR_MOCK_TENANTS_MAX      128 /* the last of them are all others together */
#define WEIR_MOCK_TENANT_BYTES_MAX 32

/* Each: its name in a struct and in JSON. */
#define WEIR_MOCK_SUMS(X)                                                     \
    X(requests)        /* that asked for a reply of a model */                \
    X(accepted)        /* neither refused nor turned away */                  \
    X(refused)         /* for a limit, or for too many at once */             \
    X(refused_full)    /* of these, for too many at once */                   \
    X(failed)          /* of those accepted, as the rules want */             \
    X(served)          /* replies that were written completely */             \
    X(gone)            /* whose client went away, or whose reply broke off */ \
    X(unauthorized)    /* without the key */                                  \
    X(invalid)         /* that no provider would answer */                    \
    X(tokens_input)    /* of the requests that have ended */                  \
    X(tokens_output)   /* of these */                                         \
    X(tokens_charged)  /* with those of requests that are under way */        \
    X(tokens_returned) /* of what was charged */                              \
    X(tokens_allowed)  /* that flowed in by the limit of tokens */

struct weir_mock_sums {
#define WEIR_MOCK_SUM(name) uint64_t name;
    WEIR_MOCK_SUMS(WEIR_MOCK_SUM)
#undef WEIR_MOCK_SUM
};

struct weir_mock_tenant {
    char name[WEIR_MOCK_TENANT_BYTES_MAX];
    uint8_t name_bytes;
    uint64_t requests;
    uint64_t refused;
    uint64_t served;
    uint64_t tokens; /* of the requests that have ended */
};

struct weir_mock_stats {
    uint64_t start_ns;
    uint64_t second;     /* since the start, whose sums are added to now */
    uint64_t first;      /* the oldest second that is kept */
    uint64_t flow_at_ns; /* until when tokens_allowed has been counted */
    double flow_rest;    /* of a token that has flowed in partly */
    double flow_per_ns;
    uint64_t active; /* inside now */
    uint64_t most;   /* inside at once */
    struct weir_mock_sums sums;
    struct weir_mock_sums seconds[WEIR_MOCK_SECONDS];
    uint64_t most_by_second[WEIR_MOCK_SECONDS];
    uint32_t tenant_count;
    struct weir_mock_tenant tenants[WEIR_MOCK_TENANTS_MAX];
};

void weir_mock_stats_init(struct weir_mock_stats *stats, uint64_t now_ns);

/* Forgets everything but the requests inside; the seconds go on from the same start. */
void weir_mock_stats_clear(struct weir_mock_stats *stats, uint64_t now_ns);

/* From now on so many tokens flow in. */
void weir_mock_stats_flow(struct weir_mock_stats *stats, double per_ns, uint64_t now_ns);

/* Brings the seconds up to date. Before anything is counted or told. */
void weir_mock_stats_turn(struct weir_mock_stats *stats, uint64_t now_ns);

/* Adds to a sum: weir_mock_stats_add(stats, refused, 1). */
#define weir_mock_stats_add(stats, name, amount) \
    ((stats)->sums.name += (amount),             \
     (stats)->seconds[(stats)->second % WEIR_MOCK_SECONDS].name += (amount))

void weir_mock_stats_enter(struct weir_mock_stats *stats);
void weir_mock_stats_leave(struct weir_mock_stats *stats);

/* The tenant of that name, which may be new, or the one that stands for all others. */
struct weir_mock_tenant *weir_mock_stats_tenant(struct weir_mock_stats *stats,
                                                struct weir_slice name);

/* Members of an object: the sums, and if `since` is not WEIR_NEVER those from that second on. */
void weir_mock_stats_write(const struct weir_mock_stats *stats, struct weir_json *json,
                           uint64_t since, uint64_t now_ns);

/* The tenants as an object. */
void weir_mock_stats_write_tenants(const struct weir_mock_stats *stats, struct weir_json *json);

/* An object with the sums of each second from `since` on, as far as they are kept: an array for
 * each name. */
void weir_mock_stats_write_series(const struct weir_mock_stats *stats, struct weir_json *json,
                                  uint64_t since);

#endif
