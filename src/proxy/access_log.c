/* access_log.c - what an exchange leaves in the access log: collected at its steps, and written as
 * JSON or in the combined format when it is over.
 *
 * Every function runs in the loop of the exchange's worker. Lines go into the line file that all
 * workers share, which has a lock of its own. */
#define _POSIX_C_SOURCE 200809L
#include "proxy/access_log.h"

#include "base/clock.h"
#include "base/slice.h"
#include "config/scalars.h"
#include "log/line_file.h"
#include "log/log.h"
#include "proxy/exchange_steps.h"

#include <assert.h>
#include <time.h>

/* The status of an exchange whose client left, or was too slow, before there was a reply. */
#define STATUS_NO_REPLY 499

struct weir_access_entry {
    const struct weir_config_access_log *config;
    const char *problem;        /* null: the reply was the upstream's */
    struct weir_slice upstream; /* the config's */
    uint64_t entered_ns;        /* into the line, for the last time */
    uint64_t line_ns;
    uint64_t upstream_ns; /* from the last admission to the head; WEIR_NEVER: there was none */
    uint32_t attempts;
    uint8_t minor;
    uint8_t method_bytes;
    uint8_t client_bytes;
    uint8_t key_bytes;
    uint8_t server_id_bytes;
    uint16_t path_bytes;
    uint16_t query_bytes;
    uint16_t agent_bytes;
    uint16_t referer_bytes;
    char method[WEIR_HTTP1_METHOD_BYTES_MAX];
    char client[WEIR_ADDRESS_TEXT_MAX];
    char key[WEIR_NAME_BYTES_MAX];
    char server_id[WEIR_REQUEST_ID_BYTES_MAX];
    char agent[WEIR_ACCESS_WORD_BYTES_MAX];
    char referer[WEIR_ACCESS_WORD_BYTES_MAX];
    char path[WEIR_ACCESS_TEXT_BYTES_MAX];
    char query[WEIR_ACCESS_TEXT_BYTES_MAX];
};

const size_t weir_access_entry_bytes = sizeof(struct weir_access_entry);

/* ---- secrets ---- */

/* A parameter whose name ends with one of these has a secret for its value: accesstoken,
 * client_secret, X-Amz-Signature. */
static const char *const secret_ends[] = {"apikey",     "accesskey",   "secretkey",    "sessionkey",
                                          "privatekey", "token",       "secret",       "password",
                                          "passwd",     "passphrase",  "signature",    "credential",
                                          "jwt",        "credentials", "authorization"};

/* These are also the ends of harmless words (monkey, encode), so they count only as a word of their
 * own: key, api_key, sessionKey. */
static const char *const secret_words[] = {"key", "sig", "auth", "pwd", "pass", "code"};

/* The longest name that is looked at; its end decides. */
#define NAME_BYTES_MAX 64

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'                 ? c - '0'
           : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                : -1;
}

/* The end of the name, without its escapes, by which servers would know it as well. */
static struct weir_slice decode_name(struct weir_slice name, char room[NAME_BYTES_MAX])
{
    size_t bytes = 0;
    for (size_t i = 0; i < name.bytes; i++) {
        char c = name.data[i];
        if (c == '%' && i + 2 < name.bytes && hex_digit(name.data[i + 1]) >= 0 &&
            hex_digit(name.data[i + 2]) >= 0) {
            c = (char)(hex_digit(name.data[i + 1]) * 16 + hex_digit(name.data[i + 2]));
            i += 2;
        }
        if (bytes == NAME_BYTES_MAX) { /* only the end matters */
            memmove(room, room + NAME_BYTES_MAX / 2, NAME_BYTES_MAX / 2);
            bytes = NAME_BYTES_MAX / 2;
        }
        room[bytes++] = c;
    }
    return (struct weir_slice){room, bytes};
}

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

/* Whether a word begins there: at the beginning, behind what is no letter, and where an upper-case
 * letter is beside a lower-case one (sessionKey, DBKey). */
static bool begins_word(struct weir_slice name, size_t at)
{
    if (at == 0 || (!is_lower(name.data[at - 1]) && !is_upper(name.data[at - 1]))) {
        return true;
    }
    return is_upper(name.data[at]) &&
           (is_lower(name.data[at - 1]) || (at + 1 < name.bytes && is_lower(name.data[at + 1])));
}

static bool ends_with(struct weir_slice name, struct weir_slice word)
{
    return name.bytes >= word.bytes &&
           weir_scalar_same_word(
               (struct weir_slice){name.data + name.bytes - word.bytes, word.bytes}, word);
}

