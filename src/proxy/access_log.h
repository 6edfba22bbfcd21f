/* access_log.h - the filter that writes a line of the access log for each exchange, also for those
 * that end before their reply does.
 *
 * What a line says is collected at the steps of the exchange, into a state from the worker's
 * `access_entries`, because most of it is gone when the exchange ends. Then the other filters add
 * what they know, the line is put together, and the worker's `access_file` gets it; nothing waits
 * for a disk. A line for which there is no memory or no room is dropped and counted there.
 *
 * Secrets stay out: of the target there is the path, and of the query, if that is asked for, the
 * values of parameters with the name of a secret are masked. Header fields are not logged, but for
 * User-Agent, Referer without its query, and ids. */
#ifndef WEIR_PROXY_ACCESS_LOG_H
#define WEIR_PROXY_ACCESS_LOG_H

#include "proxy/filter.h"
#include "wire/json_writer.h"

/* What of a text that the client chooses is in a line; the rest is cut. */
#define WEIR_ACCESS_TEXT_BYTES_MAX 1024
#define WEIR_ACCESS_WORD_BYTES_MAX 256

/* What other filters know of an exchange: see `account` in filter.h. Zeroed: nothing. */
struct weir_access_account {
    struct weir_slice model; /* as the client calls it */
    bool tokens_known;
    uint64_t input; /* tokens, with those that were cached */
    uint64_t cached;
    uint64_t output;
    bool money_known;
    uint64_t money; /* in billionths */
};

/* What is kept while the exchange lives. */
struct weir_access_entry;
extern const size_t weir_access_entry_bytes;

/* Its settings are a struct weir_config_access_log. It is the first filter of every list. */
extern const struct weir_exchange_filter weir_access_filter;

/* Copies a query with the values of secrets masked, as far as there is room. Returns its bytes. */
size_t weir_access_mask_query(struct weir_slice query, char *room, size_t room_bytes);

#endif
