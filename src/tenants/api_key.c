/* api_key.c - API keys: their text form, their hash, and the table that requests are checked
 * against.
 *
 * A table never changes once it is made, so any thread may read it without a lock; its reference
 * count is atomic. A hasher belongs to one thread. */
#define _GNU_SOURCE
#include "tenants/api_key.h"

#include "base/hex.h"
#include "base/slice.h"
#include "config/budget_bounds.h"
#include "config/scalars.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/random.h>

#define PREFIX_BYTES (sizeof WEIR_API_KEY_PREFIX - 1)

static_assert(WEIR_API_KEY_TEXT_BYTES ==
                  PREFIX_BYTES + WEIR_API_KEY_ID_BYTES + 1 + WEIR_API_KEY_SECRET_BYTES,
              "the parts make the whole");

/* ---- SHA-256 ---- */

/* Fetching an algorithm takes OpenSSL longer than hashing a key, so it is done once. */
struct weir_hasher {
    EVP_MD *algorithm;
    EVP_MD_CTX *context;
};

struct weir_hasher *weir_hasher_create(void)
{
    struct weir_hasher *hasher = calloc(1, sizeof *hasher);
    if (hasher == NULL) {
        return NULL;
    }
    hasher->algorithm = EVP_MD_fetch(NULL, "SHA256", NULL);
    hasher->context = EVP_MD_CTX_new();
    if (hasher->algorithm == NULL || hasher->context == NULL) {
        weir_hasher_destroy(hasher);
        return NULL;
    }
    return hasher;
}

void weir_hasher_destroy(struct weir_hasher *hasher)
{
    if (hasher != NULL) {
        EVP_MD_CTX_free(hasher->context);
        EVP_MD_free(hasher->algorithm);
        free(hasher);
    }
}

bool weir_hasher_begin(struct weir_hasher *hasher)
{
    return EVP_DigestInit_ex2(hasher->context, hasher->algorithm, NULL) == 1;
}

bool weir_hasher_add(struct weir_hasher *hasher, struct weir_slice piece)
{
    return EVP_DigestUpdate(hasher->context, piece.data, piece.bytes) == 1;
}

bool weir_hasher_end(struct weir_hasher *hasher, uint8_t digest[WEIR_API_KEY_DIGEST_BYTES])
{
    unsigned bytes = 0;
    return EVP_DigestFinal_ex(hasher->context, digest, &bytes) == 1 &&
           bytes == WEIR_API_KEY_DIGEST_BYTES;
}

bool weir_hasher_digest(struct weir_hasher *hasher, struct weir_slice bytes,
                        uint8_t digest[WEIR_API_KEY_DIGEST_BYTES])
{
    return weir_hasher_begin(hasher) && weir_hasher_add(hasher, bytes) &&
           weir_hasher_end(hasher, digest);
}

/* ---- texts ---- */

bool weir_api_key_make(struct weir_api_key *key, char text[WEIR_API_KEY_TEXT_BYTES + 1])
{
    uint8_t random[(WEIR_API_KEY_ID_BYTES + WEIR_API_KEY_SECRET_BYTES) / 2];
    struct weir_hasher *hasher = weir_hasher_create();
    if (hasher == NULL) {
        return false;
    }
    bool made = getrandom(random, sizeof random, 0) == sizeof random;
    char *at = text;
    memcpy(at, WEIR_API_KEY_PREFIX, PREFIX_BYTES);
    at += PREFIX_BYTES;
    weir_hex_write_bytes(at, random, WEIR_API_KEY_ID_BYTES / 2);
    memcpy(key->id, at, WEIR_API_KEY_ID_BYTES);
    key->id[WEIR_API_KEY_ID_BYTES] = '\0';
    at += WEIR_API_KEY_ID_BYTES;
    *at++ = '_';
    weir_hex_write_bytes(at, random + WEIR_API_KEY_ID_BYTES / 2, WEIR_API_KEY_SECRET_BYTES / 2);
    at[WEIR_API_KEY_SECRET_BYTES] = '\0';
    made = made && weir_hasher_digest(hasher, (struct weir_slice){text, WEIR_API_KEY_TEXT_BYTES},
                                      key->digest);
    OPENSSL_cleanse(random, sizeof random);
    weir_hasher_destroy(hasher);
    return made;
}