static bool is_secret(struct weir_slice name)
{
    char room[NAME_BYTES_MAX];
    struct weir_slice decoded = decode_name(name, room);
    while (decoded.bytes > 0 && !is_lower(decoded.data[decoded.bytes - 1]) &&
           !is_upper(decoded.data[decoded.bytes - 1])) {
        decoded.bytes--; /* filter[token], token[0], key2 */
    }
    for (size_t i = 0; i < sizeof secret_ends / sizeof secret_ends[0]; i++) {
        if (ends_with(decoded, weir_slice_of(secret_ends[i]))) {
            return true;
        }
    }
    for (size_t i = 0; i < sizeof secret_words / sizeof secret_words[0]; i++) {
        struct weir_slice word = weir_slice_of(secret_words[i]);
        if (ends_with(decoded, word) && begins_word(decoded, decoded.bytes - word.bytes)) {
            return true;
        }
    }
    return false;
}

/* Appends as much of the text as there is room for. */
static size_t append(char *room, size_t room_bytes, size_t bytes, struct weir_slice text)
{
    size_t left = room_bytes - bytes;
    text.bytes = text.bytes < left ? text.bytes : left;
    weir_slice_copy(room + bytes, text);
    return bytes + text.bytes;
}

size_t weir_access_mask_query(struct weir_slice query, char *room, size_t room_bytes)
{
    size_t bytes = 0;
    for (size_t at = 0; at <= query.bytes;) {
        struct weir_slice rest = {query.data + at, query.bytes - at};
        size_t pair_bytes = 0;
        while (pair_bytes < rest.bytes && rest.data[pair_bytes] != '&' &&
               rest.data[pair_bytes] != ';') {
            pair_bytes++;
        }
        const char *equals = pair_bytes == 0 ? NULL : memchr(rest.data, '=', pair_bytes);
        size_t name_bytes = equals == NULL ? pair_bytes : (size_t)(equals - rest.data);
        struct weir_slice name = {rest.data, name_bytes};
        if (equals != NULL && is_secret(name)) {
            bytes = append(room, room_bytes, bytes, name);
            bytes = append(room, room_bytes, bytes, weir_slice_of("=***"));
        } else {
            bytes = append(room, room_bytes, bytes, (struct weir_slice){rest.data, pair_bytes});
        }
        if (pair_bytes < rest.bytes) {
            bytes = append(room, room_bytes, bytes, (struct weir_slice){rest.data + pair_bytes, 1});
        }
        at += pair_bytes + 1;
    }
    return bytes;
}

/* ---- what is collected ---- */

static size_t keep(char *room, size_t room_bytes, struct weir_slice text)
{
    return append(room, room_bytes, 0, text);
}

static size_t keep_field(char *room, const struct weir_http1_head *head, const char *data,
                         enum weir_field_id id)
{
    const struct weir_http1_field *field = weir_http1_find(head, id);
    return field == NULL ? 0
                         : keep(room, WEIR_ACCESS_WORD_BYTES_MAX, weir_http1_value(data, field));
}

/* A query may have secrets under names that no list has. */
static size_t without_query(const char *text, size_t bytes)
{
    const char *query = bytes == 0 ? NULL : memchr(text, '?', bytes);
    return query == NULL ? bytes : (size_t)(query - text);
}

static void read_head(struct weir_access_entry *entry, const struct weir_http1_head *head,
                      const char *data)
{
    if (head->fault != WEIR_HTTP_FAULT_NONE) {
        return; /* what it says is not known */
    }
    struct weir_slice referer = {"", 0};
    const struct weir_http1_field *field =
        weir_http1_find_name(head, data, weir_slice_of("referer"), NULL);
    referer = field == NULL ? referer : weir_http1_value(data, field);
    entry->minor = head->minor;
    entry->method_bytes = (uint8_t)keep(entry->method, sizeof entry->method,
                                        weir_http1_slice(data, head->method_name));
    entry->path_bytes =
        (uint16_t)keep(entry->path, sizeof entry->path, weir_http1_slice(data, head->path));
    if (entry->config->query && head->has_query) {
        entry->query_bytes = (uint16_t)weir_access_mask_query(weir_http1_slice(data, head->query),
                                                              entry->query, sizeof entry->query);
    }
    entry->agent_bytes = (uint16_t)keep_field(entry->agent, head, data, WEIR_FIELD_USER_AGENT);
    referer.bytes = without_query(referer.data, referer.bytes);
    entry->referer_bytes = (uint16_t)keep(entry->referer, sizeof entry->referer, referer);
}

