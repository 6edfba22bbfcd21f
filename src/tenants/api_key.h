/* api_key.h - the keys by which tenants show who they are.
 *
 *     weir_3f9c21a07be4_<64 hexadecimal digits>
 *
 * A key has an id, by which it is found, and a secret of 256 random bits. Only its SHA-256 is kept,
 * so whoever reads what is kept cannot ask in a tenant's name; and because the secret is random, a
 * slow hash would add nothing. A table of keys never changes: a new one takes its place, so loops
 * look keys up without a lock. */
#ifndef WEIR_TENANTS_API_KEY_H
#define WEIR_TENANTS_API_KEY_H

#include "weir/types.h"
#include "wire/http1.h"

#define WEIR_API_KEYS_MAX         100000
#define WEIR_API_KEY_PREFIX       "weir_"
#define WEIR_API_KEY_ID_BYTES     12
#define WEIR_API_KEY_SECRET_BYTES 64
#define WEIR_API_KEY_TEXT_BYTES   (5 + WEIR_API_KEY_ID_BYTES + 1 + WEIR_API_KEY_SECRET_BYTES)
#define WEIR_API_KEY_DIGEST_BYTES 32

/* ---- what is kept of a key ---- */

struct weir_api_key {
    char id[WEIR_API_KEY_ID_BYTES + 1];
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    struct weir_slice tenant;
    struct weir_slice name; /* what its owner calls it; may be empty */
    int64_t created_s;      /* since 1970 */
    int64_t revoked_s;      /* 0: it is good */
};

/* A new key of random bits, terminated, and what is to be kept of it: `id` and `digest` are
 * written. False if the system has no random bits. */
WEIR_MUST_CHECK bool weir_api_key_make(struct weir_api_key *key,
                                       char text[WEIR_API_KEY_TEXT_BYTES + 1]);

/* ---- looking keys up ---- */

/* What computes SHA-256; one for each thread, since it keeps its place. */
struct weir_hasher;

/* Null if there is no memory. */
struct weir_hasher *weir_hasher_create(void);
void weir_hasher_destroy(struct weir_hasher *hasher);

/* SHA-256 of some bytes; or of several pieces, one behind the other. False if it does not work,
 * which is a matter of the system. */
WEIR_MUST_CHECK bool weir_hasher_digest(struct weir_hasher *hasher, struct weir_slice bytes,
                                        uint8_t digest[WEIR_API_KEY_DIGEST_BYTES]);
WEIR_MUST_CHECK bool weir_hasher_begin(struct weir_hasher *hasher);
WEIR_MUST_CHECK bool weir_hasher_add(struct weir_hasher *hasher, struct weir_slice piece);
WEIR_MUST_CHECK bool weir_hasher_end(struct weir_hasher *hasher,
                                     uint8_t digest[WEIR_API_KEY_DIGEST_BYTES]);

struct weir_api_keys;

/* A table with one user; copies what it needs. Revoked keys are left out. Null without memory. */
struct weir_api_keys *weir_api_keys_create(const struct weir_api_key *keys, uint32_t count);

/* From any thread. A null table is none. */
struct weir_api_keys *weir_api_keys_take(struct weir_api_keys *keys);
void weir_api_keys_give(struct weir_api_keys *keys);

/* How many there are. */
uint32_t weir_api_keys_count(const struct weir_api_keys *keys);

/* Whether a text is a key of the table, and whose; the tenant is the table's. Takes the same time
 * for every text of the form, whether its id is known or not. */
bool weir_api_keys_find(const struct weir_api_keys *keys, struct weir_hasher *hasher,
                        struct weir_slice text, struct weir_slice *tenant);

enum weir_api_key_sight {
    WEIR_API_KEY_NONE,  /* the request carries no key */
    WEIR_API_KEY_WRONG, /* one that is not known or is revoked, or several that differ */
    WEIR_API_KEY_GOOD
};

/* The key that a request carries as Authorization: Bearer, X-Api-Key or Api-Key. What is there
 * without being a key of ours (it does not begin with weir_) is passed over. */
enum weir_api_key_sight weir_api_keys_see(const struct weir_api_keys *keys,
                                          struct weir_hasher *hasher,
                                          const struct weir_http1_head *head, const char *data,
                                          struct weir_slice *tenant);

/* Whether a field carries a key of ours, which must not be passed on. */
bool weir_api_key_is_in(const struct weir_http1_field *field, const char *data);

#endif
