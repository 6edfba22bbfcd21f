/* inside_program.h - the programs that process 1 of a sandbox has started: its server and execs.
 *
 * A program has a number that is never used again, runs in a session of its own, and writes into
 * two pipes that process 1 empties into rings of the last MiB each. At most one connection follows
 * it; what that has not got yet is not overwritten: then the pipe is left full. */
#ifndef WEIR_RUNTIME_INSIDE_PROGRAM_H
#define WEIR_RUNTIME_INSIDE_PROGRAM_H

#include "runtime/inside.h"

#include <sys/types.h>

#define WEIR_PROGRAM_STREAMS 2

struct weir_program_output {
    int fd;        /* -1: closed */
    char *bytes;   /* WEIR_INSIDE_OUTPUT_BYTES, by mmap(): memory that was never touched is none */
    uint64_t end;  /* how many have been written in all */
    uint64_t sent; /* up to where the follower has them */
};

struct weir_program {
    uint32_t number;
    pid_t pid;
    bool used;
    bool running; /* not reaped yet */
    bool detached;
    int stdin_fd;          /* -1: closed, or none */
    size_t pending_offset; /* of stdin's next bytes in `pending` */
    size_t pending_bytes;
    char *pending;   /* WEIR_INSIDE_DATA_BYTES; null: none was sent yet */
    bool stdin_ends; /* after what is pending */
    struct weir_program_output output[WEIR_PROGRAM_STREAMS];
    bool followed;
    bool exit_sent; /* to the follower */
    int32_t status; /* as of waitpid() */
    uint64_t cpu_ms;
    uint64_t ended_ms;
    uint64_t kill_at_ms; /* 0: never */
};

struct weir_programs {
    struct weir_program slots[WEIR_INSIDE_RECORDS_MAX + 1]; /* the first is the server's */
    uint32_t running;                                       /* execs */
    uint32_t next_number;
    char *const *environment; /* of every program */
};

/* What to start. The texts are the caller's. */
struct weir_program_order {
    char *const *argv;
    char *const *variables; /* besides those of every program; they win */
    const char *folder;
    bool detached;
    bool with_stdin;
    uint64_t kill_after_ms; /* 0: never */
};

void weir_programs_init(struct weir_programs *programs, char *const *environment);

/* Starts a program as that number, or, for UINT32_MAX, as the next. Null with errno: EAGAIN if as
 * many run as may. */
struct weir_program *weir_program_start(struct weir_programs *programs, uint32_t number,
                                        const struct weir_program_order *order, uint64_t now_ms);

/* By its number; null: there is none, or it is forgotten. */
struct weir_program *weir_program_find(struct weir_programs *programs, uint32_t number);

/* Reaps every process that has ended. Returns the program among them that ended first, or null:
 * call it again until then. */
struct weir_program *weir_programs_reap(struct weir_programs *programs, uint64_t now_ms);

/* Whether there is room to read output into, and reading it: until the pipe is empty, or closed. */
bool weir_program_has_room(const struct weir_program *program, int stream);
void weir_program_read(struct weir_program *program, int stream);

/* Where the first byte is that is still kept. */
uint64_t weir_program_begin(const struct weir_program *program, int stream);

/* Takes bytes for stdin. False: those before are still under way, and nothing was taken. */
bool weir_program_write(struct weir_program *program, const char *data, size_t bytes);
void weir_program_flush(struct weir_program *program);
void weir_program_end_stdin(struct weir_program *program);

/* To its process group, if it still runs. */
void weir_program_signal(const struct weir_program *program, int number);

/* Kills programs whose time is over and forgets programs that ended long ago. Returns when to call
 * it again; UINT64_MAX: time alone makes no call necessary. */
uint64_t weir_programs_expire(struct weir_programs *programs, uint64_t now_ms);

#endif
