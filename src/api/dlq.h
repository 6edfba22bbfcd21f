/* dlq.h - the dead letter queue: GET /dlq, redriving one or many, DELETE /dlq/{jobId}. */
#ifndef WEIR_API_DLQ_H
#define WEIR_API_DLQ_H

#include "api/call.h"

void weir_api_list_dead(struct weir_call *call);
void weir_api_redrive(struct weir_call *call);
void weir_api_redrive_all(struct weir_call *call);
void weir_api_remove_dead(struct weir_call *call);

#endif
