/* slots.h - a server of so many slots with a queue inside, in front of which a window is kept full.
 *
 * It serves first come, first served, refuses nobody and says nothing. How long each request takes
 * comes from a seed. All that the window is told is what a gateway sees: when a request was sent,
 * among how many, when its first token came or all of it, and how much output that was. */
#ifndef PROPERTY_SLOTS_H
#define PROPERTY_SLOTS_H

#include "base/random.h"
#include "core/window.h"

#include <math.h>
#include <stdbool.h>

#define SLOTS_MAX   64
#define FLYING_MAX  1024
#define SERVER_TICK 1e-9

struct server_request {
    uint64_t number;
    double sent_s;
    double first_s; /* when its first token comes; below 0: it has come */
    double end_s;
    uint32_t among;
    uint32_t output;
};

struct server {
    uint64_t random;
    uint32_t slots;
    double first_s;           /* until a first token */
    double per_token_s;       /* for each further one */
    double batch;             /* so many at once halve its speed; 0: they do not */
    uint32_t output_min;      /* a reply has from this many tokens */
    uint32_t output_max;      /* to this many */
    bool whole;               /* replies are not streamed */
    double free_s[SLOTS_MAX]; /* when a slot is free again */
    struct server_request flying[FLYING_MAX];
    uint32_t count;
    uint32_t limit; /* demand: at most so many at once; 0: as many as the window lets through */
    uint64_t sent;
    uint64_t ended;
    double output; /* tokens so far */
    double now_s;
    struct weir_window window;
};

static inline void server_init(struct server *server, uint32_t slots, bool whole, uint64_t seed)
{
    *server = (struct server){.random = seed,
                              .slots = slots,
                              .first_s = 0.1,
                              .per_token_s = 0.015,
                              .output_min = 30,
                              .output_max = 90,
                              .whole = whole};
    weir_window_init(&server->window, &(struct weir_window_settings){0});
}

static inline double server_draw(struct server *server)
{
    return (double)(weir_random_next(&server->random) >> 11) / (double)(UINT64_C(1) << 53);
}

/* The slot that is free first takes it, now or then. */
static inline void server_send(struct server *server)
{
    struct server_request *request = &server->flying[server->count++];
    uint32_t slot = 0;
    uint32_t busy = 0;
    for (uint32_t i = 0; i < server->slots; i++) {
        slot = server->free_s[i] < server->free_s[slot] ? i : slot;
        busy += server->free_s[i] > server->now_s;
    }
    double begin_s = fmax(server->now_s, server->free_s[slot]);
    uint32_t more = server->output_max - server->output_min + 1;
    double crowd = server->batch > 0 ? busy / server->batch : 0;
    *request = (struct server_request){
        .number = ++server->sent, .sent_s = server->now_s, .among = server->count};
    request->output = server->output_min + (uint32_t)(server_draw(server) * more);
    request->first_s = begin_s + server->first_s * (0.7 + 0.6 * server_draw(server));
    request->end_s = request->first_s + request->output * server->per_token_s * (1 + crowd);
    server->free_s[slot] = request->end_s;
}

static inline void server_tell(struct server *server, const struct server_request *request)
{
    struct weir_echo echo = {.number = request->number,
                             .sent_last = server->sent,
                             .among = request->among,
                             .active = server->count,
                             .held = server->limit == 0 || server->limit > server->window.size,
                             .streamed = !server->whole,
                             .input = 200,
                             .output = request->output,
                             .ended = server->ended,
                             .delay_s = server->now_s - request->sent_s,
                             .now_ns = (uint64_t)(server->now_s * 1e9) + 1};
    weir_window_accept(&server->window, &echo);
    weir_window_time(&server->window, &echo);
}

/* The next thing that happens: a first token, or an end. */
static inline void server_step(struct server *server)
{
    uint32_t most = (uint32_t)server->window.size;
    most = server->limit > 0 && server->limit < most ? server->limit : most;
    while (server->count < most && server->count < FLYING_MAX) {
        server_send(server);
    }
    uint32_t next = 0;
    double next_s = INFINITY;
    for (uint32_t i = 0; i < server->count; i++) {
        const struct server_request *request = &server->flying[i];
        double at_s = request->first_s >= 0 ? request->first_s : request->end_s;
        if (at_s < next_s) {
            next = i;
            next_s = at_s;
        }
    }
    struct server_request request = server->flying[next];
    server->now_s = next_s + SERVER_TICK;
    if (request.first_s >= 0) {
        server->flying[next].first_s = -1;
        if (!server->whole) {
            server_tell(server, &request);
        }
        return;
    }
    server->flying[next] = server->flying[--server->count];
    server->ended++;
    server->output += request.output;
    if (server->whole) {
        server_tell(server, &request);
    }
}

/* The window, over so much time, on average by time. */
static inline double server_run(struct server *server, double seconds)
{
    double from_s = server->now_s;
    double sum = 0;
    while (server->now_s < from_s + seconds) {
        double before_s = server->now_s;
        double size = server->window.size;
        server_step(server);
        sum += size * (server->now_s - before_s);
    }
    return sum / (server->now_s - from_s);
}

#endif
