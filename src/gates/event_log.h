/* event_log.h - the decisions of the keys and other events, in their order, for every reader.
 *
 * One ring of notes in memory. A note is written under the lock of its key, so that the notes of a
 * key stand in the order of its decisions, and costs a copy of some 150 bytes under the event log's
 * own lock. Readers go at their own pace, each with a bookmark: one that is too slow finds that
 * the oldest notes have made room, and how many it missed. No writer ever waits for a reader, and a
 * reader costs no memory. Without a reader nothing is written. */
#ifndef WEIR_GATES_EVENT_LOG_H
#define WEIR_GATES_EVENT_LOG_H

#include "base/list.h"
#include "weir/event.h"
#include "weir/settings.h"

#include <stdbool.h>

struct weir_event_log;

struct weir_json;
struct weir_note;

/* What a note is about that no key has decided, such as the end of a job. The module that writes
 * such notes defines the kind, which must stay as long as the event log. */
struct weir_note_kind {
    uint8_t type; /* enum weir_event_type */

    /* Writes the note's own fields, between `type` and `timestamp`. In any thread. */
    void (*put)(struct weir_json *json, const struct weir_note *note);
};

/* The gate of a note that no key has decided. */
#define WEIR_NOTE_NO_GATE UINT32_MAX

/* The longest error in a note. */
#define WEIR_NOTE_ERROR_BYTES_MAX 500

/* One decision with the names that it needs to be understood. Notes with a kind use the fields as
 * their kind likes; of the event only `at_ns` is read elsewhere. */
struct weir_note {
    uint32_t bytes; /* of all of it, a multiple of 8 */
    uint32_t gate;  /* its number */
    struct weir_event event;
    uint64_t timeout_ns;               /* how long its ticket may wait; WEIR_NEVER: no bound */
    const struct weir_note_kind *kind; /* null: a key's decision */
    uint32_t attempt;                  /* the next two are for notes with a kind */
    uint16_t key_bytes;
    uint16_t flow_bytes;
    uint16_t tenant_bytes;
    uint16_t error_bytes;
    char names[]; /* key, flow, tenant, error */
};

#define WEIR_NOTE_BYTES_MAX \
    (sizeof(struct weir_note) + 3 * (size_t)WEIR_NAME_BYTES_MAX + WEIR_NOTE_ERROR_BYTES_MAX + 8)

/* The names in a note. */
struct weir_note_names {
    struct weir_slice key;
    struct weir_slice flow;
    struct weir_slice tenant; /* empty: the note is about no tenant */
    struct weir_slice error;
};

struct weir_note_names weir_note_names_of(const struct weir_note *note);

/* The tenant alone. */
struct weir_slice weir_note_tenant(const struct weir_note *note);

/* What a note is made of. */
struct weir_notice {
    const struct weir_event *event;
    uint32_t gate;
    struct weir_slice key;
    struct weir_slice flow;
    struct weir_slice tenant;
    uint64_t timeout_ns;
    const struct weir_note_kind *kind; /* null: a key's decision */
    uint32_t attempt;
    struct weir_slice error;
};

/* How far a reader has read. */
struct weir_bookmark {
    uint64_t at;     /* private */
    uint64_t count;  /* private: notes before that */
    uint64_t missed; /* notes that made room before they were read; the reader sets it back */
};

/* A reader that wants to be called when there is more to read. */
struct weir_follower {
    struct weir_link link; /* in the list of sleeping readers */
    bool asleep;           /* under the event log's lock, as the link is */

    /* Called once per sleep, by whichever thread has written, under neither the event log's lock
     * nor a key's. It must not sleep again before. */
    void (*wake)(struct weir_follower *follower);
};

/* Null without memory. */
struct weir_event_log *weir_event_log_create(void);
void weir_event_log_destroy(struct weir_event_log *event_log);

/* Whether there is a reader, so that it is worth writing. Cheap. */
bool weir_event_log_read_by_any(const struct weir_event_log *event_log);

/* Begins to read at the present end, and stops. */
struct weir_bookmark weir_event_log_join(struct weir_event_log *event_log);
void weir_event_log_quit(struct weir_event_log *event_log);

/* Adds a note. Makes no system call. Returns whether weir_event_log_wake() is due. */
WEIR_MUST_CHECK bool weir_event_log_write(struct weir_event_log *event_log,
                                          const struct weir_notice *notice);

/* Notes that could not be written count as missed by all. */
void weir_event_log_skip(struct weir_event_log *event_log, uint64_t count);

/* Wakes sleeping readers, which may take a system call: not under a key's lock. */
void weir_event_log_wake(struct weir_event_log *event_log);

/* Copies the next note to `note`, which has WEIR_NOTE_BYTES_MAX bytes. False if there is none. */
WEIR_MUST_CHECK bool weir_event_log_read(struct weir_event_log *event_log,
                                         struct weir_bookmark *mark, struct weir_note *note);

/* Sleeps until there is more. False if there is more already. */
WEIR_MUST_CHECK bool weir_event_log_sleep(struct weir_event_log *event_log,
                                          struct weir_follower *follower,
                                          const struct weir_bookmark *mark);

/* Sleeps no longer. False if it was not asleep: `wake` has been called, or is about to be. */
WEIR_MUST_CHECK bool weir_event_log_rouse(struct weir_event_log *event_log,
                                          struct weir_follower *follower);

#endif
