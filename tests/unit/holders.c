/* Who holds permits at a key: the list in the order of arrival, handles, and the end of one. On one
 * loop, whose turns are taken by hand. */
#include "gates/permit_owner.h"

#include "unit/gate_ticket_helpers.h"

struct scene {
    struct memory memory;
    struct weir_loop loop;
    struct weir_loop *loops[1];
    struct weir_gates *gates;
};

static struct scene scene;

struct guest {
    struct weir_gate_ticket gate_ticket;
    uint32_t told_of[WEIR_TICKET_ENDED + 1];
};

static void write_down(struct weir_gate_ticket *gate_ticket, enum weir_ticket_state state)
{
    weir_container_of(gate_ticket, struct guest, gate_ticket)->told_of[state]++;
}

static const struct weir_permit_owner guest_owner = {.kind = "guest", .on_change = write_down};
static const struct weir_permit_owner keen_owner = {
    .kind = "keen", .ends_itself = true, .on_change = write_down};

static void open_scene(uint32_t limit)
{
    memset(&scene, 0, sizeof scene);
    memory_init(&scene.memory);
    assert_true(weir_loop_init(&scene.loop, &scene.memory.allocator));
    scene.loops[0] = &scene.loop;
    struct weir_gates_options options = {.allocator = &scene.memory.allocator,
                                         .seed = {1, 2},
                                         .loops = scene.loops,
                                         .loop_count = 1};
    struct weir_settings settings = {LANE(.limit = limit), .line = {.tickets = 5000},
                                     .timeout_ns = WEIR_NEVER};
    assert_int_equal(weir_gates_create(&options, &scene.gates), WEIR_OK);
    add_gates(scene.gates, 1);
    assert_int_equal(weir_gates_configure(scene.gates, 0, &settings, 0), WEIR_OK);
}

static void close_scene(void)
{
    weir_gates_destroy(scene.gates);
    weir_loop_deinit(&scene.loop);
    expect_no_memory_out(&scene.memory);
}

static void settle(void)
{
    while (weir_loop_settle(&scene.loop)) {
    }
}

static enum weir_admission come_as(struct guest *guest, const struct weir_permit_owner *owner)
{
    struct weir_destination where = {.key = weir_slice_of("key")};
    *guest = (struct guest){.gate_ticket = {.owner = owner}};
    return weir_gate_ticket_enter(scene.gates, &guest->gate_ticket, &where,
                                  &(struct weir_request){.cost = 3});
}

static enum weir_admission come(struct guest *guest)
{
    return come_as(guest, &guest_owner);
}

static bool go(struct guest *guest)
{
    return weir_gate_ticket_leave(&guest->gate_ticket, &(struct weir_result){0});
}

struct listing {
    uint32_t count;
    uint32_t count_max;
    struct weir_permit_holder holders[16];
};

static bool note(void *context, const struct weir_permit_holder *holder)
{
    struct listing *listing = context;
    listing->holders[listing->count++] = *holder;
    return listing->count < listing->count_max;
}

static struct listing list_from(uint64_t after, uint32_t count_max)
{
    struct listing listing = {.count_max = count_max};
    struct weir_key *key = weir_gates_find(scene.gates, 0, weir_slice_of("key"));
    weir_gates_holders(key, after, (struct weir_slice){0}, note, &listing);
    weir_key_give(key);
    return listing;
}

static enum weir_status end(struct weir_holder_handle handle)
{
    struct weir_key *key = weir_gates_find(scene.gates, 0, weir_slice_of("key"));
    enum weir_status status = weir_gates_end_holder(scene.gates, key, handle, 0);
    weir_key_validate(key);
    weir_key_give(key);
    return status;
}

