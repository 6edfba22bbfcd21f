/* Counts in a ring of seconds and in sums. Tenants have a table of fixed size, in which tenants
 * that come too late share the last row. The caller passes the time. */
#include "lab/mock/stats.h"

#include "base/slice.h"

#include <assert.h>

void weir_mock_stats_init(struct weir_mock_stats *stats, uint64_t now_ns)
{
    *stats = (struct weir_mock_stats){.start_ns = now_ns, .flow_at_ns = now_ns};
}

void weir_mock_stats_clear(struct weir_mock_stats *stats, uint64_t now_ns)
{
    weir_mock_stats_turn(stats, now_ns);
    struct weir_mock_stats was = *stats;
    *stats = (struct weir_mock_stats){
        .start_ns = was.start_ns,
        .second = was.second,
        .first = was.second,
        .flow_at_ns = was.flow_at_ns,
        .flow_rest = was.flow_rest,
        .flow_per_ns = was.flow_per_ns,
        .active = was.active,
        .most = was.active,
    };
    stats->most_by_second[stats->second % WEIR_MOCK_SECONDS] = was.active;
}

/* ---- time ---- */

/* What has flowed in until then, which is not behind the second that is counted. */
static void flow_until(struct weir_mock_stats *stats, uint64_t until_ns)
{
    if (until_ns <= stats->flow_at_ns) {
        return;
    }
    stats->flow_rest += stats->flow_per_ns * (double)(until_ns - stats->flow_at_ns);
    uint64_t whole = (uint64_t)stats->flow_rest;
    stats->flow_rest -= (double)whole;
    stats->flow_at_ns = until_ns;
    weir_mock_stats_add(stats, tokens_allowed, whole);
}

static void next_second(struct weir_mock_stats *stats)
{
    stats->second++;
    size_t place = stats->second % WEIR_MOCK_SECONDS;
    stats->seconds[place] = (struct weir_mock_sums){0};
    stats->most_by_second[place] = stats->active;
    if (stats->second - stats->first >= WEIR_MOCK_SECONDS) {
        stats->first = stats->second - WEIR_MOCK_SECONDS + 1;
    }
}

void weir_mock_stats_turn(struct weir_mock_stats *stats, uint64_t now_ns)
{
    assert(now_ns >= stats->start_ns);
    uint64_t second = (now_ns - stats->start_ns) / WEIR_NS_PER_SECOND;
    /* After a long rest the seconds that will not be kept are passed over. */
    if (second > stats->second + WEIR_MOCK_SECONDS) {
        stats->second = second - WEIR_MOCK_SECONDS;
        flow_until(stats, stats->start_ns + stats->second * WEIR_NS_PER_SECOND);
    }
    while (stats->second < second) {
        flow_until(stats, stats->start_ns + (stats->second + 1) * WEIR_NS_PER_SECOND);
        next_second(stats);
    }
    flow_until(stats, now_ns);
}

void weir_mock_stats_flow(struct weir_mock_stats *stats, double per_ns, uint64_t now_ns)
{
    weir_mock_stats_turn(stats, now_ns);
    stats->flow_per_ns = per_ns;
}

/* ---- the requests inside ---- */

void weir_mock_stats_enter(struct weir_mock_stats *stats)
{
    uint64_t *most = &stats->most_by_second[stats->second % WEIR_MOCK_SECONDS];
    stats->active++;
    stats->most = stats->active > stats->most ? stats->active : stats->most;
    *most = stats->active > *most ? stats->active : *most;
}

void weir_mock_stats_leave(struct weir_mock_stats *stats)
{
    assert(stats->active > 0);
    stats->active--;
}

/* ---- tenants ---- */

static struct weir_slice name_of(const struct weir_mock_tenant *tenant)
{
    return (struct weir_slice){tenant->name, tenant->name_bytes};
}

