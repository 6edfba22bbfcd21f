/* load_generator.c - a process with one event loop that sends LLM requests for several tenants and
 * forgets the replies. Everything runs in one thread. */
#include "cli/load_generator.h"

#include "base/alloc.h"
#include "base/list.h"
#include "lab/mock/discard.h"
#include "net/buffer.h"
#include "net/stream.h"
#include "wire/head_writer.h"
#include "wire/json_writer.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUEST_BYTES_MAX 8192
#define PROMPT_BYTES_MAX  4096

/* The pause after a refusal, or when the gateway does not answer. */
#define AGAIN_NS (WEIR_NS_PER_SECOND / 4)

/* Reads of one caller before the other callers have their turn. */
#define READS_MAX 8

enum load_phase {
    SENDING,      /* writing the request */
    READING_HEAD, /* reading the head of the reply */
    READING_BODY, /* reading and forgetting its body */
    RESTING       /* pausing before the next request */
};

/* What all callers share. */
struct load_run {
    const struct weir_load_generator *generator;
    struct weir_loop loop;
    struct weir_buffer_pool buffers;
};

struct load_caller {
    struct load_run *place;
    struct weir_stream stream; /* its fd is -1 while there is no connection */
    struct weir_timer timer;
    enum load_phase phase;
    uint32_t tenant;
    size_t sent_bytes;
    struct weir_buffer in;
    struct weir_http1_head head;
    struct weir_discard body;
    size_t request_bytes;
    char request[REQUEST_BYTES_MAX];
};

static void step(struct load_caller *caller);

const char *weir_load_generator_tenant(uint32_t tenant)
{
    static const char *const names[WEIR_LOAD_TENANTS] = {"a", "b", "c", "d", "e",
                                                         "f", "g", "h", "i", "j"};
    assert(tenant < WEIR_LOAD_TENANTS);
    return names[tenant];
}

/* ---- the request ---- */

/* Real words, because Weir takes a long text without a space for an image. */
static void fill_prompt(char prompt[PROMPT_BYTES_MAX], uint32_t bytes)
{
    static const char words[] = "what does the river do below the weir ";
    for (uint32_t i = 0; i < bytes; i++) {
        prompt[i] = words[i % (sizeof words - 1)];
    }
}

static size_t write_body(const struct weir_load_generator *generator, char body[REQUEST_BYTES_MAX])
{
    char prompt[PROMPT_BYTES_MAX];
    struct weir_json json;
    assert(generator->prompt_bytes <= PROMPT_BYTES_MAX);
    fill_prompt(prompt, generator->prompt_bytes);
    weir_json_init(&json, body, REQUEST_BYTES_MAX);
    weir_json_open(&json, '{');
    weir_json_put_string(&json, "model", weir_slice_of(WEIR_LOAD_MODEL));
    weir_json_put_bool(&json, "stream", true);
    weir_json_put_number(&json, "max_tokens", generator->max_tokens);
    weir_json_name(&json, "messages");
    weir_json_open(&json, '[');
    weir_json_open(&json, '{');
    weir_json_put_string(&json, "role", weir_slice_of("user"));
    weir_json_put_string(&json, "content", (struct weir_slice){prompt, generator->prompt_bytes});
    weir_json_close(&json, '}');
    weir_json_close(&json, ']');
    weir_json_close(&json, '}');
    assert(!json.failed);
    return json.bytes;
}

static void write_request(struct load_caller *caller)
{
    char body[REQUEST_BYTES_MAX];
    size_t body_bytes = write_body(caller->place->generator, body);
    struct weir_slice tenant = weir_slice_of(weir_load_generator_tenant(caller->tenant));
    struct weir_head_writer writer;
    weir_head_init(&writer, caller->request, sizeof caller->request);
    weir_head_request(&writer, weir_slice_of("POST"), weir_slice_of("/v1/chat/completions"));
    weir_head_field(&writer, weir_slice_of("host"), weir_slice_of("localhost"));
    weir_head_open(&writer, weir_slice_of("authorization"));
    weir_head_part(&writer, weir_slice_of("Bearer "));
    weir_head_part(&writer, weir_slice_of(caller->place->generator->key));
    weir_head_close(&writer);
    weir_head_field(&writer, weir_slice_of("x-tenant"), tenant);
    weir_head_field(&writer, weir_slice_of("x-mock-tenant"), tenant);
    weir_head_field(&writer, weir_slice_of("content-type"), weir_slice_of("application/json"));
    weir_head_field_number(&writer, weir_slice_of("content-length"), body_bytes);
    bool whole = weir_head_end(&writer);
    assert(whole);
    weir_head_copy(&writer, (struct weir_slice){body, body_bytes});
    assert(!writer.failed);
    caller->request_bytes = writer.bytes;
}

/* ---- callers ---- */

/* Closes the connection until the moment has come. */
static void pause_caller(struct load_caller *caller)
{
    weir_buffer_release(&caller->place->buffers, &caller->in);
    if (caller->stream.watch.fd != -1) {
        weir_stream_close(&caller->stream);
        caller->stream.watch.fd = -1;
    }
    caller->phase = RESTING;
    weir_timer_set(&caller->place->loop, &caller->timer, caller->place->loop.now_ns + AGAIN_NS);
}

static void on_ready(struct weir_watch *watch, uint32_t what)
{
    struct weir_stream *stream = weir_container_of(watch, struct weir_stream, watch);
    struct load_caller *caller = weir_container_of(stream, struct load_caller, stream);
    weir_stream_note(stream, what);
    step(caller);
}

