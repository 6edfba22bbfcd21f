#include "gateway/journal.h"

#include "base/slice.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Some 25,000 notes; twice that if names are short. Resident only once somebody reads. */
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

struct weir_journal {
    atomic_uint readers;
    pthread_mutex_t lock; /* of all below */
    uint64_t begin;       /* of the oldest note */
    uint64_t end;
    uint64_t begin_count; /* notes before the oldest */
    uint64_t end_count;
    struct weir_link sleepers;
    char *ring;
};

struct weir_slice weir_note_tenant(const struct weir_note *note)
{
    return (struct weir_slice){note->names + note->key_bytes + note->flow_bytes,
                               note->tenant_bytes};
}

struct weir_journal *weir_journal_create(void)
{
    struct weir_journal *journal = calloc(1, sizeof *journal);
    char *ring = malloc(RING_BYTES);
    if (journal == NULL || ring == NULL) {
        free(journal);
        free(ring);
        return NULL;
    }
    pthread_mutex_init(&journal->lock, NULL);
    weir_list_init(&journal->sleepers);
    journal->ring = ring;
    return journal;
}

void weir_journal_destroy(struct weir_journal *journal)
{
    if (journal != NULL) {
        assert(weir_list_empty(&journal->sleepers));
        pthread_mutex_destroy(&journal->lock);
        free(journal->ring);
        free(journal);
    }
}

bool weir_journal_read_by_any(const struct weir_journal *journal)
{
    return atomic_load_explicit(&journal->readers, memory_order_relaxed) > 0;
}

struct weir_bookmark weir_journal_join(struct weir_journal *journal)
{
    atomic_fetch_add_explicit(&journal->readers, 1, memory_order_relaxed);
    pthread_mutex_lock(&journal->lock);
    struct weir_bookmark mark = {.at = journal->end, .count = journal->end_count};
    pthread_mutex_unlock(&journal->lock);
    return mark;
}

