/* bare_queue.c - the least that a queue does, for bench/jobs: how fast could one be at all?
 *
 * usage: bench_bare_queue PORT FILE one|two
 *
 * Each request over its one connection, of BODY_BYTES after the head, is written to the next place
 * of a file that has its full length from the start, synced, and answered with a short 202. Nothing
 * else is done: nothing is parsed, checked, kept or found again. With `two` a second thread writes
 * and syncs, so that the first is never held up by the disk, as in Weir; with `one` the loop does.
 */
#define _GNU_SOURCE /* accept4(), memmem() */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_BYTES     1024
#define REQUEST_BYTES  4096
#define FILE_BYTES     (UINT64_C(64) << 20)
#define EVENTS_AT_ONCE 4

static const char reply[] = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

static int file;
static uint64_t file_at;
static char request[REQUEST_BYTES];
static size_t request_bytes;
static int client = -1;

static bool two_threads;
static sem_t come;
static int bell;
static atomic_bool synced;

static void write_and_sync(void)
{
    if (file_at + request_bytes > FILE_BYTES) {
        file_at = 0;
    }
    if (pwrite(file, request, request_bytes, (off_t)file_at) != (ssize_t)request_bytes ||
        fdatasync(file) != 0) {
        stream_give_up("the file cannot be written");
    }
    file_at += request_bytes;
}

static void *serve_disk(void *unused)
{
    while (sem_wait(&come) == 0) {
        uint64_t one = 1;
        write_and_sync();
        atomic_store(&synced, true);
        if (write(bell, &one, sizeof(one)) != sizeof(one)) {
            stream_give_up("the loop cannot be woken");
        }
    }
    return unused;
}

static void answer(void)
{
    request_bytes = 0;
    if (send(client, reply, sizeof(reply) - 1, MSG_NOSIGNAL) != sizeof(reply) - 1) {
        stream_give_up("an answer cannot be sent");
    }
}

static void watch(int epoll, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) {
        stream_give_up("a descriptor cannot be watched");
    }
}

/* Another connection takes the place of the one before, which has closed by then. */
static void take_client(int epoll, int listener)
{
    int one = 1;
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (client >= 0) {
        close(client);
    }
    client = fd;
    request_bytes = 0;
    watch(epoll, client, EPOLLIN);
}

static void read_client(void)
{
    ssize_t count = recv(client, request + request_bytes, sizeof(request) - request_bytes, 0);
    if (count <= 0) {
        if (count == 0 || errno != EAGAIN) {
            close(client);
            client = -1;
        }
        return;
    }
    request_bytes += (size_t)count;
    const char *body = memmem(request, request_bytes, "\r\n\r\n", 4);
    if (body == NULL || request_bytes < (size_t)(body + 4 - request) + BODY_BYTES) {
        return;
    }
    if (two_threads) {
        sem_post(&come);
        return;
    }
    write_and_sync();
    answer();
}

static int listen_on(uint16_t port)
{
    int one = 1;
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = stream_socket();
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(listener, 16) != 0) {
        stream_give_up("the port cannot be listened on");
    }
    return listener;
}

static void make_file(const char *path)
{
    static char zeros[1 << 20];
    file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool good = file >= 0;
    for (uint64_t bytes = 0; good && bytes < FILE_BYTES; bytes += sizeof(zeros)) {
        good = write(file, zeros, sizeof(zeros)) == sizeof(zeros);
    }
    if (!good || fsync(file) != 0) {
        stream_give_up("the file cannot be made");
    }
}

int main(int count, char **arguments)
{
    pthread_t thread;
    two_threads = count == 4 && strcmp(arguments[3], "two") == 0;
    if (count != 4 || (!two_threads && strcmp(arguments[3], "one") != 0)) {
        fputs("usage: bench_bare_queue PORT FILE one|two\n", stderr);
        return 2;
    }
    make_file(arguments[2]);
    int epoll = stream_epoll();
    int listener = listen_on((uint16_t)stream_number("PORT", arguments[1], 1, UINT16_MAX));
    bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (bell < 0 || sem_init(&come, 0, 0) != 0 ||
        (two_threads && pthread_create(&thread, NULL, serve_disk, NULL) != 0)) {
        stream_give_up("there is no second thread");
    }
    watch(epoll, listener, EPOLLIN);
    watch(epoll, bell, EPOLLIN | EPOLLET);
    for (;;) {
        struct epoll_event events[EVENTS_AT_ONCE];
        int ready = epoll_wait(epoll, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.fd == listener) {
                take_client(epoll, listener);
            } else if (events[i].data.fd == client) {
                read_client();
            } else if (atomic_exchange(&synced, false)) {
                answer();
            }
        }
    }
}
