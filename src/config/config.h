/* config.h - a configuration file as one struct: complete, checked, and never changed again.
 *
 * Every default stands in it, every name that refers to something has become an index, and every
 * value is within the bounds that the rest of the program states, so its users need not check
 * again. docs/reference/config.md describes the file; the comments here only say what differs in
 * the struct.
 *
 * A configuration owns all of its memory and may be read from any thread. */
#ifndef WEIR_CONFIG_CONFIG_H
#define WEIR_CONFIG_CONFIG_H

#include "base/arena.h"
#include "config/errors.h"
#include "weir/budget.h"
#include "weir/settings.h"

#include <stdio.h>

#define WEIR_CONFIG_NONE UINT32_MAX /* where an index is expected: there is none */

/* ---- where to listen, and which clients are believed ---- */

enum weir_config_address_kind {
    WEIR_CONFIG_ADDRESS_TCP,
    WEIR_CONFIG_ADDRESS_UNIX
};

struct weir_config_address {
    enum weir_config_address_kind kind;
    struct weir_slice host; /* TCP: a name or an IP address, IPv6 without its brackets */
    uint16_t port;          /* TCP */
    struct weir_slice path; /* UNIX */
};

enum weir_config_half_close {
    WEIR_CONFIG_HALF_CLOSE_CLOSE,
    WEIR_CONFIG_HALF_CLOSE_KEEP
};

/* What becomes of paths that upstreams read differently: proxy/request_path.h. */
enum weir_config_paths {
    WEIR_CONFIG_PATHS_NORMALIZE,
    WEIR_CONFIG_PATHS_REFUSE,
    WEIR_CONFIG_PATHS_KEEP
};

/* How long a client may take. */
struct weir_config_patience {
    uint64_t head_ns;  /* for a head, from its first byte to its last */
    uint64_t idle_ns;  /* for its next request */
    uint64_t stall_ns; /* to send the next part of a body, or to read the next part of a reply */
    uint64_t body_ns;  /* for a body: all the time in which Weir waits for it; WEIR_NEVER: any */
};

struct weir_config_listener {
    uint32_t line;
    struct weir_config_address address;
    enum weir_config_half_close half_close;
    enum weir_config_paths paths; /* of `listen` only */
    uint32_t connections_max;
    struct weir_config_patience patience;
    uint64_t body_rate_bytes;       /* the least of a body a second; WEIR_NEVER: none */
    const struct weir_slice *hosts; /* on loopback: names besides its own; "*" is any */
    uint32_t host_count;
    struct weir_slice public_url; /* of `listen` only, without a slash at its end; or empty */
};

enum weir_config_network_kind {
    WEIR_CONFIG_NETWORK_V4,
    WEIR_CONFIG_NETWORK_V6,
    WEIR_CONFIG_NETWORK_UNIX /* every client of a Unix socket */
};

struct weir_config_network {
    enum weir_config_network_kind kind;
    uint32_t bits;     /* of the address that count */
    uint8_t bytes[16]; /* in network order; V4 uses four */
};

/* ---- upstreams ---- */

struct weir_config_url {
    struct weir_config_address address;
    bool tls;
};

struct weir_config_header {
    struct weir_slice name;
    struct weir_slice value;  /* a secret: never shown */
    struct weir_slice file;   /* instead: whose first line is the value; empty: none */
    struct weir_slice prefix; /* before it */
};

/* What a model is called there, where callers name it otherwise. */
struct weir_config_rename {
    struct weir_slice from;
    struct weir_slice to;
};

/* How servers with https are judged. */
struct weir_config_tls {
    struct weir_slice ca; /* a file; empty: the authorities that the system trusts */
    uint32_t ca_line;
    struct weir_slice server_name; /* empty: the host that the url names */
    bool verify;
};

