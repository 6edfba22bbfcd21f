/* llm_filter.h - LLM traffic as a filter of exchanges. docs/guides/llm.md tells the whole. */
#ifndef WEIR_LLM_LLM_FILTER_H
#define WEIR_LLM_LLM_FILTER_H

#include "proxy/filter.h"

/* For routes with `llm`. Its settings are the route's struct weir_dialect. */
extern const struct weir_exchange_filter weir_llm_filter;

#endif
