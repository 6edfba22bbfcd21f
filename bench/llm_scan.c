/* llm_scan.c - one body of an LLM's API, many times, for callgrind to count: read by ours, or made
 * a tree by jansson.
 *
 *     llm_scan ours|jansson BODY OPERATIONS
 *
 * Ours reads a body as the gateway does: in pieces of 16 KiB, with all that it picks out, and for
 * streams with the fate of every byte. jansson only gets what is JSON: the body, or the data of
 * each event, found beforehand. Only measured_*() is counted. bench/llm_table makes a table of
 * these. */
#include "llm/llm_reply.h"
#include "llm/llm_request.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define BODY_BYTES_MAX ((size_t)256 << 10)
#define PIECE_BYTES    ((size_t)16 << 10)

static char body[BODY_BYTES_MAX];
static size_t body_bytes;

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "llm_scan: %s\n", why);
    exit(1);
}

static void add(const char *text)
{
    size_t bytes = strlen(text);
    if (bytes > sizeof body - body_bytes) {
        die("the body is too long");
    }
    memcpy(body + body_bytes, text, bytes);
    body_bytes += bytes;
}

static void add_times(const char *text, int times)
{
    for (int i = 0; i < times; i++) {
        add(text);
    }
}

/* ---- bodies ---- */

/* 4 KiB of English, in eight messages, with a tool. */
static void make_chat(void)
{
    add("{\"model\": \"gpt-4o-mini\", \"messages\": [");
    for (int i = 0; i < 8; i++) {
        add(i > 0 ? ", {\"role\": \"" : "{\"role\": \"");
        add(i % 2 == 0 ? "user" : "assistant");
        add("\", \"content\": \"");
        add_times("It was a bright cold day in April, and the clocks were striking thirteen. "
                  "\\\"Who goes there?\\\"\\n",
                  5);
        add("\"}");
    }
    add("], \"temperature\": 0.7, \"max_completion_tokens\": 512, \"stream\": true, \"tools\": [{"
        "\"type\": \"function\", \"function\": {\"name\": \"weather\", \"parameters\": {\"type\": "
        "\"object\", \"properties\": {\"city\": {\"type\": \"string\"}}, \"required\": [\"city\"]}}"
        "}]}");
}

static void make_chinese(void)
{
    add("{\"model\":\"gpt-4o-mini\",\"messages\":[{\"role\":\"user\",\"content\":\"");
    add_times("\xe5\xa4\xa9\xe5\x9c\xb0\xe7\x8e\x84\xe9\xbb\x84\xef\xbc\x8c"
              "\xe5\xae\x87\xe5\xae\x99\xe6\xb4\xaa\xe8\x8d\x92\xe3\x80\x82",
              135);
    add("\"}]}");
}

static void make_picture(void)
{
    add("{\"model\":\"claude\",\"max_tokens\":100,\"messages\":[{\"role\":\"user\",\"content\":[{"
        "\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":\"image/png\",\"data\":"
        "\"");
    add_times("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9Q", 2000);
    add("\"}}]}]}");
}

static void make_chat_stream(void)
{
    for (int i = 0; i < 200; i++) {
        add("data: {\"id\":\"chatcmpl-9x8Kz0Yq2b7Jt5Rn4Vw1Lm3Ps6Hd\",\"object\":"
            "\"chat.completion.chunk\",\"created\":1716239022,\"model\":\"gpt-4o-mini-2024-07-18\","
            "\"system_fingerprint\":\"fp_44709d6fcb\",\"choices\":[{\"index\":0,\"delta\":{"
            "\"content\":\" river\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}"
            "\n\n");
    }
    add("data: {\"id\":\"chatcmpl-9x8Kz0Yq2b7Jt5Rn4Vw1Lm3Ps6Hd\",\"object\":"
        "\"chat.completion.chunk\",\"created\":1716239022,\"model\":\"gpt-4o-mini-2024-07-18\","
        "\"choices\":[],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":200,\"total_tokens\":"
        "219,\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\ndata: [DONE]\n\n");
}

static void make_message_stream(void)
{
    add("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\","
        "\"role\":\"assistant\",\"content\":[],\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}"
        "}\n\n");
    for (int i = 0; i < 200; i++) {
        add("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
            "\"delta\":{\"type\":\"text_delta\",\"text\":\" river\"}}\n\n");
    }
    add("event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":"
        "\"end_turn\"},\"usage\":{\"output_tokens\":200}}\n\nevent: message_stop\ndata: {\"type\":"
        "\"message_stop\"}\n\n");
}

