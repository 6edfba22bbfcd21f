/* handoff.pml - a permit handed to another thread, against timeout, cancel, lease and reuse.
 *
 * One thread's call admits or ends a ticket that another thread owns, and tells the owner by a
 * post. Meanwhile the owner may end the same ticket and would like its memory back. The model
 * shows that one rule makes this safe: a ticket's memory lives until the post about it has been
 * consumed. It backs promise G5 of docs/internals/gate.md. tests/model/check searches all of it.
 *
 * The protocol:
 *
 *   1. Every call on the key runs under the key's lock, and so does the draining of its news.
 *   2. A drained ticket that is the caller's own is dealt with on the spot. For another's, the
 *      caller sets `posted` and owes a post. If `posted` stands already, nothing is owed: the
 *      post on its way will do, because whoever consumes it looks at the state as it is then.
 *   3. The posts leave after the lock was let go of. That is the wider case: a post under the
 *      lock is the schedule in which nobody else moves in between.
 *   4. The owner consumes a post under the lock: it clears `posted` and reads the state.
 *   5. An owner whose ticket has ended looks at `posted` under the same lock. If it stands, the
 *      memory is kept until the post is consumed; otherwise it is free.
 *
 * So there is at most one post for each ticket, an inbox with a place for each of the owner's
 * tickets is never full, and posting never blocks.
 *
 * With -DSYNC it is the model of sync.h. Each thread owns one ticket, on its stack; the inbox is
 * the word on which it sleeps, and a post is the store into that word after the unlock. Three
 * things differ. The thread reads the word without the lock, so the store carries the verdict.
 * A lapse is not told, because a thread that holds a permit no longer looks at its word, and
 * release does not wait for it. And that another's call ends a ticket in line stands for a
 * displacement and for a token that is fired. Rule 5 says there that a waiter whose timeout finds
 * it admitted, or ended by another, must still wait for the word, since somebody is about to store
 * into its stack. The futex call after the store is left out: it names the address and touches
 * nothing there.
 *
 * What is simplified. Time is left out: a deadline or a lease may pass at any moment, and any
 * thread may be the one to notice, as any may call weir_key_wake(). There is one lane, one tenant
 * and one priority, because who is next is decided under the lock and tested elsewhere. A call of
 * the core is one step, because it touches nothing that is not under the lock.
 *
 * Checked, on every interleaving:
 *   - never more permits than the limit (G1); admission follows arrival (G2);
 *   - the lock is never let go of with a permit free and somebody in line (G3);
 *   - each ticket ends exactly once; in the end nobody is admitted, waits or is posted (G4);
 *   - memory that was freed, or used again since, is neither drained, posted nor heard of;
 *   - no post finds its inbox full, and no owner stays in the dark without a post on its way;
 *   - no deadlock, also when from some moment on nothing times out, lapses or hangs up any more,
 *     which would otherwise rescue a ticket whose post was lost;
 *   - no infinite execution. Without deadlocks this means that every ticket that waits ends, and
 *     needs no assumption about fairness. It is not searched for with SYNC, to save time.
 *
 * The model can fail. Each macro breaks one thing, and was seen to make spin report:
 *   BREAK_FREE_EARLY           rule 5 left out: a post is heard of memory that is not live, or
 *                              is used for another request (`live`, `request`).
 *   BREAK_DRAIN_UNLOCKED       rule 1: the news is drained after the unlock, and a ticket in it
 *                              is freed before (`live`).
 *   BREAK_OLD_VERDICT          rule 4: the owner believes what was true when the post was sent, and
 *                              never hears of the lapse that needed no second post (`posted`).
 *   BREAK_TIMEOUT_UNLOCKED     the timeout acts on the state that it saw before it had the lock:
 *                              a ticket ends twice (`ends`).
 *   BREAK_CANCEL_LOSES_PERMIT  cancel ends an admitted ticket like a waiting one, as a reference
 *                              does (000): a permit is held by nobody (`permits`).
 *   BREAK_SLIP_IN              release counts down in one step and hands over in another, and
 *                              a newcomer looks only at the count (004): it overtakes (`before`).
 *   BREAK_POST_DROPPED         a loop whose inbox is not empty is thought to know: invalid end
 *                              state, an owner waits for ever.
 *   BREAK_POLL                 a waiter looks again and again instead of sleeping: non-progress
 *                              cycle.
 *   BREAK_WORD_NOT_AWAITED     with SYNC: a waiter whose timeout finds it admitted returns without
 *                              waiting for the word (`live`, `request`).
 */

