/* socket.c - the text form of addresses, and the system calls that make sockets. Every function may
 * be called in any thread. weir_address_parse() may block on the DNS; nothing else blocks. */
#define _GNU_SOURCE /* accept4, SO_REUSEPORT */
#include "net/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* How many connections may wait to be accepted; the kernel lowers it to its own maximum. */
#define BACKLOG 4096

#define UNIX_PREFIX "unix:"

static struct sockaddr *generic(const struct weir_address *address)
{
    return (struct sockaddr *)&address->storage;
}

/* ---- text ---- */

static const char *parse_unix(struct weir_address *address, struct weir_slice path)
{
    struct sockaddr_un *un = (struct sockaddr_un *)&address->storage;
    if (path.bytes == 0 || path.bytes >= sizeof un->sun_path) {
        return "the path of a Unix socket has 1 to 107 bytes";
    }
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path, path.data, path.bytes);
    un->sun_path[path.bytes] = '\0';
    address->bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path.bytes + 1);
    return NULL;
}

static bool port_valid(const char *port)
{
    size_t digits = strspn(port, "0123456789");
    return digits >= 1 && digits <= 5 && port[digits] == '\0' && strtoul(port, NULL, 10) <= 65535;
}

static const char *look_up(struct weir_address *address, const char *host, const char *port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    if (getaddrinfo(host, port, &hints, &found) != 0) {
        return "the host name cannot be found; check its spelling and the machine's DNS";
    }
    memcpy(&address->storage, found->ai_addr, found->ai_addrlen);
    address->bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}

const char *weir_address_parse(struct weir_address *address, struct weir_slice text)
{
    *address = (struct weir_address){0};
    if (memchr(text.data, '\0', text.bytes) != NULL) {
        return "an address has no zero byte";
    }
    size_t prefix = strlen(UNIX_PREFIX);
    if (text.bytes >= prefix && memcmp(text.data, UNIX_PREFIX, prefix) == 0) {
        return parse_unix(address, (struct weir_slice){text.data + prefix, text.bytes - prefix});
    }
    char copy[300];
    if (text.bytes >= sizeof copy) {
        return "an address has at most 299 bytes";
    }
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = '\0';
    char *colon = strrchr(copy, ':');
    if (colon == NULL || !port_valid(colon + 1)) {
        return "an address is host:port, [v6]:port or unix:/path";
    }
    *colon = '\0';
    char *host = copy;
    if (*host == '[') {
        if (colon == host + 1 || colon[-1] != ']') {
            return "an IPv6 address is written [v6]:port";
        }
        colon[-1] = '\0';
        host++;
        if (strchr(host, ':') == NULL) {
            return "an IPv6 address is written [v6]:port";
        }
    } else if (strchr(host, ':') != NULL) {
        return "an IPv6 address is written [v6]:port";
    }
    if (*host == '\0') {
        return "an address is host:port, [v6]:port or unix:/path";
    }
    return look_up(address, host, colon + 1);
}

void weir_address_format(const struct weir_address *address, char text[WEIR_ADDRESS_TEXT_MAX])
{
    char host[INET6_ADDRSTRLEN] = "";
    const struct sockaddr_in *in = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->storage;
    const struct sockaddr_un *un = (const struct sockaddr_un *)&address->storage;
    switch (address->storage.ss_family) {
    case AF_INET:
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(text, WEIR_ADDRESS_TEXT_MAX, "%s:%u", host, ntohs(in->sin_port));
        break;
    case AF_INET6:
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(text, WEIR_ADDRESS_TEXT_MAX, "[%s]:%u", host, ntohs(in6->sin6_port));
        break;
    case AF_UNIX:
        snprintf(text, WEIR_ADDRESS_TEXT_MAX, UNIX_PREFIX "%s", un->sun_path);
        break;
    default:
        snprintf(text, WEIR_ADDRESS_TEXT_MAX, "unknown");
    }
}

