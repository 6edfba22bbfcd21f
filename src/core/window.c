/* window.c - the window of `learned`: it grows by acknowledgements, is cut by refusals, losses and
 * late first tokens, and remembers what it was cut at. Runs under its key's lock. */
#include "core/window.h"

#include "core/real.h"

#include <math.h>

/* Wide enough for a crowd of agents at a server of one's own. Where a quota is stated, the other.
 */
#define WINDOW_START        16.0
#define WINDOW_START_STATED 4.0

#define WINDOW_MIN 1.0
#define WINDOW_MAX 8192.0 /* a guard, not a figure */

/* The weight of one more reply in the share of errors, and the share from which on they are a
 * brown-out. Larger: slow to see one. Smaller: background errors cut. */
#define FAILURE_WEIGHT 0.1
#define FAILURE_SHARE  0.3

/* A brown-out cuts by this, down to a tenth: not to one, so that its end is noticed at once. */
#define CUT            0.85
#define CUT_LEAST      0.1
#define CUT_MEMORY_NS  (UINT64_C(30) * WEIR_NS_PER_SECOND)
#define REMEMBERED_MIN 4.0

/* A refusal of at most this share of what was taken before has another reason. */
#define REFUSED_SHARE  0.8
#define REFUSED_FORGET 0.9
#define PATIENCE_START 4.0 /* so that the first refusal makes it 8 */
#define PATIENCE_MIN   8.0
#define PATIENCE_MAX   500.0

/* A limit on requests at once is the same number each time; a rate that is exceeded is so at any
 * count. So a bound that is found again is one, and what is refused above it is refused for that;
 * small numbers may be the same by chance, and have to be found twice. So is one that has moved a
 * little, after as many refusals as lead to this patience. */
#define SMALL_BOUND   8.0
#define PATIENCE_SURE 64.0

void weir_window_resize(struct weir_window *window, double size, enum weir_limit_reason reason)
{
    double bounded = weir_clamp(size, window->least, window->most);
    if (bounded != window->size) {
        window->size = bounded;
        window->reason = (uint8_t)reason;
    }
}

void weir_window_bound(struct weir_window *window, const struct weir_window_settings *settings)
{
    window->least = settings->min == 0 ? WINDOW_MIN : (double)settings->min;
    window->most = settings->max == 0 ? WINDOW_MAX : (double)settings->max;
    weir_window_resize(window, window->size, WEIR_LIMIT_SET);
}

void weir_window_init(struct weir_window *window, const struct weir_window_settings *settings)
{
    *window = (struct weir_window){.back = INFINITY,
                                   .step = 1.0,
                                   .patience = PATIENCE_START,
                                   .probe = PATIENCE_MIN,
                                   .dip_rounds = WEIR_WINDOW_DIP_ROUNDS_MIN};
    window->size = settings->start == 0 ? WINDOW_START : (double)settings->start;
    weir_window_bound(window, settings);
}

void weir_window_set(struct weir_window *window, double size)
{
    window->trial.kind = WEIR_TRIAL_NONE;
    weir_window_resize(window, size, WEIR_LIMIT_SET);
}

void weir_window_state(struct weir_window *window, const struct weir_window_settings *settings)
{
    if (window->accepted == 0.0 && settings->start == 0 && window->size > WINDOW_START_STATED) {
        weir_window_resize(window, WINDOW_START_STATED, WEIR_LIMIT_SET);
    }
}

/* ---- acknowledgements and losses ---- */

/* From now on this size is only probed. */
static void stop_growth(struct weir_window *window)
{
    window->back = window->size;
    window->step = 1.0;
    window->acknowledged = 0.0;
    window->probes = 0;
}

void weir_window_settle(struct weir_window *window, double patience_max)
{
    stop_growth(window);
    window->patience = weir_clamp(2.0 * window->patience, PATIENCE_MIN, patience_max);
    window->probe = window->patience;
}

static void probe(struct weir_window *window)
{
    weir_window_resize(window, window->size + window->step, WEIR_LIMIT_PROBED);
    window->step = weir_larger(weir_smaller(2.0 * window->step, window->size / 4.0), 1.0);
    window->acknowledged = 0.0;
    window->probe = window->size;
    if (++window->probes >= 2) {
        window->patience /= 4.0;
        window->confirmed = 0;
    }
}

void weir_window_accept(struct weir_window *window, const struct weir_echo *echo)
{
    window->failures -= FAILURE_WEIGHT * window->failures;
    window->accepted = weir_larger(window->accepted, (double)echo->among);
}

void weir_window_grow(struct weir_window *window, const struct weir_echo *echo)
{
    bool sent_before = echo->number <= window->cut_number || echo->number <= window->resized_number;
    if (!echo->held || !window->room || sent_before || window->failures >= FAILURE_SHARE ||
        window->trial.kind == WEIR_TRIAL_DIP) {
        return;
    }
    if (window->size < window->back) {
        weir_window_resize(window, window->size + 1.0, WEIR_LIMIT_GROWN);
    } else if ((double)echo->among >= floor(window->size)) {
        window->acknowledged += 1.0;
        if (window->acknowledged >= window->probe) {
            probe(window);
            weir_window_begin_round(window, echo);
        }
    }
}

void weir_window_lose(struct weir_window *window, const struct weir_echo *echo)
{
    window->failures += FAILURE_WEIGHT * (1.0 - window->failures);
    if (window->failures <= FAILURE_SHARE || echo->number <= window->cut_number) {
        return;
    }
    if (window->cut_ns == 0 || echo->now_ns - window->cut_ns > CUT_MEMORY_NS) {
        window->remembered =
            weir_smaller(window->size, weir_larger(window->accepted, REMEMBERED_MIN));
        window->size = window->remembered;
    }
    window->back = window->remembered;
    window->trial.kind = WEIR_TRIAL_NONE;
    weir_window_resize(window, weir_larger(CUT * window->size, CUT_LEAST * window->remembered),
                       WEIR_LIMIT_LOST);
    window->cut_number = echo->sent_last;
    window->cut_ns = echo->now_ns;
}

void weir_window_refuse(struct weir_window *window, const struct weir_echo *echo)
{
    double among = (double)echo->among;
    if (among <= REFUSED_SHARE * window->accepted) {
        window->accepted *= REFUSED_FORGET; /* more were taken before: it is not that */
        return;
    }
    bool same = among - 1.0 == window->back;
    weir_window_resize(window, weir_smaller(window->size, among - 1.0), WEIR_LIMIT_REFUSED);
    window->accepted = weir_smaller(window->accepted, window->size);
    window->trial.kind = WEIR_TRIAL_NONE;
    stop_growth(window);
    if (echo->number > window->cut_number) { /* once per round */
        window->confirmed = same ? window->confirmed + 1 : 0;
        window->patience = weir_clamp(2.0 * window->patience, PATIENCE_MIN, PATIENCE_MAX);
        window->cut_number = echo->sent_last;
    }
    window->probe = window->patience;
}

void weir_window_halt(struct weir_window *window)
{
    if (window->size < window->back) {
        double taken = weir_larger(window->accepted, WINDOW_START_STATED);
        weir_window_resize(window, weir_smaller(window->size, taken), WEIR_LIMIT_REFUSED);
        stop_growth(window);
    }
}

bool weir_window_explains(const struct weir_window *window, uint32_t among)
{
    uint32_t enough = window->back < SMALL_BOUND ? 2 : 1;
    bool sure = window->confirmed >= enough || window->patience >= PATIENCE_SURE;
    return sure && (double)among > window->back;
}