TEST(holders_are_listed_in_the_order_in_which_they_came_and_who_waits_is_not)
{
    open_scene(3);
    struct guest guests[4], more;
    for (size_t i = 0; i < COUNT_OF(guests); i++) {
        assert_int_equal(come(&guests[i]), i < 3 ? WEIR_ADMITTED : WEIR_WAITING);
    }
    struct listing all = list_from(0, 16);
    assert_int_equal(all.count, 3);
    for (uint32_t i = 0; i < all.count; i++) {
        assert_int_equal(all.holders[i].handle.number, i + 1);
        assert_string_equal(all.holders[i].kind, "guest");
        assert_int_equal(all.holders[i].cost, 3);
        assert_true(all.holders[i].lease_end_ns == WEIR_NEVER);
    }
    assert_int_equal(list_from(0, 2).count, 2);
    assert_int_equal(list_from(2, 16).holders[0].handle.number, 3);
    assert_int_equal(list_from(3, 16).count, 0);
    assert_true(go(&guests[1]));
    settle();
    all = list_from(0, 16);
    assert_int_equal(all.count, 3);
    assert_int_equal(all.holders[1].handle.number, 3);
    assert_int_equal(all.holders[2].handle.number, 4);
    assert_int_equal(come(&more), WEIR_WAITING);
    assert_true(weir_gate_ticket_cancel(&more.gate_ticket));
    assert_true(go(&guests[0]));
    assert_true(go(&guests[2]));
    assert_true(go(&guests[3]));
    assert_int_equal(list_from(0, 16).count, 0);
    close_scene();
}

TEST(a_holder_that_is_ended_has_lost_its_permit_to_the_next_in_line)
{
    open_scene(1);
    struct guest first, second;
    assert_int_equal(come(&first), WEIR_ADMITTED);
    assert_int_equal(come(&second), WEIR_WAITING);
    struct weir_holder_handle handle = list_from(0, 1).holders[0].handle;
    struct weir_holder_handle wrong = {handle.number, handle.check ^ 1};
    struct weir_holder_handle waiting = {2, handle.check};
    assert_int_equal(end(wrong), WEIR_NOT_HELD);
    assert_int_equal(end(waiting), WEIR_NOT_HELD);
    assert_int_equal(end(handle), WEIR_OK);
    assert_int_equal(end(handle), WEIR_NOT_HELD);
    settle();
    assert_int_equal(first.told_of[WEIR_TICKET_ENDED], 1);
    assert_int_equal(first.gate_ticket.ticket.end, WEIR_END_LAPSED);
    assert_int_equal(second.told_of[WEIR_TICKET_ADMITTED], 1);
    assert_int_equal(list_from(0, 1).holders[0].handle.number, 2);
    weir_gate_ticket_close(&first.gate_ticket);
    assert_true(go(&second));
    close_scene();
}

TEST(a_holder_that_leaves_as_it_is_ended_is_told_when_the_post_has_come)
{
    open_scene(1);
    struct guest guest;
    assert_int_equal(come(&guest), WEIR_ADMITTED);
    assert_int_equal(end(list_from(0, 1).holders[0].handle), WEIR_OK);
    assert_false(go(&guest));
    assert_int_equal(list_from(0, 1).count, 0);
    settle();
    assert_int_equal(guest.told_of[WEIR_TICKET_IDLE], 1);
    close_scene();
}

static void list_behind(size_t waiting)
{
    static struct guest line[2500];
    struct guest first, holder, late;
    struct weir_destination where = {.key = weir_slice_of("key")};
    struct weir_request urgent = {.priority = WEIR_PRIORITY_HIGH};
    open_scene(2);
    assert_int_equal(come(&first), WEIR_ADMITTED);
    assert_int_equal(come(&holder), WEIR_ADMITTED);
    for (size_t i = 0; i < waiting; i++) {
        assert_int_equal(come(&line[i]), WEIR_WAITING);
    }
    late = (struct guest){.gate_ticket = {.owner = &guest_owner}};
    assert_int_equal(weir_gate_ticket_enter(scene.gates, &late.gate_ticket, &where, &urgent),
                     WEIR_WAITING);
    assert_true(go(&first));
    settle();
    assert_int_equal(late.told_of[WEIR_TICKET_ADMITTED], 1);
    struct listing all = list_from(0, 16);
    assert_int_equal(all.count, 2);
    assert_int_equal(all.holders[0].handle.number, 2);
    assert_int_equal(all.holders[1].handle.number, waiting + 3);
    assert_int_equal(end(all.holders[1].handle), WEIR_OK);
    settle();
    assert_int_equal(late.told_of[WEIR_TICKET_ENDED], 1);
    assert_int_equal(line[0].told_of[WEIR_TICKET_ADMITTED], 1);
    weir_gate_ticket_close(&late.gate_ticket);
    for (size_t i = waiting; i-- > 1;) {
        assert_true(weir_gate_ticket_cancel(&line[i].gate_ticket));
    }
    assert_true(go(&line[0]));
    assert_true(go(&holder));
    close_scene();
}

