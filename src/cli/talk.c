#define _POSIX_C_SOURCE 200809L
#include "cli/talk.h"

#include "cli/commands.h"
#include "cli/show.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A few names of 255 bytes, each byte %xx; what is longer is refused. */
#define PATH_BYTES_MAX 4096

void weir_talk_init(struct weir_talk *talk, const char *command, const struct weir_options *options)
{
    *talk =
        (struct weir_talk){.command = command, .options = options, .out = stdout, .stop_fd = -1};
    talk->caller.fd = -1;
}

void weir_talk_deinit(struct weir_talk *talk)
{
    weir_caller_close(&talk->caller);
    json_decref(talk->document);
    talk->document = NULL;
    free(talk->answer.body);
    talk->answer = (struct weir_answer){0};
}

/* ---- the question ---- */

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

/* Appends a text, encoded; false if it does not fit. */
static bool append(char path[PATH_BYTES_MAX], size_t *bytes, const char *text)
{
    static const char digits[] = "0123456789ABCDEF";
    for (; *text != '\0'; text++) {
        if (*bytes + 5 > PATH_BYTES_MAX) {
            return false;
        }
        if (is_plain(*text)) {
            path[(*bytes)++] = *text;
        } else {
            path[(*bytes)++] = '%';
            path[(*bytes)++] = digits[(unsigned char)*text >> 4];
            path[(*bytes)++] = digits[(unsigned char)*text & 15];
        }
    }
    path[*bytes] = '\0';
    return true;
}

/* Appends "/name", or "?name=value", or the same with & before it. */
static bool append_part(char path[PATH_BYTES_MAX], size_t *bytes, char sign, const char *text)
{
    if (*bytes + 2 > PATH_BYTES_MAX) {
        return false;
    }
    path[(*bytes)++] = sign;
    return append(path, bytes, text);
}

static bool make_path(char path[PATH_BYTES_MAX], const char *const segments[WEIR_CALL_SEGMENTS_MAX],
                      const struct weir_parameter *parameters)
{
    size_t bytes = 0;
    bool fits = true;
    for (size_t i = 0; i < WEIR_CALL_SEGMENTS_MAX; i++) {
        fits = fits && (segments[i] == NULL || append_part(path, &bytes, '/', segments[i]));
    }
    char sign = '?';
    for (; parameters != NULL && parameters->name != NULL; parameters++) {
        if (parameters->value != NULL) {
            fits = fits && append_part(path, &bytes, sign, parameters->name) &&
                   append_part(path, &bytes, '=', parameters->value);
            sign = '&';
        }
    }
    return fits;
}

static const char *find_api(const struct weir_options *options)
{
    const char *set = options->api != NULL ? options->api : getenv("WEIR_API");
    return set != NULL && set[0] != '\0' ? set : WEIR_API_DEFAULT;
}

static int complain(const struct weir_talk *talk, const char *what, int status)
{
    fprintf(stderr, "weir %s: ", talk->command);
    weir_show_text(stderr, what);
    fputc('\n', stderr);
    return status;
}

/* Remembers what went wrong. */
static int fail(struct weir_talk *talk, const char *what, int status)
{
    snprintf(talk->wrong, sizeof talk->wrong, "%s", what);
    return status;
}

/* ---- the answer ---- */

/* What is wrong with a file: a line for each mistake as it came, so that editors find the place. */
static int report_mistakes(const struct weir_talk *talk, const char *detail)
{
    const char *line = detail;
    for (const char *end = line; *end != '\0'; line = end + 1) {
        char text[400];
        end = line + strcspn(line, "\n");
        snprintf(text, sizeof text, "%.*s", (int)(end - line), line);
        weir_show_text(stderr, text);
        fputc('\n', stderr);
    }
    return complain(talk, "everything goes on as before", WEIR_EXIT_FAILED);
}

/* What a refusal says. */
static int explain_problem(struct weir_talk *talk)
{
    const char *detail = json_string_value(json_object_get(talk->document, "detail"));
    snprintf(talk->wrong, sizeof talk->wrong, "%.500s%s",
             detail == NULL ? "the API refused, and did not say why." : detail,
             talk->status == 401 ? " weir takes it from the environment: WEIR_TOKEN." : "");
    return WEIR_EXIT_FAILED;
}

static bool print_answer(const struct weir_talk *talk)
{
    const struct weir_answer *answer = &talk->answer;
    bool ended = answer->bytes > 0 && answer->body[answer->bytes - 1] == '\n';
    return fprintf(talk->out, "%s%s", answer->body, ended ? "" : "\n") >= 0 &&
           fflush(talk->out) == 0;
}

static int judge(struct weir_talk *talk)
{
    const struct weir_answer *answer = &talk->answer;
    talk->document =
        json_loadb(answer->body, answer->bytes, JSON_ALLOW_NUL, NULL); /* keys are bytes */
    if (!json_is_object(talk->document)) {
        char text[400];
        snprintf(text, sizeof text,
                 "what answers at %.200s is no weir API (status %u). Is that the `api` of its "
                 "config, or its `listen`?",
                 find_api(talk->options), answer->status);
        json_decref(talk->document);
        talk->document = NULL;
        return fail(talk, text, WEIR_EXIT_FAILED);
    }
    return answer->status == 200 || answer->status == 202 ? 0 : explain_problem(talk);
}

