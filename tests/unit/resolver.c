/* Names, asked of a DNS server that stands in the same loop and answers as a test wants it to. */
#define _GNU_SOURCE
#include "net/resolver.h"

#include "unit/helpers.h"

#include "base/list.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define PATIENCE (30 * SECOND)

/* What the server does with a question; kinds of failure are DNS's own numbers. */
#define SERVFAIL 2
#define NXDOMAIN 3
#define SILENT   100

struct zone {
    int code;
    uint32_t ttl;
    const char *addresses[24]; /* v4 and v6; ended by a null */
};

struct world {
    struct memory memory;
    struct weir_loop loop;
    struct weir_timer tick;
    struct weir_timer patience;
    struct weir_resolver *resolver;
    struct weir_watch server;
    struct zone zone;
    unsigned asked[2]; /* questions of each family */
    char servers[64];
};

static struct world world;

/* ---- the server ---- */

static size_t put(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * (bytes - 1 - i)));
    }
    return bytes;
}

/* Makes an answer out of the question. */
static size_t answer(uint8_t *packet, size_t question_bytes, uint16_t type)
{
    size_t end = question_bytes;
    uint16_t count = 0;
    for (const char *const *text = world.zone.addresses; *text != NULL; text++) {
        uint8_t address[16];
        bool v6 = strchr(*text, ':') != NULL;
        if (v6 != (type == 28) || world.zone.code != 0) {
            continue;
        }
        assert_int_equal(inet_pton(v6 ? AF_INET6 : AF_INET, *text, address), 1);
        end += put(packet + end, 0xc00c, 2); /* the question's name */
        end += put(packet + end, type, 2);
        end += put(packet + end, 1, 2);
        end += put(packet + end, world.zone.ttl, 4);
        end += put(packet + end, v6 ? 16 : 4, 2);
        memcpy(packet + end, address, v6 ? 16 : 4);
        end += v6 ? 16 : 4;
        count++;
    }
    put(packet + 2, UINT64_C(0x8180) | (uint64_t)world.zone.code, 2);
    put(packet + 6, count, 2);
    return end;
}

static void serve(struct weir_watch *watch, uint32_t what)
{
    (void)what;
    uint8_t packet[1024];
    struct sockaddr_storage peer;
    socklen_t peer_bytes = sizeof peer;
    ssize_t got;
    while ((got = recvfrom(watch->fd, packet, 512, 0, (struct sockaddr *)&peer, &peer_bytes)) > 0) {
        uint16_t type = (uint16_t)(packet[got - 4] << 8 | packet[got - 3]);
        assert_true(type == 1 || type == 28);
        world.asked[type == 28]++;
        if (world.zone.code != SILENT) {
            size_t bytes = answer(packet, (size_t)got, type);
            sendto(watch->fd, packet, bytes, 0, (struct sockaddr *)&peer, peer_bytes);
        }
    }
}

static void open_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &bytes), 0);
    world.server = (struct weir_watch){.fd = fd, .ready = serve};
    assert_true(weir_loop_watch(&world.loop, &world.server));
    snprintf(world.servers, sizeof world.servers, "127.0.0.1:%u", ntohs(address.sin_port));
}

static void close_server(void)
{
    if (world.server.fd >= 0) {
        close(world.server.fd);
        world.server.fd = -1;
    }
}

/* ---- the world ---- */

static void on_tick(struct weir_timer *timer)
{
    (void)timer;
    weir_loop_stop(&world.loop);
}

static void lose_patience(struct weir_timer *timer)
{
    (void)timer;
    fail_msg("it never came");
}

static void turn(void)
{
    weir_timer_set(&world.loop, &world.tick, world.loop.now_ns + SECOND / 1000);
    weir_loop_run(&world.loop);
}

static void open_world(struct zone zone)
{
    memset(&world, 0, sizeof world);
    memory_init(&world.memory);
    world.zone = zone;
    assert_true(weir_loop_init(&world.loop, &world.memory.allocator));
    assert_true(weir_timer_init(&world.loop, &world.tick, on_tick));
    assert_true(weir_timer_init(&world.loop, &world.patience, lose_patience));
    weir_timer_set(&world.loop, &world.patience, world.loop.now_ns + PATIENCE);
    open_server();
    world.resolver = weir_resolver_create(&world.loop);
    assert_non_null(world.resolver);
    weir_resolver_use(world.resolver, world.servers);
}

