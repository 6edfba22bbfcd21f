/* llm_cut.h - where a member `"usage":null` stands in an event, and what goes with it.
 *
 * An event's data is a JSON object that comes in pieces, and whose reader says when the value
 * of a `usage` of the outermost object ends. The text before it is then looked at backwards,
 * for which the last bytes of the pieces before are kept; so nothing is done for all the other
 * members. What is left without the member is what would have been written without it:
 *
 *     {"a":1,"usage":null}              {"a":1}
 *     {"a": 1, "usage": null, "b": 2}   {"a": 1, "b": 2}
 *     {"usage": null, "b": 2}           {"b": 2}
 *     { "usage" : null }                { }
 *
 * A member is found if its name is written without escapes, and if it has at most
 * WEIR_LLM_MEMBER_BYTES_MAX from the end of what stands before it to its own. */
#ifndef WEIR_LLM_LLM_CUT_H
#define WEIR_LLM_LLM_CUT_H

#include "weir/types.h"

#include <stdbool.h>

/* Thirteen are enough without spaces. */
#define WEIR_LLM_MEMBER_BYTES_MAX 64

struct weir_llm_cut {
    /* Of the data: what goes, if weir_llm_cut_found(). */
    uint64_t begin;
    uint64_t end;

    /* The rest is private. */
    uint8_t state;
    uint8_t last_bytes;
    char last[WEIR_LLM_MEMBER_BYTES_MAX]; /* of the data that was read */
};

/* Begins an event. */
void weir_llm_cut_init(struct weir_llm_cut *cut);

/* A `usage` ends at an offset of the piece that is being read, or begins there if it is not null.
 * If there are two, none is found. */
void weir_llm_cut_see(struct weir_llm_cut *cut, bool is_null, uint64_t offset);

/* None is to be found. */
void weir_llm_cut_give_up(struct weir_llm_cut *cut);

/* A piece of the data was read, which begins at `offset`. Of an object that is over with it nothing
 * needs to be kept. */
void weir_llm_cut_read(struct weir_llm_cut *cut, struct weir_slice piece, uint64_t offset,
                       bool is_over);

/* Whether there is something to be cut out, of an object that is over. */
bool weir_llm_cut_found(const struct weir_llm_cut *cut);

#endif
