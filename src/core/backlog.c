/* Sums over the replies of a round, and what each kind and octave of work usually takes. All of it
 * is arithmetic on numbers that the window keeps in its struct: no clock, no memory, constant time
 * for each reply. As all of the core, it is called under the lock of the key. */
#include "core/backlog.h"

#include "core/real.h"

#include <assert.h>
#include <math.h>

/* A server reads about so many tokens of input in the time of one of output. It need not be right:
 * within an octave all that matters is that like is compared with like. */
#define INPUT_PER_OUTPUT 32

/* The first octave is all work below 8. */
#define FIRST_OCTAVE 2

/* Later than this times the base is late. Larger: a queue of short waits goes unseen for longer.
 * Smaller: chance delays count as late. Earlier than the other is the base's fault, not chance. */
#define LATE  1.7f
#define EARLY 0.7f

/* Among at most this share of what was clear, nothing queues. */
#define LOW_SHARE 0.75

/* A base is the mean of about so many replies. */
#define BASE_REPLIES 8

/* What is quicker is as quick. */
#define DELAY_MIN_S 1e-3

/* Bases move by at most this factor at once: a round may be wrong. */
#define SCALE_MAX 4.0

uint32_t weir_backlog_work(uint32_t input, uint32_t output)
{
    return output + input / INPUT_PER_OUTPUT;
}

static uint32_t octave_of(uint32_t work)
{
    uint32_t log = 31 - (uint32_t)__builtin_clz(work | 1);
    uint32_t octave = log < FIRST_OCTAVE ? 0 : log - FIRST_OCTAVE;
    return octave < WEIR_BACKLOG_OCTAVES ? octave : WEIR_BACKLOG_OCTAVES - 1;
}

/* Of the first reply of its octave. It may have queued, but it takes no more than larger ones, and
 * compared with smaller ones no more than in proportion. */
static float first_base(const float *base_s, uint32_t octave, float delay_s)
{
    float first = delay_s;
    for (uint32_t i = 0; i < WEIR_BACKLOG_OCTAVES; i++) {
        float most = i > octave ? base_s[i] : ldexpf(base_s[i], (int)(octave - i));
        first = base_s[i] > 0 && most < first ? most : first;
    }
    return first;
}

/* The first few replies of an octave are averaged unless they are late, towards the earlier ones:
 * the others may have queued a little. Afterwards those count that were sent among few; and what
 * came much too early. */
static void learn_base(struct weir_backlog *backlog, const struct weir_backlog_reply *reply,
                       uint32_t octave, bool late, bool low)
{
    float *base_s = &backlog->base_s[reply->streamed][octave];
    uint8_t *seen = &backlog->seen[reply->streamed][octave];
    float off_s = (float)reply->delay_s - *base_s;
    bool is_new = *seen < BASE_REPLIES;
    if (low || (is_new && !late)) {
        *seen = (uint8_t)(is_new ? *seen + 1 : *seen);
        *base_s += off_s / (low ? (float)*seen : off_s < 0 ? 2.0f : (float)BASE_REPLIES);
    } else if ((float)reply->delay_s < EARLY * *base_s) {
        *base_s += off_s / (float)BASE_REPLIES;
    }
}

static void add(struct weir_backlog_sums *sums, double among, double base_s, double excess_s)
{
    sums->count += 1.0;
    sums->among += among;
    sums->base_s += base_s;
    sums->excess_s += excess_s;
    sums->squares += excess_s * excess_s;
}

bool weir_backlog_add(struct weir_backlog *backlog, const struct weir_backlog_reply *reply)
{
    uint32_t octave = octave_of(reply->work);
    float *bases = backlog->base_s[reply->streamed];
    float delay_s = (float)weir_larger(reply->delay_s, DELAY_MIN_S);
    if (bases[octave] == 0) {
        bases[octave] = first_base(bases, octave, delay_s);
    }
    bool late = delay_s > LATE * bases[octave];
    backlog->clear = late ? backlog->clear : weir_larger(backlog->clear, reply->among);
    double few = LOW_SHARE * weir_smaller(backlog->clear, reply->window);
    bool low = reply->among <= weir_larger(few, 1.0);
    backlog->since_low = low ? 0.0 : backlog->since_low + 1.0;
    double base_s = (double)bases[octave];
    learn_base(backlog, reply, octave, late, low);
    if (reply->counts) {
        add(&backlog->all, reply->among, base_s, (double)delay_s - base_s);
    }
    if (reply->counts && late) {
        add(&backlog->late, reply->among, base_s, (double)delay_s - base_s);
    }
    return late;
}

/* ---- rounds ---- */

void weir_backlog_begin(struct weir_backlog *backlog, uint64_t ended, uint64_t now_ns)
{
    backlog->round_ns = now_ns;
    backlog->round_ended = ended;
    backlog->all = (struct weir_backlog_sums){0};
    backlog->late = (struct weir_backlog_sums){0};
}

/* Both the delays and the replies per second are known as well as they were counted. */
struct weir_backlog_round weir_backlog_judge(const struct weir_backlog *backlog,
                                             const struct weir_backlog_reply *latest)
{
    bool mostly_late = 2.0 * backlog->late.count >= backlog->all.count;
    const struct weir_backlog_sums *sums = mostly_late ? &backlog->late : &backlog->all;
    assert(sums->count > 0.0);
    double passed_s = weir_larger(weir_seconds(latest->now_ns - backlog->round_ns), 1e-6);
    double ended = (double)(latest->ended - backlog->round_ended);
    double among = sums->among / sums->count;
    double excess_s = sums->excess_s / sums->count;
    /* Replies of a crowd that came at once end at once: no more end than are under way in the time
     * that each takes. */
    double most = sums->among / (sums->base_s + sums->excess_s);
    double per_second = weir_smaller(ended / passed_s, most);
    double variance = weir_larger(sums->squares / sums->count - excess_s * excess_s, 0.0);
    double queued = per_second * excess_s;
    return (struct weir_backlog_round){
        .mostly_late = mostly_late,
        .among = among,
        .queued = queued,
        .error = sqrt(per_second * per_second * variance / sums->count +
                      queued * queued / weir_larger(ended, 1.0)),
        .per_second = per_second,
        .base_s = sums->base_s / sums->count,
        .excess_s = excess_s,
    };
}

static void halve(struct weir_backlog_sums *sums)
{
    sums->count /= 2.0;
    sums->among /= 2.0;
    sums->base_s /= 2.0;
    sums->excess_s /= 2.0;
    sums->squares /= 2.0;
}

void weir_backlog_age(struct weir_backlog *backlog, uint64_t ended, uint64_t now_ns)
{
    backlog->round_ns = now_ns - (now_ns - backlog->round_ns) / 2;
    backlog->round_ended = ended - (ended - backlog->round_ended) / 2;
    halve(&backlog->all);
    halve(&backlog->late);
}

void weir_backlog_scale(struct weir_backlog *backlog, bool streamed, double factor)
{
    double bounded = weir_clamp(factor, 1.0 / SCALE_MAX, SCALE_MAX);
    for (uint32_t i = 0; i < WEIR_BACKLOG_OCTAVES; i++) {
        backlog->base_s[streamed][i] *= (float)bounded;
    }
}
