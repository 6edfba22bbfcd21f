/* trust.c - the certificates and settings with which a config's upstreams are judged: loaded once
 * in the thread that loads the config, and only read after that, by all workers. */
#include "upstream/trust.h"

#include "base/slice.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

struct weir_trust {
    uint32_t count;
    struct {
        struct weir_tls_client *client; /* null: no TLS */
        bool shared;                    /* it belongs to one before */
    } upstreams[];
};

static bool uses_tls(const struct weir_config_upstream *upstream)
{
    bool uses = false;
    for (uint32_t i = 0; i < upstream->url_count; i++) {
        uses = uses || upstream->urls[i].tls;
    }
    return uses;
}

static bool same_trust(const struct weir_config_upstream *a, const struct weir_config_upstream *b)
{
    return a->tls.verify == b->tls.verify && weir_slice_equal(a->tls.ca, b->tls.ca);
}

/* What one of the upstreams before has loaded that is right for this one, too; or null. */
static struct weir_tls_client *find_same(const struct weir_trust *trust,
                                         const struct weir_config *config, uint32_t index)
{
    for (uint32_t i = 0; i < index; i++) {
        if (trust->upstreams[i].client != NULL &&
            same_trust(&config->upstreams[i], &config->upstreams[index])) {
            return trust->upstreams[i].client;
        }
    }
    return NULL;
}

static const char *place_mistake(const struct weir_config *config,
                                 const struct weir_config_upstream *upstream, const char *wrong)
{
    static _Thread_local char sentence[1024];
    if (upstream->tls.ca.bytes == 0) {
        return wrong;
    }
    snprintf(sentence, sizeof sentence, "%.*s:%u: upstreams.%.*s.tls.ca: %s",
             (int)config->file.bytes, config->file.data, upstream->tls.ca_line,
             (int)upstream->name.bytes, upstream->name.data, wrong);
    return sentence;
}

struct weir_trust *weir_trust_load(const struct weir_config *config, const char **wrong)
{
    uint32_t count = config->upstream_count;
    struct weir_trust *trust = calloc(1, sizeof *trust + count * sizeof trust->upstreams[0]);
    if (trust == NULL) {
        *wrong = "there is no memory left";
        return NULL;
    }
    trust->count = count;
    for (uint32_t i = 0; i < count; i++) {
        const struct weir_config_upstream *upstream = &config->upstreams[i];
        if (!uses_tls(upstream)) {
            continue;
        }
        trust->upstreams[i].client = find_same(trust, config, i);
        trust->upstreams[i].shared = trust->upstreams[i].client != NULL;
        if (trust->upstreams[i].shared) {
            continue;
        }
        struct weir_tls_trust whom = {.ca = upstream->tls.ca, .verify = upstream->tls.verify};
        trust->upstreams[i].client = weir_tls_client_create(&whom, wrong);
        if (trust->upstreams[i].client == NULL) {
            *wrong = place_mistake(config, upstream, *wrong);
            weir_trust_destroy(trust);
            return NULL;
        }
    }
    return trust;
}

void weir_trust_destroy(struct weir_trust *trust)
{
    for (uint32_t i = 0; trust != NULL && i < trust->count; i++) {
        if (!trust->upstreams[i].shared) {
            weir_tls_client_destroy(trust->upstreams[i].client);
        }
    }
    free(trust);
}

const struct weir_tls_client *weir_trust_of(const struct weir_trust *trust, uint32_t upstream)
{
    assert(upstream < trust->count);
    return trust->upstreams[upstream].client;
}
