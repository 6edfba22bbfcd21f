/* tell.h - reports what happened: events to their readers, tickets to the news. */
#ifndef WEIR_CORE_TELL_H
#define WEIR_CORE_TELL_H

#include "base/hints.h"
#include "core/key.h"

/* What one event is about; the counts are added from the key. */
struct weir_occasion {
    const struct weir_ticket *ticket;
    const struct weir_lane *lane;
    uint64_t value;
    uint8_t cause;
};

/* Whether the caller's ring wants any of these kinds. */
static inline bool weir_news_wants(const struct weir_news *news, uint32_t kinds)
{
    return news->events != NULL && (news->events->kinds & kinds) != 0;
}

/* Whether the caller or the recorder wants such events. Asked before an event is put together, so
 * that an unwanted one costs two comparisons. */
static inline bool weir_heard(const struct weir_key *key, const struct weir_news *news,
                              enum weir_event_kind kind)
{
    return weir_unlikely(key->recorder != NULL || weir_news_wants(news, 1u << kind));
}

/* Writes an event to the recorder and to the caller's ring, as far as there are any. */
void weir_key_tell(struct weir_key *key, struct weir_news *news, enum weir_event_kind kind,
                   struct weir_occasion what);

/* Tells of a lane's limit and why it changed, if it is not what it was before. */
void weir_tell_limit(struct weir_key *key, struct weir_news *news, const struct weir_lane *lane,
                     uint32_t before);

/* weir_tell_limit() of a call that has set the limit, whatever a controller last did below it. */
void weir_tell_limit_by_hand(struct weir_key *key, struct weir_news *news,
                             const struct weir_lane *lane, uint32_t before);

/* Lets the news name a ticket, once. */
void weir_news_add(struct weir_news *news, struct weir_ticket *ticket);

#endif
