/* handlers.h - what the paths of the API lead to; routes.c says which path to which.
 *
 * A handler is called when the request is complete, one that takes the body itself when the head
 * is. It decides the reply or leaves the call pending; call.h has the rest. */
#ifndef WEIR_API_HANDLERS_H
#define WEIR_API_HANDLERS_H

#include "api/call.h"

/* gates.c and line.c: what happens at gates. */
void weir_api_get_gates(struct weir_call *call);
void weir_api_get_gate(struct weir_call *call);
void weir_api_get_key(struct weir_call *call);
void weir_api_get_line(struct weir_call *call);

/* holders.c: the holders of permits at a key. */
void weir_api_get_holders(struct weir_call *call);
void weir_api_end_holder(struct weir_call *call);

/* permits.c: POST /gates/{gate}/{key}/acquire, /release and /renew. */
void weir_api_acquire(struct weir_call *call);
void weir_api_release(struct weir_call *call);
void weir_api_renew(struct weir_call *call);

/* override.c: limits and pauses by hand. */
void weir_api_put_key_limit(struct weir_call *call);
void weir_api_remove_key_limit(struct weir_call *call);
void weir_api_pause(struct weir_call *call);
void weir_api_resume(struct weir_call *call);

/* submit.c: POST /submit and /submit/{jobId}. */
void weir_api_submit(struct weir_call *call, const struct weir_http1_head *head, const char *data);

/* jobs.c: one job, or pages of them. */
void weir_api_get_status(struct weir_call *call);
void weir_api_get_result(struct weir_call *call);
void weir_api_get_log(struct weir_call *call);
void weir_api_cancel(struct weir_call *call);
void weir_api_list_jobs(struct weir_call *call);

/* dlq.c: dead letters. */
void weir_api_list_dead(struct weir_call *call);
void weir_api_redrive(struct weir_call *call);
void weir_api_redrive_all(struct weir_call *call);
void weir_api_remove_dead(struct weir_call *call);

/* The process: capacity.c, events.c, metrics.c, usage.c and reload.c. */
void weir_api_get_capacity(struct weir_call *call);
void weir_api_get_events(struct weir_call *call);
void weir_api_get_metrics(struct weir_call *call);
void weir_api_get_usage(struct weir_call *call);
void weir_api_reload(struct weir_call *call);

#endif
