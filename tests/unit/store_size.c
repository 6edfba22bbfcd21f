/* How much disk a store takes: at most twice what is alive, whatever went before. */
#define _GNU_SOURCE
#include "unit/store_helpers.h"

/* ---- the disk's use ---- */

static uint64_t file_bytes(const char *name)
{
    struct stat about;
    return stat(path_of(name), &about) == 0 ? (uint64_t)about.st_size : 0;
}

/* A million, but for the builds that are watched by sanitizers or not optimized, which are clang's.
 */
#ifdef __clang__
#define SHORT_JOBS 20000
#else
#define SHORT_JOBS 1000000
#endif
#define SHORT_WINDOW 500

struct short_life {
    struct weir_store_accept accept;
    struct weir_store_take take;
    struct weir_store_settle settle;
    struct weir_job_order order;
    struct weir_acceptance acceptance;
    char id[24];
};

static struct short_life lives[SHORT_WINDOW];
static char short_body[1000];

static void accept_short(int first)
{
    for (int i = 0; i < SHORT_WINDOW; i++) {
        struct short_life *life = &lives[i];
        snprintf(life->id, sizeof life->id, "short-%d", first + i);
        life->order = order_of(life->id, short_body);
        life->accept = (struct weir_store_accept){
            .op = {.act = WEIR_STORE_ACCEPT, .complete = note_completion},
            .orders = &life->order,
            .order_count = 1,
            .acceptances = &life->acceptance};
        weir_store_sqlite.submit(store, &life->accept.op);
    }
    wait_for_completions(SHORT_WINDOW);
}

/* Two completions follow. */
static void run_short(struct short_life *life, uint64_t number)
{
    struct weir_epoch epoch = {weir_store_boot(store), ++epoch_counter};
    life->take =
        (struct weir_store_take){.op = {.act = WEIR_STORE_TAKE, .complete = note_completion},
                                 .number = number,
                                 .epoch = epoch};
    life->settle =
        (struct weir_store_settle){.op = {.act = WEIR_STORE_SETTLE, .complete = note_completion},
                                   .number = number,
                                   .before = WEIR_JOB_RUNNING,
                                   .epoch = epoch,
                                   .after = WEIR_JOB_DONE,
                                   .now_ms = wall_now_ms(),
                                   .keep_until_ms = wall_now_ms()};
    weir_store_sqlite.submit(store, &life->take.op);
    weir_store_sqlite.submit(store, &life->settle.op);
}

/* A window of jobs goes through its whole life, all at once. */
static void live_short(int first)
{
    accept_short(first);
    for (int i = 0; i < SHORT_WINDOW; i++) {
        assert_int_equal(lives[i].accept.op.end, WEIR_STORE_DONE);
        run_short(&lives[i], lives[i].acceptance.number);
    }
    wait_for_completions(2 * SHORT_WINDOW);
    for (int i = 0; i < SHORT_WINDOW; i++) {
        assert_int_equal(lives[i].settle.op.end, WEIR_STORE_DONE);
        free(lives[i].take.op.memory);
    }
}

/* The load under which some queues' logs grow for ever. */
TEST(one_old_job_and_many_short_ones_leave_a_small_file)
{
    uint64_t most = 0;
    memset(short_body, 'x', sizeof short_body - 1);
    options.remember_ms = 1;
    open_store();
    submit_job("old", "it waits for ever");
    for (int done = 0; done < SHORT_JOBS; done += SHORT_WINDOW) {
        live_short(done);
        uint64_t bytes = file_bytes("jobs.db") + file_bytes("jobs.db-wal");
        most = bytes > most ? bytes : most;
    }
    EXPECT_SOON(counts_now().remembered == 1);
    EXPECT_SOON(file_bytes("jobs.db-wal") == 0);
    print_message("# at most %.1f MB, then %.1f MB\n", (double)most / 1e6,
                  (double)file_bytes("jobs.db") / 1e6);
    assert_true(file_bytes("jobs.db") < 2000000);
    EXPECT_SOON(counts_now().disk_bytes < 2000000);
    assert_true(most < 64000000);
    reopen();
    assert_int_equal(found_count, 1);
}

#define SCATTERED 40000

/* One in three, by chance. */
static bool stays(uint64_t number)
{
    number *= UINT64_C(0x9e3779b97f4a7c15);
    return (number ^ number >> 32) % 3 == 0;
}

