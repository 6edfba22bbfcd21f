/* persist.c - repeats API calls where that helps, with bounded patience. A command has one such
 * object and one thread. */
#define _POSIX_C_SOURCE 200809L
#include "cli/persist.h"

#include "base/clock.h"
#include "cli/show.h"

#include <poll.h>
#include <string.h>

/* The pause between two attempts to reach a server: doubled up to a maximum. */
#define AWAY_FIRST_MS UINT32_C(100)
#define AWAY_LAST_MS  UINT32_C(2000)

void weir_persist_init(struct weir_persist *persist, struct weir_api_client *client,
                       struct weir_progress *progress)
{
    *persist = (struct weir_persist){.client = client, .progress = progress};
}

/* False when the command must stop. */
static bool pause_for(struct weir_persist *persist, uint32_t ms)
{
    struct pollfd polled = {.fd = persist->client->stop_fd, .events = POLLIN};
    persist->client->stopped = poll(&polled, 1, (int)ms) > 0;
    return !persist->client->stopped;
}

/* A server that drains says so for a moment, then it is unreachable: both mean that it is away. */
static bool is_away(const struct weir_api_client *client)
{
    const char *type = weir_show_string(client->document, "type");
    return client->status == 0 ? client->caller.lost
                               : client->status == 503 && strcmp(type, "urn:weir:draining") == 0;
}

static bool wait_for_return(struct weir_persist *persist)
{
    uint64_t now_ns = weir_clock_ns();
    if (persist->away_until_ns == 0) {
        persist->away_until_ns = now_ns + WEIR_PERSIST_AWAY_S * WEIR_NS_PER_SECOND;
    }
    if (!persist->met || now_ns >= persist->away_until_ns) {
        return false;
    }
    uint32_t shift = persist->tries < 8 ? persist->tries++ : 8;
    uint32_t ms = AWAY_FIRST_MS << shift;
    weir_progress_show(persist->progress, -1, "the API is away; trying to reach it again");
    return pause_for(persist, ms < AWAY_LAST_MS ? ms : AWAY_LAST_MS);
}

static bool wait_for_room(struct weir_persist *persist)
{
    uint32_t asked_s = persist->client->answer.retry_after_s;
    uint32_t seconds = asked_s > WEIR_PERSIST_REFUSAL_S ? WEIR_PERSIST_REFUSAL_S : asked_s;
    char text[WEIR_PROGRESS_TEXT_MAX];
    if (persist->refusals++ >= WEIR_PERSIST_REFUSALS_MAX) {
        return false;
    }
    snprintf(text, sizeof text, "refused; again in %u s: %.300s", seconds, persist->client->error);
    weir_progress_show(persist->progress, -1, text);
    return pause_for(persist, seconds * 1000);
}

bool weir_persist_again(struct weir_persist *persist)
{
    const struct weir_api_client *client = persist->client;
    if (client->stopped) {
        return false;
    }
    if (is_away(client)) {
        return wait_for_return(persist);
    }
    bool later =
        (client->status == 429 || client->status == 503) && client->answer.retry_after_s > 0;
    persist->met = persist->met || client->status != 0;
    persist->away_until_ns = 0;
    return later && wait_for_room(persist);
}

void weir_persist_succeeded(struct weir_persist *persist)
{
    persist->met = true;
    persist->refusals = 0;
    persist->tries = 0;
    persist->away_until_ns = 0;
}

int weir_persist_call(struct weir_persist *persist, const struct weir_api_call *call)
{
    int status;
    persist->refusals = 0;
    do {
        status = weir_api_client_call(persist->client, call);
    } while (status != 0 && weir_persist_again(persist));
    if (status == 0) {
        weir_persist_succeeded(persist);
    }
    return status;
}

void weir_persist_rest(struct weir_persist *persist)
{
    (void)!pause_for(persist, 1000);
}
