/* address.h - an address of the config as one that a socket can use. */
#ifndef WEIR_WORKER_ADDRESS_H
#define WEIR_WORKER_ADDRESS_H

#include "config/config.h"
#include "net/socket.h"

/* host:port, [v6]:port or unix:/path; a host name has up to 255 bytes. */
#define WEIR_ADDRESS_NAME_MAX 400

/* Its text as the config has it, terminated; it always fits. */
void weir_address_write(const struct weir_config_address *config, char text[WEIR_ADDRESS_NAME_MAX]);

/* What a request calls the server of a url: its host, and its port unless that is the usual one. */
void weir_address_authority(const struct weir_config_url *url, char text[WEIR_ADDRESS_NAME_MAX]);

/* Whether it has a host that is to be looked up. */
bool weir_address_is_name(const struct weir_config_address *config);

/* Looks it up, which may block, and writes its text as the config has it, terminated. Null on
 * success, else a sentence that says what is wrong with which address, until this thread's next. */
const char *weir_address_resolve(const struct weir_config_address *config,
                                 struct weir_address *address, char text[WEIR_ADDRESS_NAME_MAX]);

#endif
