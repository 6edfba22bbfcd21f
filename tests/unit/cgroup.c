/* Control groups in a tree of plain files: where groups are made in each layout, and what is
 * written where. That the kernel obeys, sandbox_process.c shows on the machine's own layout. */
#define _GNU_SOURCE
#include "runtime/cgroup.h"
#include "unit/folder.h"

#include <errno.h>
#include <sys/stat.h>

#define SELF_V2 "0::/system.slice/weir.service\n"
#define SELF_HYBRID \
    "8:pids:/\n5:memory:/jobs/weir\n2:cpu,cpuacct:/\n1:cpu:/apps/weir\n0::/apps/weir\n"

static struct weir_cgroups groups;

static void run_shell(const char *format, const char *text)
{
    char command[2048];
    int bytes = snprintf(command, sizeof command, format, folder, text);
    assert_in_range(bytes, 1, sizeof command - 1);
    assert_int_equal(system(command), 0);
}

static void expect_file(const char *path, const char *content)
{
    char whole[512], text[256] = "";
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    FILE *file = fopen(whole, "re");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    assert_string_equal(text, content);
}

static void write_file(const char *path, const char *content)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", folder, path);
    FILE *file = fopen(whole, "we");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static int start(void **state)
{
    (void)state;
    run_shell("rm -rf %s/* %s", "");
    memset(&groups, 0, sizeof groups);
    return 0;
}

/* As the kernel would make them with each folder. */
static void make_v2(void)
{
    run_shell("cd %s && touch cgroup.controllers && d=system.slice/weir.service && "
              "mkdir -p $d/weir-main $d/weir-one/box && touch $d/cgroup.subtree_control "
              "$d/weir-main/cgroup.procs $d/weir-one/cgroup.subtree_control && cd $d/weir-one/box "
              "&& touch memory.max memory.swap.max pids.max cpu.max cgroup.kill cgroup.freeze %s",
              "");
    weir_cgroups_open(&groups, folder, SELF_V2, "one");
}

#define BOX "system.slice/weir.service/weir-one/box"

TEST(under_v2_weir_moves_into_a_leaf_beside_the_sandboxes)
{
    char pid[32];
    make_v2();
    assert_int_equal(groups.layout, WEIR_CGROUP_V2);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    expect_file("system.slice/weir.service/weir-main/cgroup.procs", pid);
    expect_file("system.slice/weir.service/cgroup.subtree_control", "+memory +pids +cpu");
    expect_file("system.slice/weir.service/weir-one/cgroup.subtree_control", "+memory +pids +cpu");
}

TEST(under_v2_all_limits_are_in_one_folder)
{
    make_v2();
    assert_true(weir_cgroup_create(
        &groups, "box",
        &(struct weir_cgroup_limits){.memory_bytes = 1 << 20, .processes = 7, .cpu_percent = 150}));
    expect_file(BOX "/memory.max", "1048576");
    expect_file(BOX "/memory.swap.max", "0");
    expect_file(BOX "/pids.max", "7");
    expect_file(BOX "/cpu.max", "150000 100000");
}

TEST(no_limit_is_not_written)
{
    make_v2();
    assert_true(weir_cgroup_create(&groups, "box", &(struct weir_cgroup_limits){0}));
    expect_file(BOX "/memory.max", "");
    expect_file(BOX "/pids.max", "");
    expect_file(BOX "/cpu.max", "");
}

TEST(a_limit_that_cannot_be_set_is_an_error)
{
    make_v2();
    run_shell("rm %s/" BOX "/pids.max %s", "");
    assert_false(weir_cgroup_create(&groups, "box", &(struct weir_cgroup_limits){.processes = 7}));
    assert_int_equal(errno, ENOENT);
}

TEST(freezing_killing_and_events_are_read_and_written)
{
    make_v2();
    assert_true(weir_cgroup_freeze(&groups, "box", true));
    expect_file(BOX "/cgroup.freeze", "1");
    write_file(BOX "/cgroup.events", "populated 1\nfrozen 1\n");
    assert_true(weir_cgroup_frozen(&groups, "box"));
    assert_true(weir_cgroup_populated(&groups, "box"));
    write_file(BOX "/cgroup.events", "populated 0\nfrozen 0\n");
    assert_false(weir_cgroup_frozen(&groups, "box"));
    assert_false(weir_cgroup_populated(&groups, "box"));
    assert_true(weir_cgroup_kill(&groups, "box"));
    expect_file(BOX "/cgroup.kill", "1");
    assert_true(weir_cgroup_kill(&groups, "none"));
    assert_false(weir_cgroup_populated(&groups, "none"));
}

