/* refusal.h - a ticket that did not get through, in words. */
#ifndef WEIR_GATES_REFUSAL_H
#define WEIR_GATES_REFUSAL_H

#include "config/config.h"
#include "gates/gate_ticket.h"
#include "gates/problem.h"

/* A problem document with the counts of its key; must not be copied. */
struct weir_refusal {
    struct weir_problem problem;
    struct weir_key_stats stats;
    char detail[512]; /* of a problem that names numbers */
};

/* The request that was refused, and at which gate and key. */
struct weir_refused {
    const struct weir_config_gate *gate;
    const struct weir_gate_ticket
        *gate_ticket; /* not closed; its key is null if there could not be one */
    uint64_t arrived_ns;
    uint64_t now_ns;
};

/* As what a ticket is refused that the door does not let in, for this reason. */
enum weir_problem_kind weir_refusal_kind(enum weir_status why);

void weir_refusal_make(struct weir_refusal *refusal, enum weir_problem_kind kind,
                       const char *detail, const struct weir_refused *refused);

/* Makes the document of a ticket that the door refused, and of one that ended in line. */
void weir_refusal_at_door(struct weir_refusal *refusal, const struct weir_refused *refused);
void weir_refusal_in_line(struct weir_refusal *refusal, const struct weir_refused *refused);

/* Makes the document of a request whose flow has as many as it may. */
void weir_refusal_too_deep(struct weir_refusal *refusal, const struct weir_refused *refused);

#endif