#ifndef LIMIT
#define LIMIT 1
#endif

/* ROUNDS: how many requests use a ticket's memory, one after the other. Two make an ABA; with
 * three threads one such ticket has to do, as the threads are alike. */
#define TICKETS 3
#ifdef SYNC
#define LOOPS 3
#define PLACES 1 /* in an inbox */
#define OWNER(T) (T)
#define ROUNDS(T) (1 + ((T) == 0))
#else
#define LOOPS 2
#define PLACES 2
#define OWNER(T) ((T) != 0) /* ticket 0 is of loop 0; 1 and 2 are of loop 1 */
#define ROUNDS(T) 2
#endif

#define BIT(T) (1 << (T))
#define HOW_MANY(STATE) ((state[0] == STATE) + (state[1] == STATE) + (state[2] == STATE))

/* A ticket's state, as the key knows it. */
mtype:fate = { IDLE, WAITING, ADMITTED, ENDED };

/* What the owner knows of it. OVER: it has ended, and its memory waits for a post. */
mtype:belief = { FREE, LINED, HOLDING, OVER };

mtype:deed = { NONE, ENTER, LEAVE, CANCEL, TIMEOUT, LAPSE, HEAR, HAND_OVER, LOOK };

/* The key: its lock, how many permits it has given, its line. */
bool locked;
byte permits;
chan line = [TICKETS] of { byte };

/* The tickets. `state` and `posted` are under the lock; `view` is the owner's alone. */
mtype:fate state[TICKETS] = IDLE;
mtype:belief view[TICKETS] = FREE;
bool posted[TICKETS];

/* Known to the model only: whether the memory is in use and for which request, how often that
 * request has ended, and who came before it and still waits. */
bool live[TICKETS];
byte request[TICKETS];
byte ends[TICKETS];
byte before[TICKETS];

/* A post: the ticket; which request was meant, for the model only; and the verdict, for SYNC. */
chan inbox[LOOPS] = [PLACES] of { byte, byte, mtype:fate };

bool calm; /* from now on nothing times out, lapses or hangs up */
byte done; /* loops that have finished */

/* --- the core, under the lock ---------------------------------------------------------------- */

inline out_of_line(T)
{
    before[0] = before[0] & ~BIT(T);
    before[1] = before[1] & ~BIT(T);
    before[2] = before[2] & ~BIT(T)
}

inline admit(T)
{
    assert(state[T] == IDLE || state[T] == WAITING);
    assert(before[T] == 0);
    state[T] = ADMITTED;
    out_of_line(T);
    permits++;
    assert(permits <= LIMIT)
}

inline end(T)
{
    ends[T]++;
    assert(ends[T] == 1);
    out_of_line(T);
    state[T] = ENDED
}

inline pass_on()
{
    do
    :: permits < LIMIT && len(line) > 0 ->
        line?next;
        admit(next);
        news = news | BIT(next)
    :: else -> break
    od
}

inline give_back(T)
{
    end(T);
    permits--;
#ifdef BREAK_SLIP_IN
    owes = true
#else
    pass_on()
#endif
}

inline enter(T)
{
    live[T] = true;
    before[T] = ((state[0] == WAITING) << 0) | ((state[1] == WAITING) << 1) |
                ((state[2] == WAITING) << 2);
    if
#ifdef BREAK_SLIP_IN
    :: permits < LIMIT ->
#else
    :: permits < LIMIT && len(line) == 0 ->
#endif
        admit(T);
        view[T] = HOLDING
    :: else ->
        state[T] = WAITING;
        line!T;
        view[T] = LINED
    fi
}

/* --- the owner, under the lock --------------------------------------------------------------- */

inline free(T)
{
    assert(ends[T] == 1);
    ends[T] = 0;
    live[T] = false;
    posted[T] = false;
    request[T]++;
    state[T] = IDLE;
    view[T] = FREE
}

/* The owner has found that its ticket has ended. */
inline over(T)
{
    if
#ifndef BREAK_FREE_EARLY
    :: posted[T] -> view[T] = OVER
#endif
    :: else -> free(T)
    fi
}

