/* Permits of one flow that share a ticket: in which order they go, whose lease counts, how many. */
#define _GNU_SOURCE
#include "unit/api_permit_helpers.h"

static struct weir_api_permit *wish_to_share(const char *flow, uint64_t lease_ns)
{
    struct weir_api_permit *api_permit = take(flow);
    api_permit->lease_ns = lease_ns;
    return api_permit;
}

static enum weir_api_permit_join try_to_share(struct weir_api_permit *api_permit, uint32_t depth,
                                              uint32_t loop_index)
{
    struct weir_api_permit_place place = {
        .gate = 1, .loop_index = loop_index, .depth = depth, .key = weir_slice_of("key")};
    struct weir_key_stats stats = {.active = 99};
    enum weir_api_permit_join join =
        weir_api_permit_join(api_permit, &place, &stats, scene.loop[loop_index].now_ns);
    assert_int_equal(stats.active, join == WEIR_API_PERMIT_ALONE ? 99 : 1);
    return join;
}

static struct id share_for(const char *flow, uint64_t lease_ns)
{
    struct weir_api_permit *api_permit = wish_to_share(flow, lease_ns);
    assert_int_equal(try_to_share(api_permit, 5, 0), WEIR_API_PERMIT_JOINED);
    return id_of(api_permit);
}

TEST(permits_of_a_flow_share_the_place_of_the_first)
{
    open_scene(one_at_a_time);
    struct weir_api_permit *alone = wish_to_share("flow", WEIR_NEVER);
    assert_int_equal(try_to_share(alone, 5, 0), WEIR_API_PERMIT_ALONE);
    weir_api_permit_give(alone);
    struct id first = id_of(acquire(1, "key", "flow"));
    struct id second = share_for("flow", WEIR_NEVER);
    struct id third = share_for("flow", WEIR_NEVER);
    assert_int_equal(active_at(1), 1);
    expect_released(by_id(1, "key", &first)); /* its ticket passes to the second */
    expect_not_held(by_id(1, "key", &first));
    assert_int_equal(active_at(1), 1);
    expect_released(by_id(1, "key", &third));
    struct id fourth = share_for("flow", WEIR_NEVER);
    expect_released(by_id(1, "key", &second));
    assert_int_equal(active_at(1), 1);
    expect_released(by_id(1, "key", &fourth));
    assert_int_equal(active_at(1), 0);
    close_scene();
}

TEST(a_flow_shares_as_deep_as_it_may)
{
    for (uint32_t depth = 1; depth <= 4; depth++) {
        open_scene(one_at_a_time);
        acquire(1, "key", "flow");
        for (uint32_t count = 1; count < depth; count++) {
            assert_int_equal(try_to_share(wish_to_share("flow", WEIR_NEVER), depth, 0),
                             WEIR_API_PERMIT_JOINED);
        }
        struct weir_api_permit *more = wish_to_share("flow", WEIR_NEVER);
        assert_int_equal(try_to_share(more, depth, 0), WEIR_API_PERMIT_TOO_DEEP);
        assert_false(more->held);
        weir_api_permit_give(more);
        close_scene();
    }
}

TEST(tenants_do_not_share)
{
    open_scene(one_at_a_time);
    acquire(1, "key", "flow");
    struct weir_api_permit *other = wish_to_share("flow", WEIR_NEVER);
    other->gate_ticket.tenant = weir_slice_of("t");
    assert_int_equal(try_to_share(other, 5, 0), WEIR_API_PERMIT_ALONE);
    weir_api_permit_give(other);
    close_scene();
}

