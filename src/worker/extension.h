/* extension.h - a part of the program that the server runs without knowing what it is: durable
 * jobs, for example.
 *
 * An extension stands above the server. The program hands its struct of functions to weir_serve(),
 * and the server calls them at its own turning points, always in the main thread. The extension's
 * state is opened when a config first wants it, and stays until the server ends. Every worker knows
 * the state, so that the API can reach it: weir_worker_extension(). */
#ifndef WEIR_WORKER_EXTENSION_H
#define WEIR_WORKER_EXTENSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_EXTENSIONS_MAX 4

struct weir_config;
struct weir_event_log;
struct weir_config_snapshot;
struct weir_worker;

/* What an extension is opened with. */
struct weir_extension_options {
    struct weir_config_snapshot *snapshot;
    struct weir_worker **workers; /* valid during the call; the workers themselves stay */
    uint32_t worker_count;
    struct weir_event_log *event_log;
};

struct weir_extension {
    const char *name; /* for messages */

    /* Whether this config needs the extension. Once it is open, it stays open. */
    bool (*wanted)(const struct weir_config *config);

    /* The extension's state, or null on failure, with a sentence in `error`. Nothing runs before
     * `resume`. */
    void *(*open)(const struct weir_extension_options *options, char *error, size_t error_bytes);

    /* Takes up another snapshot. Nothing is started until `resume`, when every worker has the
     * snapshot. Returns false, with a sentence in `error` and nothing changed, if it cannot. */
    bool (*configure)(void *state, struct weir_config_snapshot *snapshot, char *error,
                      size_t error_bytes);
    void (*resume)(void *state);

    /* From now on nothing is started or accepted. `drained` is called, in some thread, when nothing
     * runs any more. */
    void (*drain)(void *state, void (*drained)(void *context), void *context);

    /* The loops have stopped: ends what still runs. Then, once posts have been delivered, frees the
     * state. */
    void (*stop)(void *state);
    void (*close)(void *state);
};

/* One extension of a server, as the server and each worker keep it. */
struct weir_extension_slot {
    const struct weir_extension *kind; /* null: the slot is free */
    void *state;                       /* null: no config has wanted it yet */
};

#endif
