/* refusal_log.h - the lines of the log about requests that were refused for a reason that an
 * operator should see: a wrong API key, a budget or a provider's quota that is spent. */
#ifndef WEIR_PROXY_REFUSAL_LOG_H
#define WEIR_PROXY_REFUSAL_LOG_H

#include "proxy/exchange.h"

/* The exchange is answered by that problem. Logs it if it is of one of those kinds. In the thread
 * of the exchange. */
void weir_refusal_log(const struct weir_exchange *exchange, const struct weir_problem *problem);

#endif
