#include "gateway/scribe.h"

#include "gateway/pass.h"

/* How long the ticket may wait. */
static uint64_t timeout_of(const struct weir_ticket *ticket)
{
    if (ticket->deadline_ns == WEIR_NEVER) {
        return WEIR_NEVER;
    }
    return ticket->deadline_ns > ticket->entered_ns ? ticket->deadline_ns - ticket->entered_ns : 0;
}

bool weir_scribe_write(struct weir_journal *journal, uint32_t gate, const struct weir_key *key,
                       struct weir_event_ring *ring)
{
    bool wake = false;
    struct weir_event event;
    while (weir_event_ring_pop(ring, &event)) {
        const struct weir_pass *pass = (const struct weir_pass *)(uintptr_t)event.tag;
        struct weir_notice notice = {
            .event = &event, .gate = gate, .key = weir_key_name(key), .timeout_ns = WEIR_NEVER};
        if (pass != NULL) {
            notice.flow = pass->flow;
            notice.tenant = pass->tenant;
            notice.timeout_ns = timeout_of(&pass->ticket);
        }
        wake = weir_journal_write(journal, &notice);
    }
    if (ring->lost > 0) {
        weir_journal_skip(journal, ring->lost);
        ring->lost = 0;
    }
    return wake;
}
