/* event_log.c - the ring of notes: written by any thread that has decided something, read by
 * readers that each have a bookmark.
 *
 * The event log's own lock guards the ring and the bookmarks. It is taken last: a writer may hold
 * the lock of a key, and nothing is called under it that takes another lock. */
#include "gates/event_log.h"

#include "base/slice.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Some 25,000 notes; twice that if names are short. Resident only once there is a reader. */
#define RING_BYTES ((uint64_t)4 << 20)

#define ALIGNMENT 8

/* Places are counted in bytes since the beginning; where they are in the ring is their remainder.
 * A note stands in one piece: where the ring's end leaves too little room, what is left is a gap,
 * whose length has this mark. */
#define GAP UINT32_C(0x80000000)

/* The kind of a note that stands for notes which could not be written, as many as its value. */
#define SKIPPED WEIR_EVENT_KIND_COUNT

static_assert(RING_BYTES % ALIGNMENT == 0, "a note's head never crosses the end");
static_assert(sizeof(struct weir_note) % ALIGNMENT == 0, "notes follow each other aligned");

struct weir_event_log {
    atomic_uint readers;
    pthread_mutex_t lock; /* of all below */
    uint64_t begin;       /* of the oldest note */
    uint64_t end;
    uint64_t begin_count; /* notes before the oldest */
    uint64_t end_count;
    struct weir_link sleepers;
    char *ring;
};

struct weir_note_names weir_note_names_of(const struct weir_note *note)
{
    struct weir_slice tenant = weir_note_tenant(note);
    return (struct weir_note_names){{note->names, note->key_bytes},
                                    {note->names + note->key_bytes, note->flow_bytes},
                                    tenant,
                                    {tenant.data + tenant.bytes, note->error_bytes}};
}

struct weir_slice weir_note_tenant(const struct weir_note *note)
{
    return (struct weir_slice){note->names + note->key_bytes + note->flow_bytes,
                               note->tenant_bytes};
}

struct weir_event_log *weir_event_log_create(void)
{
    struct weir_event_log *event_log = calloc(1, sizeof *event_log);
    char *ring = malloc(RING_BYTES);
    if (event_log == NULL || ring == NULL) {
        free(event_log);
        free(ring);
        return NULL;
    }
    pthread_mutex_init(&event_log->lock, NULL);
    weir_list_init(&event_log->sleepers);
    event_log->ring = ring;
    return event_log;
}

void weir_event_log_destroy(struct weir_event_log *event_log)
{
    if (event_log != NULL) {
        assert(weir_list_empty(&event_log->sleepers));
        pthread_mutex_destroy(&event_log->lock);
        free(event_log->ring);
        free(event_log);
    }
}

bool weir_event_log_read_by_any(const struct weir_event_log *event_log)
{
    return atomic_load_explicit(&event_log->readers, memory_order_relaxed) > 0;
}

struct weir_bookmark weir_event_log_join(struct weir_event_log *event_log)
{
    atomic_fetch_add_explicit(&event_log->readers, 1, memory_order_relaxed);
    pthread_mutex_lock(&event_log->lock);
    struct weir_bookmark mark = {.at = event_log->end, .count = event_log->end_count};
    pthread_mutex_unlock(&event_log->lock);
    return mark;
}

