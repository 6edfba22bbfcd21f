/* window_round.c - what the window learns from the time that replies take.
 *
 * A server that queues inside serves no more for being sent more: replies come later by as much as
 * there are more. So each round tells how many of those under way are served at once (backlog.h),
 * and the window is cut to these and a little more. One may be wrong about that, as delays have
 * other reasons too. So a cut is a trial: if replies do not come earlier by what the cut took out
 * of the queue, then more was served before it, and it is taken back.
 *
 * What is usual changes, and a window that is always full hides that. So now and then the window
 * dips for a round, and the bases become what is seen then. */
#include "core/window.h"

#include "core/real.h"

#include <math.h>

/* Replies of a round. Fewer say too little; more take too long. */
#define ROUND_MIN 8.0
#define ROUND_MAX 256.0

/* A round of this size is of the last so many replies, in rounds. */
#define ROUND_MEMORY 8.0

/* So many may queue, or this part of the window: they hide the way there and back. A cut needs this
 * times as many, beyond the error. Larger: tenants share less evenly. Smaller: places idle. */
#define QUEUE_LEAST 1.0
#define QUEUE_PART  16.0
#define QUEUE_CUT   1.5

/* A cut leaves this part of the window at least; the other if most replies were late, which is no
 * chance. */
#define CUT_LEAST      0.5
#define CUT_LEAST_LATE 0.25

/* Probes wait for so many windows of replies at most. */
#define PATIENCE_WINDOWS 8.0
#define PATIENCE_LEAST   32.0

/* More than this part of those under way cannot be due to the server's speed in one round. */
#define QUEUE_SURE (1.0 / 3.0)

/* In a window smaller than this, one request more or less may be chance. */
#define SURE_FROM 8.0

/* A dip is to this part of the window. The pause between dips doubles while they change a base by
 * less than the other. Deeper or more often: places idle. */
#define DIP            0.8
#define DIP_ROUNDS_MAX 128.0
#define DIP_AGREE      0.1

/* Of those that a dip leaves out, this part was served at least where nothing queues in it. */
#define DIP_SERVED 0.25

static double spare(double served)
{
    return weir_larger(QUEUE_LEAST, served / QUEUE_PART);
}

/* ---- trials ---- */

static void begin_trial(struct weir_window *window, enum weir_trial_kind kind, double size,
                        const struct weir_backlog_round *round, const struct weir_echo *echo)
{
    window->trial = (struct weir_trial){.kind = kind, .size = window->size, .before = *round};
    weir_window_resize(window, size,
                       kind == WEIR_TRIAL_CUT ? WEIR_LIMIT_DELAYED : WEIR_LIMIT_PROBED);
    weir_window_begin_round(window, echo);
}

/* How many were served at once before the trial: those under way, less those that queued, by how
 * much earlier replies come now. */
static double served_before(const struct weir_trial *trial, const struct weir_backlog_round *round)
{
    double earlier_s = trial->before.excess_s - round->excess_s;
    return trial->before.among - trial->before.per_second * earlier_s;
}

static double trial_error(const struct weir_trial *trial, const struct weir_backlog_round *round)
{
    return sqrt(trial->before.error * trial->before.error + round->error * round->error);
}

/* Whether that many served instead of fewer are worth the larger number under way. A batch is
 * worth it although each reply of it takes longer; the fourth root tells it from a queue. */
static bool is_worth(double served, double fewer, double among_ratio)
{
    return among_ratio > 1.0 && served > fewer * sqrt(sqrt(among_ratio));
}

static bool served_more(const struct weir_trial *trial, const struct weir_backlog_round *round)
{
    double doubt = trial->before.among < SURE_FROM ? trial_error(trial, round) : 0.0;
    return is_worth(served_before(trial, round) - doubt, round->among,
                    trial->before.among / round->among);
}

/* What takes so long even among fewer is what is usual. */
static void take_as_usual(struct weir_window *window, const struct weir_backlog_round *round,
                          bool streamed)
{
    weir_backlog_scale(&window->backlog, streamed, 1.0 + round->excess_s / round->base_s);
}

