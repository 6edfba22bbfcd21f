/* dns_preload.h - looks all names of a worker config's upstreams up, a few at a time, and says on
 * the log which of them cannot be found. Such a name is no reason not to serve: it may come later.
 */
#ifndef WEIR_UPSTREAM_DNS_PRELOAD_H
#define WEIR_UPSTREAM_DNS_PRELOAD_H

struct weir_dns_preload;
struct weir_worker_config;

/* Null without memory: then no line is written. In the loop's thread, or before that runs. */
struct weir_dns_preload *weir_dns_preload_begin(struct weir_worker_config *worker_config);

/* At any time, in the loop's thread; null is fine. */
void weir_dns_preload_end(struct weir_dns_preload *dns_preload);

#endif