static void close_world(void)
{
    weir_resolver_destroy(world.resolver);
    close_server();
    weir_timer_deinit(&world.loop, &world.tick);
    weir_timer_deinit(&world.loop, &world.patience);
    weir_loop_deinit(&world.loop);
    expect_no_memory_out(&world.memory);
}

static struct weir_name *take(const char *host)
{
    struct weir_name *name = weir_name_take(world.resolver, weir_slice_of(host));
    assert_non_null(name);
    return name;
}

struct waiter {
    struct weir_name_waiter base;
    unsigned told;
    const char *error;
    struct weir_name *give; /* what to give back when told */
};

static void on_told(struct weir_name_waiter *base, const char *error)
{
    struct waiter *waiter = weir_container_of(base, struct waiter, base);
    waiter->told++;
    waiter->error = error;
    weir_name_give(waiter->give);
}

/* Waits for the name as whoever needs it does; null, or why it cannot be had. */
static const char *resolve(struct weir_name *name)
{
    struct waiter waiter = {.base = {.on_result = on_told}};
    if (weir_name_known(name)) {
        return NULL;
    }
    weir_name_await(name, &waiter.base);
    assert_int_equal(waiter.told, 0); /* not within the call */
    while (waiter.told == 0) {
        turn();
    }
    assert_int_equal(waiter.told, 1);
    assert_int_equal(waiter.error == NULL, weir_name_count(name) > 0);
    return waiter.error;
}

/* Until it is asked that often for each family, and answered. */
static void await_questions(unsigned count)
{
    while (world.asked[0] < count || world.asked[1] < count) {
        turn();
    }
    for (int i = 0; i < 20; i++) {
        turn();
    }
}

static void expect_addresses(const struct weir_name *name, const char *const *texts)
{
    uint32_t count = 0;
    for (; texts[count] != NULL; count++) {
        char text[WEIR_ADDRESS_TEXT_MAX];
        struct weir_address address;
        assert_true(count < weir_name_count(name));
        weir_name_address(name, count, 443, &address);
        weir_address_format(&address, text);
        assert_string_equal(text, texts[count]);
    }
    assert_int_equal(weir_name_count(name), count);
}

#define expect_exactly(name, ...) expect_addresses(name, (const char *const[]){__VA_ARGS__, NULL})

/* ---- finding ---- */

TEST(a_name_has_its_addresses_of_both_families_the_fourth_version_first)
{
    open_world((struct zone){.ttl = 60, .addresses = {"::5", "10.0.0.1", "fd00::2", "10.0.0.2"}});
    struct weir_name *name = take("a.test");
    assert_int_equal(weir_name_count(name), 0);
    assert_null(resolve(name));
    await_questions(1);
    expect_exactly(name, "10.0.0.1:443", "10.0.0.2:443", "[::5]:443", "[fd00::2]:443");
    assert_int_equal(world.asked[0], 1);
    assert_int_equal(world.asked[1], 1);
    weir_name_give(name);
    close_world();
}

TEST(one_family_is_enough)
{
    static const char *const texts[] = {"10.0.0.1", "fd00::1"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        open_world((struct zone){.ttl = 60, .addresses = {texts[i]}});
        struct weir_name *name = take("a.test");
        assert_null(resolve(name));
        assert_int_equal(weir_name_count(name), 1);
        weir_name_give(name);
        close_world();
    }
}

TEST(no_more_addresses_are_kept_than_stated)
{
    struct zone zone = {.ttl = 60};
    char texts[WEIR_NAME_ADDRESSES_MAX + 1][16];
    for (unsigned i = 0; i <= WEIR_NAME_ADDRESSES_MAX; i++) {
        snprintf(texts[i], sizeof texts[i], "10.0.0.%u", i + 1);
        zone.addresses[i] = texts[i];
    }
    open_world(zone);
    struct weir_name *name = take("a.test");
    assert_null(resolve(name));
    assert_int_equal(weir_name_count(name), WEIR_NAME_ADDRESSES_MAX);
    weir_name_give(name);
    close_world();
}

