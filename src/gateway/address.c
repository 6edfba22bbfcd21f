#include "gateway/address.h"

#include <stdio.h>

const char *weir_address_resolve(const struct weir_config_address *config,
                                 struct weir_address *address, char text[WEIR_ADDRESS_NAME_MAX])
{
    int length;
    if (config->kind == WEIR_CONFIG_ADDRESS_UNIX) {
        length = snprintf(text, WEIR_ADDRESS_NAME_MAX, "unix:%.*s", (int)config->path.bytes,
                          config->path.data);
    } else {
        bool v6 = memchr(config->host.data, ':', config->host.bytes) != NULL;
        length = snprintf(text, WEIR_ADDRESS_NAME_MAX, v6 ? "[%.*s]:%u" : "%.*s:%u",
                          (int)config->host.bytes, config->host.data, config->port);
    }
    if (length < 0 || length >= WEIR_ADDRESS_NAME_MAX) {
        return "the address is too long";
    }
    const char *wrong = weir_address_parse(address, weir_slice_of(text));
    if (wrong == NULL) {
        return NULL;
    }
    static _Thread_local char sentence[WEIR_ADDRESS_NAME_MAX + 100];
    snprintf(sentence, sizeof sentence, "%s: %s", text, wrong);
    return sentence;
}
