/* api_key.h - the keys by which tenants authenticate.
 *
 *     weir_3f9c21a07be4_<64 hexadecimal digits>
 *
 * A key has an id, by which it is found, and a secret of 256 random bits. Only its SHA-256 is kept,
 * so a thief of the file cannot send requests as a tenant; and because the secret is random, a slow
 * hash would add nothing. A table of keys never changes: a new one replaces it, so loops look keys
 * up without a lock. */
#ifndef WEIR_TENANTS_API_KEY_H
#define WEIR_TENANTS_API_KEY_H

#include "weir/budget.h"
#include "wire/http1.h"

#define WEIR_API_KEYS_MAX         100000
#define WEIR_API_KEY_PREFIX       "weir_"
#define WEIR_API_KEY_ID_BYTES     12
#define WEIR_API_KEY_SECRET_BYTES 64
#define WEIR_API_KEY_TEXT_BYTES   (5 + WEIR_API_KEY_ID_BYTES + 1 + WEIR_API_KEY_SECRET_BYTES)
#define WEIR_API_KEY_DIGEST_BYTES 32

/* ---- the stored form of a key ---- */

struct weir_api_key {
    char id[WEIR_API_KEY_ID_BYTES + 1];
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    struct weir_slice tenant;
    struct weir_slice name; /* a label of the owner's choice; may be empty */
    int64_t created_s;      /* since 1970 */
    int64_t revoked_s;      /* 0: it is valid */
    struct weir_budget_limits budget;
};

/* Makes a new key of random bits: `text` is the key, terminated; of the stored form, `id` and
 * `digest` are written. False if the system has no random bits. */
WEIR_MUST_CHECK bool weir_api_key_make(struct weir_api_key *key,
                                       char text[WEIR_API_KEY_TEXT_BYTES + 1]);

/* ---- looking keys up ---- */

/* Computes SHA-256; one for each thread, since it has state. */
struct weir_hasher;

/* Null if there is no memory. */
struct weir_hasher *weir_hasher_create(void);
void weir_hasher_destroy(struct weir_hasher *hasher);

/* SHA-256 of some bytes; or of several pieces, one behind the other. False if OpenSSL fails. */
WEIR_MUST_CHECK bool weir_hasher_digest(struct weir_hasher *hasher, struct weir_slice bytes,
                                        uint8_t digest[WEIR_API_KEY_DIGEST_BYTES]);
WEIR_MUST_CHECK bool weir_hasher_begin(struct weir_hasher *hasher);
WEIR_MUST_CHECK bool weir_hasher_add(struct weir_hasher *hasher, struct weir_slice piece);
WEIR_MUST_CHECK bool weir_hasher_end(struct weir_hasher *hasher,
                                     uint8_t digest[WEIR_API_KEY_DIGEST_BYTES]);

struct weir_api_keys;

/* Makes a table with one reference; copies what it needs. Revoked keys are left out. Null without
 * memory. */
struct weir_api_keys *weir_api_keys_create(const struct weir_api_key *keys, uint32_t count);

/* Takes and gives back a reference. Any thread; null is fine. */
struct weir_api_keys *weir_api_keys_take(struct weir_api_keys *keys);
void weir_api_keys_give(struct weir_api_keys *keys);

/* How many keys the table has. */
uint32_t weir_api_keys_count(const struct weir_api_keys *keys);

/* What a key that was found stands for. */
struct weir_api_key_grant {
    struct weir_slice tenant; /* the table's */
    uint64_t id;              /* of the key, plus one: 0 is none */
};

/* Whether the text is a key of the table, and what it stands for. Takes the same time for every
 * text of the form, whether its id is known or not. */
bool weir_api_keys_find(const struct weir_api_keys *keys, struct weir_hasher *hasher,
                        struct weir_slice text, struct weir_api_key_grant *grant);

/* The budget of the key with that id; null: it has none, or is no longer in the table. */
const struct weir_budget_limits *weir_api_keys_budget(const struct weir_api_keys *keys,
                                                      uint64_t id);

/* An id as its text. */
struct weir_api_key_id_text {
    char text[WEIR_API_KEY_ID_BYTES + 1];
};
struct weir_api_key_id_text weir_api_key_show_id(uint64_t id);

enum weir_api_key_sight {
    WEIR_API_KEY_NONE,  /* the request carries no key */
    WEIR_API_KEY_WRONG, /* an unknown or revoked key, or several different ones */
    WEIR_API_KEY_GOOD
};

/* The key that a request carries as Authorization: Bearer, X-Api-Key or Api-Key. Credentials that
 * do not begin with weir_ are ignored. */
enum weir_api_key_sight weir_api_keys_see(const struct weir_api_keys *keys,
                                          struct weir_hasher *hasher,
                                          const struct weir_http1_head *head, const char *data,
                                          struct weir_api_key_grant *grant);

/* Whether a field carries a key of Weir's, which must not be forwarded. */
bool weir_api_key_is_in(const struct weir_http1_field *field, const char *data);

#endif