struct weir_config_upstream {
    struct weir_slice name;
    uint32_t line;
    const struct weir_config_url *urls;
    uint32_t url_count;       /* at least 1 */
    struct weir_slice prefix; /* of every path there; empty: none */
    struct weir_config_tls tls;
    const struct weir_config_header *headers;
    uint32_t header_count;
    uint64_t connect_timeout_ns;
    uint64_t first_byte_timeout_ns;
    uint64_t idle_timeout_ns;
    uint32_t keepalive;                  /* 0: every request has a connection of its own */
    struct weir_breaker_settings health; /* of each url; failures 0: none */
    enum weir_charge charge;             /* when the provider charges for output */
    const struct weir_config_rename *models;
    uint32_t model_count;
};

/* ---- gates ---- */

enum weir_config_kind {
    WEIR_CONFIG_KIND_NONE,    /* unlimited; of a limit the numbers are WEIR_LIMIT_NONE */
    WEIR_CONFIG_KIND_FIXED,   /* `start`, to which `min` and `max` are equal */
    WEIR_CONFIG_KIND_ADAPTIVE /* found at run time, from `start` on and between `min` and `max` */
};

struct weir_config_limit {
    enum weir_config_kind kind;
    uint32_t start;
    uint32_t min;
    uint32_t max;     /* 0: the config names none; then the controller is LEARNED, with its own */
    bool start_usual; /* ADAPTIVE: `start` was not named, and depends on what the upstream says */
};

struct weir_config_rate {
    uint64_t tokens;
    uint64_t period_ns;
};

struct weir_config_bucket {
    enum weir_config_kind kind;
    struct weir_config_rate start;
    struct weir_config_rate min;
    struct weir_config_rate max;
    uint64_t burst; /* 0: the tokens of one period */
};

struct weir_config_line {
    uint64_t timeout_ns;                       /* WEIR_NEVER: none */
    struct weir_bound max;                     /* cost 0: no bound */
    uint32_t status;                           /* 429 or 503 */
    uint32_t by_priority[WEIR_PRIORITY_COUNT]; /* tickets; 0: no bound of their own */
    uint32_t by_tenant;                        /* the same */
};

/* The lease of permits that callers acquire without holding them by a connection, where the gate
 * names none. */
#define WEIR_CONFIG_LEASE_DEFAULT_NS (UINT64_C(600) * 1000000000)

/* How the keys of a gate behave. */
struct weir_config_rules {
    struct weir_config_limit limit;
    struct weir_config_bucket rate;   /* counts requests */
    struct weir_config_bucket tokens; /* counts what they cost */
    struct weir_config_line line;
    uint64_t lease_ns; /* WEIR_NEVER: none */
    bool lease_named;  /* else permits of the API have WEIR_CONFIG_LEASE_DEFAULT_NS */
    bool early_reject;
    uint32_t weights[WEIR_PRIORITY_COUNT];
    enum weir_choice choice;
    struct weir_breaker_settings breaker;
    struct weir_aimd_settings aimd;  /* complete, whatever the controller */
    enum weir_controller controller; /* NONE unless the limit or the tokens are adaptive */
    enum weir_settle settle;         /* DEBT: the tokens are fixed, or the controller is AIMD */
    enum weir_estimate estimate;     /* NONE: no prediction; LLM gates always have one */
};

/* What a gate has that names neither a limit nor how long its line waits. */
enum weir_config_preset {
    WEIR_CONFIG_PRESET_NONE,
    WEIR_CONFIG_PRESET_AGENTS /* 3 permits, 30 s in line */
};

struct weir_config_key {
    struct weir_slice name;
    uint32_t line;
    struct weir_config_rules rules; /* complete: the gate's, changed where the key differs */
};

struct weir_config_gate {
    struct weir_slice name;
    uint32_t line;
    struct weir_config_rules rules;
    enum weir_config_preset preset; /* the rules have it already */
    bool llm;                       /* whether a route with `llm` leads to it */
    bool events_a2a;
    uint32_t depth; /* how many permits of the API that a flow has at a key may share one place */
    uint32_t keys_max;
    uint64_t forget_ns; /* how long an unused key is kept; WEIR_NEVER: while there is room */
    struct weir_tenant_settings tenant_default;
    const struct weir_tenant_settings *tenants; /* complete, as keys are */
    uint32_t tenant_count;
    const struct weir_config_key *keys;
    uint32_t key_count;
};