static void arrived(struct weir_exchange *exchange, const struct weir_filter_use *use,
                    const struct weir_http1_head *head, const char *data, void **state)
{
    struct weir_worker *worker = exchange->worker;
    struct weir_access_entry *entry = weir_slab_take(&worker->access_entries);
    *state = entry;
    if (entry == NULL) {
        weir_line_file_drop(worker->access_file);
        return;
    }
    memset(entry, 0, offsetof(struct weir_access_entry, method)); /* the texts need not be */
    entry->config = use->settings;
    entry->upstream_ns = WEIR_NEVER;
    entry->client_bytes =
        (uint8_t)keep(entry->client, sizeof entry->client, weir_slice_of(exchange->client->peer));
    read_head(entry, head, data);
}

static bool enters(struct weir_exchange *exchange, void *state,
                   const struct weir_destination *where,
                   const struct weir_request *request __attribute__((unused)))
{
    struct weir_access_entry *entry = state;
    if (entry != NULL) {
        entry->key_bytes = (uint8_t)keep(entry->key, sizeof entry->key, where->key);
        entry->entered_ns = exchange->worker->loop.now_ns;
    }
    return false;
}

static bool was_admitted(struct weir_exchange *exchange, void *state)
{
    struct weir_access_entry *entry = state;
    if (entry != NULL && entry->entered_ns != 0) {
        entry->line_ns += exchange->worker->loop.now_ns - entry->entered_ns;
        entry->entered_ns = 0;
    }
    return true;
}

static bool begin_attempt(struct weir_exchange *exchange __attribute__((unused)), void *state,
                          const struct weir_config_upstream *upstream)
{
    struct weir_access_entry *entry = state;
    if (entry != NULL) {
        entry->upstream = upstream->name;
        entry->attempts++;
    }
    return true;
}

static enum weir_filter_head hear_head(struct weir_exchange *exchange, void *state,
                                       const struct weir_http1_head *head)
{
    struct weir_access_entry *entry = state;
    if (entry != NULL) {
        const char *data = exchange->backend->in.data + exchange->backend->in.begin;
        const struct weir_http1_field *id = weir_http1_find(head, WEIR_FIELD_X_REQUEST_ID);
        entry->upstream_ns = exchange->worker->loop.now_ns - exchange->admitted_ns;
        entry->server_id_bytes = id == NULL
                                     ? 0
                                     : (uint8_t)keep(entry->server_id, sizeof entry->server_id,
                                                     weir_http1_value(data, id));
    }
    return WEIR_FILTER_HEAD_PASS;
}

static void note_problem(struct weir_exchange *exchange __attribute__((unused)), void *state,
                         struct weir_problem *problem)
{
    struct weir_access_entry *entry = state;
    entry->problem = weir_problem_name(problem->kind);
}

/* ---- the line ---- */

static struct weir_slice end_of(const struct weir_exchange *exchange)
{
    static const char *const ends[] = {[WEIR_ABANDON_GONE] = "client_gone",
                                       [WEIR_ABANDON_LATE] = "client_slow",
                                       [WEIR_ABANDON_REPLY_CUT] = "reply_cut",
                                       [WEIR_ABANDON_RESOURCES] = "out_of_memory"};
    if (exchange->completed) {
        return weir_slice_of("complete");
    }
    return weir_slice_of(exchange->abandoned == 0 ? "closed" : ends[exchange->abandoned - 1]);
}

/* The time until it was admitted or gave up, and all of it. */
struct durations {
    uint64_t line_ns;
    uint64_t total_ns;
};

static struct durations durations_of(const struct weir_exchange *exchange,
                                     const struct weir_access_entry *entry)
{
    uint64_t now_ns = exchange->worker->loop.now_ns;
    uint64_t waits_ns = entry->entered_ns == 0 ? 0 : now_ns - entry->entered_ns;
    return (struct durations){entry->line_ns + waits_ns, now_ns - exchange->arrived_ns};
}

/* A name and milliseconds with three decimals, which no double is asked for. */
static void put_ms(struct weir_json *json, const char *name, uint64_t ns)
{
    uint64_t us = ns / 1000;
    char decimals[] = {'.', (char)('0' + us / 100 % 10), (char)('0' + us / 10 % 10),
                       (char)('0' + us % 10)};
    weir_json_put_number(json, name, us / 1000);
    weir_json_raw(json, (struct weir_slice){decimals, sizeof decimals});
}

