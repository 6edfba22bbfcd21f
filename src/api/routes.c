/* routes.c - the paths of the API: which callers may use each, and which handler answers. */
#include "api/handlers.h"

#include "base/slice.h"
#include "log/rate_limited_log.h"
#include "tenants/token.h"
#include "worker/config_snapshot.h"

#include <stdio.h>
#include <string.h>

static bool produce_health(struct weir_call *call, struct weir_json *json)
{
    (void)call;
    weir_json_raw(json, weir_slice_of("ok\n"));
    return true;
}

static void get_health(struct weir_call *call)
{
    weir_call_reply(call, 200, "text/plain", produce_health);
}

static bool produce_readiness(struct weir_call *call, struct weir_json *json)
{
    weir_json_raw(json, weir_slice_of(call->response.status == 200 ? "ready\n" : "draining\n"));
    return true;
}

static void get_readiness(struct weir_call *call)
{
    weir_call_reply(call, call->worker->draining ? 503 : 200, "text/plain", produce_readiness);
}

#define READ   WEIR_CONFIG_SCOPE_READ
#define SUBMIT WEIR_CONFIG_SCOPE_SUBMIT
#define WORK   WEIR_CONFIG_SCOPE_WORK
#define ADMIN  WEIR_CONFIG_SCOPE_ADMIN

struct route {
    enum weir_http_method method;
    const char *first;
    uint32_t segments; /* the first one counts */
    const char *last;  /* the last of several; null: any */
    uint32_t scopes;   /* one of which its caller must have; 0: none is needed */
    bool by_key;       /* a tenant's API key will do as well */
    void (*handle)(struct weir_call *call);

    /* In place of `handle`: for a handler that reads the head itself, and the body as it comes. */
    void (*begin)(struct weir_call *call, const struct weir_http1_head *head, const char *data);
};

/* What is asked for most stands first. */
static const struct route routes[] = {
    {WEIR_METHOD_POST, "gates", 4, "acquire", WORK, false, weir_api_acquire, NULL},
    {WEIR_METHOD_POST, "gates", 4, "release", WORK, false, weir_api_release, NULL},
    {WEIR_METHOD_POST, "gates", 4, "renew", WORK, false, weir_api_renew, NULL},
    {WEIR_METHOD_POST, "submit", 2, NULL, SUBMIT, true, NULL, weir_api_submit},
    {WEIR_METHOD_POST, "submit", 1, NULL, SUBMIT, true, NULL, weir_api_submit},
    {WEIR_METHOD_GET, "status", 2, NULL, READ | SUBMIT, true, weir_api_get_status, NULL},
    {WEIR_METHOD_GET, "result", 2, NULL, READ | SUBMIT, true, weir_api_get_result, NULL},
    {WEIR_METHOD_GET, "log", 2, NULL, READ | SUBMIT, true, weir_api_get_log, NULL},
    {WEIR_METHOD_POST, "cancel", 2, NULL, SUBMIT, true, weir_api_cancel, NULL},
    {WEIR_METHOD_GET, "jobs", 1, NULL, READ | SUBMIT, true, weir_api_list_jobs, NULL},
    {WEIR_METHOD_GET, "capacity", 1, NULL, READ | SUBMIT, true, weir_api_get_capacity, NULL},
    {WEIR_METHOD_GET, "dlq", 1, NULL, READ | SUBMIT, true, weir_api_list_dead, NULL},
    {WEIR_METHOD_POST, "dlq", 3, "redrive", ADMIN, false, weir_api_redrive, NULL},
    {WEIR_METHOD_POST, "dlq", 2, "redrive", ADMIN, false, weir_api_redrive_all, NULL},
    {WEIR_METHOD_DELETE, "dlq", 2, NULL, ADMIN, false, weir_api_remove_dead, NULL},
    {WEIR_METHOD_GET, "healthz", 1, NULL, 0, false, get_health, NULL},
    {WEIR_METHOD_GET, "readyz", 1, NULL, 0, false, get_readiness, NULL},
    {WEIR_METHOD_GET, "metrics", 1, NULL, READ, false, weir_api_get_metrics, NULL},
    {WEIR_METHOD_GET, "events", 1, NULL, READ, false, weir_api_get_events, NULL},
    {WEIR_METHOD_GET, "gates", 1, NULL, READ, false, weir_api_get_gates, NULL},
    {WEIR_METHOD_GET, "gates", 2, NULL, READ, false, weir_api_get_gate, NULL},
    {WEIR_METHOD_GET, "gates", 3, NULL, READ, false, weir_api_get_key, NULL},
    {WEIR_METHOD_GET, "gates", 4, "line", READ, false, weir_api_get_line, NULL},
    {WEIR_METHOD_GET, "gates", 4, "holders", READ, false, weir_api_get_holders, NULL},
    {WEIR_METHOD_POST, "gates", 6, "end", ADMIN, false, weir_api_end_holder, NULL},
    {WEIR_METHOD_GET, "usage", 1, NULL, READ, true, weir_api_get_usage, NULL},
    {WEIR_METHOD_POST, "reload", 1, NULL, ADMIN, false, weir_api_reload, NULL},
    {WEIR_METHOD_PUT, "gates", 4, "limit", ADMIN, false, weir_api_put_key_limit, NULL},
    {WEIR_METHOD_DELETE, "gates", 4, "limit", ADMIN, false, weir_api_remove_key_limit, NULL},
    {WEIR_METHOD_POST, "gates", 4, "pause", ADMIN, false, weir_api_pause, NULL},
    {WEIR_METHOD_POST, "gates", 4, "resume", ADMIN, false, weir_api_resume, NULL},
    {WEIR_METHOD_POST, "gates", 3, "pause", ADMIN, false, weir_api_pause, NULL},
    {WEIR_METHOD_POST, "gates", 3, "resume", ADMIN, false, weir_api_resume, NULL},
};