/* ---- routes ---- */

enum weir_config_source_kind {
    WEIR_CONFIG_SOURCE_NONE,
    WEIR_CONFIG_SOURCE_CONSTANT, /* `text` */
    WEIR_CONFIG_SOURCE_HEADER,   /* the request's header of the name `text` */
    WEIR_CONFIG_SOURCE_CAPTURE,  /* the path segment that the match captured as number `capture` */
    WEIR_CONFIG_SOURCE_MODEL,    /* as the request's body names it */
    WEIR_CONFIG_SOURCE_JSON,     /* the value at the path `text` of the request's body */
    WEIR_CONFIG_SOURCE_TENANT,
    WEIR_CONFIG_SOURCE_UPSTREAM,
    WEIR_CONFIG_SOURCE_API_KEY /* of a tenant only: whose API key the request carries */
};

/* Where a piece of text comes from when a request is there. */
struct weir_config_source {
    enum weir_config_source_kind kind;
    uint32_t capture;
    struct weir_slice text;
    bool odd_name; /* HEADER: `text` has a character other than letters, digits and '-' */
};

enum weir_config_llm {
    WEIR_CONFIG_LLM_NONE,
    WEIR_CONFIG_LLM_OPENAI,
    WEIR_CONFIG_LLM_ANTHROPIC,
    WEIR_CONFIG_LLM_CUSTOM
};

/* What a header of a reply that tells of a reset says. */
enum weir_config_reset_unit {
    WEIR_CONFIG_RESET_ANY, /* a time in any form, which tells itself */
    WEIR_CONFIG_RESET_MILLISECONDS,
    WEIR_CONFIG_RESET_SECONDS,
    WEIR_CONFIG_RESET_DATE,
    WEIR_CONFIG_RESET_WINDOW /* how long the window of the quota is */
};

/* The headers of a reply that state one quota; empty: there is none. */
struct weir_config_llm_quota {
    struct weir_slice limit;
    struct weir_slice remaining;
    struct weir_slice reset;
    enum weir_config_reset_unit reset_unit;
};

/* Where the facts stand in an API that is none of the known ones; empty: nowhere. The first six are
 * paths of names with dots between, such as usage.output_tokens. */
struct weir_config_llm_custom {
    struct weir_slice model; /* of a request, as the next two */
    struct weir_slice max_tokens;
    struct weir_slice stream;
    struct weir_slice input_tokens; /* of a reply, as the next two */
    struct weir_slice output_tokens;
    struct weir_slice cached_tokens;
    struct weir_config_llm_quota requests;
    struct weir_config_llm_quota tokens;
};

/* What a permit belongs to. */
enum weir_config_permit {
    WEIR_CONFIG_PERMIT_REQUEST,
    WEIR_CONFIG_PERMIT_FLOW
};

/* Methods of requests, by bit in a route's `methods`. Their numbers are those of
 * enum weir_http_method, which proxy/routing.c asserts; only a route of all methods takes others.
 */
enum weir_config_method {
    WEIR_CONFIG_METHOD_OTHER,
    WEIR_CONFIG_METHOD_GET,
    WEIR_CONFIG_METHOD_HEAD,
    WEIR_CONFIG_METHOD_POST,
    WEIR_CONFIG_METHOD_PUT,
    WEIR_CONFIG_METHOD_DELETE,
    WEIR_CONFIG_METHOD_OPTIONS = 7,
    WEIR_CONFIG_METHOD_TRACE,
    WEIR_CONFIG_METHOD_PATCH,
    WEIR_CONFIG_METHOD_COUNT
};

#define WEIR_CONFIG_METHODS_ALL UINT32_MAX