/* Left out where it is empty. */
static void put_text(struct weir_json *json, const char *name, struct weir_slice text)
{
    if (text.bytes > 0) {
        weir_json_put_string(json, name, text);
    }
}

static uint16_t status_of(const struct weir_exchange *exchange)
{
    return exchange->reply.status == 0 ? STATUS_NO_REPLY : exchange->reply.status;
}

static struct weir_slice route_of(const struct weir_exchange *exchange)
{
    return exchange->route == NULL ? weir_slice_of("") : exchange->route->match;
}

static struct weir_slice gate_of(const struct weir_exchange *exchange)
{
    if (exchange->gate == WEIR_CONFIG_NONE) {
        return weir_slice_of("");
    }
    return exchange->worker_config->config->gates[exchange->gate].name;
}

static void put_account(struct weir_json *json, const struct weir_exchange *exchange)
{
    struct weir_access_account account = {0};
    if (weir_exchange_has_hook(exchange, WEIR_HOOK_ACCOUNT)) {
        weir_filters_account(exchange, &account);
    }
    put_text(json, "model", account.model);
    if (account.tokens_known) {
        weir_json_put_number(json, "input_tokens", account.input);
        weir_json_put_number(json, "cached_tokens", account.cached);
        weir_json_put_number(json, "output_tokens", account.output);
    }
    if (account.money_known) {
        weir_json_name(json, "money");
        weir_json_raw(json, weir_slice_of(weir_scalar_show_money(account.money).text));
        json->comma = true;
    }
}

static size_t compose_json(const struct weir_exchange *exchange,
                           const struct weir_access_entry *entry, uint64_t began_ns,
                           char room[WEIR_LINE_BYTES_MAX])
{
    struct durations durations = durations_of(exchange, entry);
    struct weir_json json;
    char time[WEIR_LOG_TIME_BYTES];
    weir_json_init(&json, room, WEIR_LINE_BYTES_MAX);
    weir_log_time(began_ns, time);
    weir_json_open(&json, '{');
    weir_json_put_string(&json, "time", (struct weir_slice){time, sizeof time});
    weir_json_put_string(&json, "request_id", weir_exchange_id(exchange));
    put_text(&json, "upstream_request_id",
             (struct weir_slice){entry->server_id, entry->server_id_bytes});
    weir_json_put_string(&json, "client", (struct weir_slice){entry->client, entry->client_bytes});
    put_text(&json, "tenant", exchange->gate_ticket.tenant);
    put_text(&json, "flow", exchange->gate_ticket.flow);
    put_text(&json, "route", route_of(exchange));
    put_text(&json, "gate", gate_of(exchange));
    put_text(&json, "key", (struct weir_slice){entry->key, entry->key_bytes});
    put_text(&json, "lane", entry->upstream);
    put_text(&json, "method", (struct weir_slice){entry->method, entry->method_bytes});
    put_text(&json, "path", (struct weir_slice){entry->path, entry->path_bytes});
    put_text(&json, "query", (struct weir_slice){entry->query, entry->query_bytes});
    weir_json_put_number(&json, "status", status_of(exchange));
    put_text(&json, "problem", weir_slice_of(entry->problem == NULL ? "" : entry->problem));
    weir_json_put_string(&json, "end", end_of(exchange));
    weir_json_put_number(&json, "request_bytes", exchange->request.body.bytes);
    weir_json_put_number(&json, "bytes", exchange->reply.bytes);
    weir_json_put_number(&json, "attempts", entry->attempts);
    put_ms(&json, "line_ms", durations.line_ns);
    if (entry->upstream_ns != WEIR_NEVER) {
        put_ms(&json, "upstream_ms", entry->upstream_ns);
    }
    put_ms(&json, "total_ms", durations.total_ns);
    put_account(&json, exchange);
    put_text(&json, "user_agent", (struct weir_slice){entry->agent, entry->agent_bytes});
    weir_json_close(&json, '}');
    weir_json_raw(&json, weir_slice_of("\n"));
    return json.failed ? 0 : json.bytes;
}

/* A word in the combined format; '-' if it is empty. Quotes, backslashes, spaces in words that are
 * not quoted, and all that is not printable become \xHH, as Apache writes them. */
