/* One record for each job that a client was promised, changed by what is observed. Each
 * observation first requires what must have been true before it; the first that was not is kept as
 * a sentence. */
#include "lab/sim/job_check.h"

#include "base/slice.h"

#include <inttypes.h>
#include <stdio.h>

void weir_sim_history_blame(struct weir_sim_history *history, const char *what, uint64_t number)
{
    if (history->error[0] == '\0') {
        snprintf(history->error, sizeof history->error, "job %" PRIu64 " %s", number, what);
    }
}

static void require(struct weir_sim_history *history, bool good, const char *what, uint64_t number)
{
    if (!good) {
        weir_sim_history_blame(history, what, number);
    }
}

void weir_sim_history_note(struct weir_sim_history *history, uint32_t what, uint64_t number)
{
    history->digest = (history->digest ^ what) * UINT64_C(0x100000001b3);
    history->digest = (history->digest ^ number) * UINT64_C(0x100000001b3);
}

static struct weir_sim_fate *fate_of(struct weir_sim_history *history, uint64_t number)
{
    static struct weir_sim_fate nobody; /* stands for an unknown job; never read */
    bool known = number >= 1 && number <= history->fates_max;
    require(history, known, "was never submitted", number);
    return known ? &history->fates[number - 1] : &nobody;
}

void weir_sim_history_accepted(struct weir_sim_history *history, uint32_t client, uint64_t number)
{
    struct weir_sim_fate *fate = fate_of(history, number);
    require(history, !fate->accepted || fate->client == client, "is that of two clients", number);
    history->accepted += !fate->accepted;
    fate->accepted = true;
    fate->client = client;
    weir_sim_history_note(history, 1, number);
}

void weir_sim_history_leased(struct weir_sim_history *history, uint64_t number,
                             struct weir_epoch epoch)
{
    struct weir_sim_fate *fate = fate_of(history, number);
    uint32_t queue = fate->queue;
    require(history, !fate->leased, "has started twice at once", number);
    require(history, !weir_epoch_equal(epoch, fate->epoch), "has started twice under one epoch",
            number);
    fate->leased = true;
    history->running[queue]++;
    history->by_key[queue][fate->key]++;
    require(history, history->running[queue] <= history->workers[queue],
            "has started without a worker", number);
    require(history, fate->key == 0 || history->by_key[queue][fate->key] <= history->per_key[queue],
            "runs beside too many of its key", number);
    weir_sim_history_note(history, 2, number);
}

void weir_sim_history_freed(struct weir_sim_history *history, uint64_t number)
{
    struct weir_sim_fate *fate = fate_of(history, number);
    require(history, fate->leased, "has ended twice", number);
    fate->leased = false;
    history->running[fate->queue]--;
    history->by_key[fate->queue][fate->key]--;
    weir_sim_history_note(history, 3, number);
}

void weir_sim_history_began(struct weir_sim_history *history, const struct weir_job_row *row)
{
    struct weir_sim_fate *fate = fate_of(history, row->number);
    fate->starts++;
    fate->epoch = row->epoch;
    history->starts++;
    require(history, !fate->cancelled, "was started after it was cancelled", row->number);
    require(history, fate->done == 0, "was started after it was done", row->number);
    require(history, row->attempts <= fate->starts, "has attempts that were none", row->number);
    require(history, row->attempts <= fate->attempts_max, "has more attempts than it may",
            row->number);
}

void weir_sim_history_settled(struct weir_sim_history *history,
                              const struct weir_store_settle *settle)
{
    struct weir_sim_fate *fate = fate_of(history, settle->number);
    require(history,
            settle->before != WEIR_JOB_RUNNING || weir_epoch_equal(settle->epoch, fate->epoch),
            "was settled by an answer of an old epoch", settle->number);
    require(history, !fate->cancelled, "was settled after it was cancelled", settle->number);
    if (settle->after == WEIR_JOB_DONE) {
        fate->done++;
        require(history, fate->done == 1, "is done twice", settle->number);
    }
    fate->cancelled = settle->after == WEIR_JOB_CANCELLED;
    weir_sim_history_note(history, 4 + (uint32_t)settle->after, settle->number);
}

void weir_sim_history_redriven(struct weir_sim_history *history, uint64_t number)
{
    struct weir_sim_fate *fate = fate_of(history, number);
    require(history, fate->done == 0, "was redriven after it was done", number);
    require(history, !fate->leased, "was redriven while it ran", number);
    fate->starts = 0;
    weir_sim_history_note(history, 20, number);
}

void weir_sim_history_removed(struct weir_sim_history *history, uint64_t number)
{
    fate_of(history, number)->removed = true;
    weir_sim_history_note(history, 21, number);
}

void weir_sim_history_crashed(struct weir_sim_history *history)
{
    for (uint32_t i = 0; i < history->fates_max; i++) {
        history->fates[i].leased = false;
    }
    memset(history->running, 0, sizeof history->running);
    memset(history->by_key, 0, sizeof history->by_key);
    weir_sim_history_note(history, 22, 0);
}

static void close_fate(struct weir_sim_history *history, struct weir_sim_fate *fate,
                       const struct weir_sim_record *record, uint64_t number)
{
    enum weir_job_state state = record->state;
    require(history, !fate->accepted || record->present, "was accepted and is lost", number);
    require(history, state != WEIR_JOB_QUEUED && state != WEIR_JOB_RUNNING, "never came to an end",
            number);
    require(history, !fate->leased, "still has a worker", number);
    require(history, fate->done == 0 || state == WEIR_JOB_DONE, "was done and is not", number);
    require(history, !fate->cancelled || state == WEIR_JOB_CANCELLED, "was cancelled and is not",
            number);
    require(history, !fate->removed || record->forgotten, "was removed and is there", number);
    history->done += state == WEIR_JOB_DONE;
    history->dead += state == WEIR_JOB_FAILED;
    history->cancelled += state == WEIR_JOB_CANCELLED;
}

void weir_sim_history_close(struct weir_sim_history *history, const struct weir_sim_store *store)
{
    struct weir_job_row row;
    const struct weir_sim_record *record;
    uint32_t count = 0;
    for (; (record = weir_sim_store_at(store, count, &row)) != NULL; count++) {
        close_fate(history, fate_of(history, row.number), record, row.number);
        for (uint32_t i = 0; i < count; i++) {
            struct weir_job_row other;
            (void)weir_sim_store_at(store, i, &other);
            require(history, !weir_slice_equal(other.order.id, row.order.id),
                    "is there twice under one id", row.number);
        }
    }
    for (uint32_t i = count; i < history->fates_max; i++) {
        require(history, !history->fates[i].accepted, "was accepted and is lost", i + 1);
    }
}