TEST(this_machine_is_known_without_asking)
{
    static const char *const hosts[] = {"localhost", "LocalHost", "a.localhost", "b.a.localhost"};
    open_world((struct zone){.code = SILENT});
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        struct weir_name *name = take(hosts[i]);
        assert_true(weir_name_known(name));
        expect_exactly(name, "127.0.0.1:443", "[::1]:443");
        weir_name_give(name);
    }
    assert_int_equal(world.asked[0] + world.asked[1], 0);
    close_world();
}

TEST(a_name_that_only_looks_like_this_machine_is_asked_for)
{
    static const char *const hosts[] = {"xlocalhost", "localhost.test", "ocalhost"};
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        open_world((struct zone){.ttl = 60, .addresses = {"10.0.0.1"}});
        struct weir_name *name = take(hosts[i]);
        assert_null(resolve(name));
        expect_exactly(name, "10.0.0.1:443");
        weir_name_give(name);
        close_world();
    }
}

TEST(who_holds_the_same_name_shares_what_is_known)
{
    open_world((struct zone){.ttl = 60, .addresses = {"10.0.0.1"}});
    struct weir_name *first = take("a.test"), *second = take("a.test"), *other = take("a.tes");
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, other);
    assert_null(resolve(first));
    weir_name_give(first);
    assert_true(weir_name_known(second));
    weir_name_give(second);
    weir_name_give(other);
    await_questions(1);
    close_world();
}

TEST(everybody_who_waits_is_told)
{
    struct waiter waiters[5] = {0};
    open_world((struct zone){.ttl = 60, .addresses = {"10.0.0.1"}});
    struct weir_name *name = take("a.test");
    assert_false(weir_name_known(name));
    for (size_t i = 0; i < COUNT_OF(waiters); i++) {
        waiters[i].base.on_result = on_told;
        weir_name_await(name, &waiters[i].base);
    }
    weir_name_leave(&waiters[2].base);
    weir_name_leave(&waiters[2].base);
    waiters[4].give = name; /* whoever is told may let go of it */
    while (waiters[4].told == 0) {
        turn();
    }
    for (size_t i = 0; i < COUNT_OF(waiters); i++) {
        assert_int_equal(waiters[i].told, i != 2);
    }
    await_questions(1);
    close_world();
}

TEST(a_name_may_be_let_go_while_it_is_asked_for)
{
    open_world((struct zone){.ttl = 60, .addresses = {"10.0.0.1"}});
    struct weir_name *name = take("a.test");
    assert_false(weir_name_known(name));
    weir_name_give(name);
    await_questions(1);
    name = take("b.test");
    assert_false(weir_name_known(name));
    weir_name_give(name);
    close_world(); /* while it is under way */
}

/* ---- time ---- */

static void sleep_past_ttl(void)
{
    uint64_t until_ns = world.loop.now_ns + WEIR_NAME_TTL_MIN_NS + SECOND / 20;
    while (world.loop.now_ns < until_ns) {
        turn();
    }
}

TEST(an_answer_is_believed_for_its_time_and_not_asked_for_meanwhile)
{
    open_world((struct zone){.ttl = 1, .addresses = {"10.0.0.1"}});
    struct weir_name *name = take("a.test");
    assert_null(resolve(name));
    await_questions(1);
    uint32_t version = weir_name_version(name);
    for (int i = 0; i < 100; i++) {
        assert_true(weir_name_known(name));
        turn();
    }
    assert_int_equal(world.asked[0], 1);
    sleep_past_ttl();
    assert_int_equal(world.asked[0], 1); /* only when somebody wants it */
    world.zone.addresses[0] = "10.0.0.2";
    assert_true(weir_name_known(name));
    expect_exactly(name, "10.0.0.1:443"); /* the old one until there is a new one */
    await_questions(2);
    expect_exactly(name, "10.0.0.2:443");
    assert_int_not_equal(weir_name_version(name), version);
    weir_name_give(name);
    close_world();
}

