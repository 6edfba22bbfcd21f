/* socket.h - addresses, and sockets that do not block.
 *
 * An address is `host:port`, `[v6]:port` or `unix:/path`. Host names are resolved when the program
 * starts; afterwards every address is numeric. */
#ifndef WEIR_NET_SOCKET_H
#define WEIR_NET_SOCKET_H

#include "weir/types.h"

#include <stdbool.h>
#include <sys/socket.h>

#define WEIR_ADDRESS_TEXT_MAX 128

struct weir_address {
    struct sockaddr_storage storage;
    socklen_t bytes; /* 0: none */
};

/* Reads the text form. Null on success, else a sentence that says what is wrong. May resolve a host
 * name, and so block. */
const char *weir_address_parse(struct weir_address *address, struct weir_slice text);

/* The text form of an address, terminated; numbers, never names. */
void weir_address_format(const struct weir_address *address, char text[WEIR_ADDRESS_TEXT_MAX]);

/* Whether it is this machine only: 127.0.0.0/8, ::1, or a Unix socket. */
bool weir_address_is_local(const struct weir_address *address);

/* A listening socket; several threads may listen on one address, each with a socket of its own (not
 * for Unix sockets). -1, with errno, on failure. A Unix socket whose process has ended is replaced.
 */
int weir_socket_listen(const struct weir_address *address, bool shared);

/* The address that a socket is bound to: the port that 0 has become. */
bool weir_socket_local(int fd, struct weir_address *address);

/* The address that it is connected to. False if it no longer is. */
bool weir_socket_peer(int fd, struct weir_address *address);

/* A socket that is connecting; it is writable when it has. -1, with errno, on failure. */
int weir_socket_connect(const struct weir_address *address);

/* Makes the kernel notice within seconds that the peer's machine has vanished: by keep-alive probes
 * while the connection is idle, by a timeout while sent bytes are not acknowledged. */
void weir_socket_watch_peer(int fd);

/* Makes close() send a reset, so that the peer sees a failure and not the regular end of the data.
 */
void weir_socket_reset(int fd);

/* What became of a connection attempt: 0, or an errno. */
int weir_socket_error(int fd);

/* The next connection of a listening socket, or -1 with errno. */
int weir_socket_accept(int fd, struct weir_address *peer);

#endif
