/* llm_metrics.c - the table of series, and each worker's part of a series.
 *
 * Any thread may call it. The table's lock is held while a series is looked up, made, forgotten or
 * visited, never while something is counted: each counter has one writer, the worker whose part it
 * is in. A part that is taken keeps its series in the table. */
#include "llm/llm_metrics.h"

#include "base/alloc.h"
#include "base/hash.h"
#include "base/histogram.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "weir/settings.h"
#include "wire/chars.h"

#include <assert.h>
#include <pthread.h>

/* How many series are looked at for one that can be forgotten. */
#define FORGET_LOOKS 4

/* How many are visited at once: it bounds how long others wait for the lock. */
#define VISIT_SERIES 32

#define NAMES 3

/* The names of a series as one text: the length of each in two bytes, and then each. */
#define NAMES_BYTES_MAX (NAMES * (2 + WEIR_NAME_BYTES_MAX))

static_assert(WEIR_LLM_METRICS_TENANTS_MAX < WEIR_LLM_METRICS_MODELS_MAX,
              "models have some room left");
static_assert(WEIR_LLM_METRICS_MODELS_MAX < WEIR_LLM_METRICS_PROVIDERS_MAX, "so have providers");
static_assert(WEIR_LLM_METRICS_PROVIDERS_MAX < WEIR_LLM_METRICS_SERIES_MAX, "and all others");

struct series {
    struct weir_map_node node;
    struct weir_link link; /* among all, by when they were last taken */
    uint64_t number;       /* counts those that were made */
    uint32_t slot;
    uint16_t names_bytes;
    char names[];
};

struct weir_llm_metrics {
    const struct weir_allocator *allocator;
    uint32_t worker_count;
    uint64_t seed[2];
    pthread_mutex_t lock; /* of all that follows */
    struct weir_map map;
    struct weir_link used; /* the one that was taken longest ago first */
    uint64_t made;
    uint32_t count;
    struct series *series[WEIR_LLM_METRICS_SERIES_MAX];
    struct weir_llm_metrics_part **parts; /* of each slot, one for each worker; null: never taken */
};

/* ---- names ---- */

struct label_names {
    size_t bytes;
    char text[NAMES_BYTES_MAX];
};

static void put_name(struct label_names *names, struct weir_slice name)
{
    assert(name.bytes <= WEIR_NAME_BYTES_MAX);
    char *to = names->text + names->bytes;
    to[0] = (char)(name.bytes & 0xff);
    to[1] = (char)(name.bytes >> 8);
    memcpy(to + 2, name.data, name.bytes);
    names->bytes += 2 + name.bytes;
}

static void join(struct label_names *names, const struct weir_llm_metrics_labels *labels)
{
    names->bytes = 0;
    put_name(names, labels->provider);
    put_name(names, labels->model);
    put_name(names, labels->tenant);
}

static struct weir_slice take_name(const char **from)
{
    size_t bytes = (uint8_t)(*from)[0] | (size_t)(uint8_t)(*from)[1] << 8;
    struct weir_slice name = {*from + 2, bytes};
    *from += 2 + bytes;
    return name;
}

static struct weir_llm_metrics_labels split(const struct series *series)
{
    const char *from = series->names;
    struct weir_llm_metrics_labels labels;
    labels.provider = take_name(&from);
    labels.model = take_name(&from);
    labels.tenant = take_name(&from);
    return labels;
}

/* Names that are not UTF-8 could only be written so that several look alike. */
static struct weir_slice legible(struct weir_slice name)
{
    return weir_text_is_utf8(name) ? name : weir_slice_of(WEIR_LLM_METRICS_OTHER);
}

static struct weir_slice named(struct weir_slice name)
{
    return name.bytes > 0 ? name : weir_slice_of(WEIR_LLM_METRICS_NONE);
}

/* ---- the table ---- */