static void take_back_cut(struct weir_window *window, const struct weir_backlog_round *round,
                          const struct weir_echo *echo)
{
    double served = served_before(&window->trial, round);
    take_as_usual(window, round, echo->streamed);
    weir_window_resize(window, weir_smaller(served + spare(served), window->trial.size),
                       WEIR_LIMIT_PROBED);
    window->back = window->size;
    window->trial.kind = WEIR_TRIAL_NONE;
    window->dip_rounds = WEIR_WINDOW_DIP_ROUNDS_MIN;
    weir_window_begin_round(window, echo);
}

/* First tokens do not share the server's speed, so what is seen in the dip is what is usual. But
 * where no more were served before it than are under way in it, some still queue: it stays there,
 * and dips further. */
static void end_dip(struct weir_window *window, const struct weir_backlog_round *round,
                    const struct weir_echo *echo)
{
    double more = served_before(&window->trial, round) - round->among;
    double chance =
        trial_error(&window->trial, round) / (window->trial.before.among < SURE_FROM ? 1.0 : 2.0);
    if (more + chance < DIP_SERVED * (window->trial.before.among - round->among)) {
        window->trial.kind = WEIR_TRIAL_NONE;
        window->back = weir_smaller(window->back, window->size);
        window->dip_rounds = WEIR_WINDOW_DIP_ROUNDS_MIN;
        weir_window_begin_round(window, echo);
        return;
    }
    bool before = !echo->streamed && served_more(&window->trial, round);
    const struct weir_backlog_round *usual = before ? &window->trial.before : round;
    bool agrees = fabs(usual->excess_s) < DIP_AGREE * usual->base_s;
    take_as_usual(window, usual, echo->streamed);
    window->dip_rounds = agrees ? weir_smaller(2.0 * window->dip_rounds, DIP_ROUNDS_MAX)
                                : WEIR_WINDOW_DIP_ROUNDS_MIN;
    window->backlog.since_low = 0.0;
    weir_window_resize(window, window->trial.size, WEIR_LIMIT_PROBED);
    window->trial.kind = WEIR_TRIAL_NONE;
    weir_window_begin_round(window, echo);
}

/* ---- rounds ---- */

static void cut(struct weir_window *window, const struct weir_backlog_round *round,
                const struct weir_echo *echo)
{
    double served = weir_larger(round->among - round->queued, 1.0);
    double least = window->size * (round->mostly_late ? CUT_LEAST_LATE : CUT_LEAST);
    double kept = weir_larger(served + spare(served), least);
    if (kept < window->size) {
        begin_trial(window, WEIR_TRIAL_CUT, kept, round, echo);
        weir_window_settle(window, weir_larger(PATIENCE_WINDOWS * window->size, PATIENCE_LEAST));
    }
}

/* Whole replies take longer also because they share the server's speed. So while the window grows,
 * what counts is whether more is served by it. */
static bool growth_pays(const struct weir_window *window, const struct weir_backlog_round *round)
{
    double before = window->grown_among;
    return before > 0.0 && round->queued < QUEUE_SURE * round->among &&
           is_worth(round->among - round->queued - round->error, before, round->among / before);
}

static void judge_growth(struct weir_window *window, const struct weir_backlog_round *round,
                         bool streamed)
{
    if (!window->room && !streamed && growth_pays(window, round)) {
        take_as_usual(window, round, false);
        window->room = true;
    }
    if (window->room) {
        window->grown_among = weir_larger(window->grown_among, round->among);
    }
}

static bool wants_dip(const struct weir_window *window, const struct weir_echo *echo)
{
    return echo->held && window->size >= 2.0 && (window->size >= window->back || !window->room) &&
           window->backlog.since_low > window->dip_rounds * window->size;
}

