/* llm_cut.c - finds `"usage":null` in an event that comes in pieces.
 *
 * A state machine over the bytes around the member. It only looks once the reader of the event has
 * come to the end of a `usage`; see llm_cut.h for what goes with the member. */
#include "llm/llm_cut.h"

#include "wire/json_usual.h"

enum cut_state {
    NONE,  /* has come */
    ENDS,  /* in the piece that is being read */
    FIRST, /* it is the object's first member: white space and the comma behind it belong to it */
    COMMA, /* so does the white space behind that comma */
    WHOLE,
    NEVER,
};

static const char name[] = "\"usage\"";
#define NAME_BYTES (sizeof name - 1)

static void become(struct weir_llm_cut *cut, enum cut_state state)
{
    cut->state = (uint8_t)state;
}

void weir_llm_cut_init(struct weir_llm_cut *cut)
{
    become(cut, NONE);
    cut->last_bytes = 0;
}

void weir_llm_cut_see(struct weir_llm_cut *cut, bool is_null, uint64_t offset)
{
    become(cut, is_null && cut->state == NONE ? ENDS : NEVER);
    cut->end = offset;
}

void weir_llm_cut_give_up(struct weir_llm_cut *cut)
{
    become(cut, NEVER);
}

static void keep_last(struct weir_llm_cut *cut, struct weir_slice piece)
{
    size_t bytes = piece.bytes < sizeof cut->last ? piece.bytes : sizeof cut->last;
    size_t room = sizeof cut->last - bytes;
    size_t kept = cut->last_bytes < room ? cut->last_bytes : room;
    memmove(cut->last, cut->last + cut->last_bytes - kept, kept);
    memcpy(cut->last + kept, piece.data + piece.bytes - bytes, bytes);
    cut->last_bytes = (uint8_t)(kept + bytes);
}

static size_t without_white(const char *text, size_t bytes)
{
    while (bytes > 0 && weir_json_is_white(text[bytes - 1])) {
        bytes--;
    }
    return bytes;
}

/* How many bytes stay of a text that ends with the member. With it go the comma before it and the
 * white space on both sides of that; the first member has none. 0: the text does not reach so far
 * back, since something stays always, if only the bracket. */
static size_t find_begin(struct weir_slice text, bool *first)
{
    size_t colon = without_white(text.data, text.bytes - strlen("null"));
    size_t name_end = without_white(text.data, colon - (colon > 0));
    if (name_end <= NAME_BYTES ||
        memcmp(text.data + name_end - NAME_BYTES, name, NAME_BYTES) != 0) {
        return 0;
    }
    size_t name_begin = name_end - NAME_BYTES;
    size_t before = without_white(text.data, name_begin);
    *first = before > 0 && text.data[before - 1] == '{';
    if (before == 0 || *first) {
        return before == 0 ? 0 : name_begin;
    }
    return without_white(text.data, before - 1);
}

static void find_member(struct weir_llm_cut *cut, struct weir_slice piece, uint64_t offset)
{
    bool first = false;
    char joined[2 * WEIR_LLM_MEMBER_BYTES_MAX + 1];
    size_t text_max = WEIR_LLM_MEMBER_BYTES_MAX + 1; /* the last byte of what stands before it */
    struct weir_slice text = {piece.data, (size_t)(cut->end - offset)};
    if (text.bytes < text_max) {
        memcpy(joined, cut->last, cut->last_bytes);
        memcpy(joined + cut->last_bytes, text.data, text.bytes);
        text = (struct weir_slice){joined, cut->last_bytes + text.bytes};
    }
    if (text.bytes > text_max) {
        text.data += text.bytes - text_max;
        text.bytes = text_max;
    }
    size_t stays = find_begin(text, &first);
    cut->begin = cut->end - (text.bytes - stays);
    become(cut, stays == 0 ? NEVER : first ? FIRST : WHOLE);
}

/* Looks for the end of what goes with the first member. */
static void find_end(struct weir_llm_cut *cut, struct weir_slice piece, uint64_t offset)
{
    for (size_t at = (size_t)(cut->end - offset); at < piece.bytes; at++) {
        bool comma = piece.data[at] == ',' && cut->state == FIRST;
        if (!comma && !weir_json_is_white(piece.data[at])) {
            become(cut, WHOLE);
            return;
        }
        become(cut, comma ? COMMA : (enum cut_state)cut->state);
        cut->end++;
    }
}

void weir_llm_cut_read(struct weir_llm_cut *cut, struct weir_slice piece, uint64_t offset,
                       bool is_over)
{
    if (cut->state == ENDS) {
        find_member(cut, piece, offset);
    }
    if (cut->state == FIRST || cut->state == COMMA) {
        find_end(cut, piece, offset);
    }
    if (cut->state == NONE && !is_over) {
        keep_last(cut, piece);
    }
}

bool weir_llm_cut_found(const struct weir_llm_cut *cut)
{
    return cut->state == WHOLE;
}
