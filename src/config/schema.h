/* schema.h - the sections of the file, each read by a file of its own. */
#ifndef WEIR_CONFIG_SCHEMA_H
#define WEIR_CONFIG_SCHEMA_H

#include "config/match.h"
#include "config/reader.h"

/* The whole file: the top of the tree of sections. */
extern const struct weir_section weir_section_top;

/* The readers of whole sections have a struct weir_config for their target. */

/* schema_server.c: where to listen, the servers for names, and which clients are believed. */
extern const struct weir_section weir_section_listener;
extern const struct weir_section weir_section_events;
weir_field_read weir_read_events;
extern const struct weir_section weir_section_dns;
weir_field_read weir_read_listen;
weir_field_read weir_read_api;
weir_field_read weir_read_protocol;
weir_field_read weir_read_trusted;
weir_field_print weir_print_network; /* struct weir_config_network */

/* schema_log.c: what is written about what Weir does. */
extern const struct weir_section weir_section_log;
extern const struct weir_section weir_section_access_log;
extern const struct weir_section weir_section_metrics;
weir_field_read weir_read_log; /* struct weir_config_log */

/* schema_upstream.c; what an upstream does not name depends on which routes lead to it, so it is
 * completed once all have been read. */
extern const struct weir_section weir_section_upstream;
weir_field_read weir_read_upstreams;
void weir_finish_upstreams(struct weir_reader *reader);

/* schema_gate.c; the same holds for gates. `root` is the whole file. */
extern const struct weir_section weir_section_gate;
weir_field_read weir_read_gates;
void weir_finish_gates(struct weir_reader *reader, const struct weir_yaml *root);

/* schema_limit.c: what several sections share. */
weir_field_read weir_read_limit; /* struct weir_config_limit */
weir_field_print weir_print_limit;
weir_field_read weir_read_bucket; /* struct weir_config_bucket */
weir_field_print weir_print_bucket;
extern const struct weir_section weir_section_limit;
extern const struct weir_section weir_section_bucket;

/* An adaptive limit that names nothing. Its `max`, and any that was read without one, is 0 until
 * the limit is finished, and stays so where the controller has its own. */
struct weir_config_limit weir_limit_adaptive(void);
void weir_limit_finish(struct weir_config_limit *limit, enum weir_controller controller);

/* Numbers by priority, in an array of uint32_t: weights, and bounds on what waits. */
extern const struct weir_section weir_section_weights;
extern const struct weir_section weir_section_line_by_priority;
extern const struct weir_section weir_section_queue_by_priority;

/* A breaker and the health of an upstream are the same three numbers. After reading one, the last
 * default is filled in, and the numbers are compared; `node` may be null if there is none. */
extern const struct weir_section weir_section_health;
extern const struct weir_section weir_section_breaker;
void weir_reader_finish_breaker(struct weir_reader *reader, const struct weir_yaml *node,
                                struct weir_breaker_settings *breaker);

/* What single tenants have at a gate or in a queue, whose section it is. Those that are named start
 * from `usual`, which is `default`'s. Null, and the count as it was, if there are none. */
extern const struct weir_section weir_section_gate_tenant;
extern const struct weir_section weir_section_queue_tenant;
const struct weir_tenant_settings *weir_read_tenant_settings(struct weir_reader *reader,
                                                             const struct weir_yaml *value,
                                                             const struct weir_section *section,
                                                             struct weir_tenant_settings *usual,
                                                             uint32_t *tenant_count);

/* schema_route.c; needs the upstreams and gates. */
extern const struct weir_section weir_section_route;
weir_field_read weir_read_routes;
weir_field_read weir_read_gate; /* an index */
weir_field_print weir_print_gate;

/* schema_llm.c: what a route says about the LLM behind it. Finished when the route has its key. */
extern const struct weir_section weir_section_llm_custom;
weir_field_read weir_read_llm_custom; /* a pointer to a struct weir_config_llm_custom */
weir_field_print weir_print_llm_custom;
weir_field_read weir_read_default_key; /* struct weir_slice */

/* Whether the route has an LLM, one that tells of cached tokens, {model} in its key. */
bool weir_route_has_llm(const void *route);
bool weir_route_has_cache(const void *route);
bool weir_route_has_body_key(const void *route);
void weir_finish_llm(struct weir_reader *reader, const struct weir_yaml *node,
                     struct weir_config_route *route);

/* schema_json.c: bodies that are JSON, and sessions. The readers' target is the route, which is
 * finished when it has its key. */
extern const struct weir_section weir_section_sessions;
weir_field_read weir_read_ungated;
weir_field_read weir_read_sessions;
weir_field_print weir_print_sessions;
bool weir_route_is_json_rpc(const void *route);
void weir_finish_json(struct weir_reader *reader, const struct weir_yaml *node,
                      struct weir_config_route *route, const struct weir_pattern *pattern);

/* schema_queue.c; needs the routes. */
extern const struct weir_section weir_section_queue;
weir_field_read weir_read_queues;

/* schema_tenant.c */
extern const struct weir_section weir_section_tenant;
weir_field_read weir_read_tenants;

/* schema_token.c */
extern const struct weir_section weir_section_api_token;
weir_field_read weir_read_api_tokens;

#endif