/* Those that stay are spread over all pages, which become empty a little at a time. */
TEST(few_jobs_that_stay_among_many_that_go_lie_close_together)
{
    uint64_t stay_count = 0;
    short_body[200] = '\0';
    memset(short_body, 'x', 200);
    options.remember_ms = 1;
    open_store();
    for (int first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        accept_short(first);
    }
    for (uint64_t first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        uint32_t count = 0;
        for (uint64_t i = first; i < first + SHORT_WINDOW; i++) {
            uint64_t number = i * 7919 % SCATTERED + 1; /* each once, in no order */
            if (stays(number)) {
                stay_count++;
            } else {
                run_short(&lives[count++], number);
            }
        }
        wait_for_completions(2 * count);
        for (uint32_t i = 0; i < count; i++) {
            free(lives[i].take.op.memory);
        }
    }
    EXPECT_SOON(counts_now().remembered == stay_count);
    EXPECT_SOON(file_bytes("jobs.db-wal") == 0);
    EXPECT_SOON(file_bytes("jobs.db") / stay_count < 560);
    print_message("# %u bytes for one of about 350\n",
                  (unsigned)(file_bytes("jobs.db") / stay_count));
    reopen();
    assert_int_equal(found_count, stay_count);
    for (size_t i = 0; i < found_count; i += 1000) {
        struct weir_store_take take;
        assert_true(stays(found_numbers[i]));
        assert_int_equal(take_job(found_numbers[i], &take), WEIR_STORE_DONE);
        expect_slice(take.row.order.body.bytes, short_body);
        free(take.op.memory);
    }
}

/* ---- a store that never rests ---- */

/* Somebody asks again as soon as he is answered: there is always something to do. */
static struct {
    struct weir_store_look look;
    atomic_bool ends;
} pest;

static void ask_again(struct weir_store_op *op)
{
    free(op->memory);
    if (atomic_load(&pest.ends)) {
        note_completion(op);
    } else {
        weir_store_sqlite.submit(store, op);
    }
}

static void begin_to_ask(void)
{
    atomic_store(&pest.ends, false);
    pest.look = (struct weir_store_look){.op = {.act = WEIR_STORE_LOOK, .complete = ask_again},
                                         .number = 1};
    weir_store_sqlite.submit(store, &pest.look.op);
}

static void cease_to_ask(void)
{
    atomic_store(&pest.ends, true);
    wait_for_completions(1);
}

/* What a job of these takes, about, in pages that are full. */
#define SCATTERED_BYTES 366

/* The journal is copied when it has 8 MiB, and a batch that follows has as many at most. */
#define JOURNAL_MOST (UINT64_C(17) << 20)

/* The file, as a multiple of what lives in it. */
static double file_times(uint64_t live_count)
{
    return (double)file_bytes("jobs.db") / (double)(live_count * SCATTERED_BYTES);
}

/* The file gets smaller when the journal is copied to it, which is now and then: so much may have
 * been given back that it does not know of yet. docs/internals/jobs.md allows for eight times as
 * much.
 */
#define UNCOPIED_BYTES (UINT64_C(1) << 19)

/* The most that was measured. */
struct extent {
    double times;
    uint64_t journal_bytes;
};

static void measure(struct extent *most, uint64_t live_count)
{
    double slack = (double)UNCOPIED_BYTES / (double)(live_count * SCATTERED_BYTES);
    double times = file_times(live_count) - slack;
    uint64_t journal_bytes = file_bytes("jobs.db-wal");
    most->times = times > most->times ? times : most->times;
    most->journal_bytes = journal_bytes > most->journal_bytes ? journal_bytes : most->journal_bytes;
}

/* Of so many new ones one in three stays, the others go in no order. */
static struct extent scatter(uint64_t base, uint64_t *live_count)
{
    struct extent most = {0};
    for (int first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        accept_short((int)base + first);
    }
    *live_count += SCATTERED;
    for (uint64_t first = 0; first < SCATTERED; first += SHORT_WINDOW) {
        uint32_t count = 0;
        for (uint64_t i = first; i < first + SHORT_WINDOW; i++) {
            uint64_t number = base + i * 7919 % SCATTERED; /* each once */
            if (!stays(number)) {
                run_short(&lives[count++], number);
            }
        }
        wait_for_completions(2 * count);
        for (uint32_t i = 0; i < count; i++) {
            free(lives[i].take.op.memory);
        }
        *live_count -= count;
        measure(&most, *live_count);
    }
    return most;
}

static bool is_tidied(uint64_t live_count)
{
    return counts_now().remembered == live_count && file_bytes("jobs.db-wal") == 0 &&
           file_times(live_count) < 1.7;
}

/* Nothing is asserted before the last question, which would otherwise be asked for ever. */
TEST(a_store_that_never_rests_stays_small)
{
    uint64_t live_count = 1;
    short_body[200] = '\0';
    memset(short_body, 'x', 200);
    options.remember_ms = 1;
    open_store();
    submit_job("old", "it waits for ever");
    begin_to_ask();
    struct extent most = scatter(2, &live_count);
    /* Nor do those who only read keep it from being tidied. */
    bool tidied = false;
    for (int tries = 0; tries < 20000 && !tidied; tries++) {
        tidied = is_tidied(live_count);
        usleep(1000);
    }
    cease_to_ask();
    print_message("# at most %.2f times what lives in it, and a journal of %.1f MB\n", most.times,
                  (double)most.journal_bytes / 1e6);
    assert_true(most.times < 2);
    assert_true(most.journal_bytes < JOURNAL_MOST);
    assert_true(tidied);
    reopen();
    assert_int_equal(found_count, live_count);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LIFE(one_old_job_and_many_short_ones_leave_a_small_file),
        LIFE(few_jobs_that_stay_among_many_that_go_lie_close_together),
        LIFE(a_store_that_never_rests_stays_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
