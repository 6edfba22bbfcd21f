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

static bool make_path(char path[PATH_BYTES_MAX], struct weir_request_path parts,
                      const struct weir_parameter *parameters)
{
    bool of_gates = parts.gate != NULL || parts.what == NULL;
    const char *const segments[] = {of_gates ? "gates" : NULL, parts.gate, parts.key, parts.what};
    size_t bytes = 0;
    bool fits = true;
    for (size_t i = 0; i < sizeof segments / sizeof segments[0]; i++) {
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

static int report_problem(const struct weir_talk *talk)
{
    const char *detail = json_string_value(json_object_get(talk->document, "detail"));
    char text[700];
    if (talk->status == 422 && detail != NULL) {
        return report_mistakes(talk, detail);
    }
    snprintf(text, sizeof text, "%.500s%s",
             detail == NULL ? "the API refused, and did not say why." : detail,
             talk->status == 401 ? " weir takes it from the environment: WEIR_TOKEN." : "");
    return complain(talk, text, WEIR_EXIT_FAILED);
}

static bool print_answer(const struct weir_talk *talk, const struct weir_answer *answer)
{
    bool ended = answer->bytes > 0 && answer->body[answer->bytes - 1] == '\n';
    return fprintf(talk->out, "%s%s", answer->body, ended ? "" : "\n") >= 0 &&
           fflush(talk->out) == 0;
}

static int judge(struct weir_talk *talk, const struct weir_answer *answer)
{
    talk->status = answer->status;
    talk->document =
        json_loadb(answer->body, answer->bytes, JSON_ALLOW_NUL, NULL); /* keys are bytes */
    if (!json_is_object(talk->document)) {
        char text[400];
        snprintf(text, sizeof text,
                 "what answers at %.200s is no weir API (status %u). Is that the `api` of its "
                 "config, or its `listen`?",
                 find_api(talk->options), answer->status);
        return complain(talk, text, WEIR_EXIT_FAILED);
    }
    if (talk->options->json && !print_answer(talk, answer)) {
        return complain(talk, "what the API said cannot be written", WEIR_EXIT_FAILED);
    }
    return answer->status == 200 ? 0 : report_problem(talk);
}

static int converse(struct weir_talk *talk, struct weir_question *question)
{
    const char *token = getenv("WEIR_TOKEN");
    struct weir_answer answer;
    bool usage = false;
    question->token = weir_slice_of(token == NULL ? "" : token);
    if (!weir_caller_open(&talk->caller, find_api(talk->options), talk->stop_fd, &usage) ||
        !weir_caller_ask(&talk->caller, question, &answer)) {
        talk->stopped = talk->caller.stopped;
        return talk->stopped
                   ? WEIR_EXIT_FAILED
                   : complain(talk, talk->caller.wrong, usage ? WEIR_EXIT_USAGE : WEIR_EXIT_FAILED);
    }
    bool followed = question->line != NULL && answer.status == 200; /* and has had enough */
    int status = followed ? 0 : judge(talk, &answer);
    free(answer.body);
    return status;
}

static int ask(struct weir_talk *talk, struct weir_request_path parts,
               const struct weir_parameter *parameters, json_t *wish,
               struct weir_question *question)
{
    char path[PATH_BYTES_MAX];
    char *body = wish == NULL ? NULL : json_dumps(wish, JSON_COMPACT);
    int status;
    weir_talk_deinit(talk);
    talk->status = 0;
    if (!make_path(path, parts, parameters) || (wish != NULL && body == NULL)) {
        status = complain(talk, "the names are too long", WEIR_EXIT_USAGE);
    } else {
        question->method = wish == NULL ? "GET" : "POST";
        question->path = path;
        question->body = weir_slice_of(body == NULL ? "" : body);
        status = converse(talk, question);
    }
    if (status != 0 || !question->line_only) {
        weir_caller_close(&talk->caller);
    }
    json_decref(wish);
    free(body);
    return status;
}

int weir_talk_ask(struct weir_talk *talk, struct weir_request_path path, json_t *wish)
{
    struct weir_question question = {0};
    return ask(talk, path, NULL, wish, &question);
}

int weir_talk_query(struct weir_talk *talk, const char *what,
                    const struct weir_parameter *parameters)
{
    struct weir_question question = {0};
    return ask(talk, (struct weir_request_path){.what = what}, parameters, NULL, &question);
}

int weir_talk_follow(struct weir_talk *talk, const char *path, weir_caller_line *line,
                     void *context)
{
    struct weir_question question = {
        .method = "GET", .path = path, .line = line, .context = context};
    weir_talk_deinit(talk);
    int status = converse(talk, &question);
    weir_caller_close(&talk->caller);
    return status;
}

int weir_talk_wait(struct weir_talk *talk, struct weir_request_path path, json_t *wish, bool hold)
{
    struct weir_question question = {.waits = true, .line_only = hold};
    return ask(talk, path, NULL, wish, &question);
}
