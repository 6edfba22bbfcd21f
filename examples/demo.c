/* demo.c - a burst of tenants at one gate, drawn as it passes.
 *
 * One tenant comes with sixty tickets, the others with a few; four may be inside at once. On a
 * terminal the line is redrawn as it moves, elsewhere only the end is shown. */
#define _POSIX_C_SOURCE 200809L
#include "weir/weir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PERMITS     4
#define TICKETS_MAX 128
#define MS          UINT64_C(1000000)

struct tenant {
    const char *name;
    char letter;
    uint32_t weight;
    uint32_t tickets;
    enum weir_priority priority;
    uint32_t started;
    uint64_t waited_ns;
    uint64_t longest_ns;
};

static struct tenant tenants[] = {
    {.name = "hog", .letter = 'h', .weight = 1, .tickets = 60},
    {.name = "acme", .letter = 'A', .weight = 2, .tickets = 14},
    {.name = "beta", .letter = 'b', .weight = 1, .tickets = 7},
    {.name = "night", .letter = 'n', .weight = 1, .tickets = 6, .priority = WEIR_PRIORITY_LOW},
    {.name = "one", .letter = '1', .weight = 1, .tickets = 1},
};

#define TENANTS (sizeof tenants / sizeof tenants[0])

struct visit {
    struct weir_ticket ticket; /* first, so that a ticket is its visit */
    struct tenant *tenant;
    uint64_t done_ns;
};

static struct visit visits[TICKETS_MAX];
static uint32_t visit_count;
static char passed[TICKETS_MAX + 1];
static uint32_t passed_count;

static uint64_t clock_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static void start(struct visit *visit)
{
    struct tenant *tenant = visit->tenant;
    uint64_t waited_ns = visit->ticket.admitted_ns - visit->ticket.entered_ns;
    visit->done_ns = clock_ns() + (uint64_t)(60 + rand() % 80) * MS;
    tenant->started++;
    tenant->waited_ns += waited_ns;
    tenant->longest_ns = waited_ns > tenant->longest_ns ? waited_ns : tenant->longest_ns;
    passed[passed_count++] = tenant->letter;
}

static void drain(struct weir_news *news)
{
    for (struct weir_ticket *ticket; (ticket = weir_news_next(news)) != NULL;) {
        start((struct visit *)ticket);
    }
}

/* The burst: everybody at once, the hog first. */
static void arrive(struct weir_key *key, struct weir_news *news)
{
    for (size_t t = 0; t < TENANTS; t++) {
        for (uint32_t i = 0; i < tenants[t].tickets; i++) {
            struct visit *visit = &visits[visit_count++];
            struct weir_request request = {.tenant = weir_slice_of(tenants[t].name),
                                           .priority = tenants[t].priority};
            visit->tenant = &tenants[t];
            if (weir_key_enter(key, &visit->ticket, &request, clock_ns(), news) == WEIR_ADMITTED) {
                start(visit);
            }
        }
    }
}

static void leave_when_done(struct weir_key *key, struct weir_news *news)
{
    static const struct weir_result success = {.outcome = WEIR_OUTCOME_SUCCESS};
    for (uint32_t i = 0; i < visit_count; i++) {
        struct visit *visit = &visits[i];
        if (visit->done_ns != 0 && visit->done_ns <= clock_ns()) {
            visit->done_ns = 0;
            if (weir_key_leave(key, &visit->ticket, &success, clock_ns(), news) != WEIR_OK) {
                abort();
            }
            drain(news);
        }
    }
}

static void draw_inside(void)
{
    char inside[PERMITS + 1] = "";
    uint32_t count = 0;
    for (uint32_t i = 0; i < visit_count; i++) {
        if (visits[i].done_ns != 0 && count < PERMITS) {
            inside[count++] = visits[i].tenant->letter;
        }
    }
    while (count < PERMITS) {
        inside[count++] = '.';
    }
    printf("  inside      [%s]\n", inside);
}

static void draw(const struct weir_key *key, uint64_t since_ns)
{
    struct weir_key_stats stats = weir_key_get_stats(key);
    printf("  gate \"model\"  %u of %u permits, %3u waiting, %4.1f s\n", stats.active, stats.limit,
           stats.waiting, (double)(clock_ns() - since_ns) / 1e9);
    draw_inside();
    for (size_t t = 0; t < TENANTS; t++) {
        uint32_t waiting = tenants[t].tickets - tenants[t].started;
        printf("  %-6s x%u %s %2u ", tenants[t].name, tenants[t].weight,
               tenants[t].priority == WEIR_PRIORITY_LOW ? "low" : "   ", waiting);
        for (uint32_t i = 0; i < 60; i++) {
            putchar(i < waiting ? tenants[t].letter : ' ');
        }
        putchar('\n');
    }
    printf("  passed      %s\n", passed);
}

static void summarise(void)
{
    printf("\n  tenant  weight  tickets  mean wait  longest wait\n");
    for (size_t t = 0; t < TENANTS; t++) {
        printf("  %-6s  %6u  %7u  %6.0f ms  %9.0f ms\n", tenants[t].name, tenants[t].weight,
               tenants[t].tickets, (double)tenants[t].waited_ns / 1e6 / tenants[t].started,
               (double)tenants[t].longest_ns / 1e6);
    }
    size_t before = strcspn(passed, "1");
    printf("\n  \"one\" came last, behind %u others; %zu of them went before it, %u of these at "
           "once.\n"
           "  Next: README.md, examples/embed.c, docs/GATE.md\n",
           visit_count - 1, before, PERMITS);
}

int main(void)
{
    struct weir_tenant_settings own[] = {{.name = weir_slice_of("acme"), .weight = 2}};
    struct weir_lane_settings lane = {.limit = PERMITS};
    struct weir_settings settings = {
        .lanes = &lane, .lane_count = 1, .tenants = own, .tenant_count = 1};
    struct weir_gate_options options = {.seed = {clock_ns(), (uint64_t)getpid()}};
    struct weir_gate *gate;
    struct weir_key *key;
    enum weir_status status = weir_gate_create(&options, &settings, &gate);
    if (status == WEIR_OK) {
        status = weir_gate_take(gate, weir_slice_of("model"), clock_ns(), &key);
    }
    if (status != WEIR_OK) {
        fprintf(stderr, "demo: %s\n", weir_status_text(status));
        return 1;
    }
    bool live = isatty(STDOUT_FILENO);
    uint64_t since_ns = clock_ns();
    struct weir_news news = {0};
    arrive(key, &news);
    while (weir_key_get_stats(key).active > 0) {
        if (live) {
            printf("\033[H\033[2J\n");
            draw(key, since_ns);
            fflush(stdout);
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        leave_when_done(key, &news);
    }
    if (live) {
        printf("\033[H\033[2J\n");
    }
    draw(key, since_ns);
    summarise();
    weir_key_give(key);
    weir_gate_destroy(gate);
    return 0;
}
