/* inside.h - process 1 of a sandbox: what it is started with, and the messages that Weir exchanges
 * with it.
 *
 * Weir connects to the control socket in the sandbox's folder, of type SOCK_SEQPACKET, so each
 * message arrives as a whole or not at all. The first message says what the connection is for:
 *
 *     WATCH    stays open; READY or FAILED comes at once, then ENDED when the server inside has
 *              ended. The end of the connection means that the sandbox is gone
 *     DIAL     DIALED with a descriptor, or ERROR; closed
 *     EXEC     STARTED, OUTPUT as it comes, EXITED; meanwhile STDIN, STDIN_END and SIGNAL. When
 *              the connection ends, a program that is not detached is killed
 *     ATTACH   as EXEC, for a program that runs or has ended; `offset` says from which byte. The
 *              connection that was attached before is closed
 *     STOP     SIGTERM to every process; closed
 *
 * Output is read no further than a MiB ahead of a connection that is attached, so a slow reader
 * slows the program down. Without one, the last MiB is kept: an OUTPUT whose offset is larger than
 * the end of the one before says how much is lost.
 *
 * Weir trusts no field of an answer: the programs inside cannot reach process 1, but if one could,
 * it must gain nothing. */
#ifndef WEIR_RUNTIME_INSIDE_H
#define WEIR_RUNTIME_INSIDE_H

#include "runtime/seccomp_filter.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_INSIDE_VERSION 1

#define WEIR_INSIDE_EXECS_MAX    64  /* that run, beside the server */
#define WEIR_INSIDE_RECORDS_MAX  128 /* that run or have ended; the oldest ended one makes room */
#define WEIR_INSIDE_RECORD_S     600 /* how long an ended one is kept */
#define WEIR_INSIDE_OUTPUT_BYTES (1u << 20)
#define WEIR_INSIDE_DATA_BYTES   (32u << 10)
#define WEIR_INSIDE_TEXTS_BYTES  (128u << 10) /* of an EXEC */
#define WEIR_INSIDE_WORDS_MAX    4096         /* arguments and variables of an EXEC */
#define WEIR_INSIDE_TEXT_ROOM    (WEIR_INSIDE_TEXTS_BYTES + 256)

/* The number of the pool's server among the programs; execs have the numbers from 1. */
#define WEIR_INSIDE_SERVER 0

enum weir_inside_kind {
    /* to process 1, first on a connection */
    WEIR_INSIDE_WATCH = 1,
    WEIR_INSIDE_DIAL,
    WEIR_INSIDE_EXEC,
    WEIR_INSIDE_ATTACH,
    WEIR_INSIDE_STOP,
    /* to process 1, later on a connection of EXEC or ATTACH */
    WEIR_INSIDE_STDIN,
    WEIR_INSIDE_STDIN_END,
    WEIR_INSIDE_SIGNAL, /* `value`: its number; to the program's process group */
    /* from process 1 */
    WEIR_INSIDE_READY,  /* `value`: WEIR_INSIDE_VERSION */
    WEIR_INSIDE_FAILED, /* `value`: an errno; `data`: the step of the making that failed */
    WEIR_INSIDE_ERROR,  /* `value`: an errno; `data`: what failed */
    WEIR_INSIDE_DIALED,
    WEIR_INSIDE_STARTED, /* `number`: the program's */
    WEIR_INSIDE_OUTPUT,  /* `value`: 1 stdout, 2 stderr; `offset`: of the first byte */
    WEIR_INSIDE_EXITED,  /* `value`: as of waitpid(); `offset`: ms of processor time */
    WEIR_INSIDE_ENDED    /* to a WATCH: the server has ended; `value` as of EXITED */
};

enum weir_inside_exec_flag {
    WEIR_INSIDE_DETACH = 1, /* the program goes on when the connection ends */
    WEIR_INSIDE_WITH_STDIN = 2
};

/* Followed by data, to the message's end. */
struct weir_inside_head {
    uint32_t kind;   /* enum weir_inside_kind */
    uint32_t number; /* of a program */
    uint64_t offset; /* ATTACH: of stdout; EXEC: ms after which the program is killed, 0: never */
    int32_t value;   /* DIAL: a port; 0: `data` is the path of a Unix socket */
    uint32_t flags;  /* EXEC: enum weir_inside_exec_flag */
    uint64_t second; /* ATTACH: of stderr; EXEC: number of arguments, which stand first in data,
                        each with its zero, then the variables; the folder to start in comes last */
};

struct weir_inside_message {
    struct weir_inside_head head;
    char data[WEIR_INSIDE_TEXT_ROOM];
};

/* What process 1 is made with; texts point into the maker's memory. */
struct weir_inside_spec {
    const char *name;
    const char *root;    /* the folder that is the lower half of the root */
    const char *egress;  /* a folder of the host that is seen inside, read-only; empty: none */
    uint64_t disk_bytes; /* of the root's upper half */
    uint32_t uid;        /* whom the programs run as, inside; 0 if only one user is mapped */
    bool host_network;
    int listener; /* the control socket */
    int gate;     /* readable when the maker has done its part; closed: it has not */
    const struct weir_seccomp_filter *filter;
    char *const *argv; /* of the pool's server; argv[0] null: none */
    char *const *envp; /* of every program */
};

/* Becomes process 1 of a sandbox, in a process that was just cloned. */
_Noreturn void weir_inside_run(const struct weir_inside_spec *spec);

/* The part of it that builds the inside: mounts, network, rights. Null, or the step that failed,
 * with errno. */
const char *weir_inside_build(const struct weir_inside_spec *spec);

#endif
