/* Any bytes as an agent's card, whose first byte says how it came: what comes out is a card whose
 * interfaces all lead to Weir and that says nothing else than before, or nothing comes out. */
#include "a2a/card.h"
#include "wire.h"

#include <jansson.h>

static const char url[] = "https://gw.example.com/x";

static bool carries(const void *context, struct weir_slice path)
{
    must(path.bytes == 0 || path.data[0] == '/');
    return context != NULL || path.bytes % 2 == 0;
}

static void must_lead_here(const json_t *value)
{
    must(json_is_string(value));
    must(json_string_length(value) >= strlen(url));
    must(memcmp(json_string_value(value), url, strlen(url)) == 0);
}

static void must_be_ours(const json_t *card)
{
    static const char *const lists[] = {"additionalInterfaces", "supportedInterfaces",
                                        "supported_interfaces"};
    size_t interfaces = 0;
    must(json_object_get(card, "signatures") == NULL);
    if (json_object_get(card, "url") != NULL) {
        must_lead_here(json_object_get(card, "url"));
        interfaces++;
    }
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        size_t index;
        json_t *item;
        json_array_foreach(json_object_get(card, lists[i]), index, item)
        {
            must_lead_here(json_object_get(item, "url"));
            interfaces++;
        }
    }
    must(interfaces > 0);
}

/* What the card says besides is as it was. */
static void must_say_the_same(json_t *before, json_t *after)
{
    static const char *const ours[] = {"signatures",          "url",
                                       "preferredTransport",  "additionalInterfaces",
                                       "supportedInterfaces", "supported_interfaces"};
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
        json_object_del(before, ours[i]);
        json_object_del(after, ours[i]);
    }
    must(json_equal(before, after));
}

static void check(struct weir_slice text, bool wrapped, const struct weir_a2a_place *place)
{
    static char output[WEIR_A2A_CARD_BYTES_MAX];
    size_t bytes = 0;
    struct weir_a2a_card_changes changes;
    enum weir_a2a_card_result result =
        weir_a2a_card_rewrite(text, wrapped, place, output, sizeof output, &bytes, &changes);
    if (result != WEIR_A2A_CARD_DONE) {
        return;
    }
    must(bytes <= sizeof output);
    json_t *before = json_loadb(text.data, text.bytes, JSON_ALLOW_NUL, NULL);
    json_t *after = json_loadb(output, bytes, JSON_ALLOW_NUL, NULL);
    must(before != NULL && after != NULL);
    json_t *old = wrapped ? json_object_get(before, "result") : before;
    json_t *card = wrapped ? json_object_get(after, "result") : after;
    must_be_ours(card);
    must_say_the_same(old, card);
    must(json_equal(before, after));
    json_decref(before);
    json_decref(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const char *const prefixes[] = {"", "/v1"};
    static const char *const stripped[] = {"", "/agents/planner"};
    if (bytes == 0) {
        return 0;
    }
    struct weir_a2a_place place = {.public_url = weir_slice_of(url),
                                   .stripped = weir_slice_of(stripped[data[0] >> 1 & 1]),
                                   .prefix = weir_slice_of(prefixes[data[0] >> 2 & 1]),
                                   .carries = carries,
                                   .context = (data[0] & 8) != 0 ? data : NULL};
    struct input input = input_of(data + 1, bytes - 1);
    check((struct weir_slice){input.data, input.bytes}, (data[0] & 1) != 0, &place);
    give_back(&input);
    return 0;
}
