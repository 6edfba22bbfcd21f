/* list.h - intrusive, circular, doubly linked lists.
 *
 * A list is a link that points to itself when empty; an item carries a link and is found from it
 * with weir_container_of(). Nothing allocates, every operation is O(1). */
#ifndef WEIR_BASE_LIST_H
#define WEIR_BASE_LIST_H

#include "weir/types.h"

#include <stdbool.h>

#define weir_container_of(pointer, type, member) \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

static inline void weir_list_init(struct weir_link *list)
{
    list->next = list;
    list->previous = list;
}

static inline bool weir_list_empty(const struct weir_link *list)
{
    return list->next == list;
}

static inline void weir_list_insert_after(struct weir_link *where, struct weir_link *link)
{
    link->previous = where;
    link->next = where->next;
    where->next->previous = link;
    where->next = link;
}

static inline void weir_list_push_front(struct weir_link *list, struct weir_link *link)
{
    weir_list_insert_after(list, link);
}

static inline void weir_list_push_back(struct weir_link *list, struct weir_link *link)
{
    weir_list_insert_after(list->previous, link);
}

static inline void weir_list_unlink(struct weir_link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    link->next = NULL;
    link->previous = NULL;
}

#endif