static void begin(struct load_caller *caller)
{
    caller->phase = SENDING;
    caller->sent_bytes = 0;
    weir_http1_init_response(&caller->head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
}

static void connect_anew(struct weir_timer *timer)
{
    struct load_caller *caller = weir_container_of(timer, struct load_caller, timer);
    int fd = weir_socket_connect(&caller->place->generator->address);
    weir_stream_init(&caller->stream, fd, on_ready);
    begin(caller);
    if (fd == -1 || !weir_loop_watch(&caller->place->loop, &caller->stream.watch)) {
        pause_caller(caller);
    }
}

static void ask(struct load_caller *caller)
{
    struct iovec part = {caller->request + caller->sent_bytes,
                         caller->request_bytes - caller->sent_bytes};
    ssize_t sent = weir_stream_write(&caller->stream, &part, 1);
    if (sent > 0) {
        caller->sent_bytes += (size_t)sent;
        caller->phase = caller->sent_bytes == caller->request_bytes ? READING_HEAD : SENDING;
    } else if (sent != WEIR_STREAM_AGAIN) {
        pause_caller(caller);
    }
}

/* The whole reply has come. */
static void finish_reply(struct load_caller *caller)
{
    if (caller->head.status == 200 && caller->head.persists) {
        begin(caller);
    } else {
        pause_caller(caller);
    }
}

static void hear(struct load_caller *caller)
{
    struct weir_slice bytes = weir_buffer_slice(&caller->in);
    enum weir_http1_result result = weir_http1_parse(&caller->head, bytes.data, bytes.bytes);
    if (result == WEIR_HTTP1_DONE && caller->head.framing != WEIR_FRAMING_UNTIL_CLOSE) {
        weir_buffer_consume(&caller->in, caller->head.head_bytes);
        weir_discard_init(&caller->body, &caller->head);
        caller->phase = READING_BODY;
    } else if (result != WEIR_HTTP1_NEED_MORE) {
        pause_caller(caller);
    }
}

static void gate_ticket(struct load_caller *caller)
{
    size_t used;
    enum weir_http1_result result =
        weir_discard_take(&caller->body, weir_buffer_slice(&caller->in), &used);
    weir_buffer_consume(&caller->in, used);
    if (result == WEIR_HTTP1_DONE) {
        finish_reply(caller);
    } else if (result == WEIR_HTTP1_FAULT) {
        pause_caller(caller);
    }
}

static bool receive(struct load_caller *caller)
{
    struct weir_buffer *in = &caller->in;
    weir_buffer_compact(in);
    if (!weir_buffer_reserve(&caller->place->buffers, in, WEIR_BUFFER_MIDDLE) ||
        weir_buffer_room(in) == 0) {
        pause_caller(caller);
        return false;
    }
    ssize_t got = weir_stream_read(&caller->stream, in->data + in->end, weir_buffer_room(in));
    if (got > 0) {
        in->end += (uint32_t)got;
    } else if (got != WEIR_STREAM_AGAIN) {
        pause_caller(caller);
    }
    return got > 0;
}

/* Reads what has arrived, up to a bound. */
static void read_on(struct load_caller *caller)
{
    if (caller->phase == READING_HEAD) {
        hear(caller);
    }
    if (caller->phase == READING_BODY) {
        gate_ticket(caller);
    }
}

static void step(struct load_caller *caller)
{
    for (int reads = 0; reads < READS_MAX; reads++) {
        if (caller->phase == SENDING) {
            ask(caller);
        }
        if (caller->phase != READING_HEAD && caller->phase != READING_BODY) {
            return;
        }
        if (!receive(caller)) {
            return;
        }
        read_on(caller);
    }
    /* There may be more, which epoll would not report again: it is read in the next turn. */
    if (caller->phase != RESTING) {
        weir_timer_set(&caller->place->loop, &caller->timer, caller->place->loop.now_ns);
    }
}

static void on_time(struct weir_timer *timer)
{
    struct load_caller *caller = weir_container_of(timer, struct load_caller, timer);
    if (caller->phase == RESTING) {
        connect_anew(timer);
    } else {
        step(caller);
    }
}

/* ---- all callers ---- */

static bool open_caller(struct load_run *place, struct load_caller *caller, uint32_t tenant)
{
    *caller = (struct load_caller){.place = place, .tenant = tenant, .stream.watch.fd = -1};
    if (!weir_timer_init(&place->loop, &caller->timer, on_time)) {
        return false;
    }
    write_request(caller);
    connect_anew(&caller->timer);
    return true;
}

static int complain(void)
{
    fputs("weir demo: out of memory or file descriptors\n", stderr);
    return 1;
}

int weir_load_generator_run(void *context)
{
    const struct weir_load_generator *generator = context;
    struct load_run *place = calloc(1, sizeof *place);
    struct load_caller *callers = calloc(WEIR_LOAD_CALLERS_MAX, sizeof *callers);
    uint32_t count = 0;
    if (place == NULL || callers == NULL || !weir_loop_init(&place->loop, &weir_allocator_libc)) {
        return complain(); /* the end of the process frees the memory */
    }
    place->generator = generator;
    weir_buffer_pool_init(&place->buffers, WEIR_LOAD_CALLERS_MAX, &weir_allocator_libc);
    for (uint32_t tenant = 0; tenant < WEIR_LOAD_TENANTS; tenant++) {
        for (uint32_t i = 0; i < generator->callers[tenant]; i++) {
            assert(count < WEIR_LOAD_CALLERS_MAX);
            if (!open_caller(place, &callers[count++], tenant)) {
                return complain();
            }
        }
    }
    weir_loop_run(&place->loop);
    return 0;
}
