/* card.c - rewrites agent cards. A card is a small document that is read once in a while, so it is
 * read into a tree and written from that; what Weir does not know stays as it is.
 *
 * Every function works on memory of its caller's, and may run in any thread. */
#include "a2a/card.h"

#include "base/slice.h"
#include "wire/chars.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

/* ---- URLs ---- */

struct url {
    struct weir_slice authority;
    struct weir_slice path;  /* up to the query; may be empty */
    struct weir_slice query; /* with its question mark; or empty */
};

static bool begins_with(struct weir_slice text, struct weir_slice start)
{
    return text.bytes >= start.bytes &&
           weir_text_same((struct weir_slice){text.data, start.bytes}, start);
}

static struct weir_slice without(struct weir_slice text, size_t bytes)
{
    return (struct weir_slice){text.data + bytes, text.bytes - bytes};
}

/* How many bytes come before the first of these characters. */
static size_t span(struct weir_slice text, const char *stops)
{
    size_t bytes = 0;
    while (bytes < text.bytes && strchr(stops, text.data[bytes]) == NULL) {
        bytes++;
    }
    return bytes;
}

/* False if it is no URL of http or https, or has characters that no URL has. */
static bool parse_url(struct weir_slice text, struct url *url)
{
    static const char *const schemes[] = {"http://", "https://"};
    size_t scheme_bytes = 0;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (begins_with(text, weir_slice_of(schemes[i]))) {
            scheme_bytes = strlen(schemes[i]);
        }
    }
    if (scheme_bytes == 0 || text.bytes > WEIR_A2A_URL_BYTES_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.bytes; i++) {
        if (!weir_char_is(text.data[i], WEIR_CHAR_TARGET) && text.data[i] != '#') {
            return false;
        }
    }
    struct weir_slice rest = without(text, scheme_bytes);
    url->authority = (struct weir_slice){rest.data, span(rest, "/?#")};
    rest = without(rest, url->authority.bytes);
    url->path = (struct weir_slice){rest.data, span(rest, "?#")};
    rest = without(rest, url->path.bytes);
    url->query = (struct weir_slice){rest.data, span(rest, "#")};
    return url->authority.bytes > 0;
}

/* ---- one interface ---- */

/* What a rewriting remembers. */
struct rewrite {
    const struct weir_a2a_place *place;
    struct weir_slice authority; /* of the first interface over HTTP; empty: none was seen */
    char authority_text[WEIR_A2A_URL_BYTES_MAX];
    uint32_t kept;
    uint32_t removed;
    bool no_memory;
    char url[2 * WEIR_A2A_URL_BYTES_MAX + 1];
};

static struct weir_slice text_of(const json_t *value)
{
    return json_is_string(value)
               ? (struct weir_slice){json_string_value(value), json_string_length(value)}
               : (struct weir_slice){"", 0};
}

static bool over_http(struct weir_slice protocol)
{
    return weir_text_same(protocol, weir_slice_of("JSONRPC")) ||
           weir_text_same(protocol, weir_slice_of("HTTP+JSON"));
}

static bool append(struct rewrite *rewrite, size_t *bytes, struct weir_slice text)
{
    if (text.bytes > sizeof rewrite->url - *bytes) {
        return false;
    }
    weir_slice_copy(rewrite->url + *bytes, text);
    *bytes += text.bytes;
    return true;
}

/* The path as the upstream has it, without the upstream's prefix. False if it is not below that. */
static bool strip_prefix(const struct weir_a2a_place *place, struct weir_slice *path)
{
    struct weir_slice prefix = place->prefix;
    if (path->bytes < prefix.bytes ||
        !weir_slice_equal((struct weir_slice){path->data, prefix.bytes}, prefix)) {
        return false;
    }
    *path = without(*path, prefix.bytes);
    return path->bytes == 0 || path->data[0] == '/';
}

/* Puts the URL together that leads to that path through Weir, in `rewrite->url`. */
static bool lead_to_us(struct rewrite *rewrite, const struct url *url, struct weir_slice *text)
{
    const struct weir_a2a_place *place = rewrite->place;
    struct weir_slice path = url->path;
    size_t bytes = 0;
    if (!strip_prefix(place, &path) || !append(rewrite, &bytes, place->public_url)) {
        return false;
    }
    size_t path_begin = bytes;
    if (!append(rewrite, &bytes, place->stripped) || !append(rewrite, &bytes, path)) {
        return false;
    }
    struct weir_slice ours = {rewrite->url + path_begin, bytes - path_begin};
    if (path.bytes == 0 && !(ours.bytes > 0 && place->carries(place->context, ours))) {
        /* A URL without a path and one with / are the same, to servers and to most routes. */
        if (!append(rewrite, &bytes, weir_slice_of("/"))) {
            return false;
        }
        ours.bytes++;
    }
    if (!place->carries(place->context, ours) || !append(rewrite, &bytes, url->query)) {
        return false;
    }
    *text = (struct weir_slice){rewrite->url, bytes};
    return true;
}

