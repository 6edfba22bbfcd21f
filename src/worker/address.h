/* address.h - turns addresses of the config into addresses that a socket can use. */
#ifndef WEIR_WORKER_ADDRESS_H
#define WEIR_WORKER_ADDRESS_H

#include "config/config.h"
#include "net/socket.h"

/* host:port, [v6]:port or unix:/path; a host name has up to 255 bytes. */
#define WEIR_ADDRESS_NAME_MAX 400

/* Its text as the config has it, terminated; it always fits. */
void weir_address_write(const struct weir_config_address *config, char text[WEIR_ADDRESS_NAME_MAX]);

/* The authority that a request sends to the server of a url: its host, and its port unless that is
 * the scheme's default. */
void weir_address_authority(const struct weir_config_url *url, char text[WEIR_ADDRESS_NAME_MAX]);

/* Whether the address has a host name that the DNS must resolve. */
bool weir_address_is_name(const struct weir_config_address *config);

/* Resolves the address, which may block, and writes its text as the config has it, terminated. Null
 * on success, else a sentence that names the address and what is wrong with it; it is valid until
 * this thread's next failure. */
const char *weir_address_resolve(const struct weir_config_address *config,
                                 struct weir_address *address, char text[WEIR_ADDRESS_NAME_MAX]);

#endif
