/* submit_many.h - POST /submit with a job a line: all of them or none, in one commit. */
#ifndef WEIR_API_SUBMIT_MANY_H
#define WEIR_API_SUBMIT_MANY_H

#include "api/call.h"

void weir_api_submit_many(struct weir_call *call, const struct weir_http1_head *head,
                          const char *data);

#endif
