#include "run.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

void run_note(struct run *run, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(run->operation, sizeof run->operation, format, arguments);
    va_end(arguments);
}

void run_fail(const struct run *run, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fail_msg("\nseed %" PRIu64 ", episode %" PRIu64 ", step %" PRIu64 " at %" PRIu64 ": %s\n%s\n"
             "again: WEIR_SEED=%" PRIu64 " WEIR_STEPS=%s",
             run->seed, run->episode, run->step, run->now_ns, run->operation, text, run->seed,
             getenv("WEIR_STEPS") != NULL ? getenv("WEIR_STEPS") : "");
    abort(); /* fail_msg() does not come back */
}

void run_expect(const struct run *run, const char *what, int index, uint64_t key, uint64_t model)
{
    if (key != model) {
        run_fail(run, "%s (%d): the key says %" PRIu64 ", the model %" PRIu64, what, index, key,
                 model);
    }
}

static void *counting_allocate(void *context, size_t bytes)
{
    struct run_memory *memory = context;
    void *block = malloc(bytes);
    memory->blocks += block != NULL;
    memory->bytes += block != NULL ? bytes : 0;
    return block;
}

static void counting_release(void *context, void *block, size_t bytes)
{
    struct run_memory *memory = context;
    if (block != NULL) {
        memory->blocks--;
        memory->bytes -= bytes;
    }
    free(block);
}

static void reset_pair(struct run *run, struct pair *pair)
{
    int ticket_count = run->ticket_count;
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct side *side = &pair->sides[i];
        side->news = (struct weir_news){.events = i == LOUD ? &run->ring : NULL};
        memset(side->tickets, 0, (size_t)ticket_count * sizeof side->tickets[0]);
    }
    model_init(&pair->model, &run->plan, ticket_count, run->now_ns);
    pair->model.gate_paused = run->gate_paused;
    checkers_init(&pair->checkers, pair->sides[LOUD].key, &run->plan);
}

void run_take(struct run *run, struct pair *pair, bool fresh)
{
    static const char *const names[RUN_PAIRS_MAX][SIDE_COUNT] = {
        {"first", "first, quiet"}, {"second", "second, quiet"}, {"third", "third, quiet"}};
    for (int i = 0; i < SIDE_COUNT; i++) {
        struct weir_slice name = weir_slice_of(names[pair - run->pairs][i]);
        enum weir_status status = weir_gate_take(run->gate, name, run->now_ns, &pair->sides[i].key);
        run_expect(run, "gate_take", i, status, WEIR_OK);
    }
    if (fresh) {
        reset_pair(run, pair);
    }
}

void run_open(struct run *run, uint32_t pair_count, int ticket_count)
{
    run_note(run, "open");
    run->memory = (struct run_memory){
        .allocator = {&run->memory, counting_allocate, counting_release},
    };
    struct weir_gate_options options = {
        .allocator = &run->memory.allocator,
        .seed = {random_next(&run->random), random_next(&run->random)},
        .keys_max = RUN_PAIRS_MAX * SIDE_COUNT,
    };
    enum weir_status status = weir_gate_create(&options, &run->plan.settings, &run->gate);
    run_expect(run, "gate_create", 0, status, WEIR_OK);
    weir_event_ring_init(&run->ring, run->slots, RUN_EVENTS_MAX, WEIR_EVENTS_ALL);
    run->gate_paused = false;
    run->pair_count = pair_count;
    run->ticket_count = ticket_count;
    for (uint32_t i = 0; i < pair_count; i++) {
        run_take(run, &run->pairs[i], true);
    }
}

void run_close(struct run *run)
{
    run_note(run, "close");
    for (uint32_t i = 0; i < run->pair_count; i++) {
        weir_key_give(run->pairs[i].sides[LOUD].key);
        weir_key_give(run->pairs[i].sides[QUIET].key);
    }
    weir_gate_destroy(run->gate);
    run->gate = NULL;
    run_expect(run, "memory blocks left", 0, run->memory.blocks, 0);
    run_expect(run, "memory bytes left", 0, run->memory.bytes, 0);
}
