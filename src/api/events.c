/* events.c - GET /events: what is decided at the gates, line by line, as it happens.
 *
 * A reader has a bookmark in the event log. When it has read all there is, it pauses, and then
 * sleeps until the log wakes it, in whichever thread has written; everything else here runs in the
 * call's own loop. */
#include "api/handlers.h"

#include "base/slice.h"
#include "gates/event_line.h"
#include "wire/query.h"
#include "worker/config_snapshot.h"
#include "worker/key_tenant.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>

/* The first event after a quiet time is sent at once; those that follow within this time go
 * together, so that a reader costs so many turns a second and not one per event. */
#define PAUSE_NS (WEIR_NS_PER_SECOND / 50)

/* The most notes that are looked at in a turn, wanted or not. */
#define NOTES_PER_TURN 256

#define FILTER_GATES_MAX 16

struct event_reader {
    struct weir_follower follower;
    struct weir_post woken;
    struct weir_timer pause;
    struct weir_event_log *event_log;
    struct weir_worker *worker;
    struct weir_call *call;
    struct weir_bookmark mark;
    bool ready;  /* it has a place among the readers, a timer and a bookmark */
    bool sleeps; /* until `woken` arrives */
    uint32_t types;
    uint32_t gate_count; /* 0: all */
    uint32_t gates[FILTER_GATES_MAX];
};

/* ---- how many there are ---- */

/* When a refused reader may try again: readers leave when they like, so this is a guess. */
#define RETRY_NS (10 * WEIR_NS_PER_SECOND)

/* All of the process. */
static atomic_uint reader_count;

static bool take_place(uint32_t readers_max)
{
    if (atomic_fetch_add_explicit(&reader_count, 1, memory_order_relaxed) < readers_max) {
        return true;
    }
    atomic_fetch_sub_explicit(&reader_count, 1, memory_order_relaxed);
    return false;
}

static void give_place(void)
{
    atomic_fetch_sub_explicit(&reader_count, 1, memory_order_relaxed);
}

static void refuse_reader(struct weir_call *call, uint32_t readers_max)
{
    char detail[160];
    snprintf(detail, sizeof detail,
             "Event reader limit reached (%u connections read GET /events). Try again when one of "
             "them has closed, or raise events.readers.",
             readers_max);
    struct weir_problem problem = {.kind = WEIR_PROBLEM_TOO_MANY_READERS,
                                   .status = 503,
                                   .detail = detail,
                                   .retry_ns = RETRY_NS};
    weir_call_refuse(call, &problem);
}

/* ---- waiting for more ---- */

static void drop_reader(struct weir_call *call)
{
    struct event_reader *reader = call->context;
    if (reader->ready) {
        give_place();
        weir_timer_deinit(&reader->worker->loop, &reader->pause);
        weir_event_log_quit(reader->event_log);
    }
}

static void go_on(struct event_reader *reader)
{
    reader->call->response.paused = false;
    weir_call_resume(reader->call);
}

static void on_woken(struct weir_post *post)
{
    struct event_reader *reader = weir_container_of(post, struct event_reader, woken);
    reader->sleeps = false;
    if (weir_call_release(reader->call)) {
        go_on(reader);
    }
}

/* In whichever thread has written. */
static void on_wake(struct weir_follower *follower)
{
    struct event_reader *reader = weir_container_of(follower, struct event_reader, follower);
    reader->woken = (struct weir_post){.arrive = on_woken};
    weir_loop_post(&reader->worker->loop, &reader->woken);
}

static void on_pause_over(struct weir_timer *timer)
{
    struct event_reader *reader = weir_container_of(timer, struct event_reader, pause);
    reader->sleeps = weir_event_log_sleep(reader->event_log, &reader->follower, &reader->mark);
    if (reader->sleeps) {
        weir_call_hold(reader->call);
    } else {
        go_on(reader);
    }
}

static void leave_log(struct weir_call *call)
{
    struct event_reader *reader = call->context;
    if (!reader->ready) {
        return;
    }
    weir_timer_set(&reader->worker->loop, &reader->pause, WEIR_NEVER);
    if (reader->sleeps && weir_event_log_rouse(reader->event_log, &reader->follower)) {
        reader->sleeps = false;
        weir_call_withdraw(call);
    }
}

/* ---- lines ---- */

/* Whether the caller may read this event. To one that speaks for one tenant, what happens to a
 * ticket or a job is shown if it is that tenant's own; what happens to a lane is shown to every
 * caller that may see the key. */
static bool may_know(const struct weir_call *call, const struct weir_note *note)
{
    struct weir_slice own = call->credential.tenant;
    if (own.bytes == 0) {
        return true;
    }
    if (note->kind != NULL || note->event.tag != 0) {
        return weir_slice_equal(own, weir_note_tenant(note));
    }
    struct weir_slice key = {note->names, note->key_bytes};
    return weir_key_open_to(call->worker->worker_config->snapshot, note->gate, key, own);
}

static bool wants(const struct event_reader *reader, const struct weir_note *note)
{
    if (!may_know(reader->call, note)) {
        return false;
    }
    for (uint32_t i = 0; i < reader->gate_count; i++) {
        if (reader->gates[i] == note->gate) {
            return true;
        }
    }
    return reader->gate_count == 0;
}

/* As many lines as fit: what does not is read again for the next piece. There is never a last one.
 */