/* An id as a number. False if it is none: letters are small. */
static bool read_id(const char *text, uint64_t *id)
{
    *id = 0;
    for (size_t i = 0; i < WEIR_API_KEY_ID_BYTES; i++) {
        char c = text[i];
        bool digit = c >= '0' && c <= '9';
        if (!digit && (c < 'a' || c > 'f')) {
            return false;
        }
        *id = *id << 4 | (uint64_t)(digit ? c - '0' : c - 'a' + 10);
    }
    return true;
}

static bool begins_as_key(struct weir_slice text)
{
    return text.bytes >= PREFIX_BYTES && memcmp(text.data, WEIR_API_KEY_PREFIX, PREFIX_BYTES) == 0;
}

/* ---- the table ---- */

/* A slot of the hash table; ids are random, so they are their own hash. */
struct key_slot {
    uint64_t id;
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    struct weir_slice tenant;                /* null data: the slot is free */
    const struct weir_budget_limits *budget; /* null: none */
};

struct weir_api_keys {
    atomic_uint users;
    uint32_t count;
    uint32_t mask;
    char *names;
    struct weir_budget_limits *budgets;
    struct key_slot entries[];
};

/* A power of two, so that at most half of the slots are used. */
static uint32_t places_for(uint32_t count)
{
    uint32_t places = 16;
    while (places < 2 * count) {
        places *= 2;
    }
    return places;
}

static size_t name_bytes(const struct weir_api_key *keys, uint32_t count)
{
    size_t bytes = 1;
    for (uint32_t i = 0; i < count; i++) {
        bytes += keys[i].tenant.bytes;
    }
    return bytes;
}

static uint32_t count_budgets(const struct weir_api_key *keys, uint32_t count)
{
    uint32_t budgets = 0;
    for (uint32_t i = 0; i < count; i++) {
        budgets += weir_budget_limits_any(&keys[i].budget);
    }
    return budgets;
}

static struct key_slot *put(struct weir_api_keys *table, const struct weir_api_key *key, char *name)
{
    uint64_t id;
    bool read = read_id(key->id, &id);
    assert(read);
    (void)read;
    uint32_t place = (uint32_t)id & table->mask;
    while (table->entries[place].tenant.data != NULL) {
        place = (place + 1) & table->mask;
    }
    struct key_slot *entry = &table->entries[place];
    entry->id = id;
    memcpy(entry->digest, key->digest, sizeof entry->digest);
    if (key->tenant.bytes > 0) {
        memcpy(name, key->tenant.data, key->tenant.bytes);
    }
    entry->tenant = (struct weir_slice){name, key->tenant.bytes};
    table->count++;
    return entry;
}

struct weir_api_keys *weir_api_keys_create(const struct weir_api_key *keys, uint32_t count)
{
    uint32_t places = places_for(count);
    struct weir_api_keys *table = calloc(1, sizeof *table + places * sizeof table->entries[0]);
    char *names = malloc(name_bytes(keys, count));
    struct weir_budget_limits *budgets =
        calloc(count_budgets(keys, count) + UINT32_C(1), sizeof *budgets);
    assert(count <= WEIR_API_KEYS_MAX);
    if (table == NULL || names == NULL || budgets == NULL) {
        free(table);
        free(names);
        free(budgets);
        return NULL;
    }
    atomic_init(&table->users, 1);
    table->mask = places - 1;
    table->names = names;
    table->budgets = budgets;
    for (uint32_t i = 0; i < count; i++) {
        if (keys[i].revoked_s != 0) {
            continue;
        }
        struct key_slot *entry = put(table, &keys[i], names);
        names += keys[i].tenant.bytes;
        if (weir_budget_limits_any(&keys[i].budget)) {
            *budgets = keys[i].budget;
            entry->budget = budgets++;
        }
    }
    return table;
}

struct weir_api_keys *weir_api_keys_take(struct weir_api_keys *keys)
{
    if (keys != NULL) {
        atomic_fetch_add_explicit(&keys->users, 1, memory_order_relaxed);
    }
    return keys;
}

void weir_api_keys_give(struct weir_api_keys *keys)
{
    if (keys != NULL && atomic_fetch_sub_explicit(&keys->users, 1, memory_order_acq_rel) == 1) {
        free(keys->names);
        free(keys->budgets);
        free(keys);
    }
}

uint32_t weir_api_keys_count(const struct weir_api_keys *keys)
{
    return keys->count;
}