inline leave(T)
{
    if
    :: state[T] == ADMITTED -> give_back(T)
    :: else -> assert(state[T] == ENDED) /* the lease was faster: WEIR_NOT_HELD */
    fi;
#ifdef SYNC
    /* Who holds a permit has seen its word, and so release does not look. */
    free(T)
#else
    over(T)
#endif
}

inline cancel(T)
{
    if
    :: state[T] == WAITING ->
        line??eval(T);
        end(T)
    :: state[T] == ADMITTED ->
#ifdef BREAK_CANCEL_LOSES_PERMIT
        end(T)
#else
        give_back(T)
#endif
    :: else -> assert(state[T] == ENDED)
    fi;
    over(T)
}

inline hear(T)
{
    assert(live[T] && request[T] == meant);
    posted[T] = false;
#if !defined(SYNC) && !defined(BREAK_OLD_VERDICT)
    verdict = state[T];
#endif
    if
    :: view[T] == OVER -> free(T)
    :: view[T] == LINED && verdict == ADMITTED -> view[T] = HOLDING
    :: else ->
        assert(verdict == ENDED);
        free(T)
    fi
}

/* --- what any loop may find due, under the lock ---------------------------------------------- */

inline time_out(T)
{
    if
#ifdef BREAK_TIMEOUT_UNLOCKED
    :: true ->
        if
        :: line??[eval(T)] -> line??eval(T)
        :: else
        fi;
#else
    :: state[T] == WAITING ->
        line??eval(T);
#endif
        end(T);
        news = news | BIT(T)
#ifdef BREAK_WORD_NOT_AWAITED
    :: OWNER(T) == me && view[T] == LINED && state[T] == ADMITTED -> view[T] = HOLDING
#endif
    :: else /* admitted or ended since the timer fired: the timeout has lost */
    fi
}

inline lapse(T)
{
    if
    :: state[T] == ADMITTED ->
        give_back(T);
        news = news | BIT(T)
    :: else /* given back since the timer fired */
    fi
}

/* --- news and posts -------------------------------------------------------------------------- */

#ifdef SYNC
#define IS_TOLD(T) (!posted[T] && !(doing == LAPSE && ticket == T))
#else
#define IS_TOLD(T) (!posted[T])
#endif

inline drain()
{
    do
    :: news != 0 ->
        next = (news & 1 -> 0 : (news & 2 -> 1 : 2));
        news = news & ~BIT(next);
        assert(live[next]);
        if
        :: OWNER(next) == me && state[next] == ADMITTED -> view[next] = HOLDING
        :: OWNER(next) == me && state[next] == ENDED -> over(next)
        :: OWNER(next) != me && IS_TOLD(next) ->
            posted[next] = true;
            owed = owed | BIT(next);
            about[next] = request[next];
            told[next] = state[next]
        :: else
        fi
    :: else -> break
    od
}

/* An owner that does not know how its ticket stands has a post coming. In sync.h this ends with
 * the admission: who holds a permit finds out about a lapse when it gives the permit back. */
#ifdef SYNC
#define IN_THE_DARK(T) (view[T] == LINED && state[T] != WAITING)
#else
#define IN_THE_DARK(T)                                                                             \
    ((view[T] == LINED && state[T] != WAITING) || (view[T] == HOLDING && state[T] != ADMITTED))
#endif

inline check_key()
{
    assert(!IN_THE_DARK(0) || posted[0]);
    assert(!IN_THE_DARK(1) || posted[1]);
    assert(!IN_THE_DARK(2) || posted[2]);
    assert(HOW_MANY(ADMITTED) <= LIMIT);
    assert(HOW_MANY(ADMITTED) == permits);
    assert(HOW_MANY(WAITING) == len(line));
#ifndef BREAK_SLIP_IN
    /* Left out there so that spin goes on to what comes of it. */
    assert(permits == LIMIT || len(line) == 0)
#endif
}

/* The store touches the ticket: its link in the inbox, or the word on its owner's stack. */
inline post()
{
    next = (owed & 1 -> 0 : (owed & 2 -> 1 : 2));
    owed = owed & ~BIT(next);
    assert(live[next] && request[next] == about[next]);
    assert(len(inbox[OWNER(next)]) < PLACES);
#ifdef BREAK_POST_DROPPED
    if
    :: len(inbox[OWNER(next)]) == 0 -> inbox[OWNER(next)]!next, about[next], told[next]
    :: else
    fi;
#else
    inbox[OWNER(next)]!next, about[next], told[next];
#endif
    about[next] = 0;
    told[next] = 0;
    next = 0
}

