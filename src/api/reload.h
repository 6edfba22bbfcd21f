/* reload.h - POST /reload. */
#ifndef WEIR_API_RELOAD_H
#define WEIR_API_RELOAD_H

#include "api/call.h"

void weir_api_reload(struct weir_call *call);

/* The call ends while it waits for that. */
void weir_api_forget_reload(struct weir_call *call);

#endif
