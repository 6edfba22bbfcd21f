/* media_type.c - reads media types. Pure functions; any thread. */
#include "wire/media_type.h"

#include "wire/chars.h"

static struct weir_slice trim(struct weir_slice text)
{
    while (text.bytes > 0 && weir_char_is_blank(text.data[0])) {
        text.data++;
        text.bytes--;
    }
    while (text.bytes > 0 && weir_char_is_blank(text.data[text.bytes - 1])) {
        text.bytes--;
    }
    return text;
}

struct weir_slice weir_media_type(struct weir_slice content_type)
{
    const char *end =
        content_type.bytes > 0 ? memchr(content_type.data, ';', content_type.bytes) : NULL;
    if (end != NULL) {
        content_type.bytes = (size_t)(end - content_type.data);
    }
    return trim(content_type);
}

bool weir_media_type_accepted(struct weir_slice accept, struct weir_slice type)
{
    while (accept.bytes > 0) {
        const char *comma = memchr(accept.data, ',', accept.bytes);
        size_t bytes = comma == NULL ? accept.bytes : (size_t)(comma - accept.data);
        if (weir_text_same(weir_media_type((struct weir_slice){accept.data, bytes}), type)) {
            return true;
        }
        bytes += comma != NULL;
        accept = (struct weir_slice){accept.data + bytes, accept.bytes - bytes};
    }
    return false;
}
