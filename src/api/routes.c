/* routes.c - which paths the API has, and what each of them tells. */
#include "api/call.h"

#include "api/events.h"
#include "api/gates.h"
#include "api/line.h"
#include "api/metrics.h"
#include "api/permits.h"
#include "api/steer.h"
#include "api/usage.h"
#include "base/slice.h"
#include "gateway/site.h"

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
    weir_json_raw(json, weir_slice_of(call->status == 200 ? "ready\n" : "draining\n"));
    return true;
}

static void get_readiness(struct weir_call *call)
{
    weir_call_reply(call, call->worker->draining ? 503 : 200, "text/plain", produce_readiness);
}

struct route {
    enum weir_http_method method;
    const char *first;
    uint32_t segments; /* the first one counts */
    const char *last;  /* the fourth */
    uint32_t scope;    /* what its caller must be allowed to do; 0: nothing */
    void (*handle)(struct weir_call *call);
};

static const struct route routes[] = {
    {WEIR_METHOD_GET, "healthz", 1, NULL, 0, get_health},
    {WEIR_METHOD_GET, "readyz", 1, NULL, 0, get_readiness},
    {WEIR_METHOD_GET, "metrics", 1, NULL, WEIR_CONFIG_SCOPE_READ, weir_api_get_metrics},
    {WEIR_METHOD_GET, "events", 1, NULL, WEIR_CONFIG_SCOPE_READ, weir_api_get_events},
    {WEIR_METHOD_GET, "gates", 1, NULL, WEIR_CONFIG_SCOPE_READ, weir_api_get_gates},
    {WEIR_METHOD_GET, "gates", 2, NULL, WEIR_CONFIG_SCOPE_READ, weir_api_get_gate},
    {WEIR_METHOD_GET, "gates", 3, NULL, WEIR_CONFIG_SCOPE_READ, weir_api_get_key},
    {WEIR_METHOD_GET, "gates", 4, "line", WEIR_CONFIG_SCOPE_READ, weir_api_get_line},
    {WEIR_METHOD_GET, "usage", 1, NULL, WEIR_CONFIG_SCOPE_READ, weir_api_get_usage},
    {WEIR_METHOD_POST, "reload", 1, NULL, WEIR_CONFIG_SCOPE_ADMIN, weir_api_reload},
    {WEIR_METHOD_POST, "gates", 4, "acquire", WEIR_CONFIG_SCOPE_WORK, weir_api_acquire},
    {WEIR_METHOD_POST, "gates", 4, "release", WEIR_CONFIG_SCOPE_WORK, weir_api_release},
    {WEIR_METHOD_POST, "gates", 4, "renew", WEIR_CONFIG_SCOPE_WORK, weir_api_renew},
};

static bool leads_to(const struct route *route, const struct weir_call *call)
{
    return route->segments == call->segment_count &&
           weir_slice_equal(call->segments[0], weir_slice_of(route->first)) &&
           (route->last == NULL || weir_slice_equal(call->segments[3], weir_slice_of(route->last)));
}

/* An API key lets its tenant see what it has used itself, and do nothing else. */
static bool may_call_by_key(struct weir_call *call, const struct route *route)
{
    if (call->by_key && route->handle == weir_api_get_usage) {
        return true;
    }
    if (call->by_key) {
        weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                          "An API key of a tenant is good for GET /usage here, and for requests "
                          "to the gateway's routes. Other calls need one of the config's "
                          "api_tokens.");
    } else {
        weir_call_problem(call, WEIR_PROBLEM_UNAUTHORIZED, 401,
                          "The API key is not known here, or has been revoked. Ask whoever runs "
                          "this gateway for another one.");
    }
    return false;
}

/* Whether the caller may do that; else it is told. */
static bool may_call(struct weir_call *call, const struct route *route)
{
    if (route->scope == 0) {
        return true;
    }
    if (call->by_key || call->wrong_key) {
        return may_call_by_key(call, route);
    }
    if (!weir_tokens_needed(call->worker->site->plan->tokens) ||
        (call->credential.scopes & route->scope) != 0) {
        return true;
    }
    if (call->credential.scopes == 0) {
        weir_call_problem(call, WEIR_PROBLEM_UNAUTHORIZED, 401,
                          "This API asks for a token. Send one of the config's api_tokens as "
                          "Authorization: Bearer TOKEN.");
    } else {
        weir_call_problem(call, WEIR_PROBLEM_FORBIDDEN, 403,
                          "The token does not have the scope that this call needs.");
    }
    return false;
}

static void refuse_method(struct weir_call *call, const char *allow)
{
    struct weir_problem problem = {
        .kind = WEIR_PROBLEM_BAD_REQUEST,
        .status = 405,
        .detail = "This path has no such method. What is asked for is got with GET, what is "
                  "done with POST.",
        .allow = allow};
    weir_call_refuse(call, &problem);
}

void weir_call_dispatch(struct weir_call *call)
{
    const char *allow = NULL; /* what a path has; none has both */
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        const struct route *route = &routes[i];
        if (!leads_to(route, call)) {
            continue;
        }
        if (route->method == (enum weir_http_method)call->method) {
            if (may_call(call, route)) {
                route->handle(call);
            }
            return;
        }
        allow = route->method == WEIR_METHOD_GET ? "GET, HEAD" : "POST";
    }
    if (allow != NULL) {
        refuse_method(call, allow);
    } else {
        weir_call_problem(call, WEIR_PROBLEM_NOT_FOUND, 404,
                          "Nothing of the API has such a path. GET /gates lists the gates.");
    }
}
