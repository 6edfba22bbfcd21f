/* jobs.h - one job: GET /status, /result and /log of it, POST /cancel; and GET /jobs, many. */
#ifndef WEIR_API_JOBS_H
#define WEIR_API_JOBS_H

#include "api/call.h"

void weir_api_get_status(struct weir_call *call);
void weir_api_get_result(struct weir_call *call);
void weir_api_get_log(struct weir_call *call);
void weir_api_cancel(struct weir_call *call);
void weir_api_list_jobs(struct weir_call *call);

#endif