/* Whether Weir carries that interface; `*text` is its new URL then, until the next call. */
static bool carry(struct rewrite *rewrite, struct weir_slice protocol, const json_t *value,
                  struct weir_slice *text)
{
    struct url url;
    if (!over_http(protocol) || !parse_url(text_of(value), &url)) {
        return false;
    }
    if (rewrite->authority.bytes == 0) {
        rewrite->authority = weir_slice_copy(rewrite->authority_text, url.authority);
    }
    return weir_text_same(url.authority, rewrite->authority) && lead_to_us(rewrite, &url, text);
}

static void set_text(struct rewrite *rewrite, json_t *object, const char *name,
                     struct weir_slice text)
{
    json_t *value = json_stringn(text.data, text.bytes);
    if (value == NULL || json_object_set_new(object, name, value) != 0) {
        rewrite->no_memory = true;
    }
}

/* ---- the card ---- */

/* `url` of 0.3, whose protocol is JSON-RPC unless the card says otherwise. True if it is carried.
 */
static bool rewrite_main(struct rewrite *rewrite, json_t *card)
{
    json_t *value = json_object_get(card, "url");
    const json_t *preferred = json_object_get(card, "preferredTransport");
    struct weir_slice protocol = preferred == NULL ? weir_slice_of("JSONRPC") : text_of(preferred);
    struct weir_slice text;
    if (value == NULL) {
        return false;
    }
    if (!carry(rewrite, protocol, value, &text)) {
        rewrite->removed++;
        return false;
    }
    set_text(rewrite, card, "url", text);
    rewrite->kept++;
    return true;
}

/* A list of interfaces, whose protocols stand in the member `protocol_name`. */
static void rewrite_list(struct rewrite *rewrite, json_t *card, const char *name,
                         const char *protocol_name)
{
    json_t *list = json_object_get(card, name);
    struct weir_slice text;
    if (list == NULL) {
        return;
    }
    for (size_t i = 0; i < json_array_size(list);) {
        json_t *item = json_array_get(list, i);
        if (carry(rewrite, text_of(json_object_get(item, protocol_name)),
                  json_object_get(item, "url"), &text)) {
            set_text(rewrite, item, "url", text);
            rewrite->kept++;
            i++;
        } else {
            json_array_remove(list, i);
            rewrite->removed++;
        }
    }
    if (json_array_size(list) == 0) { /* also if it is no list at all */
        json_object_del(card, name);
    }
}

/* A card of 0.3 must have a `url`: where its own is not carried, the first other interface is. */
static void promote(struct rewrite *rewrite, json_t *card)
{
    const json_t *first = json_array_get(json_object_get(card, "additionalInterfaces"), 0);
    if (first == NULL) {
        json_object_del(card, "url");
        json_object_del(card, "preferredTransport");
        return;
    }
    set_text(rewrite, card, "url", text_of(json_object_get(first, "url")));
    set_text(rewrite, card, "preferredTransport", text_of(json_object_get(first, "transport")));
}

static void rewrite_card(struct rewrite *rewrite, json_t *card,
                         struct weir_a2a_card_changes *changes)
{
    bool has_main = json_object_get(card, "url") != NULL;
    bool main_carried = rewrite_main(rewrite, card);
    rewrite_list(rewrite, card, "additionalInterfaces", "transport");
    /* Both spellings that a message of protobuf has in JSON. */
    rewrite_list(rewrite, card, "supportedInterfaces", "protocolBinding");
    rewrite_list(rewrite, card, "supported_interfaces", "protocol_binding");
    if (has_main && !main_carried) {
        promote(rewrite, card);
    }
    changes->removed = rewrite->removed;
    changes->unsigned_now = json_object_del(card, "signatures") == 0;
}

enum weir_a2a_card_result weir_a2a_card_rewrite(struct weir_slice input, bool wrapped,
                                                const struct weir_a2a_place *place, char *output,
                                                size_t capacity, size_t *bytes,
                                                struct weir_a2a_card_changes *changes)
{
    struct rewrite rewrite = {.place = place};
    enum weir_a2a_card_result result = WEIR_A2A_CARD_DONE;
    json_t *document = json_loadb(input.data, input.bytes, JSON_ALLOW_NUL, NULL);
    json_t *card = wrapped ? json_object_get(document, "result") : document;
    *changes = (struct weir_a2a_card_changes){0};
    if (!json_is_object(document)) {
        result = WEIR_A2A_CARD_INVALID;
    } else if (wrapped && card == NULL) {
        result = WEIR_A2A_CARD_NONE;
    } else if (!json_is_object(card)) {
        result = WEIR_A2A_CARD_INVALID;
    } else {
        rewrite_card(&rewrite, card, changes);
        *bytes = json_dumpb(document, output, capacity, JSON_COMPACT);
        if (rewrite.no_memory || *bytes == 0 || *bytes > capacity) {
            result = WEIR_A2A_CARD_NO_ROOM;
        } else if (rewrite.kept == 0) {
            result = WEIR_A2A_CARD_NO_INTERFACE;
        }
    }
    json_decref(document);
    return result;
}