static struct series *find(const struct weir_llm_metrics *meter, const struct label_names *names,
                           uint64_t hash)
{
    struct weir_map_node *node = weir_map_first(&meter->map, hash);
    while (node != NULL) {
        struct series *series = weir_container_of(node, struct series, node);
        if (series->names_bytes == names->bytes &&
            memcmp(series->names, names->text, names->bytes) == 0) {
            return series;
        }
        node = weir_map_next(node);
    }
    return NULL;
}

static size_t series_bytes(size_t names_bytes)
{
    return sizeof(struct series) + names_bytes;
}

static struct weir_llm_metrics_part **parts_of(const struct weir_llm_metrics *meter, uint32_t slot)
{
    return meter->parts + (size_t)slot * meter->worker_count;
}

/* Takes a series out of the table. */
static void remove_series(struct weir_llm_metrics *meter, struct series *series)
{
    struct weir_llm_metrics_part **parts = parts_of(meter, series->slot);
    for (uint32_t i = 0; i < meter->worker_count; i++) {
        if (parts[i] != NULL) {
            assert(atomic_load_explicit(&parts[i]->users, memory_order_acquire) == 0);
            weir_release(meter->allocator, parts[i], sizeof *parts[i]);
            parts[i] = NULL;
        }
    }
    weir_map_remove(&meter->map, &series->node);
    weir_list_unlink(&series->link);
    meter->series[series->slot] = NULL;
    weir_release(meter->allocator, series, series_bytes(series->names_bytes));
}

/* Whether no attempt uses it, and none has for long. */
static bool is_unused(const struct weir_llm_metrics *meter, const struct series *series,
                      uint64_t now_ns)
{
    struct weir_llm_metrics_part **parts = parts_of(meter, series->slot);
    for (uint32_t i = 0; i < meter->worker_count; i++) {
        /* Acquire: the worker that gave it back has counted before. */
        if (parts[i] != NULL &&
            (atomic_load_explicit(&parts[i]->users, memory_order_acquire) > 0 ||
             now_ns < atomic_load_explicit(&parts[i]->used_ns, memory_order_relaxed) +
                          WEIR_LLM_METRICS_FORGET_NS)) {
            return false;
        }
    }
    return true;
}

/* Forgets one that was not used for long. False if none is found; else its slot is free. Those that
 * are looked at in vain go behind the others. */
static bool forget_one(struct weir_llm_metrics *meter, uint64_t now_ns, uint32_t *slot)
{
    for (int i = 0; i < FORGET_LOOKS; i++) {
        struct series *oldest = weir_container_of(meter->used.next, struct series, link);
        if (is_unused(meter, oldest, now_ns)) {
            *slot = oldest->slot;
            remove_series(meter, oldest);
            return true;
        }
        weir_list_unlink(&oldest->link);
        weir_list_push_back(&meter->used, &oldest->link);
    }
    return false;
}

/* A slot for a new series, if there are fewer than `most`; one with names of its own may take the
 * place of another. */
static bool find_slot(struct weir_llm_metrics *meter, uint32_t most, uint64_t now_ns,
                      uint32_t *slot)
{
    if (meter->count < most) {
        *slot = meter->count++;
        return true;
    }
    return most == WEIR_LLM_METRICS_TENANTS_MAX && forget_one(meter, now_ns, slot);
}

static struct series *make(struct weir_llm_metrics *meter, const struct label_names *names,
                           uint64_t hash, uint32_t most, uint64_t now_ns)
{
    struct series *series = weir_allocate(meter->allocator, series_bytes(names->bytes));
    uint32_t slot;
    if (series == NULL || !weir_map_reserve(&meter->map, meter->allocator) ||
        !find_slot(meter, most, now_ns, &slot)) {
        weir_release(meter->allocator, series, series_bytes(names->bytes));
        return NULL;
    }
    series->number = ++meter->made;
    series->slot = slot;
    series->names_bytes = (uint16_t)names->bytes;
    memcpy(series->names, names->text, names->bytes);
    weir_map_insert(&meter->map, &series->node, hash);
    weir_list_push_back(&meter->used, &series->link);
    meter->series[slot] = series;
    return series;
}

