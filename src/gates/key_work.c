/* key_work.c - what a call at a key leaves to be done once the key's lock is let go: posts go to
 * the loops of tickets that the call has changed, a timer is set for the next moment at which
 * something becomes due at the key, and readers of events are woken.
 *
 * weir_key_work_collect_news() and weir_key_work_write_events() are called under the key's lock,
 * the rest without it, in the thread of the loop that the work names. */
#include "gates/gates_internal.h"

/* Marks those in the news, of which `ticket` is the first, as posted. A ticket that is admitted
 * from the line is in the news once, so here its wait is counted. Most calls have no news, and do
 * not pay for this. */
WEIR_APART void weir_key_work_collect_news(struct weir_key *key, struct weir_key_work *work,
                                           struct weir_ticket *ticket)
{
    struct weir_post **end = &work->posts;
    for (; ticket != NULL; ticket = weir_news_next(&work->news)) {
        struct weir_gate_ticket *gate_ticket =
            weir_container_of(ticket, struct weir_gate_ticket, ticket);
        if (ticket->state == WEIR_TICKET_ADMITTED) {
            weir_histogram_add_since(&weir_key_state_of(key)->waits, &weir_scale_duration,
                                     ticket->entered_ns, ticket->admitted_ns);
        } else if (ticket->state == WEIR_TICKET_ENDED) {
            weir_key_unlist_ticket(gate_ticket);
        }
        if (!gate_ticket->posted) {
            gate_ticket->posted = true;
            gate_ticket->post = (struct weir_post){.arrive = weir_gate_ticket_arrive};
            *end = &gate_ticket->post;
            end = &gate_ticket->post.next;
        }
    }
}

/* Writes the events into the event log. What has to be written later needs a timer, too. */
WEIR_APART void weir_key_work_write_events(struct weir_key *key, struct weir_key_work *work)
{
    struct weir_key_state *state = weir_key_state_of(key);
    struct weir_gate_entry *entry = work->gates->entries[state->gate];
    struct weir_pause_lines pauses = {.limiter = &entry->pausing,
                                      .gate = {entry->name, entry->name_bytes},
                                      .lane_names = &work->gates->lane_names,
                                      .lane_list = state->lane_names};
    struct weir_event_context place = {work->gates->options.event_log, state->gate, key, &pauses};
    work->wake = weir_event_writer_write(&state->event_writer, &place, work->news.events);
    uint64_t due_ns = state->event_writer.due_ns;
    if (due_ns != 0 && due_ns < work->news.wake_ns) {
        work->news.wake_ns = due_ns;
    }
}

static void on_alarm(struct weir_timer *timer);

/* Sets this loop's timer for the key. Without memory for a timer the next call at the key has to
 * do, and to set it. */
static void arm(struct weir_gates *gates, struct weir_key *key, uint32_t loop_index,
                uint64_t wake_ns)
{
    struct weir_loop *loop = weir_gates_loop_of(gates, loop_index);
    struct weir_key_alarm *alarm = &weir_key_state_of(key)->alarms[loop_index];
    if (alarm->key == NULL) {
        if (!weir_timer_init(loop, &alarm->timer, on_alarm)) {
            weir_key_lock(key);
            weir_key_state_of(key)->armed_ns =
                0; /* else every later moment would seem to be looked after */
            weir_key_unlock(key);
            return;
        }
        alarm->gates = gates;
        alarm->loop_index = loop_index;
        alarm->key = weir_key_pin(key);
    }
    weir_timer_set(loop, &alarm->timer, wake_ns);
}

void weir_key_alarm_disarm(struct weir_key_alarm *alarm)
{
    struct weir_key *key = alarm->key;
    weir_timer_deinit(weir_gates_loop_of(alarm->gates, alarm->loop_index), &alarm->timer);
    alarm->key = NULL;
    weir_key_give(key);
}

/* Without the lock. The caller still pins the key. */
void weir_key_work_run(struct weir_key *key, struct weir_key_work *work)
{
    struct weir_gates *gates = work->gates;
    uint32_t loop_index = work->loop_index;
    while (work->posts != NULL) {
        struct weir_post *post = work->posts;
        uint32_t to = weir_container_of(post, struct weir_gate_ticket, post)->loop_index;
        work->posts = post->next;
        if (to == loop_index) {
            weir_loop_defer(weir_gates_loop_of(gates, to), post);
        } else {
            weir_loop_post(weir_gates_loop_of(gates, to), post);
        }
    }
    if (work->arm) {
        arm(gates, key, loop_index, work->news.wake_ns);
    }
    if (weir_unlikely(work->wake)) {
        weir_event_log_wake(gates->options.event_log);
    }
}

static void on_alarm(struct weir_timer *timer)
{
    struct weir_key_alarm *alarm = weir_container_of(timer, struct weir_key_alarm, timer);
    struct weir_gates *gates = alarm->gates;
    struct weir_key *key = weir_key_pin(alarm->key);
    uint32_t loop_index = alarm->loop_index;
    struct weir_key_work work = weir_key_work_begin(gates, loop_index);
    weir_key_alarm_disarm(alarm);
    weir_key_lock(key);
    weir_key_state_of(key)->armed_ns = 0;
    weir_key_wake(key, weir_gates_loop_of(gates, loop_index)->now_ns, &work.news);
    weir_key_work_collect(key, &work);
    weir_key_unlock(key);
    weir_key_work_run(key, &work);
    weir_key_give(key);
}