void weir_journal_quit(struct weir_journal *journal)
{
    unsigned before = atomic_fetch_sub_explicit(&journal->readers, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
}

/* ---- the ring ---- */

static struct weir_note *note_at(const struct weir_journal *journal, uint64_t at)
{
    return (struct weir_note *)(void *)(journal->ring + at % RING_BYTES);
}

/* What is at a place. */
struct piece {
    const struct weir_note *note; /* null: nothing to be read */
    uint64_t bytes;
    uint64_t count; /* notes that it is or stands for */
};

static struct piece piece_at(const struct weir_journal *journal, uint64_t at)
{
    const struct weir_note *note = note_at(journal, at);
    if ((note->bytes & GAP) != 0) {
        return (struct piece){NULL, note->bytes & ~GAP, 0};
    }
    if (note->event.kind == SKIPPED) {
        return (struct piece){NULL, note->bytes, note->event.value};
    }
    return (struct piece){note, note->bytes, 1};
}

static void drop_oldest(struct weir_journal *journal)
{
    struct piece oldest = piece_at(journal, journal->begin);
    journal->begin += oldest.bytes;
    journal->begin_count += oldest.count;
}

/* Room for a note in one piece. */
static struct weir_note *make_room(struct weir_journal *journal, uint32_t bytes)
{
    uint64_t until_end = RING_BYTES - journal->end % RING_BYTES;
    uint64_t gap = until_end < bytes ? until_end : 0;
    while (journal->end + gap + bytes - journal->begin > RING_BYTES) {
        drop_oldest(journal);
    }
    if (gap > 0) {
        note_at(journal, journal->end)->bytes = GAP | (uint32_t)gap;
        journal->end += gap;
    }
    struct weir_note *note = note_at(journal, journal->end);
    journal->end += bytes;
    return note;
}

static char *put_name(char *to, struct weir_slice name)
{
    if (name.bytes > 0) {
        memcpy(to, name.data, name.bytes);
    }
    return to + name.bytes;
}

bool weir_journal_write(struct weir_journal *journal, const struct weir_notice *notice)
{
    size_t names =
        notice->key.bytes + notice->flow.bytes + notice->tenant.bytes + notice->error.bytes;
    uint32_t bytes =
        (uint32_t)((sizeof(struct weir_note) + names + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    assert(bytes <= WEIR_NOTE_BYTES_MAX);
    pthread_mutex_lock(&journal->lock);
    struct weir_note *note = make_room(journal, bytes);
    journal->end_count++;
    *note = (struct weir_note){.bytes = bytes,
                               .gate = notice->gate,
                               .event = *notice->event,
                               .timeout_ns = notice->timeout_ns,
                               .attempt = notice->attempt,
                               .key_bytes = (uint16_t)notice->key.bytes,
                               .flow_bytes = (uint16_t)notice->flow.bytes,
                               .tenant_bytes = (uint16_t)notice->tenant.bytes,
                               .error_bytes = (uint16_t)notice->error.bytes,
                               .job = (uint8_t)notice->job};
    char *to = put_name(note->names, notice->key);
    to = put_name(to, notice->flow);
    to = put_name(to, notice->tenant);
    put_name(to, notice->error);
    bool due = !weir_list_empty(&journal->sleepers);
    pthread_mutex_unlock(&journal->lock);
    return due;
}

void weir_journal_skip(struct weir_journal *journal, uint64_t count)
{
    pthread_mutex_lock(&journal->lock);
    struct weir_note *note = make_room(journal, sizeof *note);
    *note = (struct weir_note){.bytes = sizeof *note, .event = {.kind = SKIPPED, .value = count}};
    journal->end_count += count;
    pthread_mutex_unlock(&journal->lock);
}

bool weir_journal_read(struct weir_journal *journal, struct weir_bookmark *mark,
                       struct weir_note *note)
{
    bool found = false;
    pthread_mutex_lock(&journal->lock);
    if (mark->at < journal->begin) {
        mark->missed += journal->begin_count - mark->count;
        mark->at = journal->begin;
        mark->count = journal->begin_count;
    }
    while (!found && mark->at < journal->end) {
        struct piece piece = piece_at(journal, mark->at);
        found = piece.note != NULL;
        if (found) {
            memcpy(note, piece.note, piece.bytes);
        } else {
            mark->missed += piece.count;
        }
        mark->at += piece.bytes;
        mark->count += piece.count;
    }
    pthread_mutex_unlock(&journal->lock);
    return found;
}

/* ---- followers ---- */

bool weir_journal_sleep(struct weir_journal *journal, struct weir_follower *follower,
                        const struct weir_bookmark *mark)
{
    pthread_mutex_lock(&journal->lock);
    assert(!follower->asleep);
    follower->asleep = mark->at == journal->end;
    if (follower->asleep) {
        weir_list_push_back(&journal->sleepers, &follower->link);
    }
    bool asleep = follower->asleep;
    pthread_mutex_unlock(&journal->lock);
    return asleep;
}

bool weir_journal_rouse(struct weir_journal *journal, struct weir_follower *follower)
{
    pthread_mutex_lock(&journal->lock);
    bool was_asleep = follower->asleep;
    if (was_asleep) {
        weir_list_unlink(&follower->link);
        follower->asleep = false;
    }
    pthread_mutex_unlock(&journal->lock);
    return was_asleep;
}

/* All who sleep, as a list of their own. They do not sleep again before they have been woken. */
static void rouse_all(struct weir_journal *journal, struct weir_link *roused)
{
    weir_list_init(roused);
    pthread_mutex_lock(&journal->lock);
    while (!weir_list_empty(&journal->sleepers)) {
        struct weir_link *link = journal->sleepers.next;
        weir_container_of(link, struct weir_follower, link)->asleep = false;
        weir_list_unlink(link);
        weir_list_push_back(roused, link);
    }
    pthread_mutex_unlock(&journal->lock);
}

void weir_journal_wake(struct weir_journal *journal)
{
    struct weir_link roused;
    rouse_all(journal, &roused);
    while (!weir_list_empty(&roused)) {
        struct weir_link *link = roused.next;
        struct weir_follower *follower = weir_container_of(link, struct weir_follower, link);
        weir_list_unlink(link);
        follower->wake(follower); /* which may end it */
    }
}