void weir_event_log_quit(struct weir_event_log *event_log)
{
    unsigned before = atomic_fetch_sub_explicit(&event_log->readers, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
}

/* ---- the ring ---- */

static struct weir_note *note_at(const struct weir_event_log *event_log, uint64_t at)
{
    return (struct weir_note *)(void *)(event_log->ring + at % RING_BYTES);
}

/* What is at a place. */
struct piece {
    const struct weir_note *note; /* null: nothing to be read */
    uint64_t bytes;
    uint64_t count; /* notes that it is or stands for */
};

static struct piece piece_at(const struct weir_event_log *event_log, uint64_t at)
{
    const struct weir_note *note = note_at(event_log, at);
    if ((note->bytes & GAP) != 0) {
        return (struct piece){NULL, note->bytes & ~GAP, 0};
    }
    if (note->event.kind == SKIPPED) {
        return (struct piece){NULL, note->bytes, note->event.value};
    }
    return (struct piece){note, note->bytes, 1};
}

static void drop_oldest(struct weir_event_log *event_log)
{
    struct piece oldest = piece_at(event_log, event_log->begin);
    event_log->begin += oldest.bytes;
    event_log->begin_count += oldest.count;
}

/* Room for a note in one piece. */
static struct weir_note *make_room(struct weir_event_log *event_log, uint32_t bytes)
{
    uint64_t until_end = RING_BYTES - event_log->end % RING_BYTES;
    uint64_t gap = until_end < bytes ? until_end : 0;
    while (event_log->end + gap + bytes - event_log->begin > RING_BYTES) {
        drop_oldest(event_log);
    }
    if (gap > 0) {
        note_at(event_log, event_log->end)->bytes = GAP | (uint32_t)gap;
        event_log->end += gap;
    }
    struct weir_note *note = note_at(event_log, event_log->end);
    event_log->end += bytes;
    return note;
}

static char *put_name(char *to, struct weir_slice name)
{
    if (name.bytes > 0) {
        memcpy(to, name.data, name.bytes);
    }
    return to + name.bytes;
}

bool weir_event_log_write(struct weir_event_log *event_log, const struct weir_notice *notice)
{
    size_t names =
        notice->key.bytes + notice->flow.bytes + notice->tenant.bytes + notice->error.bytes;
    uint32_t bytes =
        (uint32_t)((sizeof(struct weir_note) + names + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    assert(bytes <= WEIR_NOTE_BYTES_MAX);
    pthread_mutex_lock(&event_log->lock);
    struct weir_note *note = make_room(event_log, bytes);
    event_log->end_count++;
    *note = (struct weir_note){.bytes = bytes,
                               .gate = notice->gate,
                               .event = *notice->event,
                               .timeout_ns = notice->timeout_ns,
                               .attempt = notice->attempt,
                               .key_bytes = (uint16_t)notice->key.bytes,
                               .flow_bytes = (uint16_t)notice->flow.bytes,
                               .tenant_bytes = (uint16_t)notice->tenant.bytes,
                               .error_bytes = (uint16_t)notice->error.bytes,
                               .kind = notice->kind};
    char *to = put_name(note->names, notice->key);
    to = put_name(to, notice->flow);
    to = put_name(to, notice->tenant);
    put_name(to, notice->error);
    bool due = !weir_list_empty(&event_log->sleepers);
    pthread_mutex_unlock(&event_log->lock);
    return due;
}

void weir_event_log_skip(struct weir_event_log *event_log, uint64_t count)
{
    pthread_mutex_lock(&event_log->lock);
    struct weir_note *note = make_room(event_log, sizeof *note);
    *note = (struct weir_note){.bytes = sizeof *note, .event = {.kind = SKIPPED, .value = count}};
    event_log->end_count += count;
    pthread_mutex_unlock(&event_log->lock);
}

bool weir_event_log_read(struct weir_event_log *event_log, struct weir_bookmark *mark,
                         struct weir_note *note)
{
    bool found = false;
    pthread_mutex_lock(&event_log->lock);
    if (mark->at < event_log->begin) {
        mark->missed += event_log->begin_count - mark->count;
        mark->at = event_log->begin;
        mark->count = event_log->begin_count;
    }
    while (!found && mark->at < event_log->end) {
        struct piece piece = piece_at(event_log, mark->at);
        found = piece.note != NULL;
        if (found) {
            memcpy(note, piece.note, piece.bytes);
        } else {
            mark->missed += piece.count;
        }
        mark->at += piece.bytes;
        mark->count += piece.count;
    }
    pthread_mutex_unlock(&event_log->lock);
    return found;
}

/* ---- followers ---- */

bool weir_event_log_sleep(struct weir_event_log *event_log, struct weir_follower *follower,
                          const struct weir_bookmark *mark)
{
    pthread_mutex_lock(&event_log->lock);
    assert(!follower->asleep);
    follower->asleep = mark->at == event_log->end;
    if (follower->asleep) {
        weir_list_push_back(&event_log->sleepers, &follower->link);
    }
    bool asleep = follower->asleep;
    pthread_mutex_unlock(&event_log->lock);
    return asleep;
}

bool weir_event_log_rouse(struct weir_event_log *event_log, struct weir_follower *follower)
{
    pthread_mutex_lock(&event_log->lock);
    bool was_asleep = follower->asleep;
    if (was_asleep) {
        weir_list_unlink(&follower->link);
        follower->asleep = false;
    }
    pthread_mutex_unlock(&event_log->lock);
    return was_asleep;
}

/* All who sleep, as a list of their own. They do not sleep again before they have been woken. */
static void rouse_all(struct weir_event_log *event_log, struct weir_link *roused)
{
    weir_list_init(roused);
    pthread_mutex_lock(&event_log->lock);
    while (!weir_list_empty(&event_log->sleepers)) {
        struct weir_link *link = event_log->sleepers.next;
        weir_container_of(link, struct weir_follower, link)->asleep = false;
        weir_list_unlink(link);
        weir_list_push_back(roused, link);
    }
    pthread_mutex_unlock(&event_log->lock);
}

void weir_event_log_wake(struct weir_event_log *event_log)
{
    struct weir_link roused;
    rouse_all(event_log, &roused);
    while (!weir_list_empty(&roused)) {
        struct weir_link *link = roused.next;
        struct weir_follower *follower = weir_container_of(link, struct weir_follower, link);
        weir_list_unlink(link);
        follower->wake(follower); /* which may end it */
    }
}
