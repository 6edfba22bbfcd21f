/* key_file.h - where API keys are kept: DATA/keys, one JSON object a line.
 *
 *     {"id":"3f9c21a07be4","sha256":"...","tenant":"acme","name":"ci","created":1755780060,
 *      "revoked":null,"tokens_per_day":100000}
 *
 * The bounds of its budget that are set have their names of the config; money is in billionths. A
 * revoked key stays, so that a listing shows it, and its id is not used again. The file is replaced
 * as a whole, by one writer at a time; a server notices within a second. It holds no secrets, but a
 * writer of the file decides which clients get in: a file that other users may write is refused.
 * Calls block, so loops must not make them. */
#ifndef WEIR_TENANTS_KEY_FILE_H
#define WEIR_TENANTS_KEY_FILE_H

#include "base/arena.h"
#include "tenants/api_key.h"

#define WEIR_KEY_FILE_ERROR_BYTES 512

/* A failure, as a sentence that says what to do. */
struct weir_key_file_fault {
    char error[WEIR_KEY_FILE_ERROR_BYTES];
};

struct weir_key_list {
    struct weir_api_key *keys; /* in the order in which they were made */
    uint32_t count;
    struct weir_arena arena; /* private: all of it lives here */
};

/* The keys of a data folder; none if there is no file. On success the list is the caller's, to be
 * given back. */
WEIR_MUST_CHECK bool weir_key_file_read(struct weir_slice data, struct weir_key_list *list,
                                        struct weir_key_file_fault *fault);
void weir_key_list_deinit(struct weir_key_list *list);

/* Makes a key for a tenant, with a budget of its own. `text` is the key, terminated; it is stored
 * nowhere, so this is the only chance to see it. */
WEIR_MUST_CHECK bool weir_key_file_add(struct weir_slice data, struct weir_slice tenant,
                                       struct weir_slice name,
                                       const struct weir_budget_limits *budget,
                                       char text[WEIR_API_KEY_TEXT_BYTES + 1],
                                       struct weir_key_file_fault *fault);

/* Revokes the key with that id; revoking it twice changes nothing and is no fault. */
WEIR_MUST_CHECK bool weir_key_file_revoke(struct weir_slice data, struct weir_slice id,
                                          struct weir_key_file_fault *fault);

/* ---- whose folder it is ---- */

/* Leaves a file in a data folder that says that a gateway uses it, and so which folder keys belong
 * into. `make`: also where there is no folder yet. Where it cannot be written, which a gateway that
 * keeps nothing does not mind, it is not there. */
void weir_key_file_mark(struct weir_slice data, bool make);

/* Whether a gateway has left that file. */
bool weir_key_file_is_marked(struct weir_slice data);

/* ---- noticing changes ---- */

/* Identifies the file that the last look found. Zeroed: no look yet. */
struct weir_key_watch {
    bool looked;
    uint64_t device, inode, bytes;
    int64_t changed_s, changed_ns;
};

/* Whether the file has changed since the last look; a missing file counts as a file. */
bool weir_key_watch_look(struct weir_key_watch *watch, struct weir_slice data);

#endif