struct weir_config_route {
    struct weir_slice match;
    uint32_t line;
    uint32_t methods;                /* by bit: 1 << enum weir_config_method */
    uint32_t next;                   /* the next route of the same paths, or WEIR_CONFIG_NONE; see
                                        weir_config_find_route() */
    const struct weir_slice *models; /* each a name, or the start of one and a * */
    uint32_t model_count;            /* 0: it takes requests for any model, or for none */
    bool by_model; /* the model decides between it and others; see weir_config_choose_route() */
    uint32_t strip_segments;              /* of the path, from its start; 0: it goes on as it is */
    const struct weir_config_source *key; /* the parts, to be put together */
    uint32_t key_parts;                   /* at least 1 */
    struct weir_config_source tenant;     /* NONE: the anonymous tenant */
    struct weir_config_source flow;
    struct weir_config_source priority; /* CONSTANT: see the next */
    enum weir_priority priority_constant;
    uint64_t deadline_ns;        /* WEIR_NEVER: none */
    uint64_t retry_after_max_ns; /* how long a refusal may pause a lane; without llm */
    uint64_t body_bytes_max;     /* UINT64_MAX: none */
    uint32_t gate;               /* an index, or WEIR_CONFIG_NONE */
    const uint32_t *upstreams;   /* indexes, each one lane */
    uint32_t upstream_count;     /* at least 1 */
    bool websocket;
    bool json_rpc;                    /* bodies are JSON-RPC */
    const struct weir_slice *ungated; /* methods of it that need no permit, with * for any text */
    uint32_t ungated_count;
    bool has_sessions;     /* event streams opened by GET are sessions: see the next three */
    uint32_t session_gate; /* an index, or WEIR_CONFIG_NONE */
    const struct weir_config_source *session_key;
    uint32_t session_key_parts;
    enum weir_config_permit permit; /* FLOW: `flow` and `gate` are there */
    uint64_t flow_idle_ns;
    uint32_t depth;
    enum weir_config_llm llm;                    /* NONE: the rest is zeroed */
    const struct weir_config_llm_custom *custom; /* CUSTOM only, else null */
    struct weir_slice default_key; /* what {model} or {json:} is where a body has none or is not
                                      read */
    uint32_t cache_read_percent;   /* of an input token's price, for one that was cached */
    uint32_t retries;
    bool a2a;               /* then each of `listen` has a public_url */
    uint64_t task_lease_ns; /* of a task that goes on after its request; with a2a */
};

/* ---- queues and the API ---- */

enum weir_config_full {
    WEIR_CONFIG_FULL_REJECT,
    WEIR_CONFIG_FULL_WAIT,
    WEIR_CONFIG_FULL_DROP_OLDEST
};

struct weir_config_queue {
    struct weir_slice name;
    uint32_t line;
    const struct weir_slice *run;         /* the command and its arguments */
    uint32_t run_count;                   /* 0: there is none */
    struct weir_slice route;              /* a path that leads to a route; empty: there is none */
    struct weir_slice user;               /* empty: the one that Weir runs as */
    const struct weir_slice *environment; /* NAME=value, the value a secret: never shown */
    uint32_t environment_count;
    uint64_t limit_memory_bytes; /* of a command, as the next three; 0: none */
    uint64_t limit_processes;
    uint64_t limit_cpu_seconds;
    uint64_t limit_output_bytes;
    uint64_t grace_ns; /* between SIGTERM and SIGKILL */
    uint32_t workers;
    uint32_t per_key; /* jobs with the same key at once */
    uint32_t jobs_max;
    uint32_t jobs_by_priority[WEIR_PRIORITY_COUNT]; /* 0: no bound of their own */
    enum weir_config_full full;
    uint64_t lease_ns;
    uint64_t timeout_ns;
    uint32_t attempts;
    uint64_t backoff_first_ns;
    uint64_t backoff_max_ns;
    uint64_t keep_ns;
    uint32_t dead_max;                          /* dead letters */
    uint64_t body_bytes_max;                    /* of one job */
    struct weir_tenant_settings tenant_default; /* limit: running at once; rate: of submissions */
    const struct weir_tenant_settings *tenants; /* complete, as a gate's are */
    uint32_t tenant_count;
};

/* A set of bits, one for each scope. */
enum weir_config_scope {
    WEIR_CONFIG_SCOPE_READ = 1,
    WEIR_CONFIG_SCOPE_SUBMIT = 2,
    WEIR_CONFIG_SCOPE_WORK = 4,
    WEIR_CONFIG_SCOPE_ADMIN = 8
};

