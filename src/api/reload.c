#include "api/handlers.h"

#include "base/alloc.h"
#include "base/list.h"
#include "server/reload.h"

static const struct weir_allocator *const memory = &weir_allocator_libc;

/* Lives until it has been answered, whether its call does or not; then the call's, if it does. */
struct weir_call_reload {
    struct weir_reload_request request;
    struct weir_call *call; /* null once it has gone */
};

static bool produce_outcome(struct weir_call *call, struct weir_json *json)
{
    const struct weir_call_reload *reload = call->extra;
    const struct weir_reload_outcome *outcome = &reload->request.outcome;
    weir_json_open(json, '{');
    weir_json_put_number(json, "gates", outcome->gates);
    weir_json_put_number(json, "routes", outcome->routes);
    weir_json_put_number(json, "upstreams", outcome->upstreams);
    if (outcome->needs_restart == NULL) {
        weir_json_put_null(json, "needs_restart");
    } else {
        weir_json_put_string(json, "needs_restart", weir_slice_of(outcome->needs_restart));
    }
    weir_json_close(json, '}');
    weir_json_raw(json, weir_slice_of("\n"));
    return true;
}

static void answer(struct weir_call *call, struct weir_call_reload *reload)
{
    call->reload = NULL;
    call->extra = reload;
    call->extra_bytes = sizeof *reload;
    switch (reload->request.outcome.end) {
    case WEIR_RELOAD_DONE:
        weir_call_reply(call, 200, "application/json", produce_outcome);
        break;
    case WEIR_RELOAD_REFUSED:
        weir_call_problem(call, WEIR_PROBLEM_BAD_CONFIG, 422, reload->request.outcome.error);
        break;
    case WEIR_RELOAD_DRAINING:
        weir_call_problem(call, WEIR_PROBLEM_DRAINING, 503,
                          "This server drains and takes up no config any more. The one that is "
                          "started next reads it.");
        break;
    }
    weir_call_resume(call);
}

static void on_told(struct weir_post *post)
{
    struct weir_reload_request *request =
        weir_container_of(post, struct weir_reload_request, on_done);
    struct weir_call_reload *reload = weir_container_of(request, struct weir_call_reload, request);
    if (reload->call != NULL) {
        answer(reload->call, reload);
    } else {
        weir_release(memory, reload, sizeof *reload);
    }
}

void weir_api_reload(struct weir_call *call)
{
    struct weir_call_reload *reload = weir_allocate_zeroed(memory, sizeof *reload);
    if (reload == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "There is no memory left. Try again later.");
        return;
    }
    reload->request.on_done = (struct weir_post){.arrive = on_told};
    reload->request.loop = &call->worker->loop;
    reload->call = call;
    call->reload = reload;
    call->pending = true;
    call->worker->reloader->ask(call->worker->reloader, &reload->request);
}

void weir_api_forget_reload(struct weir_call *call)
{
    if (call->reload != NULL) {
        call->reload->call = NULL;
        call->reload = NULL;
    }
}