bool weir_address_is_local(const struct weir_address *address)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)&address->storage;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&address->storage;
    switch (address->storage.ss_family) {
    case AF_INET:
        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    case AF_INET6:
        return IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
               (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) && in6->sin6_addr.s6_addr[12] == 127);
    case AF_UNIX:
        return true;
    default:
        return false;
    }
}

/* ---- sockets ---- */

static int open_socket(const struct weir_address *address)
{
    return socket(address->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int close_with(int fd, int why)
{
    close(fd);
    errno = why;
    return -1;
}

static void set_option(int fd, int level, int option)
{
    int on = 1;
    setsockopt(fd, level, option, &on, sizeof on);
}

/* Every message is written in one call, so Nagle's algorithm could only delay it. */
static void send_at_once(int fd, const struct weir_address *address)
{
    if (address->storage.ss_family != AF_UNIX) {
        set_option(fd, IPPROTO_TCP, TCP_NODELAY);
    }
}

/* Whether a Unix socket's file is left over from a process that has ended. */
static bool is_stale(const struct weir_address *address)
{
    const struct sockaddr_un *un = (const struct sockaddr_un *)&address->storage;
    struct stat status;
    if (stat(un->sun_path, &status) == -1 || !S_ISSOCK(status.st_mode)) {
        return false;
    }
    int fd = open_socket(address);
    if (fd == -1) {
        return false;
    }
    bool refused = connect(fd, generic(address), address->bytes) == -1 && errno == ECONNREFUSED;
    close(fd);
    return refused;
}

int weir_socket_listen(const struct weir_address *address, bool shared)
{
    int fd = open_socket(address);
    if (fd == -1) {
        return -1;
    }
    if (address->storage.ss_family == AF_UNIX) {
        if (is_stale(address)) {
            unlink(((const struct sockaddr_un *)&address->storage)->sun_path);
        }
    } else {
        set_option(fd, SOL_SOCKET, SO_REUSEADDR);
        if (shared) {
            set_option(fd, SOL_SOCKET, SO_REUSEPORT);
        }
    }
    if (bind(fd, generic(address), address->bytes) == -1 || listen(fd, BACKLOG) == -1) {
        return close_with(fd, errno);
    }
    return fd;
}

bool weir_socket_local(int fd, struct weir_address *address)
{
    *address = (struct weir_address){
        .bytes = sizeof address->storage}; /* an unnamed socket's path is absent */
    return getsockname(fd, generic(address), &address->bytes) == 0;
}

bool weir_socket_peer(int fd, struct weir_address *address)
{
    *address = (struct weir_address){.bytes = sizeof address->storage};
    return getpeername(fd, generic(address), &address->bytes) == 0;
}

int weir_socket_connect(const struct weir_address *address)
{
    int fd = open_socket(address);
    if (fd == -1) {
        return -1;
    }
    send_at_once(fd, address);
    if (connect(fd, generic(address), address->bytes) == -1 && errno != EINPROGRESS) {
        return close_with(fd, errno);
    }
    return fd;
}

void weir_socket_watch_peer(int fd)
{
    /* A probe after 5 s of silence and then each 5 s; gone after three without an answer. */
    static const struct {
        int level;
        int option;
        int value;
    } options[] = {{SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, 5},
                   {IPPROTO_TCP, TCP_KEEPINTVL, 5},
                   {IPPROTO_TCP, TCP_KEEPCNT, 3},
                   {IPPROTO_TCP, TCP_USER_TIMEOUT, 20000}};
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        /* A Unix socket refuses these options and needs none: the kernel always reports the end of
         * its peer. */
        setsockopt(fd, options[i].level, options[i].option, &options[i].value,
                   sizeof options[i].value);
    }
}

void weir_socket_reset(int fd)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

int weir_socket_error(int fd)
{
    int error = 0;
    socklen_t bytes = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == -1) {
        return errno;
    }
    return error;
}

int weir_socket_accept(int fd, struct weir_address *peer)
{
    *peer = (struct weir_address){
        .bytes = sizeof peer->storage}; /* an unnamed socket's path is absent */
    int accepted = accept4(fd, generic(peer), &peer->bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) {
        send_at_once(accepted, peer);
    }
    return accepted;
}
