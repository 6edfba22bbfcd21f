/* limits_read.c - what one reply says about its limits, many times, for callgrind to count.
 *
 *     limits_read WHAT MESSAGE OPERATIONS
 *
 * WHAT is `read`, all limits of a reply, or `hides`, the question asked of each of its fields. Only
 * measured_*() is counted. bench/limits_table makes a table of these. */
#include "llm/limits.h"

#include <stdio.h>
#include <stdlib.h>

struct message {
    const char *name;
    enum weir_limits_dialect dialect;
    const char *head;
};

#define COMMON                                        \
    "Date: Thu, 21 Aug 2025 12:41:00 GMT\r\n"         \
    "Content-Type: text/event-stream\r\n"             \
    "Transfer-Encoding: chunked\r\n"                  \
    "Connection: keep-alive\r\n"                      \
    "Cache-Control: no-cache\r\n"                     \
    "x-envoy-upstream-service-time: 412\r\n"          \
    "strict-transport-security: max-age=31536000\r\n" \
    "cf-cache-status: DYNAMIC\r\n"                    \
    "Server: cloudflare\r\n"                          \
    "cf-ray: 972a33bb3977d246-FRA\r\n"                \
    "alt-svc: h3=\":443\"; ma=86400\r\n"

static const struct message messages[] = {
    {"none", WEIR_LIMITS_OPENAI, "HTTP/1.1 200 OK\r\n" COMMON "\r\n"},
    {"openai", WEIR_LIMITS_OPENAI,
     "HTTP/1.1 200 OK\r\n" COMMON "x-ratelimit-limit-requests: 10000\r\n"
     "x-ratelimit-limit-tokens: 2000000\r\n"
     "x-ratelimit-remaining-requests: 9999\r\n"
     "x-ratelimit-remaining-tokens: 1999742\r\n"
     "x-ratelimit-reset-requests: 6ms\r\n"
     "x-ratelimit-reset-tokens: 7ms\r\n"
     "\r\n"},
    {"anthropic", WEIR_LIMITS_ANTHROPIC,
     "HTTP/1.1 200 OK\r\n" COMMON "anthropic-ratelimit-input-tokens-limit: 80000\r\n"
     "anthropic-ratelimit-input-tokens-remaining: 79000\r\n"
     "anthropic-ratelimit-input-tokens-reset: 2025-08-21T12:41:01Z\r\n"
     "anthropic-ratelimit-output-tokens-limit: 16000\r\n"
     "anthropic-ratelimit-output-tokens-remaining: 16000\r\n"
     "anthropic-ratelimit-output-tokens-reset: 2025-08-21T12:41:00Z\r\n"
     "anthropic-ratelimit-requests-limit: 1000\r\n"
     "anthropic-ratelimit-requests-remaining: 999\r\n"
     "anthropic-ratelimit-requests-reset: 2025-08-21T12:41:00Z\r\n"
     "anthropic-ratelimit-tokens-limit: 96000\r\n"
     "anthropic-ratelimit-tokens-remaining: 95000\r\n"
     "anthropic-ratelimit-tokens-reset: 2025-08-21T12:41:01Z\r\n"
     "\r\n"},
    {"ietf", WEIR_LIMITS_STANDARD,
     "HTTP/1.1 200 OK\r\n" COMMON "RateLimit-Policy: \"default\";q=100;w=60\r\n"
     "RateLimit: \"default\";r=50;t=30\r\n"
     "\r\n"},
};

static _Noreturn void die(const char *why)
{
    fprintf(stderr, "limits_read: %s\n", why);
    exit(1);
}

void measured_read(const struct weir_limits_source *source, const struct weir_http1_head *head,
                   const char *data);
void measured_read(const struct weir_limits_source *source, const struct weir_http1_head *head,
                   const char *data)
{
    struct weir_limits limits;
    weir_limits_read(source, head, data, UINT64_C(1755780060123456789), &limits);
}

void measured_hides(const struct weir_limits_source *source, const struct weir_http1_head *head,
                    const char *data);
void measured_hides(const struct weir_limits_source *source, const struct weir_http1_head *head,
                    const char *data)
{
    for (uint16_t i = 0; i < head->field_count; i++) {
        weir_limits_hides(source, data, &head->fields[i]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        die("usage: limits_read read|hides MESSAGE OPERATIONS");
    }
    bool reads = strcmp(argv[1], "read") == 0;
    unsigned long operations = strtoul(argv[3], NULL, 10);
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        struct weir_limits_source source = {.dialect = messages[i].dialect};
        struct weir_http1_head head;
        if (strcmp(argv[2], messages[i].name) != 0) {
            continue;
        }
        weir_http1_init_response(&head, WEIR_HTTP1_LIMITS_DEFAULT, WEIR_METHOD_POST);
        if (weir_http1_parse(&head, messages[i].head, strlen(messages[i].head)) !=
            WEIR_HTTP1_DONE) {
            die("the head is refused");
        }
        printf("%u\n", head.field_count);
        for (unsigned long done = 0; done < operations; done++) {
            (reads ? measured_read : measured_hides)(&source, &head, messages[i].head);
        }
        return 0;
    }
    die("no such message");
}
