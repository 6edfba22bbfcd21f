/* peer.h - the address that a client's connection comes from: as text, and whether its word on
 * tenants and addresses is taken. */
#ifndef WEIR_FRONTEND_PEER_H
#define WEIR_FRONTEND_PEER_H

#include "config/config.h"
#include "net/socket.h"

/* Whether the config trusts clients that come from there. */
bool weir_peer_trusted(const struct weir_config *config, const struct weir_address *peer);

/* The address without its port; of a Unix socket only that it is one. */
void weir_peer_name(const struct weir_address *peer, char text[WEIR_ADDRESS_TEXT_MAX]);

#endif