static bool produce_lines(struct weir_call *call, struct weir_json *json)
{
    struct event_reader *reader = call->context;
    _Alignas(struct weir_note) char room[WEIR_NOTE_BYTES_MAX];
    struct weir_note *note = (struct weir_note *)(void *)room;
    uint64_t epoch_ns = weir_event_epoch_ns();
    bool more = true;
    assert(json->capacity >= WEIR_EVENT_LINES_MAX);
    for (uint32_t i = 0; i < NOTES_PER_TURN && more; i++) {
        struct weir_json written = *json;
        struct weir_bookmark mark = reader->mark;
        more = weir_event_log_read(reader->event_log, &reader->mark, note);
        if (reader->mark.missed > 0) {
            weir_event_missed(json, reader->mark.missed, epoch_ns);
            reader->mark.missed = 0;
        }
        if (more && wants(reader, note)) {
            weir_event_lines(json, note, call->worker->gates, reader->types, epoch_ns);
        }
        if (json->failed) {
            *json = written;
            reader->mark = mark;
            return false;
        }
    }
    if (!more) {
        struct weir_loop *loop = &call->worker->loop;
        call->response.paused = true;
        weir_timer_set(loop, &reader->pause, loop->now_ns + PAUSE_NS);
    }
    return false;
}

/* ---- the question ---- */

static void refuse(struct weir_call *call, uint16_t status, const char *format,
                   struct weir_slice what)
{
    char detail[512];
    snprintf(detail, sizeof detail, format, (int)what.bytes, what.data);
    weir_call_problem(call, status == 404 ? WEIR_PROBLEM_NOT_FOUND : WEIR_PROBLEM_BAD_REQUEST,
                      status, detail);
}

/* Each of these adds what is named to the filter; false, and said, if there is no such thing. */
static bool add_type(struct weir_call *call, struct event_reader *reader, struct weir_slice name)
{
    for (uint32_t i = 0; i < WEIR_EVENT_TYPE_COUNT; i++) {
        if (weir_slice_equal(name, weir_slice_of(weir_event_type_name((enum weir_event_type)i)))) {
            reader->types |= 1u << i;
            return true;
        }
    }
    refuse(call, 400,
           "There is no event type called \"%.*s\". Types: gate.throttle, gate.timeout, "
           "gate.refused, gate.cancelled, gate.limit, gate.paused, lease.expired, job.done, "
           "job.failed, job.cancelled, job.retry; at gates with events: a2a also "
           "a2a.concurrency.throttle and a2a.concurrency.timeout.",
           name);
    return false;
}

static bool add_gate(struct weir_call *call, struct event_reader *reader, struct weir_slice name)
{
    const struct weir_gates *gates = call->worker->gates;
    if (reader->gate_count == FILTER_GATES_MAX) {
        refuse(call, 400, "Too many gates: %.*s is the 17th. Name up to 16, or none for all.",
               name);
        return false;
    }
    for (uint32_t i = 0; i < weir_gates_count(gates); i++) {
        if (weir_slice_equal(name, weir_gates_name(gates, i))) {
            reader->gates[reader->gate_count++] = i;
            return true;
        }
    }
    refuse(call, 404,
           "There is no gate called \"%.*s\". GET /gates lists all; without the parameter you get "
           "the events of all gates.",
           name);
    return false;
}

static bool read_filter(struct weir_call *call, struct event_reader *reader)
{
    struct weir_slice rest = call->query, name, value;
    char room[sizeof call->text];
    for (;;) {
        switch (weir_query_next(&rest, room, sizeof room, &name, &value)) {
        case WEIR_QUERY_END:
            reader->types = reader->types == 0 ? WEIR_EVENT_TYPES_ALL : reader->types;
            return true;
        case WEIR_QUERY_FAULT:
            refuse(call, 400, "Malformed query: an escape is a %% and two hexadecimal digits.%.*s",
                   (struct weir_slice){"", 0});
            return false;
        case WEIR_QUERY_PAIR:
            break;
        }
        bool by_type = weir_slice_equal(name, weir_slice_of("type"));
        if (!by_type && !weir_slice_equal(name, weir_slice_of("gate"))) {
            refuse(call, 400, "Unknown parameter \"%.*s\". Parameters: gate, type.", name);
            return false;
        }
        if (by_type ? !add_type(call, reader, value) : !add_gate(call, reader, value)) {
            return false;
        }
    }
}

void weir_api_get_events(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {
        .context_bytes = sizeof(struct event_reader), .end = leave_log, .free = drop_reader};
    struct weir_worker *worker = call->worker;
    struct event_reader *reader = weir_call_attach(call, &hooks);
    if (reader == NULL || !read_filter(call, reader)) {
        return;
    }
    uint32_t readers_max = worker->worker_config->config->events.readers_max;
    if (!take_place(readers_max)) {
        refuse_reader(call, readers_max);
        return;
    }
    if (!weir_timer_init(&worker->loop, &reader->pause, on_pause_over)) {
        give_place();
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "Out of memory for another reader. Try again later.");
        return;
    }
    reader->follower.wake = on_wake;
    reader->worker = worker;
    reader->call = call;
    reader->event_log = weir_gates_event_log(worker->gates);
    reader->mark = weir_event_log_join(reader->event_log);
    reader->ready = true;
    weir_client_watch_peer(call->client);
    weir_call_reply(call, 200, "application/x-ndjson", produce_lines);
}
