#define _GNU_SOURCE /* SOCK_NONBLOCK, program_invocation_short_name */
#include "stream.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#define EVENTS_AT_ONCE 256 /* that epoll tells of */

uint64_t stream_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * STREAM_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

_Noreturn void stream_give_up(const char *what)
{
    fprintf(stderr, "%s: %s%s%s\n", program_invocation_short_name, what, errno == 0 ? "" : ": ",
            errno == 0 ? "" : strerror(errno));
    exit(1);
}

uint64_t stream_number(const char *name, const char *text, uint64_t least, uint64_t most)
{
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || *text == '-' || number < least ||
        number > most) {
        fprintf(stderr, "%s: %s is \"%s\"; expected a number from %" PRIu64 " to %" PRIu64 "\n",
                program_invocation_short_name, name, text, least, most);
        exit(2);
    }
    return number;
}

int stream_socket(void)
{
    int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (made < 0) {
        stream_give_up("no socket");
    }
    setsockopt(made, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return made;
}

int stream_connect(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    int made = stream_socket();
    if (connect(made, (struct sockaddr *)&address, sizeof(address)) != 0 && errno != EINPROGRESS) {
        stream_give_up("cannot connect");
    }
    return made;
}

int stream_epoll(void)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) {
        stream_give_up("epoll_create1");
    }
    return epoll;
}

void stream_watch(int epoll, int socket, void *owner)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = owner};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) != 0) {
        stream_give_up("epoll_ctl");
    }
}

void stream_turn(int epoll, void (*changed)(void *owner))
{
    static struct epoll_event events[EVENTS_AT_ONCE];
    int count = epoll_wait(epoll, events, EVENTS_AT_ONCE, 100);
    if (count < 0 && errno != EINTR) {
        stream_give_up("epoll_wait");
    }
    for (int index = 0; index < count; index++) {
        changed(events[index].data.ptr);
    }
}
