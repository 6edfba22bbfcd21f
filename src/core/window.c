/* window.c - the window of `learned`: it grows by acknowledgements, is cut by refusals, losses and
 * late first tokens, and remembers what it was cut at. Runs under its key's lock. */
#include "core/window.h"

#include "core/real.h"

#include <math.h>

#define WINDOW_START 4.0
#define WINDOW_MIN   1.0
#define WINDOW_MAX   8192.0 /* a guard, not a figure */

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

/* A round of first tokens. */
#define ROUND_MIN 16.0
#define ROUND_MAX 256.0
#define ROUND_NS  WEIR_NS_PER_SECOND

/* First tokens are late when they take twice the usual, beyond three standard errors, and more
 * queue than a tenth of the window. */
#define DELAY_FACTOR 2.0
#define DELAY_ERRORS 3.0
#define BASE_DRIFT   1.002

static void resize(struct weir_window *window, double size, enum weir_limit_reason reason)
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
    resize(window, window->size, WEIR_LIMIT_SET);
}

void weir_window_init(struct weir_window *window, const struct weir_window_settings *settings)
{
    *window = (struct weir_window){
        .back = INFINITY, .step = 1.0, .patience = PATIENCE_START, .probe = PATIENCE_MIN};
    window->size = settings->start == 0 ? WINDOW_START : (double)settings->start;
    weir_window_bound(window, settings);
}

void weir_window_set(struct weir_window *window, double size)
{
    resize(window, size, WEIR_LIMIT_SET);
}

/* ---- first tokens ---- */

static void judge_delay(struct weir_window *window, double queued, double error, uint32_t active)
{
    double size = window->size;
    bool late = window->delay_s > DELAY_FACTOR * window->base_s &&
                log(window->delay_s / window->base_s) > DELAY_ERRORS * error;
    if (late && queued > weir_larger(2.0, size / 10.0)) {
        double used = weir_smaller(size, (double)active + 1.0);
        double kept = used - queued + weir_larger(1.0, size / 20.0);
        resize(window, weir_larger(kept, size / 2.0), WEIR_LIMIT_DELAYED);
        window->back = window->size;
        window->probe = 4.0 * window->size;
    } else if (queued <= weir_larger(1.0, size / 20.0)) {
        return;
    }
    window->step = 1.0;
    window->acknowledged = 0.0;
    window->probes = 0;
}

static void end_round(struct weir_window *window, uint32_t active, uint64_t now_ns)
{
    double count = window->round_count;
    double mean = window->round_sum / count;
    double variance = weir_larger(window->round_squares / count - mean * mean, 0.0);
    double per_second = count / weir_seconds(now_ns - window->round_ns);
    window->delay_s = exp(mean);
    if (window->base_s == 0.0) {
        window->base_s = window->delay_s;
    } else if (window->delay_s < window->base_s) {
        window->base_s += (window->delay_s - window->base_s) / 2.0;
    } else {
        window->base_s *= BASE_DRIFT;
    }
    judge_delay(window, per_second * (window->delay_s - window->base_s), sqrt(variance / count),
                active);
    window->round_ns = now_ns;
    window->round_count = 0.0;
    window->round_sum = 0.0;
    window->round_squares = 0.0;
}

static void time_token(struct weir_window *window, const struct weir_echo *echo)
{
    double logarithm = log(weir_larger(echo->delay_s, 1e-6));
    if (window->round_count == 0.0 && window->round_ns == 0) {
        window->round_ns = echo->now_ns;
    }
    window->round_count += 1.0;
    window->round_sum += logarithm;
    window->round_squares += logarithm * logarithm;
    if (window->round_count >= weir_clamp(window->size, ROUND_MIN, ROUND_MAX) &&
        echo->now_ns >= window->round_ns + ROUND_NS) {
        end_round(window, echo->active, echo->now_ns);
    }
}

/* ---- acknowledgements and losses ---- */

static void probe(struct weir_window *window)
{
    resize(window, window->size + window->step, WEIR_LIMIT_PROBED);
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
    if (echo->held && echo->number > window->cut_number && window->failures < FAILURE_SHARE) {
        if (window->size < window->back) {
            resize(window, window->size + 1.0, WEIR_LIMIT_GROWN);
        } else if ((double)echo->among >= floor(window->size)) {
            window->acknowledged += 1.0;
            if (window->acknowledged >= window->probe) {
                probe(window);
            }
        }
    }
    if (echo->streamed) {
        time_token(window, echo);
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
    resize(window, weir_larger(CUT * window->size, CUT_LEAST * window->remembered),
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
    resize(window, weir_smaller(window->size, among - 1.0), WEIR_LIMIT_REFUSED);
    window->accepted = weir_smaller(window->accepted, window->size);
    window->back = window->size;
    window->step = 1.0;
    window->acknowledged = 0.0;
    window->probes = 0;
    if (echo->number > window->cut_number) { /* once per round */
        window->confirmed = same ? window->confirmed + 1 : 0;
        window->patience = weir_clamp(2.0 * window->patience, PATIENCE_MIN, PATIENCE_MAX);
        window->cut_number = echo->sent_last;
    }
    window->probe = window->patience;
}

bool weir_window_explains(const struct weir_window *window, uint32_t among)
{
    uint32_t enough = window->back < SMALL_BOUND ? 2 : 1;
    bool sure = window->confirmed >= enough || window->patience >= PATIENCE_SURE;
    return sure && (double)among > window->back;
}