/* The series of these names; a new one if there are fewer than `most`. */
static struct series *find_or_make(struct weir_llm_metrics *meter,
                                   const struct weir_llm_metrics_labels *labels, uint32_t most,
                                   uint64_t now_ns)
{
    struct label_names names;
    join(&names, labels);
    uint64_t hash = weir_hash(meter->seed, (struct weir_slice){names.text, names.bytes});
    struct series *series = find(meter, &names, hash);
    return series != NULL ? series : make(meter, &names, hash, most, now_ns);
}

/* A series for names that are in no table yet: the closest that there is room for. */
static struct series *find_closest(struct weir_llm_metrics *meter,
                                   struct weir_llm_metrics_labels labels, uint64_t now_ns)
{
    struct weir_slice other = weir_slice_of(WEIR_LLM_METRICS_OTHER);
    labels = (struct weir_llm_metrics_labels){legible(labels.provider), legible(labels.model),
                                              legible(labels.tenant)};
    struct series *series = find_or_make(meter, &labels, WEIR_LLM_METRICS_TENANTS_MAX, now_ns);
    if (series == NULL) {
        labels.tenant = other;
        series = find_or_make(meter, &labels, WEIR_LLM_METRICS_MODELS_MAX, now_ns);
    }
    if (series == NULL) {
        labels.model = other;
        series = find_or_make(meter, &labels, WEIR_LLM_METRICS_PROVIDERS_MAX, now_ns);
    }
    if (series == NULL) {
        labels.provider = other;
        series = find_or_make(meter, &labels, WEIR_LLM_METRICS_SERIES_MAX, now_ns);
    }
    return series;
}

/* ---- taking and giving back ---- */

struct weir_llm_metrics_part *weir_llm_metrics_take(struct weir_llm_metrics *meter, uint32_t worker,
                                                    const struct weir_llm_metrics_labels *labels,
                                                    uint64_t now_ns)
{
    assert(worker < meter->worker_count);
    struct weir_llm_metrics_labels all = {named(labels->provider), named(labels->model),
                                          named(labels->tenant)};
    struct label_names names;
    join(&names, &all);
    uint64_t hash = weir_hash(meter->seed, (struct weir_slice){names.text, names.bytes});
    struct weir_llm_metrics_part *part = NULL;
    pthread_mutex_lock(&meter->lock);
    struct series *series = find(meter, &names, hash);
    if (series == NULL) {
        series = find_closest(meter, all, now_ns);
    }
    if (series != NULL) {
        struct weir_llm_metrics_part **place = parts_of(meter, series->slot) + worker;
        if (*place == NULL) {
            *place = weir_allocate_zeroed(meter->allocator, sizeof **place);
        }
        part = *place;
        weir_list_unlink(&series->link);
        weir_list_push_back(&meter->used, &series->link);
    }
    if (part != NULL) {
        unsigned users = atomic_load_explicit(&part->users, memory_order_relaxed);
        atomic_store_explicit(&part->users, users + 1, memory_order_relaxed);
        atomic_store_explicit(&part->used_ns, now_ns, memory_order_relaxed);
    }
    pthread_mutex_unlock(&meter->lock);
    return part;
}

void weir_llm_metrics_give(struct weir_llm_metrics_part *part, uint64_t now_ns)
{
    unsigned users = atomic_load_explicit(&part->users, memory_order_relaxed);
    assert(users > 0);
    atomic_store_explicit(&part->used_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&part->users, users - 1, memory_order_release);
}

/* ---- counting ---- */

static void count(struct weir_llm_metrics_part *part, uint32_t first,
                  const struct weir_histogram_scale *scale, uint64_t duration_ns)
{
    weir_llm_metrics_add(part, first + weir_histogram_bucket(scale, duration_ns), 1);
    weir_llm_metrics_add(part, first + scale->count + 1, duration_ns);
}

void weir_llm_metrics_wait(struct weir_llm_metrics_part *part, uint64_t wait_ns)
{
    count(part, WEIR_LLM_METRICS_WAIT, &weir_scale_duration, wait_ns);
}