/* About as many tickets as are looked at under one lock stand between the two, or more. */
TEST(a_holder_behind_a_long_line_is_listed_and_ended)
{
    for (size_t waiting = 996; waiting <= 1003; waiting++) {
        list_behind(waiting);
    }
    list_behind(2500);
}

TEST(an_owner_that_ends_itself_is_listed_and_left_alone)
{
    open_scene(1);
    struct guest guest;
    assert_int_equal(come_as(&guest, &keen_owner), WEIR_ADMITTED);
    struct weir_permit_holder holder = list_from(0, 1).holders[0];
    assert_true(holder.ends_itself);
    assert_int_equal(end(holder.handle), WEIR_NOT_HELD);
    assert_true(go(&guest));
    close_scene();
}

TEST(a_permit_that_passes_on_keeps_its_handle_and_its_place_in_the_list)
{
    open_scene(2);
    struct guest first, second, heir = {.gate_ticket = {.owner = &keen_owner}};
    assert_int_equal(come(&first), WEIR_ADMITTED);
    assert_int_equal(come(&second), WEIR_ADMITTED);
    struct weir_holder_handle handle = list_from(0, 1).holders[0].handle;
    assert_int_equal(weir_gate_ticket_pass(&first.gate_ticket, &heir.gate_ticket, 0), WEIR_OK);
    struct listing all = list_from(0, 16);
    assert_int_equal(all.count, 2);
    assert_memory_equal(&all.holders[0].handle.number, &handle.number, sizeof handle.number);
    assert_int_equal(all.holders[0].handle.check, handle.check);
    assert_string_equal(all.holders[0].kind, "keen");
    assert_true(go(&heir));
    assert_true(go(&second));
    close_scene();
}

TEST(a_handle_is_read_back_from_its_text_and_nothing_else_is_one)
{
    static const struct weir_holder_handle handles[] = {
        {1, 0}, {0x2a, 0x5f3c1b09}, {UINT64_MAX, UINT32_MAX}, {0, 1}};
    for (size_t i = 0; i < COUNT_OF(handles); i++) {
        char text[WEIR_HOLDER_HANDLE_BYTES_MAX];
        struct weir_holder_handle read = {99, 99};
        size_t bytes = weir_holder_handle_format(handles[i], text);
        assert_true(weir_holder_handle_parse((struct weir_slice){text, bytes}, &read));
        assert_true(read.number == handles[i].number);
        assert_int_equal(read.check, handles[i].check);
    }
    static const char *const bad[] = {
        "",           "-",          "1",           "1-",
        "-00000000",  "1-0000000",  "1-000000000", "1-0000000g",
        "1-0000000A", "A-00000000", "1 -00000000", "11111111111111111-00000000",
        "1-00000000 "};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct weir_holder_handle read;
        assert_false(weir_holder_handle_parse(weir_slice_of(bad[i]), &read));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_are_listed_in_the_order_in_which_they_came_and_who_waits_is_not),
        cmocka_unit_test(a_holder_that_is_ended_has_lost_its_permit_to_the_next_in_line),
        cmocka_unit_test(a_holder_that_leaves_as_it_is_ended_is_told_when_the_post_has_come),
        cmocka_unit_test(a_holder_behind_a_long_line_is_listed_and_ended),
        cmocka_unit_test(an_owner_that_ends_itself_is_listed_and_left_alone),
        cmocka_unit_test(a_permit_that_passes_on_keeps_its_handle_and_its_place_in_the_list),
        cmocka_unit_test(a_handle_is_read_back_from_its_text_and_nothing_else_is_one),
    };
    return cmocka_run_group_tests_name("holders", tests, NULL, NULL);
}
