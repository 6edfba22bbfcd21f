#include "api/gates.h"
#include "api/handlers.h"

#include "base/list.h"
#include "server/reload.h"

struct reload_call {
    struct weir_reload_request request;
    struct weir_call *call;
    bool opened; /* the document has been begun */
    struct weir_override_cursor overrides;
};

static bool produce_outcome(struct weir_call *call, struct weir_json *json)
{
    struct reload_call *reload = call->context;
    const struct weir_reload_outcome *outcome = &reload->request.outcome;
    if (reload->opened) {
        return weir_api_list_overrides(call, &reload->overrides, json) && weir_api_end_list(json);
    }
    reload->opened = true;
    weir_json_open(json, '{');
    weir_json_put_number(json, "gates", outcome->gates);
    weir_json_put_number(json, "routes", outcome->routes);
    weir_json_put_number(json, "upstreams", outcome->upstreams);
    if (outcome->needs_restart == NULL) {
        weir_json_put_null(json, "needs_restart");
    } else {
        weir_json_put_string(json, "needs_restart", weir_slice_of(outcome->needs_restart));
    }
    weir_json_name(json, "overrides");
    weir_json_open(json, '[');
    return weir_api_list_overrides(call, &reload->overrides, json) && weir_api_end_list(json);
}

static void answer(struct weir_call *call, const struct reload_call *reload)
{
    switch (reload->request.outcome.end) {
    case WEIR_RELOAD_DONE:
        weir_call_reply(call, 200, "application/json", produce_outcome);
        break;
    case WEIR_RELOAD_REFUSED:
        weir_call_problem(call, WEIR_PROBLEM_BAD_CONFIG, 422, reload->request.outcome.error);
        break;
    case WEIR_RELOAD_DRAINING:
        weir_call_problem(
            call, WEIR_PROBLEM_DRAINING, 503,
            "This server is shutting down and loads no config. The next server will load it.");
        break;
    }
    weir_call_resume(call);
}

static void on_done(struct weir_post *post)
{
    struct weir_reload_request *request =
        weir_container_of(post, struct weir_reload_request, on_done);
    struct reload_call *reload = weir_container_of(request, struct reload_call, request);
    if (weir_call_release(reload->call)) {
        answer(reload->call, reload);
    }
}

void weir_api_reload(struct weir_call *call)
{
    static const struct weir_call_hooks hooks = {.context_bytes = sizeof(struct reload_call)};
    struct reload_call *reload = weir_call_attach(call, &hooks);
    if (reload == NULL) {
        return;
    }
    reload->request.on_done = (struct weir_post){.arrive = on_done};
    reload->request.loop = &call->worker->loop;
    reload->call = call;
    call->pending = true;
    weir_call_hold(call);
    call->worker->reloader->ask(call->worker->reloader, &reload->request);
}
