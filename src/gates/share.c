#include "gates/share.h"

static void copy(struct weir_head_writer *writer, const char *text)
{
    weir_head_copy(writer, weir_slice_of(text));
}

/* Items of a list have commas between them. */
static void begin_item(struct weir_head_writer *writer, bool *first, const char *name)
{
    copy(writer, *first ? "\"" : ", \"");
    copy(writer, name);
    copy(writer, "\"");
    *first = false;
}

static void put(struct weir_head_writer *writer, const char *name, uint64_t number)
{
    copy(writer, name);
    weir_head_number(writer, number);
}

static uint64_t seconds_of(uint64_t duration_ns)
{
    return duration_ns / WEIR_NS_PER_SECOND + (duration_ns % WEIR_NS_PER_SECOND != 0);
}

static uint64_t burst_of(const struct weir_rate *rate)
{
    return rate->burst == 0 ? rate->tokens : rate->burst;
}

/* How long until the bucket is full again, if no ticket takes from it. */
static uint64_t refill_seconds(const struct weir_share *share)
{
    int64_t missing = (int64_t)burst_of(&share->rate) - share->level;
    uint64_t periods = missing <= 0 ? 0 : (uint64_t)missing;
    /* In floating point: 2^40 tokens over a day do not fit otherwise, and it is rounded anyway. */
    double seconds = (double)periods * (double)share->rate.period_ns / (double)share->rate.tokens /
                     (double)WEIR_NS_PER_SECOND;
    return (uint64_t)(seconds + 0.999999);
}

static void write_policies(struct weir_head_writer *writer, const struct weir_share *share,
                           const struct weir_share_budget *budget)
{
    bool first = true;
    copy(writer, "ratelimit-policy: ");
    if (share->limit > 0) {
        begin_item(writer, &first, "concurrency");
        put(writer, ";q=", share->limit);
        copy(writer, ";qu=\"concurrent-requests\"");
    }
    if (share->rate.tokens > 0) {
        begin_item(writer, &first, "requests");
        put(writer, ";q=", share->rate.tokens);
        put(writer, ";w=", seconds_of(share->rate.period_ns));
    }
    if (budget->exists) {
        begin_item(writer, &first, "tokens");
        put(writer, ";q=", budget->tokens);
        copy(writer, ";w=86400;qu=\"tokens\"");
    }
    copy(writer, "\r\n");
}

static void write_state(struct weir_head_writer *writer, const struct weir_share *share,
                        const struct weir_share_budget *budget)
{
    bool first = true;
    copy(writer, "ratelimit: ");
    if (share->limit > 0) {
        begin_item(writer, &first, "concurrency");
        put(writer, ";r=", share->active < share->limit ? share->limit - share->active : 0);
    }
    if (share->rate.tokens > 0) {
        begin_item(writer, &first, "requests");
        put(writer, ";r=", share->level > 0 ? (uint64_t)share->level : 0);
        put(writer, ";t=", refill_seconds(share));
    }
    if (budget->exists) {
        begin_item(writer, &first, "tokens");
        put(writer, ";r=", budget->spent < budget->tokens ? budget->tokens - budget->spent : 0);
        put(writer, ";t=", seconds_of(budget->left_ns));
    }
    copy(writer, "\r\n");
}

void weir_share_write(struct weir_head_writer *writer, const struct weir_share *share,
                      const struct weir_share_budget *budget)
{
    if (share->limit > 0 || share->rate.tokens > 0 || budget->exists) {
        write_policies(writer, share, budget);
        write_state(writer, share, budget);
    }
}
