/* Any bytes as a request: the same answer however they arrive, everything inside the buffer, and
 * what is accepted can be written anew. Its path and host are looked at as the gateway does. */
#include "wire/authority.h"
#include "wire/path.h"
#include "wire_head.h"

static void must_be_addressable(const struct weir_http1_head *head, const char *data)
{
    struct weir_authority authority;
    struct weir_slice text = weir_http1_slice(data, head->authority);
    must((text.bytes == 0 && head->minor == 0) || weir_authority_parse(text, &authority));
    struct weir_slice path = weir_http1_slice(data, head->path);
    must(path.bytes == 0 || path.data[0] == '/');
    weir_path_flaws(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct reading reading = {.kind = WEIR_HTTP1_REQUEST, .limits = WEIR_HTTP1_LIMITS_DEFAULT};
    struct weir_http1_head head;
    try_head(reading, data, bytes);
    begin_head(&reading, &head);
    if (weir_http1_parse(&head, (const char *)data, bytes) == WEIR_HTTP1_DONE) {
        must_be_addressable(&head, (const char *)data);
    }
    return 0;
}