static bool leads_to(const struct route *route, const struct weir_call *call)
{
    return route->segments == call->segment_count &&
           weir_slice_equal(call->segments[0], weir_slice_of(route->first)) &&
           (route->last == NULL ||
            weir_slice_equal(call->segments[route->segments - 1], weir_slice_of(route->last)));
}

static void count_refused(struct weir_call *call, const char *what)
{
    enum weir_refused_key kind = call->wrong_key   ? WEIR_REFUSED_API_KEY_WRONG
                                 : call->has_token ? WEIR_REFUSED_TOKEN_WRONG
                                                   : WEIR_REFUSED_TOKEN_MISSING;
    weir_tally_add(&call->worker->refused_keys[kind], 1);
    static struct weir_rate_limited_log wrong_tokens;
    struct weir_log_names names = {.client = weir_slice_of(call->client->peer)};
    weir_log_rate_limited(&wrong_tokens, call->worker->loop.now_ns, WEIR_LOG_WARN, "wrong_token",
                          &names, "A call of the API was refused with 401: it came with %s.", what);
}

/* An API key lets its tenant hand in jobs, and see these and what it has used; nothing else. */
static bool may_call_by_key(struct weir_call *call, const struct route *route)
{
    if (call->by_key && route->by_key) {
        return true;
    }
    if (call->by_key) {
        weir_call_problem(
            call, WEIR_PROBLEM_FORBIDDEN, 403,
            "A tenant's API key allows the tenant's own jobs, GET /usage and requests to the "
            "gateway's routes. Other calls need one of the config's api_tokens.");
    } else {
        count_refused(call, "an unknown or revoked API key");
        weir_call_problem(call, WEIR_PROBLEM_UNAUTHORIZED, 401,
                          "The API key is unknown or has been revoked. Ask the operator of this "
                          "gateway for another one.");
    }
    return false;
}

/* Whether the caller may do that; if not, the error reply has been written. */
static bool may_call(struct weir_call *call, const struct route *route)
{
    if (route->scopes == 0) {
        return true;
    }
    if (call->by_key || call->wrong_key) {
        return may_call_by_key(call, route);
    }
    if (!weir_tokens_needed(call->worker->worker_config->snapshot->tokens) ||
        (call->credential.scopes & route->scopes) != 0) {
        return true;
    }
    if (call->credential.scopes == 0) {
        count_refused(call, "no known token");
        weir_call_problem(call, WEIR_PROBLEM_UNAUTHORIZED, 401,
                          "This API requires a token. Send one of the config's api_tokens as "
                          "Authorization: Bearer TOKEN.");
    } else {
        weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                          "The token lacks the scope that this call needs.");
    }
    return false;
}

static void refuse_method(struct weir_call *call, const char *allow)
{
    struct weir_problem problem = {.kind = WEIR_PROBLEM_BAD_REQUEST,
                                   .status = 405,
                                   .detail = "This path does not support the method. The header "
                                             "field Allow lists those that it does.",
                                   .allow = allow};
    weir_call_refuse(call, &problem);
}

/* The longest list of methods, "GET, HEAD, PUT, POST, DELETE", with its zero. */
#define ALLOW_BYTES_MAX 32

static void add_method(char allow[ALLOW_BYTES_MAX], enum weir_http_method method)
{
    const char *name = method == WEIR_METHOD_GET    ? "GET, HEAD"
                       : method == WEIR_METHOD_PUT  ? "PUT"
                       : method == WEIR_METHOD_POST ? "POST"
                                                    : "DELETE";
    size_t bytes = strlen(allow);
    snprintf(allow + bytes, ALLOW_BYTES_MAX - bytes, "%s%s", bytes == 0 ? "" : ", ", name);
}

/* The route of the call, or null; then `allow` has the methods that the path has, or is empty. */
static const struct route *find_route(const struct weir_call *call, char allow[ALLOW_BYTES_MAX])
{
    allow[0] = '\0';
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *route = &routes[i];
        if (!leads_to(route, call)) {
            continue;
        }
        if (route->method == (enum weir_http_method)call->method) {
            return route;
        }
        add_method(allow, route->method); /* no path has a method twice */
    }
    return NULL;
}

bool weir_call_begin(struct weir_call *call, const struct weir_http1_head *head, const char *data)
{
    char allow[ALLOW_BYTES_MAX];
    const struct route *route = find_route(call, allow);
    if (route == NULL || route->begin == NULL) {
        return false;
    }
    if (may_call(call, route)) {
        route->begin(call, head, data);
    }
    return true;
}

void weir_call_dispatch(struct weir_call *call)
{
    char allow[ALLOW_BYTES_MAX];
    const struct route *route = find_route(call, allow);
    if (route != NULL) {
        if (may_call(call, route)) {
            route->handle(call);
        }
    } else if (allow[0] != '\0') {
        refuse_method(call, allow);
    } else {
        weir_call_problem(call, WEIR_PROBLEM_NOT_FOUND, 404,
                          "The API has no such path. GET /gates lists the gates.");
    }
}

bool weir_call_find_tenant(struct weir_call *call, struct weir_slice asked,
                           struct weir_slice *tenant)
{
    if (weir_credential_speaks_for(&call->credential, call->client->trusted, asked, tenant)) {
        return true;
    }
    weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                      "This caller may not act for that tenant. Leave out the tenant, or use the "
                      "tenant's own token.");
    return false;
}