static void put_word(struct weir_json *line, struct weir_slice word, bool quoted)
{
    static const char digits[] = "0123456789abcdef";
    if (word.bytes == 0) {
        weir_json_raw(line, weir_slice_of("-"));
    }
    for (size_t i = 0; i < word.bytes; i++) {
        unsigned char c = (unsigned char)word.data[i];
        bool plain = c >= ' ' && c < 0x7f && c != '"' && c != '\\' && (quoted || c != ' ');
        char escape[] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
        weir_json_raw(line, plain ? (struct weir_slice){&word.data[i], 1}
                                  : (struct weir_slice){escape, sizeof escape});
    }
}

static void put_number(struct weir_json *line, uint64_t number)
{
    line->comma = false;
    weir_json_number(line, number);
}

/* [21/Aug/2025:12:40:59 +0000] */
static void put_combined_time(struct weir_json *line, uint64_t wall_ns)
{
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char time[WEIR_LOG_TIME_BYTES];
    weir_log_time(wall_ns, time); /* YYYY-MM-DDTHH:MM:SS.mmmZ */
    size_t month = (size_t)(time[5] - '0') * 10 + (size_t)(time[6] - '0') - 1;
    weir_json_raw(line, weir_slice_of(" ["));
    weir_json_raw(line, (struct weir_slice){time + 8, 2});
    weir_json_raw(line, weir_slice_of("/"));
    weir_json_raw(line, (struct weir_slice){months + month % 12 * 3, 3});
    weir_json_raw(line, weir_slice_of("/"));
    weir_json_raw(line, (struct weir_slice){time, 4});
    weir_json_raw(line, weir_slice_of(":"));
    weir_json_raw(line, (struct weir_slice){time + 11, 8});
    weir_json_raw(line, weir_slice_of(" +0000] \""));
}

/* The buffer of a JSON writer, of which only the bounds are used. */
static size_t compose_combined(const struct weir_exchange *exchange,
                               const struct weir_access_entry *entry, uint64_t began_ns,
                               char room[WEIR_LINE_BYTES_MAX])
{
    struct weir_json line;
    weir_json_init(&line, room, WEIR_LINE_BYTES_MAX);
    put_word(&line, (struct weir_slice){entry->client, entry->client_bytes}, false);
    weir_json_raw(&line, weir_slice_of(" - "));
    put_word(&line, exchange->gate_ticket.tenant, false);
    put_combined_time(&line, began_ns);
    put_word(&line, (struct weir_slice){entry->method, entry->method_bytes}, false);
    weir_json_raw(&line, weir_slice_of(" "));
    put_word(&line, (struct weir_slice){entry->path, entry->path_bytes}, false);
    if (entry->query_bytes > 0) {
        weir_json_raw(&line, weir_slice_of("?"));
        put_word(&line, (struct weir_slice){entry->query, entry->query_bytes}, false);
    }
    weir_json_raw(&line, weir_slice_of(entry->minor == 0 ? " HTTP/1.0\" " : " HTTP/1.1\" "));
    put_number(&line, status_of(exchange));
    weir_json_raw(&line, weir_slice_of(" "));
    put_number(&line, exchange->reply.bytes);
    weir_json_raw(&line, weir_slice_of(" \""));
    put_word(&line, (struct weir_slice){entry->referer, entry->referer_bytes}, true);
    weir_json_raw(&line, weir_slice_of("\" \""));
    put_word(&line, (struct weir_slice){entry->agent, entry->agent_bytes}, true);
    weir_json_raw(&line, weir_slice_of("\" \""));
    put_word(&line, weir_exchange_id(exchange), true);
    weir_json_raw(&line, weir_slice_of("\"\n"));
    return line.failed ? 0 : line.bytes;
}

static void write_line(struct weir_exchange *exchange, void *state)
{
    struct weir_worker *worker = exchange->worker;
    const struct weir_access_entry *entry = state;
    char room[WEIR_LINE_BYTES_MAX];
    if (entry == NULL) {
        return;
    }
    uint64_t began_ns = weir_wall_ns() - (worker->loop.now_ns - exchange->arrived_ns);
    size_t bytes = entry->config->format == WEIR_CONFIG_ACCESS_JSON
                       ? compose_json(exchange, entry, began_ns, room)
                       : compose_combined(exchange, entry, began_ns, room);
    if (bytes > 0) {
        weir_line_file_put(worker->access_file, (struct weir_slice){room, bytes});
    } else {
        weir_line_file_drop(worker->access_file);
    }
    weir_slab_give(&worker->access_entries, state);
}

const struct weir_exchange_filter weir_access_filter = {
    .arrived = arrived,
    .enter = enters,
    .admitted = was_admitted,
    .attempt = begin_attempt,
    .reply_head = hear_head,
    .problem = note_problem,
    .end = write_line,
};