struct weir_config_api_token {
    struct weir_slice name;
    uint32_t line;
    struct weir_slice token;  /* a secret: never shown; empty: it stands in `file` */
    struct weir_slice file;   /* read by the code that checks tokens */
    uint32_t scopes;          /* at least one of enum weir_config_scope */
    struct weir_slice tenant; /* empty: any */
};

/* ---- tenants ---- */

/* What becomes of requests for models without a price. */
enum weir_config_unpriced {
    WEIR_CONFIG_UNPRICED_BY_BUDGET, /* refused where a budget of money has to hold, else free */
    WEIR_CONFIG_UNPRICED_REFUSE,
    WEIR_CONFIG_UNPRICED_FREE
};

/* What a tenant may do at all gates; each gate has what it may do there. */
struct weir_config_tenant {
    struct weir_slice name; /* empty: all that are not named */
    uint32_t line;
    struct weir_budget_limits budget;
    const struct weir_slice *models; /* patterns, in which * stands for any text */
    uint32_t model_count;            /* 0: any model */
    enum weir_priority priority;     /* the highest that it may have */
};

/* ---- the whole ---- */

struct weir_matcher;
struct weir_config_written;

/* Where events are written besides the API, and how many may read them there. */
struct weir_config_events {
    struct weir_slice file; /* empty: nowhere */
    uint64_t rotate_bytes;
    uint32_t keep;
    uint32_t readers_max; /* of the API's at once */
};

enum weir_config_log_level {
    WEIR_CONFIG_LOG_DEBUG,
    WEIR_CONFIG_LOG_INFO,
    WEIR_CONFIG_LOG_WARN,
    WEIR_CONFIG_LOG_ERROR
};

enum weir_config_log_format {
    WEIR_CONFIG_LOG_TEXT,
    WEIR_CONFIG_LOG_JSON
};

struct weir_config_log {
    enum weir_config_log_level level;
    enum weir_config_log_format format;
    struct weir_slice file; /* empty: stderr */
};

enum weir_config_access_format {
    WEIR_CONFIG_ACCESS_JSON,
    WEIR_CONFIG_ACCESS_COMBINED
};

struct weir_config_access_log {
    struct weir_slice file; /* empty: there is none */
    enum weir_config_access_format format;
    bool query; /* with the query, secrets masked */
};

struct weir_config_metrics {
    bool llm_names; /* also llm_*, the names that dashboards for LLM gateways know */
};

/* The servers that are asked for the addresses of names. */
struct weir_config_dns {
    const struct weir_config_address *servers; /* IP addresses */
    uint32_t server_count;                     /* 0: those that the system names */
};

struct weir_config {
    struct weir_slice file; /* for messages */
    const struct weir_config_listener *listen;
    uint32_t listen_count;
    const struct weir_config_listener *api;
    uint32_t api_count;
    const struct weir_config_listener *protocol; /* the line protocol's */
    uint32_t protocol_count;
    struct weir_slice data;
    uint64_t spool_bytes_max; /* of long bodies of requests, in files there */
    uint32_t threads;         /* 0: as many as there are cores */
    uint64_t grace_ns;
    struct weir_config_events events;
    struct weir_config_log log;
    struct weir_config_access_log access_log;
    struct weir_config_metrics metrics;
    struct weir_config_dns dns;
    const struct weir_config_network *trusted;
    uint32_t trusted_count;
    const struct weir_config_upstream *upstreams;
    uint32_t upstream_count;
    const struct weir_config_gate *gates;
    uint32_t gate_count;
    const struct weir_config_route *routes;
    uint32_t route_count;
    const struct weir_config_queue *queues; /* the first is the default */
    uint32_t queue_count;
    const struct weir_config_api_token *api_tokens;
    uint32_t api_token_count;
    struct weir_slice prices; /* a file; empty: none */
    enum weir_config_unpriced unpriced;
    struct weir_config_tenant tenant_default;
    const struct weir_config_tenant *tenants; /* complete, and in the order of their names */
    uint32_t tenant_count;
    const struct weir_matcher *matcher; /* of the routes: config/match.h; null without them */
    bool matches_parameters;            /* the match of some route has a semicolon */
    const struct weir_config_written *written; /* private: values that the environment filled in */
    struct weir_arena arena;                   /* private: everything above lives here */
};