TEST(no_answer_is_believed_for_less_than_a_second)
{
    open_world((struct zone){.ttl = 0, .addresses = {"10.0.0.1"}});
    struct weir_name *name = take("a.test");
    assert_null(resolve(name));
    await_questions(1);
    for (int i = 0; i < 100; i++) {
        assert_true(weir_name_known(name));
        turn();
    }
    assert_int_equal(world.asked[0], 1);
    weir_name_give(name);
    close_world();
}

TEST(addresses_in_another_order_are_the_same)
{
    open_world((struct zone){.ttl = 1, .addresses = {"10.0.0.1", "10.0.0.2"}});
    struct weir_name *name = take("a.test");
    assert_null(resolve(name));
    await_questions(1);
    uint32_t version = weir_name_version(name);
    sleep_past_ttl();
    world.zone.addresses[0] = "10.0.0.2";
    world.zone.addresses[1] = "10.0.0.1";
    assert_true(weir_name_known(name));
    await_questions(2);
    expect_exactly(name, "10.0.0.2:443", "10.0.0.1:443");
    assert_int_equal(weir_name_version(name), version);
    weir_name_give(name);
    close_world();
}

/* ---- failures ---- */

static void expect_says(const char *error, const char *text)
{
    assert_non_null(error);
    if (strstr(error, text) == NULL) {
        fail_msg("expected \"%s\", but it said: %s", text, error);
    }
}

TEST(a_name_that_does_not_exist_is_told_at_once_for_a_second)
{
    open_world((struct zone){.code = NXDOMAIN});
    struct weir_name *name = take("a.test");
    expect_says(resolve(name), "has no address");
    unsigned asked = world.asked[0];
    for (int i = 0; i < 20; i++) {
        expect_says(resolve(name), "has no address");
    }
    assert_int_equal(world.asked[0], asked);
    sleep_past_ttl();
    world.zone = (struct zone){.ttl = 60, .addresses = {"10.0.0.1"}};
    assert_null(resolve(name)); /* it may come later */
    await_questions(asked + 1);
    weir_name_give(name);
    close_world();
}

TEST(a_name_without_addresses_is_told)
{
    open_world((struct zone){.ttl = 60});
    struct weir_name *name = take("a.test");
    expect_says(resolve(name), "has no address");
    weir_name_give(name);
    close_world();
}

TEST(a_dns_that_fails_is_told)
{
    open_world((struct zone){.code = SERVFAIL});
    struct weir_name *name = take("a.test");
    expect_says(resolve(name), "do not answer or report a failure");
    weir_name_give(name);
    close_server();
    name = take("b.test");
    expect_says(resolve(name), "do not answer or report a failure");
    weir_name_give(name);
    close_world();
}

TEST(a_dns_that_fails_does_not_take_away_what_is_known)
{
    static const int codes[] = {SERVFAIL, SILENT, -1};
    for (size_t i = 0; i < COUNT_OF(codes); i++) {
        open_world((struct zone){.ttl = 1, .addresses = {"10.0.0.1", "fd00::1"}});
        struct weir_name *name = take("a.test");
        assert_null(resolve(name));
        await_questions(1);
        sleep_past_ttl();
        world.zone.code = codes[i];
        if (codes[i] == -1) {
            close_server();
        }
        assert_true(weir_name_known(name));
        sleep_past_ttl();
        assert_true(weir_name_known(name));
        expect_exactly(name, "10.0.0.1:443", "[fd00::1]:443");
        weir_name_give(name);
        close_world();
    }
}

TEST(a_name_that_exists_no_more_loses_its_addresses)
{
    open_world((struct zone){.ttl = 1, .addresses = {"10.0.0.1", "fd00::1"}});
    struct weir_name *name = take("a.test");
    assert_null(resolve(name));
    await_questions(1);
    sleep_past_ttl();
    world.zone.code = NXDOMAIN;
    assert_true(weir_name_known(name));
    await_questions(2);
    assert_int_equal(weir_name_count(name), 0);
    expect_says(resolve(name), "has no address");
    weir_name_give(name);
    close_world();
}