void weir_llm_metrics_first_token(struct weir_llm_metrics_part *part, uint64_t latency_ns)
{
    count(part, WEIR_LLM_METRICS_FIRST, &weir_scale_llm_reply, latency_ns);
}

void weir_llm_metrics_total(struct weir_llm_metrics_part *part, uint64_t latency_ns)
{
    count(part, WEIR_LLM_METRICS_TOTAL, &weir_scale_llm_reply, latency_ns);
}

/* ---- reading ---- */

static void add_up(const struct weir_llm_metrics *meter, uint32_t slot,
                   uint64_t sums[WEIR_LLM_METRICS_COUNTS])
{
    struct weir_llm_metrics_part **parts = parts_of(meter, slot);
    memset(sums, 0, WEIR_LLM_METRICS_COUNTS * sizeof *sums);
    for (uint32_t i = 0; i < meter->worker_count; i++) {
        for (uint32_t j = 0; parts[i] != NULL && j < WEIR_LLM_METRICS_COUNTS; j++) {
            sums[j] += atomic_load_explicit(&parts[i]->counts[j], memory_order_relaxed);
        }
    }
}

bool weir_llm_metrics_visit(struct weir_llm_metrics *meter, struct weir_llm_metrics_cursor *cursor,
                            void (*visit)(void *context,
                                          const struct weir_llm_metrics_labels *labels,
                                          const uint64_t sums[WEIR_LLM_METRICS_COUNTS]),
                            void *context)
{
    uint64_t sums[WEIR_LLM_METRICS_COUNTS];
    pthread_mutex_lock(&meter->lock);
    cursor->made = cursor->at == 0 ? meter->made : cursor->made;
    uint32_t end =
        cursor->at + VISIT_SERIES < meter->count ? cursor->at + VISIT_SERIES : meter->count;
    for (; cursor->at < end; cursor->at++) {
        const struct series *series = meter->series[cursor->at];
        if (series->number <= cursor->made) {
            struct weir_llm_metrics_labels labels = split(series);
            add_up(meter, cursor->at, sums);
            visit(context, &labels, sums);
        }
    }
    bool goes_on = end < meter->count;
    pthread_mutex_unlock(&meter->lock);
    return goes_on;
}

/* ---- the whole ---- */

struct weir_llm_metrics *weir_llm_metrics_create(const struct weir_allocator *allocator,
                                                 uint32_t worker_count, const uint64_t seed[2])
{
    struct weir_llm_metrics *meter = weir_allocate_zeroed(allocator, sizeof *meter);
    size_t parts_bytes =
        WEIR_LLM_METRICS_SERIES_MAX * worker_count * sizeof(struct weir_llm_metrics_part *);
    struct weir_llm_metrics_part **parts = weir_allocate_zeroed(allocator, parts_bytes);
    assert(worker_count >= 1);
    if (meter == NULL || parts == NULL) {
        weir_release(allocator, meter, sizeof *meter);
        weir_release(allocator, parts, parts_bytes);
        return NULL;
    }
    meter->allocator = allocator;
    meter->worker_count = worker_count;
    meter->seed[0] = seed[0];
    meter->seed[1] = seed[1];
    meter->parts = parts;
    pthread_mutex_init(&meter->lock, NULL);
    weir_list_init(&meter->used);
    return meter;
}

void weir_llm_metrics_destroy(struct weir_llm_metrics *meter)
{
    if (meter == NULL) {
        return;
    }
    while (!weir_list_empty(&meter->used)) {
        remove_series(meter, weir_container_of(meter->used.next, struct series, link));
    }
    weir_map_deinit(&meter->map, meter->allocator);
    pthread_mutex_destroy(&meter->lock);
    weir_release(meter->allocator, meter->parts,
                 WEIR_LLM_METRICS_SERIES_MAX * meter->worker_count * sizeof *meter->parts);
    weir_release(meter->allocator, meter, sizeof *meter);
}
