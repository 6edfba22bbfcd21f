#define _GNU_SOURCE /* getrandom */
#include "api/job_id.h"

#include "base/hex.h"
#include "tenants/api_key.h"

#include <stdio.h>
#include <sys/random.h>

#define RANDOM_BYTES 10
#define DIGEST_BYTES 20 /* of the 32: enough that no two keys with the same ones can be found */

/* The system is asked for random bits of several ids at once. */
#define STOCK_BYTES (25 * RANDOM_BYTES)

bool weir_job_id_make(int64_t now_ms, char id[WEIR_JOB_ID_MADE_BYTES])
{
    static _Thread_local uint8_t stock[STOCK_BYTES];
    static _Thread_local size_t left;
    if (left == 0) {
        if (getrandom(stock, sizeof stock, 0) != (ssize_t)sizeof stock) {
            return false;
        }
        left = sizeof stock;
    }
    left -= RANDOM_BYTES;
    uint8_t time[6];
    for (int i = 0; i < 6; i++) {
        time[i] = (uint8_t)((uint64_t)now_ms >> (40 - 8 * i));
    }
    id[0] = 'j';
    id[1] = '-';
    weir_hex_write_bytes(id + 2, time, sizeof time);
    weir_hex_write_bytes(id + 14, stock + left, RANDOM_BYTES);
    return true;
}

bool weir_job_id_of_key(const struct weir_idempotency *idempotency, struct weir_hasher *hasher,
                        char id[WEIR_JOB_ID_KEYED_BYTES])
{
    /* A name may hold any bytes: its length tells where it ends. */
    char before[48];
    uint8_t digest[WEIR_API_KEY_DIGEST_BYTES];
    int bytes = snprintf(before, sizeof before, "%zu %u:", idempotency->tenant.bytes,
                         (unsigned)idempotency->line);
    if (!weir_hasher_begin(hasher) ||
        !weir_hasher_add(hasher, (struct weir_slice){before, (size_t)bytes}) ||
        !weir_hasher_add(hasher, idempotency->tenant) ||
        !weir_hasher_add(hasher, idempotency->key) || !weir_hasher_end(hasher, digest)) {
        return false;
    }
    id[0] = 'k';
    id[1] = '-';
    weir_hex_write_bytes(id + 2, digest, DIGEST_BYTES);
    return true;
}
