/* slow_sync.c - a disk that takes longer to sync, for bench/jobs, by LD_PRELOAD.
 *
 * WEIR_SYNC_US is how many microseconds each fsync() and fdatasync() sleeps after it is done, to
 * which comes the time until a sleeper runs again: the data is as safe as ever, only the answer
 * comes later. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct timespec delay;

__attribute__((constructor)) static void read_delay(void)
{
    const char *text = getenv("WEIR_SYNC_US");
    long us = text == NULL ? 0 : strtol(text, NULL, 10);
    delay = (struct timespec){.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
}

static int slowly(long number, int fd)
{
    long result = syscall(number, fd);
    clock_nanosleep(CLOCK_MONOTONIC, 0, &delay, NULL);
    return (int)result;
}

int fsync(int fd)
{
    return slowly(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    return slowly(SYS_fdatasync, fd);
}
