/* backlog.h - how many requests queue inside the other side, which says nothing of it.
 *
 * By Little's law that many queue as replies end in a second, times how much later than usual they
 * come. What is usual depends on the work of a request: a first token waits for the input to be
 * read, a whole reply for its output as well. So each of the two has a base for each octave of
 * work. A base is learned from requests that were sent while few were under way, because then
 * nothing queues.
 *
 * It only measures; what follows from it for the window is window_round.c's part. */
#ifndef WEIR_CORE_BACKLOG_H
#define WEIR_CORE_BACKLOG_H

#include <stdbool.h>
#include <stdint.h>

#define WEIR_BACKLOG_OCTAVES 12

/* Sums over the replies of a round. */
struct weir_backlog_sums {
    double count;
    double among;    /* under way when they were sent, themselves included */
    double base_s;   /* what they take when nothing queues */
    double excess_s; /* what they took beyond that */
    double squares;  /* of that */
};

struct weir_backlog {
    float base_s[2][WEIR_BACKLOG_OCTAVES]; /* of whole replies, and of first tokens; 0: not known */
    uint8_t seen[2][WEIR_BACKLOG_OCTAVES]; /* replies that a base rests on, up to a few */
    double clear;                          /* the most under way among which one was not late */
    double since_low;                      /* replies since one that was sent among few */
    uint64_t round_ns;                     /* when the round began */
    uint64_t round_ended;                  /* how many requests had ended by then */
    struct weir_backlog_sums all;
    struct weir_backlog_sums late;
};

/* How long one reply took. */
struct weir_backlog_reply {
    bool streamed;  /* until its first token, else until its end */
    bool counts;    /* in the round: it was sent since the window changed */
    double among;   /* under way when it was sent, itself included */
    double window;  /* the window now */
    uint32_t work;  /* weir_backlog_work() */
    double delay_s; /* since it was sent */
    uint64_t ended; /* requests that have ended by now */
    uint64_t now_ns;
};

/* What a round has come to. */
struct weir_backlog_round {
    bool mostly_late; /* so it is of those alone that were late: others may have come before them */
    double among;     /* under way, on average */
    double queued;    /* of these */
    double error;     /* the standard error of that */
    double per_second; /* requests that ended */
    double base_s;
    double excess_s;
};

/* The work of a request in tokens of output; for its first token, that of an output of 0. */
uint32_t weir_backlog_work(uint32_t input, uint32_t output);

/* Begins a round. */
void weir_backlog_begin(struct weir_backlog *backlog, uint64_t ended, uint64_t now_ns);

/* Takes in a reply. Returns whether it was late: much later than usual for its work. */
bool weir_backlog_add(struct weir_backlog *backlog, const struct weir_backlog_reply *reply);

/* What the round has come to with the latest reply. Requires that some counted. */
struct weir_backlog_round weir_backlog_judge(const struct weir_backlog *backlog,
                                             const struct weir_backlog_reply *latest);

/* Half of the round is forgotten, so that it does not outlast what it measures. */
void weir_backlog_age(struct weir_backlog *backlog, uint64_t ended, uint64_t now_ns);

/* Takes all bases of that kind of reply times the factor, within bounds. */
void weir_backlog_scale(struct weir_backlog *backlog, bool streamed, double factor);

#endif
