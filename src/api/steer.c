#include "api/steer.h"

#include "base/list.h"
#include "gateway/reload.h"

#include <stdlib.h>

/* Lives until it has been answered, whether its call does or not. */
struct weir_call_reload {
    struct weir_reload_request request;
    struct weir_call *call; /* null once it has gone */
};

static bool produce_nothing(struct weir_call *call, struct weir_json *json)
{
    (void)call;
    weir_json_raw(json, weir_slice_of("{}\n"));
    return true;
}

static void on_told(struct weir_post *post)
{
    struct weir_reload_request *request = weir_container_of(post, struct weir_reload_request, told);
    struct weir_call_reload *reload = weir_container_of(request, struct weir_call_reload, request);
    struct weir_call *call = reload->call;
    if (call != NULL) {
        call->reload = NULL;
        if (request->done) {
            weir_call_reply(call, 200, "application/json", produce_nothing);
        } else {
            weir_call_problem(call, WEIR_PROBLEM_BAD_CONFIG, 422, request->wrong);
        }
        weir_call_resume(call);
    }
    free(reload);
}

void weir_api_reload(struct weir_call *call)
{
    struct weir_call_reload *reload = calloc(1, sizeof *reload);
    if (reload == NULL) {
        weir_call_problem(call, WEIR_PROBLEM_OUT_OF_MEMORY, 503,
                          "There is no memory left. Try again later.");
        return;
    }
    reload->request.told = (struct weir_post){.arrive = on_told};
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
