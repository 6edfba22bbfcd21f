#include "frontend/peer.h"

#include <netinet/in.h>
#include <string.h>

static bool begins_with(const uint8_t *bytes, const uint8_t *network, uint32_t bits)
{
    if (memcmp(bytes, network, bits / 8) != 0) {
        return false;
    }
    uint8_t mask = (uint8_t)(0xff00 >> bits % 8);
    return bits % 8 == 0 || (bytes[bits / 8] & mask) == (network[bits / 8] & mask);
}

/* The peer's address in network order, and what kind it is. One of IPv4 that came to an IPv6 socket
 * counts as the IPv4 address that it is. */
static enum weir_config_network_kind peer_bytes(const struct weir_address *peer,
                                                const uint8_t **bytes)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&peer->storage;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&peer->storage;
    switch (peer->storage.ss_family) {
    case AF_INET:
        *bytes = (const uint8_t *)&in->sin_addr;
        return WEIR_CONFIG_NETWORK_V4;
    case AF_INET6:
        *bytes = (const uint8_t *)&in6->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)) {
            *bytes += 12;
            return WEIR_CONFIG_NETWORK_V4;
        }
        return WEIR_CONFIG_NETWORK_V6;
    default:
        *bytes = NULL;
        return WEIR_CONFIG_NETWORK_UNIX;
    }
}

bool weir_peer_trusted(const struct weir_config *config, const struct weir_address *peer)
{
    const uint8_t *bytes;
    enum weir_config_network_kind kind = peer_bytes(peer, &bytes);
    for (uint32_t i = 0; i < config->trusted_count; i++) {
        const struct weir_config_network *network = &config->trusted[i];
        if (network->kind == kind && (kind == WEIR_CONFIG_NETWORK_UNIX ||
                                      begins_with(bytes, network->bytes, network->bits))) {
            return true;
        }
    }
    return false;
}

void weir_peer_name(const struct weir_address *peer, char text[WEIR_ADDRESS_TEXT_MAX])
{
    weir_address_format(peer, text);
    char *colon = strrchr(text, ':');
    if (strncmp(text, "unix:", 5) == 0) {
        memcpy(text, "unix", 5);
    } else if (text[0] == '[') { /* [v6]:port */
        size_t bytes = strcspn(text + 1, "]");
        memmove(text, text + 1, bytes);
        text[bytes] = '\0';
    } else if (colon != NULL) {
        *colon = '\0';
    }
}
