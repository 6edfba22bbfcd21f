/* Whatever a server of one's own is like, streamed or not: the window of the learned controller
 * stays within its bounds, leaves next to no slot idle once it has found them, and keeps next to
 * nobody in the queue inside. Slots that change are followed.
 *
 * Each sequence is another server. A failure prints its seed; WEIR_SEED and WEIR_STEPS replay it.
 */
#include "slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifndef STEPS_DEFAULT
#define STEPS_DEFAULT 600000
#endif

static uint64_t from_environment(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? strtoull(text, NULL, 10) : otherwise;
}

static void draw_server(struct server *server, uint64_t seed)
{
    uint64_t random = seed;
    server_init(server, 1 + (uint32_t)(weir_random_next(&random) % 24),
                weir_random_next(&random) % 2 == 0, seed);
    server->output_min = 20 + (uint32_t)(weir_random_next(&random) % 40);
    server->output_max = server->output_min + (uint32_t)(weir_random_next(&random) % 100);
    server->first_s = 0.02 + 0.01 * (double)(weir_random_next(&random) % 20);
}

/* In windows of replies: how long it may take until a window that is wrong is right. */
static double settling_s(const struct server *server)
{
    double reply_s = server->first_s + server->per_token_s * server->output_max;
    return 40 * reply_s;
}

/* Where replies come whole, some more are needed until it shows. */
static double most(const struct server *server)
{
    double slots = server->slots;
    return server->whole ? 3.0 * slots + 10.0 : 1.5 * slots + 5.0;
}

static void expect_found(struct server *server, uint64_t seed, const char *when)
{
    server_run(server, settling_s(server));
    double output = server->output;
    double from_s = server->now_s;
    double size = server_run(server, 200.0);
    double reply_s =
        server->first_s + server->per_token_s * (server->output_min + server->output_max) / 2.0;
    double possible = server->slots * (server->output_min + server->output_max) / 2.0 / reply_s;
    double used = (server->output - output) / (server->now_s - from_s) / possible;
    if (used < 0.85 || size > most(server)) {
        fail_msg("WEIR_SEED=%llu %s: %u slots, %s: %.3f used, window %.1f",
                 (unsigned long long)seed, when, server->slots,
                 server->whole ? "whole" : "streamed", used, size);
    }
}

static void one_server(uint64_t seed, uint64_t *steps)
{
    struct server server;
    draw_server(&server, seed);
    expect_found(&server, seed, "at first");
    uint32_t before = server.slots;
    server.slots = before < 3 ? 2 * before : before / 2;
    for (uint32_t i = 0; i < server.slots; i++) {
        server.free_s[i] = i < before ? server.free_s[i] : server.now_s;
    }
    server_run(&server, 10 * settling_s(&server)); /* a raise is looked for only now and then */
    expect_found(&server, seed, "after a change");
    assert_true(server.window.size >= 1.0 && server.window.size <= 8192.0);
    *steps -= *steps < server.sent ? *steps : server.sent;
}

static void a_window_finds_the_slots_and_follows_them(void **state)
{
    (void)state;
    uint64_t seed = from_environment("WEIR_SEED", 1);
    uint64_t steps = from_environment("WEIR_STEPS", STEPS_DEFAULT) / 8;
    do {
        one_server(seed++, &steps);
    } while (steps > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_finds_the_slots_and_follows_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