/* --- a loop ---------------------------------------------------------------------------------- */

/* Values that no longer matter would only multiply the states. */
inline forget()
{
    doing = NONE;
    ticket = 0;
    meant = 0;
    next = 0;
    verdict = 0
}

/* The guards of TIMEOUT and LAPSE read the state without the lock. They stand for a timer that
 * fires when the state is so; once the lock is taken it may be another. A thread of sync.h that
 * sleeps on its word makes no calls, and so finds nothing due but its own timeout. */
#ifdef SYNC
#define AWAKE(T) (OWNER(T) == me || view[me] == FREE || view[me] == HOLDING)
#else
#define AWAKE(T) true
#endif
#define CHOICES(T)                                                                                 \
    :: OWNER(T) == me && view[T] == FREE && request[T] < ROUNDS(T) -> ticket = T; doing = ENTER    \
    :: OWNER(T) == me && view[T] == HOLDING -> ticket = T; doing = LEAVE                           \
    :: OWNER(T) == me && (view[T] == LINED || view[T] == HOLDING) && !calm ->                      \
        ticket = T; doing = CANCEL                                                                 \
    :: state[T] == WAITING && AWAKE(T) && !calm -> ticket = T; doing = TIMEOUT                     \
    :: state[T] == ADMITTED && AWAKE(T) && !calm -> ticket = T; doing = LAPSE

#define FINISHED(T) (OWNER(T) != me || (view[T] == FREE && request[T] == ROUNDS(T)))

proctype loop(byte me)
{
    mtype:deed doing = NONE;
    byte ticket; /* that the deed is about */
    byte meant;  /* which request of it, when it is a post */
    byte next;
    byte news;   /* a set of tickets */
    byte owed;   /* a set of posts, and what they will say: */
    byte about[TICKETS];
    mtype:fate told[TICKETS];
    mtype:fate verdict;
#ifdef BREAK_SLIP_IN
    bool owes;
#endif

choose:
    atomic {
        if
        CHOICES(0)
        CHOICES(1)
        CHOICES(2)
#ifdef BREAK_POLL
        :: OWNER(1) == me && view[1] == LINED -> ticket = 1; doing = LOOK
#endif
        :: inbox[me]?ticket, meant, verdict -> doing = HEAR
        :: FINISHED(0) && FINISHED(1) && FINISHED(2) -> goto finished
        fi
    }
#ifdef SYNC
    if
    :: d_step { doing == HEAR -> hear(ticket); forget() }
        goto choose
    :: doing != HEAR
    fi;
#endif

#ifdef BREAK_SLIP_IN
take_lock:
    skip;
#endif
    d_step {
        !locked -> locked = true;
        if
        :: doing == ENTER -> enter(ticket)
        :: doing == LEAVE -> leave(ticket)
        :: doing == CANCEL -> cancel(ticket)
        :: doing == TIMEOUT -> time_out(ticket)
        :: doing == LAPSE -> lapse(ticket)
#ifndef SYNC
        :: doing == HEAR -> hear(ticket)
#endif
#ifdef BREAK_POLL
        :: doing == LOOK
#endif
#ifdef BREAK_SLIP_IN
        :: doing == HAND_OVER && len(line) > 0 -> line?next; admit(next); news = BIT(next)
        :: doing == HAND_OVER && len(line) == 0
#endif
        fi
    }
#ifdef BREAK_DRAIN_UNLOCKED
    locked = false;
    d_step { drain(); forget() }
#else
    d_step { drain(); check_key(); locked = false; forget() }
#endif

    do
    :: d_step { owed != 0 -> post() }
    :: owed == 0 -> break
    od;
#ifdef BREAK_SLIP_IN
    if
    :: atomic { owes -> owes = false; doing = HAND_OVER }
        goto take_lock
    :: !owes
    fi;
#endif
    goto choose;

finished:
    done++
}

init
{
    atomic {
        run loop(0);
        run loop(1);
#ifdef SYNC
        run loop(2)
#endif
    }
    calm = true;
    done == LOOPS;
    assert(permits == 0);
    assert(len(line) == 0);
    assert(!posted[0] && !posted[1] && !posted[2]);
    assert(!live[0] && !live[1] && !live[2])
}