static const struct key_slot *find_entry(const struct weir_api_keys *keys, uint64_t id)
{
    uint32_t place = (uint32_t)id & keys->mask;
    while (keys->entries[place].tenant.data != NULL) {
        if (keys->entries[place].id == id) {
            return &keys->entries[place];
        }
        place = (place + 1) & keys->mask;
    }
    return NULL;
}

bool weir_api_keys_find(const struct weir_api_keys *keys, struct weir_hasher *hasher,
                        struct weir_slice text, struct weir_api_key_grant *grant)
{
    static const struct key_slot nobody;
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    uint64_t id;
    if (text.bytes != WEIR_API_KEY_TEXT_BYTES || !begins_as_key(text) ||
        !read_id(text.data + PREFIX_BYTES, &id) || !weir_hasher_digest(hasher, text, digest)) {
        return false;
    }
    const struct key_slot *entry = find_entry(keys, id);
    const struct key_slot *compared = entry == NULL ? &nobody : entry;
    bool same = CRYPTO_memcmp(compared->digest, digest, sizeof digest) == 0;
    if (!same || entry == NULL) {
        return false;
    }
    *grant = (struct weir_api_key_grant){.tenant = entry->tenant, .id = id + 1};
    return true;
}

const struct weir_budget_limits *weir_api_keys_budget(const struct weir_api_keys *keys, uint64_t id)
{
    const struct key_slot *entry = id == 0 ? NULL : find_entry(keys, id - 1);
    return entry == NULL ? NULL : entry->budget;
}

struct weir_api_key_id_text weir_api_key_show_id(uint64_t id)
{
    struct weir_api_key_id_text shown;
    uint8_t bytes[WEIR_API_KEY_ID_BYTES / 2];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)((id - 1) >> (8 * (sizeof bytes - 1 - i)));
    }
    weir_hex_write_bytes(shown.text, bytes, sizeof bytes);
    shown.text[WEIR_API_KEY_ID_BYTES] = '\0';
    return shown;
}

/* ---- requests ---- */

/* The credential in a header field that may carry a key, without the scheme; empty if the field is
 * another. */
static struct weir_slice key_in(const struct weir_http1_field *field, const char *data)
{
    static const char scheme[] = "Bearer ";
    struct weir_slice value = weir_http1_value(data, field);
    size_t bytes = sizeof scheme - 1;
    if (field->id == WEIR_FIELD_AUTHORIZATION) {
        struct weir_slice said = {value.data, bytes};
        if (value.bytes <= bytes || !weir_scalar_same_word(said, weir_slice_of(scheme))) {
            return (struct weir_slice){"", 0};
        }
        value.data += bytes;
        value.bytes -= bytes;
    }
    return begins_as_key(value) ? value : (struct weir_slice){"", 0};
}

static bool may_carry(const struct weir_http1_field *field)
{
    return field->id == WEIR_FIELD_AUTHORIZATION || field->id == WEIR_FIELD_X_API_KEY ||
           field->id == WEIR_FIELD_API_KEY || field->id == WEIR_FIELD_X_GOOG_API_KEY;
}

bool weir_api_key_is_in(const struct weir_http1_field *field, const char *data)
{
    return may_carry(field) && key_in(field, data).bytes > 0;
}

enum weir_api_key_sight weir_api_keys_see(const struct weir_api_keys *keys,
                                          struct weir_hasher *hasher,
                                          const struct weir_http1_head *head, const char *data,
                                          struct weir_api_key_grant *grant)
{
    struct weir_slice key = {"", 0};
    if ((head->seen & (WEIR_FIELD_BIT(AUTHORIZATION) | WEIR_FIELD_BIT(X_API_KEY) |
                       WEIR_FIELD_BIT(API_KEY) | WEIR_FIELD_BIT(X_GOOG_API_KEY))) == 0) {
        return WEIR_API_KEY_NONE;
    }
    for (uint16_t i = 0; i < head->field_count; i++) {
        struct weir_slice found = may_carry(&head->fields[i]) ? key_in(&head->fields[i], data)
                                                              : (struct weir_slice){"", 0};
        if (found.bytes > 0 && key.bytes > 0 && !weir_slice_equal(found, key)) {
            return WEIR_API_KEY_WRONG;
        }
        key = found.bytes > 0 ? found : key;
    }
    if (key.bytes == 0) {
        return WEIR_API_KEY_NONE;
    }
    return weir_api_keys_find(keys, hasher, key, grant) ? WEIR_API_KEY_GOOD : WEIR_API_KEY_WRONG;
}