TEST(silence_is_told_in_the_end)
{
    open_world((struct zone){.code = SILENT});
    struct weir_name *name = take("a.test");
    uint64_t before_ns = world.loop.now_ns;
    expect_says(resolve(name), "do not answer or report a failure");
    assert_true(world.loop.now_ns - before_ns < 20 * SECOND);
    assert_true(world.asked[0] >= 2); /* a packet may be lost */
    weir_name_give(name);
    close_world();
}

TEST(other_servers_are_asked_anew_for_who_waits)
{
    struct waiter waiter = {.base = {.on_result = on_told}};
    open_world((struct zone){.ttl = 60, .addresses = {"10.0.0.1"}});
    char good[sizeof world.servers];
    memcpy(good, world.servers, sizeof good);
    int deaf = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t bytes = sizeof address;
    assert_int_equal(bind(deaf, (struct sockaddr *)&address, bytes), 0);
    assert_int_equal(getsockname(deaf, (struct sockaddr *)&address, &bytes), 0);
    snprintf(world.servers, sizeof world.servers, "127.0.0.1:%u", ntohs(address.sin_port));
    weir_resolver_use(world.resolver, world.servers);
    struct weir_name *name = take("a.test");
    assert_false(weir_name_known(name));
    weir_name_await(name, &waiter.base);
    for (int i = 0; i < 20; i++) {
        turn();
    }
    assert_int_equal(waiter.told, 0);
    weir_resolver_use(world.resolver, good);
    while (waiter.told == 0) {
        turn();
    }
    assert_null(waiter.error);
    expect_exactly(name, "10.0.0.1:443");
    weir_name_give(name);
    close(deaf);
    close_world();
}

TEST(a_name_that_is_too_long_or_has_no_memory_is_not_taken)
{
    char host[WEIR_HOST_BYTES_MAX + 1];
    memset(host, 'a', sizeof host);
    open_world((struct zone){.code = NXDOMAIN});
    assert_null(weir_name_take(world.resolver, (struct weir_slice){host, sizeof host}));
    struct weir_name *name =
        weir_name_take(world.resolver, (struct weir_slice){host, sizeof host - 1});
    assert_non_null(name);
    assert_non_null(resolve(name)); /* no label is that long */
    weir_name_give(name);
    world.memory.fail_at = world.memory.calls + 1;
    assert_null(weir_name_take(world.resolver, weir_slice_of("a.test")));
    world.memory.fail_at = 0;
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_its_addresses_of_both_families_the_fourth_version_first),
        cmocka_unit_test(one_family_is_enough),
        cmocka_unit_test(no_more_addresses_are_kept_than_stated),
        cmocka_unit_test(this_machine_is_known_without_asking),
        cmocka_unit_test(a_name_that_only_looks_like_this_machine_is_asked_for),
        cmocka_unit_test(who_holds_the_same_name_shares_what_is_known),
        cmocka_unit_test(everybody_who_waits_is_told),
        cmocka_unit_test(a_name_may_be_let_go_while_it_is_asked_for),
        cmocka_unit_test(an_answer_is_believed_for_its_time_and_not_asked_for_meanwhile),
        cmocka_unit_test(no_answer_is_believed_for_less_than_a_second),
        cmocka_unit_test(addresses_in_another_order_are_the_same),
        cmocka_unit_test(a_name_that_does_not_exist_is_told_at_once_for_a_second),
        cmocka_unit_test(a_name_without_addresses_is_told),
        cmocka_unit_test(a_dns_that_fails_is_told),
        cmocka_unit_test(a_dns_that_fails_does_not_take_away_what_is_known),
        cmocka_unit_test(a_name_that_exists_no_more_loses_its_addresses),
        cmocka_unit_test(silence_is_told_in_the_end),
        cmocka_unit_test(other_servers_are_asked_anew_for_who_waits),
        cmocka_unit_test(a_name_that_is_too_long_or_has_no_memory_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
