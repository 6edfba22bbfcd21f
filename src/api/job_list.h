/* job_list.h - jobs by the page: GET /jobs and GET /dlq. */
#ifndef WEIR_API_JOB_LIST_H
#define WEIR_API_JOB_LIST_H

#include "api/job_call.h"

/* What a query of jobs asks for; its texts are its own. */
struct weir_job_filter {
    struct weir_store_filter filter;
    bool by_state; /* `state` is a parameter */
    bool by_page;  /* so are `after` and `limit` */
    uint64_t after;
    uint32_t rows_max;
    char queue[WEIR_NAME_BYTES_MAX];
    char tenant[WEIR_NAME_BYTES_MAX];
};

/* Reads the query; for a caller that speaks for one tenant, the filter is confined to that tenant.
 * False if something is wrong: then that is the reply. */
bool weir_job_filter_read(struct weir_call *call, struct weir_job_filter *filter);

/* Answers with a page of those in a state, -1 if the query may name it. */
void weir_job_list(struct weir_call *call, int state);

#endif
