/* Any bytes as a request: the same answer however they arrive, everything inside the buffer, and
 * what is accepted can be written anew. Its path and host are looked at as the gateway does: a path
 * that has been rewritten needs no rewriting, and means what it meant to a lenient upstream. */
#include "wire/authority.h"
#include "wire/path.h"
#include "wire_head.h"

/* What merges slashes merges the path's first, and the most lenient reading of both is the same. */
static void must_stay_the_same_path(struct weir_slice path, const char *normal, size_t bytes)
{
    static char before[WEIR_HTTP1_HEAD_BYTES_MAX];
    static char after[WEIR_HTTP1_HEAD_BYTES_MAX];
    size_t count = weir_path_read_loosely(path, false, before);
    size_t merged = 0;
    bool encoded = (weir_path_flaws(path) & WEIR_PATH_ENCODED_SLASH) != 0;
    for (size_t i = 0; i < count && !encoded; i++) {
        if (i == 0 || before[i] != '/' || before[i - 1] != '/') {
            before[merged++] = before[i];
        }
    }
    size_t left = weir_path_read_loosely((struct weir_slice){normal, bytes}, false, after);
    must(left <= count);
    must(encoded || (left == merged && memcmp(before, after, left) == 0));
}

static void must_normalize(struct weir_slice path)
{
    static char text[WEIR_HTTP1_HEAD_BYTES_MAX];
    unsigned flaws = weir_path_flaws(path);
    if ((flaws & WEIR_PATH_BAD_ESCAPE) != 0) {
        return;
    }
    memcpy(text, path.data, path.bytes);
    size_t bytes = weir_path_normalize(text, path.bytes, true);
    char *normal = text + path.bytes - bytes;
    must(bytes <= path.bytes);
    unsigned rewritten = WEIR_PATH_EMPTY_SEGMENT | WEIR_PATH_NEEDLESS_ESCAPE;
    must(weir_path_flaws((struct weir_slice){normal, bytes}) == (flaws & ~rewritten));
    must(weir_path_normalize(normal, bytes, true) == bytes);
    must_stay_the_same_path(path, normal, bytes);
}

static void must_be_addressable(const struct weir_http1_head *head, const char *data)
{
    struct weir_authority authority;
    struct weir_slice text = weir_http1_slice(data, head->authority);
    must((text.bytes == 0 && head->minor == 0) || weir_authority_parse(text, &authority));
    struct weir_slice path = weir_http1_slice(data, head->path);
    must(path.bytes == 0 || path.data[0] == '/');
    must_normalize(path);
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
