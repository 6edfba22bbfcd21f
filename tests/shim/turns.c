/* turns.c - how long a program's loops compute between two waits: for tests, by LD_PRELOAD.
 *
 * WEIR_TURNS is a file with one number of 64 bits, mapped here and by the test, which may set it
 * back at any time: the longest turn of any thread since, in nanoseconds of that thread's own time.
 * What a machine does meanwhile with its cores does not count. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t *longest_ns;
static _Thread_local uint64_t began_ns; /* 0 before the thread has waited for the first time */

static uint64_t thread_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

__attribute__((constructor)) static void map_number(void)
{
    const char *path = getenv("WEIR_TURNS");
    int fd = path == NULL ? -1 : open(path, O_RDWR | O_CLOEXEC);
    void *memory = MAP_FAILED;
    if (fd >= 0) {
        memory = mmap(NULL, sizeof *longest_ns, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        close(fd);
    }
    longest_ns = memory == MAP_FAILED ? NULL : memory;
    unsetenv("LD_PRELOAD"); /* children do without */
}

static void end_turn(void)
{
    uint64_t turn_ns = thread_ns() - began_ns;
    uint64_t seen_ns = atomic_load(longest_ns);
    while (turn_ns > seen_ns && !atomic_compare_exchange_weak(longest_ns, &seen_ns, turn_ns)) {
    }
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout_ms)
{
    if (longest_ns != NULL && began_ns != 0) {
        end_turn();
    }
    int count = (int)syscall(SYS_epoll_pwait, fd, events, max, timeout_ms, NULL, _NSIG / 8);
    began_ns = thread_ns();
    return count;
}