static void judge_size(struct weir_window *window, const struct weir_backlog_round *round,
                       const struct weir_echo *echo)
{
    double allowed = spare(window->size);
    window->room = round->queued + round->error < allowed;
    if (window->size < window->back) {
        judge_growth(window, round, echo->streamed);
    }
    bool sure = echo->streamed || round->mostly_late || window->size >= window->back ||
                round->queued >= QUEUE_SURE * round->among;
    if (!window->room && sure && round->queued > QUEUE_CUT * allowed + round->error) {
        cut(window, round, echo);
    } else if (wants_dip(window, echo)) {
        begin_trial(window, WEIR_TRIAL_DIP, floor(window->size * DIP), round, echo);
    }
}

static void judge_round(struct weir_window *window, const struct weir_backlog_round *round,
                        const struct weir_echo *echo)
{
    window->base_s = round->base_s;
    window->delay_s = round->base_s + round->excess_s;
    if (window->trial.kind == WEIR_TRIAL_DIP) {
        end_dip(window, round, echo);
    } else if (window->trial.kind == WEIR_TRIAL_CUT && served_more(&window->trial, round)) {
        take_back_cut(window, round, echo);
    } else if (round->queued < -3.0 * round->error) { /* earlier than usual, beyond chance */
        take_as_usual(window, round, echo->streamed);
        weir_window_begin_round(window, echo);
    } else {
        bool was_cut = window->trial.kind == WEIR_TRIAL_CUT;
        window->trial.kind = WEIR_TRIAL_NONE;
        judge_size(window, round, echo);
        if (was_cut && window->room && !window->trial.before.mostly_late) {
            window->back = window->trial.size; /* it was cut too deep */
        }
    }
}

void weir_window_begin_round(struct weir_window *window, const struct weir_echo *echo)
{
    window->resized_number = echo->sent_last;
    window->judged = 0.0;
    window->room = false;
    window->backlog.all.count = 0.0;
}

/* The first counted reply of a round begins it; the very first of all when it was sent. The first
 * to end are the short ones. So where replies come whole and the size is new, a round is as long as
 * the window, and after a cut twice as long; otherwise half is enough. */
static void begin_counting(struct weir_window *window, const struct weir_echo *echo)
{
    uint64_t sent_ns = echo->now_ns - (uint64_t)(echo->delay_s * 1e9);
    bool first = window->delay_s == 0.0;
    bool whole = !echo->streamed && window->size >= window->back;
    double windows = window->trial.kind == WEIR_TRIAL_CUT ? 2.0 : whole ? 1.0 : 0.5;
    window->judged = 0.0;
    window->round_replies = weir_clamp(windows * window->size, ROUND_MIN, ROUND_MAX);
    weir_backlog_begin(&window->backlog, echo->ended, first ? sent_ns : echo->now_ns);
}

static void end_round(struct weir_window *window, const struct weir_backlog_reply *reply,
                      const struct weir_echo *echo)
{
    struct weir_backlog *backlog = &window->backlog;
    struct weir_backlog_round round = weir_backlog_judge(backlog, reply);
    window->judged = backlog->all.count;
    judge_round(window, &round, echo);
    if (window->size < window->back) {
        window->judged = 0.0;
        weir_backlog_begin(backlog, echo->ended, echo->now_ns);
    } else if (window->judged >= ROUND_MEMORY * window->round_replies) {
        window->judged /= 2.0;
        weir_backlog_age(backlog, echo->ended, echo->now_ns);
    }
}

void weir_window_time(struct weir_window *window, const struct weir_echo *echo)
{
    struct weir_backlog *backlog = &window->backlog;
    struct weir_backlog_reply reply = {
        .streamed = echo->streamed,
        .counts = echo->number > window->resized_number,
        .among = (double)echo->among,
        .window = window->size,
        .work = weir_backlog_work(echo->input, echo->streamed ? 0 : echo->output),
        .delay_s = echo->delay_s,
        .ended = echo->ended,
        .now_ns = echo->now_ns};
    if (reply.counts && backlog->all.count == 0.0) {
        begin_counting(window, echo);
    }
    if (!weir_backlog_add(backlog, &reply)) {
        weir_window_grow(window, echo);
    }
    if (reply.counts && backlog->all.count >= window->judged + window->round_replies) {
        end_round(window, &reply, echo);
    }
}
