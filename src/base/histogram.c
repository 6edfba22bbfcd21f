#include "base/histogram.h"

#define MILLISECONDS(count) ((count)*WEIR_NS_PER_MS)
#define SECONDS(count)      ((count)*WEIR_NS_PER_SECOND)

const struct weir_histogram_scale weir_scale_gate_wait = {
    WEIR_GATE_WAIT_BUCKETS,
    {MILLISECONDS(5), MILLISECONDS(10), MILLISECONDS(20), MILLISECONDS(50), MILLISECONDS(100),
     MILLISECONDS(200), MILLISECONDS(500), SECONDS(1), SECONDS(2), SECONDS(5), SECONDS(10),
     SECONDS(30)}};

/* Dashboards for LLM gateways know these two scales. */
const struct weir_histogram_scale weir_scale_llm_wait = {
    WEIR_WAIT_BUCKETS,
    {MILLISECONDS(5), MILLISECONDS(10), MILLISECONDS(20), MILLISECONDS(50), MILLISECONDS(100),
     MILLISECONDS(200), MILLISECONDS(500), SECONDS(1)}};
const struct weir_histogram_scale weir_scale_llm_latency = {
    WEIR_LATENCY_BUCKETS,
    {MILLISECONDS(50), MILLISECONDS(100), MILLISECONDS(200), MILLISECONDS(300), MILLISECONDS(500),
     SECONDS(1), SECONDS(2), SECONDS(5), SECONDS(10)}};

const struct weir_histogram_scale weir_scale_job_run = {
    WEIR_JOB_RUN_BUCKETS,
    {MILLISECONDS(10), MILLISECONDS(100), MILLISECONDS(500), SECONDS(1), SECONDS(5), SECONDS(10),
     SECONDS(60), SECONDS(300), SECONDS(1800), SECONDS(3600)}};
