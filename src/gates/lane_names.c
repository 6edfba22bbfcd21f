#include "gates/lane_names.h"

#include "base/alloc.h"
#include "base/slice.h"

#include <assert.h>

struct weir_lane_name_list {
    uint32_t count;
    bool llm;
    size_t bytes;              /* of all of it */
    struct weir_slice names[]; /* whose texts follow */
};

static const struct weir_lane_name_list *find(const struct weir_lane_names *lane_names,
                                              uint32_t number)
{
    assert(number <= atomic_load_explicit(&lane_names->count, memory_order_acquire));
    return number == 0 ? NULL : lane_names->lists[number - 1];
}

static bool is_like(const struct weir_lane_name_list *list, const struct weir_lane_name_spec *names)
{
    bool same = list->count == names->count && list->llm == names->llm;
    for (uint32_t i = 0; same && i < list->count; i++) {
        same = weir_slice_equal(list->names[i], names->names[i]);
    }
    return same;
}

static struct weir_lane_name_list *make(const struct weir_allocator *allocator,
                                        const struct weir_lane_name_spec *names)
{
    size_t bytes = sizeof(struct weir_lane_name_list) + names->count * sizeof *names->names;
    for (uint32_t i = 0; i < names->count; i++) {
        bytes += names->names[i].bytes;
    }
    struct weir_lane_name_list *list = weir_allocate(allocator, bytes);
    if (list == NULL) {
        return NULL;
    }
    *list = (struct weir_lane_name_list){.count = names->count, .llm = names->llm, .bytes = bytes};
    char *text = (char *)(list->names + list->count);
    for (uint32_t i = 0; i < names->count; i++) {
        list->names[i] = weir_slice_copy(text, names->names[i]);
        text += names->names[i].bytes;
    }
    return list;
}

uint32_t weir_lane_names_add(struct weir_lane_names *lane_names,
                             const struct weir_allocator *allocator,
                             const struct weir_lane_name_spec *names)
{
    uint32_t count = atomic_load_explicit(&lane_names->count, memory_order_relaxed);
    assert(names->count >= 1);
    for (uint32_t i = 0; i < count; i++) {
        if (is_like(lane_names->lists[i], names)) {
            return i + 1;
        }
    }
    struct weir_lane_name_list *list = count == WEIR_LANE_NAMES_MAX ? NULL : make(allocator, names);
    if (list == NULL) {
        return 0;
    }
    lane_names->lists[count] = list;
    atomic_store_explicit(&lane_names->count, count + 1, memory_order_release);
    return count + 1;
}

void weir_lane_names_deinit(struct weir_lane_names *lane_names,
                            const struct weir_allocator *allocator)
{
    uint32_t count = atomic_load_explicit(&lane_names->count, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        weir_release(allocator, lane_names->lists[i], lane_names->lists[i]->bytes);
    }
    atomic_store_explicit(&lane_names->count, 0, memory_order_relaxed);
}

struct weir_slice weir_lane_names_name(const struct weir_lane_names *lane_names, uint32_t number,
                                       uint32_t lane)
{
    const struct weir_lane_name_list *list = find(lane_names, number);
    return list == NULL ? (struct weir_slice){"", 0} : list->names[lane % list->count];
}

bool weir_lane_names_llm(const struct weir_lane_names *lane_names, uint32_t number)
{
    const struct weir_lane_name_list *list = find(lane_names, number);
    return list != NULL && list->llm;
}