struct weir_mock_tenant *weir_mock_stats_tenant(struct weir_mock_stats *stats,
                                                struct weir_slice name)
{
    if (name.bytes > WEIR_MOCK_TENANT_BYTES_MAX) {
        name.bytes = WEIR_MOCK_TENANT_BYTES_MAX;
    }
    for (uint32_t i = 0; i < stats->tenant_count; i++) {
        if (weir_slice_equal(name_of(&stats->tenants[i]), name)) {
            return &stats->tenants[i];
        }
    }
    if (stats->tenant_count == WEIR_MOCK_TENANTS_MAX) {
        return &stats->tenants[WEIR_MOCK_TENANTS_MAX - 1];
    }
    struct weir_mock_tenant *tenant = &stats->tenants[stats->tenant_count++];
    if (stats->tenant_count == WEIR_MOCK_TENANTS_MAX) {
        name = weir_slice_of("(others)");
    }
    *tenant = (struct weir_mock_tenant){.name_bytes = (uint8_t)name.bytes};
    memcpy(tenant->name, name.data, name.bytes);
    return tenant;
}

/* ---- telling ---- */

static void write_sums(const struct weir_mock_sums *sums, struct weir_json *json)
{
#define WRITE(name) weir_json_put_number(json, #name, sums->name);
    WEIR_MOCK_SUMS(WRITE)
#undef WRITE
}

/* The second from which on something is kept and asked for. */
static uint64_t begin_at(const struct weir_mock_stats *stats, uint64_t since)
{
    uint64_t begin = since > stats->first ? since : stats->first;
    return begin < stats->second ? begin : stats->second;
}

static void write_since(const struct weir_mock_stats *stats, struct weir_json *json, uint64_t since)
{
    struct weir_mock_sums sums = {0};
    uint64_t begin = begin_at(stats, since);
    for (uint64_t second = begin; second <= stats->second; second++) {
        const struct weir_mock_sums *each = &stats->seconds[second % WEIR_MOCK_SECONDS];
#define ADD(name) sums.name += each->name;
        WEIR_MOCK_SUMS(ADD)
#undef ADD
    }
    weir_json_name(json, "since");
    weir_json_open(json, '{');
    weir_json_put_number(json, "second", begin);
    write_sums(&sums, json);
    weir_json_close(json, '}');
}

void weir_mock_stats_write(const struct weir_mock_stats *stats, struct weir_json *json,
                           uint64_t since, uint64_t now_ns)
{
    weir_json_put_number(json, "now_ms", (now_ns - stats->start_ns) / WEIR_NS_PER_MS);
    weir_json_put_number(json, "active", stats->active);
    weir_json_put_number(json, "most", stats->most);
    write_sums(&stats->sums, json);
    if (since != WEIR_NEVER) {
        write_since(stats, json, since);
    }
}

void weir_mock_stats_write_tenants(const struct weir_mock_stats *stats, struct weir_json *json)
{
    weir_json_open(json, '[');
    for (uint32_t i = 0; i < stats->tenant_count; i++) {
        const struct weir_mock_tenant *tenant = &stats->tenants[i];
        weir_json_open(json, '{');
        weir_json_put_string(json, "name", name_of(tenant));
        weir_json_put_number(json, "requests", tenant->requests);
        weir_json_put_number(json, "refused", tenant->refused);
        weir_json_put_number(json, "served", tenant->served);
        weir_json_put_number(json, "tokens", tenant->tokens);
        weir_json_close(json, '}');
    }
    weir_json_close(json, ']');
}

void weir_mock_stats_write_series(const struct weir_mock_stats *stats, struct weir_json *json,
                                  uint64_t since)
{
    uint64_t begin = begin_at(stats, since);
    weir_json_open(json, '{');
    weir_json_put_number(json, "second", begin);
#define COLUMN(name)                                                             \
    weir_json_name(json, #name);                                                 \
    weir_json_open(json, '[');                                                   \
    for (uint64_t second = begin; second <= stats->second; second++) {           \
        weir_json_number(json, stats->seconds[second % WEIR_MOCK_SECONDS].name); \
    }                                                                            \
    weir_json_close(json, ']');
    WEIR_MOCK_SUMS(COLUMN)
#undef COLUMN
    weir_json_name(json, "most");
    weir_json_open(json, '[');
    for (uint64_t second = begin; second <= stats->second; second++) {
        weir_json_number(json, stats->most_by_second[second % WEIR_MOCK_SECONDS]);
    }
    weir_json_close(json, ']');
    weir_json_close(json, '}');
}
