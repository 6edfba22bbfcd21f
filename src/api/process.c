/* Reads /proc of this process and the clocks. Called by the thread that answers GET /metrics; the
 * start of the process is looked up once. */
#define _GNU_SOURCE
#include "api/process.h"

#include "weir/types.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DESCRIPTORS "/proc/self/fd"

/* How many descriptors are counted at once: about a millisecond. */
#define COUNT_AT_ONCE 1000

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    return clock_gettime(clock, &now) == 0
               ? (uint64_t)now.tv_sec * WEIR_NS_PER_SECOND + (uint64_t)now.tv_nsec
               : WEIR_PROCESS_UNKNOWN;
}

/* The first line of a small file; empty if it cannot be read. */
static void read_line(const char *path, char *text, int capacity)
{
    FILE *file = fopen(path, "re");
    if (file == NULL || fgets(text, capacity, file) == NULL) {
        text[0] = '\0';
    }
    if (file != NULL) {
        fclose(file);
    }
}

static uint64_t resident_bytes(void)
{
    char text[256];
    unsigned long long pages;
    read_line("/proc/self/statm", text, sizeof text);
    return sscanf(text, "%*u %llu", &pages) == 1 ? pages * (uint64_t)sysconf(_SC_PAGESIZE)
                                                 : WEIR_PROCESS_UNKNOWN;
}

static uint64_t started_ns = WEIR_PROCESS_UNKNOWN;

/* The kernel reports how long after its own start the process began. Which moment of the day that
 * was is worked out once: it would differ a little each time, and look like a restart. */
static void find_start(void)
{
    char text[1024];
    unsigned long long ticks;
    read_line("/proc/self/stat", text, sizeof text);
    const char *name_end = strrchr(text, ')'); /* the name may have spaces */
    if (name_end == NULL || sscanf(name_end + 1,
                                   " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                                   "%*d %*d %*d %*d %llu",
                                   &ticks) != 1) {
        return;
    }
    uint64_t after_boot_ns = ticks * (WEIR_NS_PER_SECOND / (uint64_t)sysconf(_SC_CLK_TCK));
    uint64_t exact_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_BOOTTIME) + after_boot_ns;
    started_ns = exact_ns / 10000000 * 10000000; /* a tick is a hundredth of a second */
}

void weir_process_read(struct weir_process *process)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct rlimit limit;
    struct stat about;
    pthread_once(&once, find_start);
    *process = (struct weir_process){.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
                                     .resident_bytes = resident_bytes(),
                                     .descriptors_max = WEIR_PROCESS_UNKNOWN,
                                     .started_ns = started_ns};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
        process->descriptors_max = limit.rlim_cur;
    }
    if (stat(DESCRIPTORS, &about) == 0 && about.st_size > 0) {
        process->descriptors = (uint64_t)about.st_size;
        return;
    }
    process->counting = opendir(DESCRIPTORS);
    if (process->counting == NULL) {
        process->descriptors = WEIR_PROCESS_UNKNOWN;
    }
}

bool weir_process_count(struct weir_process *process)
{
    for (int i = 0; process->counting != NULL; i++) {
        if (i == COUNT_AT_ONCE) {
            return false;
        }
        const struct dirent *entry = readdir(process->counting);
        if (entry == NULL) {
            weir_process_end(process);
            process->descriptors--; /* the one it was counted with */
        } else if (entry->d_name[0] != '.') {
            process->descriptors++;
        }
    }
    return true;
}

void weir_process_end(struct weir_process *process)
{
    if (process->counting != NULL) {
        closedir(process->counting);
        process->counting = NULL;
    }
}
