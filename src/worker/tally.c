#include "worker/tally.h"

#include "base/alloc.h"
#include "base/slice.h"

#include <assert.h>

/* The link that points to the tally of that name, or where it would be added. */
static struct weir_tally **find(struct weir_tallies *tallies, enum weir_tally_kind kind,
                                struct weir_slice name)
{
    struct weir_tally **at = &tallies->first;
    while (*at != NULL &&
           ((*at)->kind != kind ||
            !weir_slice_equal((struct weir_slice){(*at)->name, (*at)->name_bytes}, name))) {
        at = &(*at)->next;
    }
    return at;
}

struct weir_tally *weir_tally_take(struct weir_tallies *tallies,
                                   const struct weir_allocator *allocator,
                                   enum weir_tally_kind kind, struct weir_slice name)
{
    if (name.bytes > WEIR_TALLY_BYTES_MAX) {
        name = weir_slice_of(WEIR_TALLY_OTHER);
    }
    pthread_mutex_lock(&tallies->lock);
    struct weir_tally **at = find(tallies, kind, name);
    if (*at == NULL && tallies->names[kind] >= WEIR_TALLIES_MAX) {
        name = weir_slice_of(WEIR_TALLY_OTHER);
        at = find(tallies, kind, name);
    }
    if (*at == NULL) {
        *at = weir_allocate_zeroed(allocator, sizeof **at + name.bytes);
        if (*at != NULL) {
            (*at)->kind = kind;
            (*at)->name_bytes = (uint32_t)name.bytes;
            memcpy((*at)->name, name.data, name.bytes);
            tallies->names[kind]++;
        }
    }
    struct weir_tally *tally = *at;
    if (tally != NULL) {
        tally->users++;
    }
    pthread_mutex_unlock(&tallies->lock);
    return tally;
}

void weir_tally_give(struct weir_tallies *tallies, const struct weir_allocator *allocator,
                     struct weir_tally *tally)
{
    if (tally == NULL) {
        return;
    }
    pthread_mutex_lock(&tallies->lock);
    assert(tally->users > 0);
    if (--tally->users == 0) {
        struct weir_tally **at = &tallies->first;
        while (*at != tally) {
            at = &(*at)->next;
        }
        *at = tally->next;
        tallies->names[tally->kind]--;
        weir_release(allocator, tally, sizeof *tally + tally->name_bytes);
    }
    pthread_mutex_unlock(&tallies->lock);
}

void weir_tallies_visit(struct weir_tallies *tallies,
                        void (*visit)(void *context, const struct weir_tally *tally), void *context)
{
    pthread_mutex_lock(&tallies->lock);
    for (const struct weir_tally *tally = tallies->first; tally != NULL; tally = tally->next) {
        visit(context, tally);
    }
    pthread_mutex_unlock(&tallies->lock);
}