TEST(a_shared_ticket_lapses_with_the_last_of_its_leases)
{
    for (int first_goes = 0; first_goes <= 1; first_goes++) {
        open_scene(one_at_a_time);
        uint64_t began_ns = scene.loop[0].now_ns;
        struct id first = id_of(acquire_for(10 * SECOND, 1, "key", "flow"));
        struct id second = share_for("flow", 20 * SECOND);
        share_for("flow", 5 * SECOND);
        if (first_goes) {
            expect_released(by_id(1, "key", &first));
        }
        scene.loop[0].now_ns = began_ns + 20 * SECOND - 1;
        uint64_t lease_ns = 0;
        assert_int_equal(renew(by_id(1, "key", &second), &lease_ns), WEIR_OK);
        assert_int_equal(lease_ns, 20 * SECOND);
        one_turn();
        assert_int_equal(scene.lapsed, 0);
        scene.loop[0].now_ns = began_ns + 40 * SECOND; /* a turn had set it */
        lease_ns = 0;
        assert_int_equal(renew(by_id(1, "key", &second), &lease_ns), WEIR_NOT_HELD);
        if (!first_goes) {
            assert_int_equal(renew(by_id(1, "key", &first), &lease_ns), WEIR_NOT_HELD);
        }
        one_turn();
        assert_int_equal(scene.lapsed, 1);
        expect_not_held(by_flow(1, "key", "flow"));
        assert_int_equal(active_at(1), 0);
        close_scene();
    }
}

TEST(a_sharer_whose_own_lease_is_over_makes_room_for_another)
{
    open_scene(one_at_a_time);
    acquire_for(HOUR, 1, "key", "flow");
    struct weir_api_permit *lost = wish_to_share("flow", SECOND);
    assert_int_equal(try_to_share(lost, 2, 0), WEIR_API_PERMIT_JOINED);
    struct id id = id_of(lost);
    scene.loop[0].now_ns += SECOND;
    assert_int_equal(try_to_share(wish_to_share("flow", SECOND), 2, 0), WEIR_API_PERMIT_JOINED);
    expect_not_held(by_id(1, "key", &id));
    close_scene();
}

/* As when an administrator ends the ticket that a permit of a connection in another loop shares. */
TEST(a_sharer_that_a_call_holds_is_told_in_its_own_loop_that_the_ticket_is_over)
{
    for (int lets_go = 0; lets_go <= 1; lets_go++) {
        open_scene(one_at_a_time);
        struct weir_call *call = (struct weir_call *)(void *)&scene; /* which is not looked at */
        struct weir_result result = {.outcome = WEIR_OUTCOME_CANCELLED};
        struct weir_api_permit *leader = acquire_for(10 * SECOND, 1, "key", "flow");
        struct weir_api_permit *sharer = wish_to_share("flow", SECOND);
        sharer->call = call;
        assert_int_equal(try_to_share(sharer, 5, 0), WEIR_API_PERMIT_JOINED);
        struct id id = id_of(sharer);
        struct weir_api_permit_name name = by_id(1, "key", &id);
        scene.loop[0].now_ns += 10 * SECOND;
        uint64_t lease_ns = 0;
        struct id first = id_of(leader);
        assert_int_equal(renew(by_id(1, "key", &first), &lease_ns), WEIR_NOT_HELD);
        one_turn();
        assert_int_equal(scene.lapsed, 1);
        expect_not_held(name);
        if (lets_go) {
            weir_api_permits_let_go(scene.api_permits, &name, &result, 0);
            assert_null(sharer->call);
        }
        assert_int_equal(scene.gone, 0);
        close_scene(); /* which lets it arrive */
        assert_int_equal(scene.gone, 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(permits_of_a_flow_share_the_place_of_the_first),
        cmocka_unit_test(a_flow_shares_as_deep_as_it_may),
        cmocka_unit_test(tenants_do_not_share),
        cmocka_unit_test(a_shared_ticket_lapses_with_the_last_of_its_leases),
        cmocka_unit_test(a_sharer_whose_own_lease_is_over_makes_room_for_another),
        cmocka_unit_test(
            a_sharer_that_a_call_holds_is_told_in_its_own_loop_that_the_ticket_is_over),
    };
    return cmocka_run_group_tests_name("api_permit_sharing", tests, NULL, NULL);
}
