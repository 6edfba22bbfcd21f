/* address.h - places on the network as people write them: where to listen, where an upstream is,
 * and which networks are trusted.
 *
 * Nothing is looked up: a name stays a name. The slices in the results point into the text. */
#ifndef WEIR_CONFIG_ADDRESS_H
#define WEIR_CONFIG_ADDRESS_H

#include "config/config.h"

/* What fits into a socket's address, with the zero at its end. */
#define WEIR_ADDRESS_PATH_BYTES_MAX 107

/* host:port, [v6]:port or unix:/path. Port 0 lets the system choose. False, and nothing stored,
 * when the text is none of them. */
bool weir_config_address_read(struct weir_slice text, struct weir_config_address *address);

/* Prints it as it can be read. */
void weir_config_address_print(const struct weir_config_address *address, FILE *out);

/* The address of a DNS server: an IP address, perhaps with a port. */
bool weir_config_dns_server_read(struct weir_slice text, struct weir_config_address *address);

/* Whether it is a host's name or IP address, without brackets or a port. */
bool weir_config_host_valid(struct weir_slice text);

enum weir_url_mistake {
    WEIR_URL_GOOD,
    WEIR_URL_BAD,      /* neither http://host:port, https://host:port nor unix:/path */
    WEIR_URL_IDENTITY, /* it names a user, perhaps with a password: do not show it */
    WEIR_URL_PATH      /* more follows after host and port */
};

/* http://host[:port], https://host[:port] or unix:/path; one / may follow a host. Stores only when
 * good. */
enum weir_url_mistake weir_config_url_read(struct weir_slice text, struct weir_config_url *url);

enum weir_network_mistake {
    WEIR_NETWORK_GOOD,
    WEIR_NETWORK_BAD, /* neither an address, a network nor `unix` */
    WEIR_NETWORK_BITS /* its address has bits beyond its prefix */
};

/* 10.0.0.0/8, 192.0.2.7, fd00::/8, ::1 or unix. An address alone is the network of just that one.
 * Stores also for WEIR_NETWORK_BITS, without those bits. */
enum weir_network_mistake weir_config_network_read(struct weir_slice text,
                                                   struct weir_config_network *network);

/* Room for a network as text, such as ffff:...:ffff/128. */
struct weir_network_text {
    char text[64];
};

struct weir_network_text weir_config_network_show(const struct weir_config_network *network);

/* Whether only this machine reaches it: a Unix socket, 127.0.0.0/8, ::1 or localhost. */
bool weir_config_address_is_loopback(const struct weir_config_address *address);

#endif
