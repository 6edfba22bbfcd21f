/* http1_parse.c - one head, many times, for callgrind to count: ours or llhttp.
 *
 *     http1_parse PARSER MESSAGE OPERATIONS
 *
 * llhttp is Debian's (node-llhttp), in its strict mode, with the least that a proxy needs from it:
 * callbacks that keep where the target and the fields are. Only measured_*() is counted, in which a
 * parser is made ready and reads one whole head. bench/http1_table makes a table of these. */
#include "wire/http1.h"

#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>

struct message {
    const char *name;
    bool response;
    const char *head;
};

static const struct message messages[] = {
    {"curl", false,
     "GET /functions/resize-image?width=200 HTTP/1.1\r\n"
     "Host: 127.0.0.1:8080\r\n"
     "User-Agent: curl/7.88.1\r\n"
     "Accept: */*\r\n"
     "\r\n"},
    {"browser", false,
     "GET /assets/application-3f2a9c.css HTTP/1.1\r\n"
     "Host: app.example.com\r\n"
     "Connection: keep-alive\r\n"
     "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) "
     "Chrome/120.0.0.0 Safari/537.36\r\n"
     "Accept: text/css,*/*;q=0.1\r\n"
     "Sec-Fetch-Site: same-origin\r\n"
     "Sec-Fetch-Mode: no-cors\r\n"
     "Sec-Fetch-Dest: style\r\n"
     "Referer: https://app.example.com/\r\n"
     "Accept-Encoding: gzip, deflate, br\r\n"
     "Accept-Language: en-US,en;q=0.9\r\n"
     "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\n"
     "If-None-Match: \"5f2a9c-1b2c\"\r\n"
     "\r\n"},
    {"llm", false,
     "POST /openai/v1/chat/completions HTTP/1.1\r\n"
     "Host: gateway.internal:8080\r\n"
     "Accept-Encoding: gzip, deflate\r\n"
     "Connection: keep-alive\r\n"
     "Accept: application/json\r\n"
     "Content-Type: application/json\r\n"
     "User-Agent: OpenAI/Python 1.12.0\r\n"
     "X-Stainless-Lang: python\r\n"
     "X-Stainless-Package-Version: 1.12.0\r\n"
     "X-Stainless-OS: Linux\r\n"
     "Authorization: Bearer weir_7f3a_0123456789abcdef0123456789abcdef0123456789abcdef\r\n"
     "X-Tenant: acme\r\n"
     "Content-Length: 1842\r\n"
     "\r\n"},
    {"reply", true,
     "HTTP/1.1 200 OK\r\n"
     "Date: Tue, 02 Jan 2024 10:20:30 GMT\r\n"
     "Content-Type: text/event-stream; charset=utf-8\r\n"
     "Transfer-Encoding: chunked\r\n"
     "Connection: keep-alive\r\n"
     "Cache-Control: no-cache, must-revalidate\r\n"
     "openai-processing-ms: 412\r\n"
     "x-ratelimit-limit-requests: 10000\r\n"
     "x-ratelimit-remaining-requests: 9999\r\n"
     "x-ratelimit-remaining-tokens: 1999742\r\n"
     "x-request-id: req_0123456789abcdef0123456789abcdef\r\n"
     "Server: cloudflare\r\n"
     "\r\n"},
};

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "http1_parse: %s\n", why);
    exit(1);
}

/* ---- ours ---- */

void measured_ours(const struct message *message, size_t bytes);
void measured_ours(const struct message *message, size_t bytes)
{
    struct weir_http1_head head;
    if (message->response) {
        weir_http1_init_response(&head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
    } else {
        weir_http1_init_request(&head, WEIR_HTTP1_LIMITS_DEFAULT);
    }
    if (weir_http1_parse(&head, message->head, bytes) != WEIR_HTTP1_DONE) {
        die("ours refuses the message");
    }
}

/* ---- llhttp ---- */

struct kept {
    struct weir_slice target;
    struct weir_slice names[WEIR_HTTP1_FIELDS_MAX];
    struct weir_slice values[WEIR_HTTP1_FIELDS_MAX];
    size_t count;
    bool complete;
};

static int keep_target(llhttp_t *parser, const char *at, size_t bytes)
{
    struct kept *kept = parser->data;
    kept->target = (struct weir_slice){at, bytes};
    return 0;
}

static int keep_name(llhttp_t *parser, const char *at, size_t bytes)
{
    struct kept *kept = parser->data;
    kept->names[kept->count] = (struct weir_slice){at, bytes};
    return 0;
}

static int keep_value(llhttp_t *parser, const char *at, size_t bytes)
{
    struct kept *kept = parser->data;
    kept->values[kept->count++] = (struct weir_slice){at, bytes};
    return 0;
}

static int keep_end(llhttp_t *parser)
{
    struct kept *kept = parser->data;
    kept->complete = true;
    return 0;
}

static const llhttp_settings_t settings = {
    .on_url = keep_target,
    .on_header_field = keep_name,
    .on_header_value = keep_value,
    .on_headers_complete = keep_end,
};

void measured_llhttp(const struct message *message, size_t bytes);
void measured_llhttp(const struct message *message, size_t bytes)
{
    struct kept kept;
    llhttp_t parser;
    kept.count = 0;
    kept.complete = false;
    llhttp_init(&parser, message->response ? HTTP_RESPONSE : HTTP_REQUEST, &settings);
    parser.data = &kept;
    if (llhttp_execute(&parser, message->head, bytes) != HPE_OK || !kept.complete) {
        die("llhttp refuses the message");
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        die("usage: http1_parse ours|llhttp MESSAGE OPERATIONS");
    }
    bool ours = strcmp(argv[1], "ours") == 0;
    unsigned long operations = strtoul(argv[3], NULL, 10);
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        if (strcmp(argv[2], messages[i].name) != 0) {
            continue;
        }
        size_t bytes = strlen(messages[i].head);
        printf("%zu\n", bytes);
        for (unsigned long done = 0; done < operations; done++) {
            (ours ? measured_ours : measured_llhttp)(&messages[i], bytes);
        }
        return 0;
    }
    die("no such message");
}
