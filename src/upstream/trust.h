/* trust.h - whom a config's upstreams trust: what TLS needs, loaded once and shared by all workers.
 *
 * Upstreams that trust the same share it, since certificates take time and memory to load. */
#ifndef WEIR_UPSTREAM_TRUST_H
#define WEIR_UPSTREAM_TRUST_H

#include "config/config.h"
#include "net/tls.h"

struct weir_trust;

/* Reads the files that the config names. Null on failure, with a sentence that says which is wrong
 * and where it is named, until this thread's next. The config must outlive the result. */
struct weir_trust *weir_trust_load(const struct weir_config *config, const char **wrong);

/* Null is fine. */
void weir_trust_destroy(struct weir_trust *trust);

/* What an upstream, by its index, connects with; null if none of its urls is https. */
const struct weir_tls_client *weir_trust_of(const struct weir_trust *trust, uint32_t upstream);

#endif