static int converse(struct weir_talk *talk, struct weir_question *question)
{
    const char *token = getenv("WEIR_TOKEN");
    bool usage = false;
    question->token = weir_slice_of(token == NULL ? "" : token);
    if (!weir_caller_open(&talk->caller, find_api(talk->options), talk->stop_fd, &usage) ||
        !weir_caller_ask(&talk->caller, question, &talk->answer)) {
        talk->stopped = talk->caller.stopped;
        return fail(talk, talk->caller.wrong, usage ? WEIR_EXIT_USAGE : WEIR_EXIT_FAILED);
    }
    talk->status = talk->answer.status;
    /* Then it was told as it came, and is no document. */
    bool told = (question->line != NULL || question->piece != NULL) && talk->status == 200;
    return told ? 0 : judge(talk);
}

/* One question, after which the connection is closed unless it is held. */
static int put(struct weir_talk *talk, struct weir_question *question)
{
    weir_talk_deinit(talk);
    talk->status = 0;
    talk->stopped = false;
    talk->exit_status = converse(talk, question);
    if (talk->exit_status != 0 || !question->line_only) {
        weir_caller_close(&talk->caller);
    }
    return talk->exit_status;
}

int weir_talk_report(struct weir_talk *talk)
{
    if (talk->stopped) {
        return talk->exit_status;
    }
    if (talk->options->json && talk->document != NULL && !print_answer(talk)) {
        return complain(talk, "what the API said cannot be written", WEIR_EXIT_FAILED);
    }
    const char *detail = json_string_value(json_object_get(talk->document, "detail"));
    if (talk->exit_status != 0 && talk->status == 422 && detail != NULL) {
        return report_mistakes(talk, detail);
    }
    return talk->exit_status == 0 ? 0 : complain(talk, talk->wrong, talk->exit_status);
}

int weir_talk_call(struct weir_talk *talk, const struct weir_call *call)
{
    char path[PATH_BYTES_MAX];
    if (!make_path(path, call->segments, call->parameters)) {
        weir_talk_deinit(talk);
        return talk->exit_status = fail(talk, "the names are too long", WEIR_EXIT_USAGE);
    }
    struct weir_question question = {.method = call->method,
                                     .path = path,
                                     .upload = call->upload,
                                     .piece = call->piece,
                                     .context = call->context,
                                     .patience_ms = call->patience_ms};
    return put(talk, &question);
}

int weir_talk_do(struct weir_talk *talk, const struct weir_call *call)
{
    (void)!weir_talk_call(talk, call);
    return weir_talk_report(talk);
}

static int ask(struct weir_talk *talk, struct weir_request_path parts, json_t *wish,
               struct weir_question *question)
{
    bool of_gates = parts.gate != NULL || parts.what == NULL;
    const char *const segments[] = {of_gates ? "gates" : NULL, parts.gate, parts.key, parts.what};
    static_assert(sizeof segments / sizeof segments[0] == WEIR_CALL_SEGMENTS_MAX, "all of them");
    char path[PATH_BYTES_MAX];
    char *body = wish == NULL ? NULL : json_dumps(wish, JSON_COMPACT);
    int status;
    if (!make_path(path, segments, NULL) || (wish != NULL && body == NULL)) {
        weir_talk_deinit(talk);
        talk->status = 0;
        status = complain(talk, "the names are too long", WEIR_EXIT_USAGE);
    } else {
        question->method = wish == NULL ? "GET" : "POST";
        question->path = path;
        question->body = weir_slice_of(body == NULL ? "" : body);
        question->patience_ms = talk->patience_ms;
        (void)!put(talk, question);
        status = weir_talk_report(talk);
    }
    json_decref(wish);
    free(body);
    return status;
}

int weir_talk_ask(struct weir_talk *talk, struct weir_request_path path, json_t *wish)
{
    struct weir_question question = {0};
    return ask(talk, path, wish, &question);
}

int weir_talk_query(struct weir_talk *talk, const char *what,
                    const struct weir_parameter *parameters)
{
    struct weir_call call = {.method = "GET", .segments = {what}, .parameters = parameters};
    return weir_talk_do(talk, &call);
}

int weir_talk_follow(struct weir_talk *talk, const char *path, weir_caller_line *line,
                     void *context)
{
    struct weir_question question = {
        .method = "GET", .path = path, .line = line, .context = context};
    (void)!put(talk, &question);
    return weir_talk_report(talk);
}

int weir_talk_wait(struct weir_talk *talk, struct weir_request_path path, json_t *wish, bool hold)
{
    struct weir_question question = {.waits = true, .line_only = hold};
    return ask(talk, path, wish, &question);
}
