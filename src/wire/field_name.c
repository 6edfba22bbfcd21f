#include "wire/field_name.h"

#include <assert.h>

static_assert(WEIR_FIELD_COUNT <= 64, "a set of names is one word");
static_assert(WEIR_FIELD_TEXT_BYTES_MAX <= 3 * sizeof(uint64_t), "three words cover a name");

#define FITS(name, text, first, last) \
    static_assert(sizeof(text) - 1 <= WEIR_FIELD_TEXT_BYTES_MAX, "the name fits");
WEIR_FIELDS(FITS)

#define ENTRY(name, text, first, last) [WEIR_FIELD_##name] = {text, sizeof(text) - 1},
const struct weir_field_entry weir_field_entries[WEIR_FIELD_COUNT] = {WEIR_FIELDS(ENTRY)};

#define PLACE(name, text, first, last) \
    [WEIR_FIELD_PLACE(sizeof(text) - 1, first, last)] = WEIR_FIELD_##name,
const uint8_t weir_field_places[256] = {WEIR_FIELDS(PLACE)};

enum weir_field_id weir_field_find(struct weir_slice name)
{
    char copy[8] = {0};
    if (name.bytes >= sizeof copy) {
        return weir_field_find_readable(name.data, name.bytes);
    }
    for (size_t i = 0; i < name.bytes; i++) {
        copy[i] = name.data[i];
    }
    return name.bytes == 0 ? WEIR_FIELD_OTHER : weir_field_find_readable(copy, name.bytes);
}

/* A letter in lower case, a digit, or '-' for all others. */
static char fold(char c)
{
    char lower = weir_char_lower(c);
    return (lower >= 'a' && lower <= 'z') || weir_char_is_digit(lower) ? lower : '-';
}

/* From the end, because names of one length often begin the same: x-, sec-fetch-. */
bool weir_field_alike_bytes(const char *a, const char *b, size_t bytes)
{
    while (bytes > 0 && fold(a[bytes - 1]) == fold(b[bytes - 1])) {
        bytes--;
    }
    return bytes == 0;
}

/* All names of the list begin and end with a letter or a digit, so what is alike has the same place
 * among them. */
#define IS_WORD(c) (((c) >= 'a' && (c) <= 'z') || ((c) >= '0' && (c) <= '9'))
#define BEGINS_AND_ENDS(name, text, first, last) \
    static_assert(IS_WORD(first) && IS_WORD(last), "no other character has its place");
WEIR_FIELDS(BEGINS_AND_ENDS)

enum weir_field_id weir_field_find_alike(struct weir_slice name)
{
    if (name.bytes == 0) {
        return WEIR_FIELD_OTHER;
    }
    enum weir_field_id id = weir_field_candidate(name.data, name.bytes);
    const struct weir_field_entry *entry = &weir_field_entries[id];
    return entry->bytes == name.bytes &&
                   weir_field_alike(name, (struct weir_slice){entry->text, entry->bytes})
               ? id
               : WEIR_FIELD_OTHER;
}

struct weir_slice weir_field_name(enum weir_field_id id)
{
    assert(id < WEIR_FIELD_COUNT);
    return (struct weir_slice){weir_field_entries[id].text, weir_field_entries[id].bytes};
}
