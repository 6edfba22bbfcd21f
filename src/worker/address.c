#include "worker/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>

void weir_address_write(const struct weir_config_address *config, char text[WEIR_ADDRESS_NAME_MAX])
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
    assert(length > 0);
    assert(length < WEIR_ADDRESS_NAME_MAX);
}

void weir_address_authority(const struct weir_config_url *url, char text[WEIR_ADDRESS_NAME_MAX])
{
    static const char local[] = "localhost";
    if (url->address.kind == WEIR_CONFIG_ADDRESS_UNIX) {
        memcpy(text, local, sizeof local);
        return;
    }
    weir_address_write(&url->address, text);
    if (url->address.port == (url->tls ? 443 : 80)) {
        *strrchr(text, ':') = '\0';
    }
}

bool weir_address_is_name(const struct weir_config_address *config)
{
    char host[INET6_ADDRSTRLEN];
    unsigned char number[16];
    if (config->kind == WEIR_CONFIG_ADDRESS_UNIX) {
        return false;
    }
    if (config->host.bytes >= sizeof host) {
        return true;
    }
    memcpy(host, config->host.data, config->host.bytes);
    host[config->host.bytes] = '\0';
    return inet_pton(AF_INET, host, number) != 1 && inet_pton(AF_INET6, host, number) != 1;
}

const char *weir_address_resolve(const struct weir_config_address *config,
                                 struct weir_address *address, char text[WEIR_ADDRESS_NAME_MAX])
{
    weir_address_write(config, text);
    const char *error = weir_address_parse(address, weir_slice_of(text));
    if (error == NULL) {
        return NULL;
    }
    static _Thread_local char sentence[WEIR_ADDRESS_NAME_MAX + 100];
    snprintf(sentence, sizeof sentence, "%s: %s", text, error);
    return sentence;
}