static void make_embedding(void)
{
    add("{\"object\":\"list\",\"data\":[{\"object\":\"embedding\",\"index\":0,\"embedding\":[0.5");
    add_times(",-0.006929283495992422", 1535);
    add("]}],\"model\":\"e\",\"usage\":{\"prompt_tokens\":8,\"total_tokens\":8}}");
}

struct kind {
    const char *name;
    void (*make)(void);
    enum weir_llm_api api;
    bool reply;
    enum weir_llm_body body;
};

static const struct kind kinds[] = {
    {"chat", make_chat, WEIR_LLM_API_OPENAI_CHAT, false, WEIR_LLM_BODY_JSON},
    {"chinese", make_chinese, WEIR_LLM_API_OPENAI_CHAT, false, WEIR_LLM_BODY_JSON},
    {"picture", make_picture, WEIR_LLM_API_ANTHROPIC_MESSAGES, false, WEIR_LLM_BODY_JSON},
    {"chat_stream", make_chat_stream, WEIR_LLM_API_OPENAI_CHAT, true, WEIR_LLM_BODY_EVENTS},
    {"message_stream", make_message_stream, WEIR_LLM_API_ANTHROPIC_MESSAGES, true,
     WEIR_LLM_BODY_EVENTS},
    {"embedding", make_embedding, WEIR_LLM_API_OPENAI_EMBEDDINGS, true, WEIR_LLM_BODY_JSON},
};

/* ---- ours ---- */

void measured_request(const struct kind *kind);
void measured_request(const struct kind *kind)
{
    struct weir_llm_request request;
    struct weir_edit edits[WEIR_LLM_EDITS_MAX];
    weir_llm_request_init(&request, kind->api, NULL);
    for (size_t at = 0; at < body_bytes; at += PIECE_BYTES) {
        size_t bytes = body_bytes - at < PIECE_BYTES ? body_bytes - at : PIECE_BYTES;
        weir_llm_request_feed(&request, (struct weir_slice){body + at, bytes});
    }
    if (!weir_llm_request_end(&request) || !request.has_model) {
        die("ours refuses the body");
    }
    weir_llm_request_edits(&request, (struct weir_slice){0}, edits);
}

void measured_reply(const struct kind *kind);
void measured_reply(const struct kind *kind)
{
    struct weir_llm_reply reply;
    size_t used;
    struct weir_llm_fate fate;
    weir_llm_reply_init(&reply, &(struct weir_llm_reply_options){
                                    .api = kind->api, .body = kind->body, .hide_usage = true});
    for (size_t at = 0; at < body_bytes; at += PIECE_BYTES) {
        size_t bytes = body_bytes - at < PIECE_BYTES ? body_bytes - at : PIECE_BYTES;
        struct weir_slice rest = {body + at, bytes};
        while (weir_llm_reply_next(&reply, rest, &used, &fate)) {
            rest = (struct weir_slice){rest.data + used, rest.bytes - used};
        }
    }
    if (!weir_llm_reply_usage(&reply).known) {
        die("ours does not find the usage");
    }
}

/* ---- jansson ---- */

static struct weir_slice documents[512];
static size_t document_count;

/* Every line of data that is JSON, or all of the body. */
static void find_documents(const struct kind *kind)
{
    if (kind->body == WEIR_LLM_BODY_JSON) {
        documents[document_count++] = (struct weir_slice){body, body_bytes};
        return;
    }
    for (const char *at = body; (at = strstr(at, "data: {")) != NULL;) {
        const char *end = strchr(at, '\n');
        documents[document_count++] = (struct weir_slice){at + 6, (size_t)(end - at) - 6};
        at = end;
    }
}

void measured_jansson(void);
void measured_jansson(void)
{
    json_error_t error;
    for (size_t i = 0; i < document_count; i++) {
        json_t *json = json_loadb(documents[i].data, documents[i].bytes, 0, &error);
        if (json == NULL) {
            die("jansson refuses the body");
        }
        json_decref(json);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        die("usage: llm_scan ours|jansson BODY OPERATIONS");
    }
    bool ours = strcmp(argv[1], "ours") == 0;
    unsigned long operations = strtoul(argv[3], NULL, 10);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(argv[2], kinds[i].name) != 0) {
            continue;
        }
        kinds[i].make();
        find_documents(&kinds[i]);
        printf("%zu\n", body_bytes);
        for (unsigned long done = 0; done < operations; done++) {
            if (ours) {
                (kinds[i].reply ? measured_reply : measured_request)(&kinds[i]);
            } else {
                measured_jansson();
            }
        }
        return 0;
    }
    die("no such body");
}