TEST(usage_is_read_where_the_layout_has_it)
{
    struct weir_cgroup_usage usage;
    make_v2();
    write_file(BOX "/memory.current", "12345\n");
    write_file(BOX "/pids.current", "3\n");
    write_file(BOX "/memory.events", "low 0\noom 2\noom_kill 1\noom_group_kill 5\n");
    write_file(BOX "/cpu.stat", "usage_usec 777\nuser_usec 1\n");
    assert_true(weir_cgroup_usage(&groups, "box", &usage));
    assert_int_equal(usage.memory_bytes, 12345);
    assert_int_equal(usage.processes, 3);
    assert_int_equal(usage.oom_kills, 1);
    assert_int_equal(usage.cpu_us, 777);
    assert_false(weir_cgroup_usage(&groups, "none", &usage));
}

TEST(in_a_hybrid_system_each_controller_has_a_group_beside_ours)
{
    run_shell("cd %s && mkdir -p unified/apps/weir memory/jobs/weir pids cpu/apps/weir && "
              "touch unified/cgroup.procs %s",
              "");
    weir_cgroups_open(&groups, folder, SELF_HYBRID, "one");
    assert_int_equal(groups.layout, WEIR_CGROUP_HYBRID);
    static const char *const expected[] = {[WEIR_CGROUP_UNIFIED] = "unified/apps",
                                           [WEIR_CGROUP_MEMORY] = "memory/jobs",
                                           [WEIR_CGROUP_PIDS] = "pids",
                                           [WEIR_CGROUP_CPU] = "cpu/apps"};
    for (int tree = 0; tree < WEIR_CGROUP_TREE_COUNT; tree++) {
        char path[256];
        snprintf(path, sizeof path, "%s/%s/weir-one", folder, expected[tree]);
        assert_string_equal(groups.parent[tree], path);
        assert_int_equal(rmdir(path), 0);
    }
}

TEST(a_group_that_cannot_be_seen_is_taken_for_the_root)
{
    char path[256];
    run_shell("cd %s && mkdir -p unified memory pids cpu && touch unified/cgroup.procs %s", "");
    weir_cgroups_open(&groups, folder, SELF_HYBRID, "one");
    snprintf(path, sizeof path, "%s/memory/weir-one", folder);
    assert_string_equal(groups.parent[WEIR_CGROUP_MEMORY], path);
}

TEST(without_cgroups_a_sentence_says_what_is_missing)
{
    weir_cgroups_open(&groups, folder, SELF_V2, "one");
    assert_int_equal(groups.layout, WEIR_CGROUP_NONE);
    assert_non_null(strstr(groups.why, "cannot find a cgroup v2 hierarchy below /tmp/"));
    run_shell("touch %s/cgroup.controllers %s", "");
    weir_cgroups_open(&groups, folder, SELF_V2, "one");
    assert_int_equal(groups.layout, WEIR_CGROUP_NONE);
    assert_non_null(strstr(groups.why, "cannot move into a control group of"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(under_v2_weir_moves_into_a_leaf_beside_the_sandboxes, start),
        cmocka_unit_test_setup(under_v2_all_limits_are_in_one_folder, start),
        cmocka_unit_test_setup(no_limit_is_not_written, start),
        cmocka_unit_test_setup(a_limit_that_cannot_be_set_is_an_error, start),
        cmocka_unit_test_setup(freezing_killing_and_events_are_read_and_written, start),
        cmocka_unit_test_setup(usage_is_read_where_the_layout_has_it, start),
        cmocka_unit_test_setup(in_a_hybrid_system_each_controller_has_a_group_beside_ours, start),
        cmocka_unit_test_setup(a_group_that_cannot_be_seen_is_taken_for_the_root, start),
        cmocka_unit_test_setup(without_cgroups_a_sentence_says_what_is_missing, start),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