/* The value of an environment variable, or null. */
typedef const char *weir_config_lookup(void *context, const char *name);

/* A zeroed struct is good. */
struct weir_config_options {
    const struct weir_allocator *allocator; /* null: malloc and free; must outlive the config */
    weir_config_lookup *lookup;             /* null: getenv() */
    void *lookup_context;
    struct weir_config_errors *warnings; /* filled with what is legal but surely not meant, if the
                                            configuration is good; null: not looked for */
    struct weir_config_errors *notes;    /* filled likewise with values that meant something else to
                                            Weir 0.1.0; null: not looked for */
    bool without_secrets; /* a ${NAME} that is not set is no mistake, and its value means nothing:
                             for callers that check something else */
};

/* Reads a file. Exactly one of two is the case afterwards: the result is true and `*config` the
 * caller's, to be destroyed by it, or `errors`, which this call empties first, has at least one. */
WEIR_MUST_CHECK bool weir_config_load_file(const char *path,
                                           const struct weir_config_options *options,
                                           struct weir_config **config,
                                           struct weir_config_errors *errors);

/* Reads a text as if it were a file, which messages call `name`. Nothing keeps pointing at the
 * arguments. */
WEIR_MUST_CHECK bool weir_config_load_text(struct weir_slice name, struct weir_slice text,
                                           const struct weir_config_options *options,
                                           struct weir_config **config,
                                           struct weir_config_errors *errors);

/* Whether requests of the route may stand at that gate, themselves or as sessions. */
static inline bool weir_config_route_leads_to(const struct weir_config_route *route, uint32_t gate)
{
    return route->gate == gate || (route->has_sessions && route->session_gate == gate);
}

/* The part of a key that comes from a JSON body, or null. */
const struct weir_config_source *weir_config_json_part(const struct weir_config_source *parts,
                                                       uint32_t part_count);

/* Whether all of a request's body has to be known before the request stands in line. */
bool weir_config_route_reads_body(const struct weir_config_route *route);

/* Whether the text fits the pattern, in which each * stands for any text. */
bool weir_config_fits(struct weir_slice pattern, struct weir_slice text);

/* The name of a method that a config may name, or null. */
const char *weir_config_method_name(enum weir_config_method method);

/* The route that takes a request of that method, of those that match its path: `first` is the one
 * that the matcher has found. WEIR_CONFIG_NONE if none of them takes it. */
/* Of the routes from the first one on, the one for that method and that model, which may be empty:
 * routes that name methods come before others, then the longest that fits of `models`. NONE if
 * there is none. */
uint32_t weir_config_choose_route(const struct weir_config *config, uint32_t first,
                                  enum weir_config_method method, struct weir_slice model);

uint32_t weir_config_find_route(const struct weir_config *config, uint32_t first,
                                enum weir_config_method method);

/* The rules of a key: its own, if the gate names it, else the gate's. Looks at every key that has
 * its own. */
const struct weir_config_rules *weir_config_key_rules(const struct weir_config_gate *gate,
                                                      struct weir_slice key);

/* The tenant of that name, or the default. */
const struct weir_config_tenant *weir_config_find_tenant(const struct weir_config *config,
                                                         struct weir_slice name);

/* The priority that a tenant has if it asks for this one: that, or the highest that it may have. */
enum weir_priority weir_config_tenant_priority(const struct weir_config *config,
                                               struct weir_slice name, enum weir_priority asked);

/* Whether it may use the model. */
bool weir_config_tenant_may_use(const struct weir_config_tenant *tenant, struct weir_slice model);

/* A null config is none. */
void weir_config_destroy(struct weir_config *config);

/* Prints the configuration as YAML with all defaults filled in, all secrets masked, and ${NAME}
 * where the environment filled in a value. */
void weir_config_print(const struct weir_config *config, FILE *out);

#endif
