/* embed.c - a gate in an event loop: at most two requests at once, the others wait in line.
 *
 *     cc embed.c $(pkg-config --cflags --libs weir) && ./a.out
 *
 * The loop in main() stands for yours; the gate adds its news, and one timer for news.wake_ns. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <time.h>
#include <weir/weir.h>

#define REQUESTS 6
#define WORK_NS  (50 * 1000 * 1000u)

struct request {
    struct weir_ticket ticket; /* first, so that a ticket is its request */
    uint64_t done_ns;          /* when its work ends; WEIR_NEVER while it does none */
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static void start(struct request *request)
{
    printf("request %d starts\n", (int)request->ticket.tag);
    request->done_ns = now_ns() + WORK_NS;
}

/* Whom the call before has admitted may start now; whom it has ended need not wait any more. */
static void drain(struct weir_news *news)
{
    for (struct weir_ticket *ticket; (ticket = weir_news_next(news)) != NULL;) {
        if (ticket->state == WEIR_TICKET_ADMITTED) {
            start((struct request *)ticket);
        }
    }
}

int main(void)
{
    struct weir_lane_settings lane = {.limit = 2};
    struct weir_settings settings = {.lanes = &lane, .lane_count = 1};
    struct weir_gate_options options = {.seed = {now_ns(), 1}}; /* random in a real program */
    struct weir_gate *gate;
    struct weir_key *key;
    if (weir_gate_create(&options, &settings, &gate) != WEIR_OK ||
        weir_gate_take(gate, weir_slice_of("resize-image"), now_ns(), &key) != WEIR_OK) {
        return 1;
    }
    struct request requests[REQUESTS] = {0};
    struct weir_news news = {0};
    for (uint64_t i = 0; i < REQUESTS; i++) {
        struct weir_request ask = {.tenant = weir_slice_of(i < 4 ? "acme" : "zoo"), .tag = i};
        requests[i].done_ns = WEIR_NEVER;
        if (weir_key_enter(key, &requests[i].ticket, &ask, now_ns(), &news) == WEIR_ADMITTED) {
            start(&requests[i]);
        }
    }
    while (weir_key_get_stats(key).active > 0) {
        struct request *next = &requests[0];
        for (int i = 1; i < REQUESTS; i++) {
            next = requests[i].done_ns < next->done_ns ? &requests[i] : next;
        }
        uint64_t due_ns = next->done_ns < news.wake_ns ? next->done_ns : news.wake_ns;
        struct timespec due = {.tv_sec = (time_t)(due_ns / WEIR_NS_PER_SECOND),
                               .tv_nsec = (long)(due_ns % WEIR_NS_PER_SECOND)};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        if (next->done_ns <= now_ns()) {
            next->done_ns = WEIR_NEVER;
            (void)!weir_key_leave(key, &next->ticket, &(struct weir_result){0}, now_ns(), &news);
        }
        weir_key_wake(key, now_ns(), &news);
        drain(&news);
    }
    weir_key_give(key);
    weir_gate_destroy(gate);
}
