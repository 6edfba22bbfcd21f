/* api_client.c - builds the path of a call, makes it, and prints or explains the reply. Calls
 * block; a command has one client and one thread. */
#define _POSIX_C_SOURCE 200809L
#include "cli/api_client.h"

#include "cli/commands.h"
#include "cli/show.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A few names of 255 bytes, each byte %xx; longer paths are refused. */
#define PATH_BYTES_MAX 4096

void weir_api_client_init(struct weir_api_client *client, const char *command,
                          const struct weir_options *options)
{
    *client = (struct weir_api_client){
        .command = command, .options = options, .out = stdout, .stop_fd = -1};
    client->caller.fd = -1;
}

void weir_api_client_deinit(struct weir_api_client *client)
{
    weir_caller_close(&client->caller);
    json_decref(client->document);
    client->document = NULL;
    free(client->answer.body);
    client->answer = (struct weir_api_reply){0};
}

/* ---- the request ---- */

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

static bool make_path(char path[PATH_BYTES_MAX],
                      const char *const segments[WEIR_API_CALL_SEGMENTS_MAX],
                      const struct weir_parameter *parameters)
{
    size_t bytes = 0;
    bool fits = true;
    for (size_t i = 0; i < WEIR_API_CALL_SEGMENTS_MAX; i++) {
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

static int complain(const struct weir_api_client *client, const char *what, int status)
{
    fprintf(stderr, "weir %s: ", client->command);
    weir_show_text(stderr, what);
    fputc('\n', stderr);
    return status;
}

/* Stores the error and the exit status. */
static int set_error(struct weir_api_client *client, const char *what, int status)
{
    snprintf(client->error, sizeof client->error, "%s", what);
    return status;
}

/* ---- the reply ---- */

/* Prints the mistakes in a config file: a line for each as the API sent it, so that editors find
 * the place. */
static int report_mistakes(const struct weir_api_client *client, const char *detail)
{
    const char *line = detail;
    for (const char *end = line; *end != '\0'; line = end + 1) {
        char text[400];
        end = line + strcspn(line, "\n");
        snprintf(text, sizeof text, "%.*s", (int)(end - line), line);
        weir_show_text(stderr, text);
        fputc('\n', stderr);
    }
    return complain(client, "everything goes on as before", WEIR_EXIT_FAILED);
}

/* Explains a problem document. */
static int explain_problem(struct weir_api_client *client)
{
    const char *detail = json_string_value(json_object_get(client->document, "detail"));
    snprintf(client->error, sizeof client->error, "%.500s%s",
             detail == NULL ? "the API refused without a reason." : detail,
             client->status == 401 ? " weir takes it from the environment: WEIR_TOKEN." : "");
    return WEIR_EXIT_FAILED;
}

static bool print_answer(const struct weir_api_client *client)
{
    const struct weir_api_reply *answer = &client->answer;
    bool ended = answer->bytes > 0 && answer->body[answer->bytes - 1] == '\n';
    return fprintf(client->out, "%s%s", answer->body, ended ? "" : "\n") >= 0 &&
           fflush(client->out) == 0;
}

static int judge(struct weir_api_client *client)
{
    const struct weir_api_reply *answer = &client->answer;
    client->document =
        json_loadb(answer->body, answer->bytes, JSON_ALLOW_NUL, NULL); /* keys are bytes */
    if (!json_is_object(client->document)) {
        char text[400];
        snprintf(text, sizeof text,
                 "the server at %.200s is not a weir API (status %u). Use the address of `api` in "
                 "its config, not of `listen`.",
                 find_api(client->options), answer->status);
        json_decref(client->document);
        client->document = NULL;
        return set_error(client, text, WEIR_EXIT_FAILED);
    }
    return answer->status == 200 || answer->status == 202 ? 0 : explain_problem(client);
}

static int converse(struct weir_api_client *client, struct weir_question *question)
{
    const char *token = getenv("WEIR_TOKEN");
    bool usage = false;
    question->token = weir_slice_of(token == NULL ? "" : token);
    if (!weir_caller_open(&client->caller, find_api(client->options), client->stop_fd, &usage) ||
        !weir_caller_ask(&client->caller, question, &client->answer)) {
        client->stopped = client->caller.stopped;
        return set_error(client, client->caller.error, usage ? WEIR_EXIT_USAGE : WEIR_EXIT_FAILED);
    }
    client->status = client->answer.status;
    /* The reply was passed on in parts, and is no document. */
    bool told = (question->line != NULL || question->piece != NULL) && client->status == 200;
    return told ? 0 : judge(client);
}

/* Makes one call; afterwards the connection is closed unless it is held. */
static int make_call(struct weir_api_client *client, struct weir_question *question)
{
    weir_api_client_deinit(client);
    client->status = 0;
    client->stopped = false;
    client->exit_status = converse(client, question);
    if (client->exit_status != 0 || !question->line_only) {
        weir_caller_close(&client->caller);
    }
    return client->exit_status;
}

int weir_api_client_report(struct weir_api_client *client)
{
    if (client->stopped) {
        return client->exit_status;
    }
    if (client->options->json && client->document != NULL && !print_answer(client)) {
        return complain(client, "the reply cannot be written", WEIR_EXIT_FAILED);
    }
    const char *detail = json_string_value(json_object_get(client->document, "detail"));
    if (client->exit_status != 0 && client->status == 422 && detail != NULL) {
        return report_mistakes(client, detail);
    }
    return client->exit_status == 0 ? 0 : complain(client, client->error, client->exit_status);
}

int weir_api_client_call(struct weir_api_client *client, const struct weir_api_call *call)
{
    char path[PATH_BYTES_MAX];
    if (!make_path(path, call->segments, call->parameters)) {
        weir_api_client_deinit(client);
        return client->exit_status = set_error(client, "the names are too long", WEIR_EXIT_USAGE);
    }
    struct weir_question question = {.method = call->method,
                                     .path = path,
                                     .upload = call->upload,
                                     .body = call->body,
                                     .piece = call->piece,
                                     .context = call->context,
                                     .patience_ms = call->patience_ms};
    return make_call(client, &question);
}

int weir_api_client_do(struct weir_api_client *client, const struct weir_api_call *call)
{
    (void)!weir_api_client_call(client, call);
    return weir_api_client_report(client);
}

static int ask(struct weir_api_client *client, struct weir_api_path parts, json_t *wish,
               struct weir_question *question)
{
    bool of_gates = parts.gate != NULL || parts.what == NULL;
    const char *const segments[WEIR_API_CALL_SEGMENTS_MAX] = {of_gates ? "gates" : NULL, parts.gate,
                                                              parts.key, parts.what};
    char path[PATH_BYTES_MAX];
    char *body = wish == NULL ? NULL : json_dumps(wish, JSON_COMPACT);
    int status;
    if (!make_path(path, segments, NULL) || (wish != NULL && body == NULL)) {
        weir_api_client_deinit(client);
        client->status = 0;
        status = complain(client, "the names are too long", WEIR_EXIT_USAGE);
    } else {
        question->method = wish == NULL ? "GET" : "POST";
        question->path = path;
        question->body = weir_slice_of(body == NULL ? "" : body);
        question->patience_ms = client->patience_ms;
        (void)!make_call(client, question);
        status = weir_api_client_report(client);
    }
    json_decref(wish);
    free(body);
    return status;
}

int weir_api_client_ask(struct weir_api_client *client, struct weir_api_path path, json_t *wish)
{
    struct weir_question question = {0};
    return ask(client, path, wish, &question);
}

int weir_api_client_query(struct weir_api_client *client, const char *what,
                          const struct weir_parameter *parameters)
{
    struct weir_api_call call = {.method = "GET", .segments = {what}, .parameters = parameters};
    return weir_api_client_do(client, &call);
}

int weir_api_client_follow(struct weir_api_client *client, const char *path, weir_caller_line *line,
                           void *context)
{
    struct weir_question question = {
        .method = "GET", .path = path, .line = line, .context = context};
    (void)!make_call(client, &question);
    return weir_api_client_report(client);
}

int weir_api_client_wait(struct weir_api_client *client, struct weir_api_path path, json_t *wish,
                         bool hold)
{
    struct weir_question question = {.waits = true, .line_only = hold};
    return ask(client, path, wish, &question);
}
