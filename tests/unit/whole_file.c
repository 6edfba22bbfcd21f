/* Files that are there as a whole or not at all. */
#define _GNU_SOURCE
#include "tenants/whole_file.h"

#include "unit/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static const char *path(const char *name)
{
    static char text[4][PATH_MAX];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(text[turn], sizeof text[turn], "%s/%s", folder, name);
    return text[turn];
}

static void write_text(const char *name, const char *text)
{
    struct weir_whole_file file;
    assert_true(weir_whole_file_begin(&file, path(name)));
    assert_true(fputs(text, file.stream) >= 0);
    assert_true(weir_whole_file_commit(&file));
}

static void expect_content(const char *name, const char *expected)
{
    size_t bytes;
    char *text = weir_whole_file_read(path(name), 1000, &bytes);
    assert_non_null(text);
    assert_string_equal(text, expected);
    assert_int_equal(bytes, strlen(expected));
    free(text);
}

TEST(what_is_committed_takes_the_place_of_what_was_there)
{
    struct stat about;
    write_text("a", "one");
    expect_content("a", "one");
    write_text("a", "");
    expect_content("a", "");
    assert_int_equal(stat(path("a"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(access(path("a.new"), F_OK), -1);
}

/* Which differs from who makes it for root only. */
TEST(what_is_made_in_somebody_elses_folder_is_theirs)
{
    struct stat about, made;
    assert_int_equal(mkdir(path("theirs"), 0755), 0);
    assert_true(geteuid() != 0 || chown(path("theirs"), 65534, 65533) == 0);
    assert_int_equal(stat(path("theirs"), &about), 0);
    int lock = weir_whole_file_lock(path("theirs/lock"), 0);
    assert_true(lock >= 0);
    for (int i = 0; i < 2; i++) { /* made anew, and in the place of another */
        write_text("theirs/a", "one");
        assert_int_equal(stat(path("theirs/a"), &made), 0);
        assert_true(made.st_uid == about.st_uid && made.st_gid == about.st_gid);
    }
    assert_int_equal(fstat(lock, &made), 0);
    assert_true(made.st_uid == about.st_uid && made.st_gid == about.st_gid);
    close(lock);
}

TEST(what_is_abandoned_leaves_what_was_there)
{
    struct weir_whole_file file;
    write_text("b", "old");
    assert_true(weir_whole_file_begin(&file, path("b")));
    fputs("new", file.stream);
    weir_whole_file_abandon(&file);
    weir_whole_file_abandon(&file);
    expect_content("b", "old");
    assert_int_equal(access(path("b.new"), F_OK), -1);
}

TEST(what_a_dead_writer_left_is_in_nobody_s_way)
{
    write_text("c.new", "left over, and longer than what follows");
    write_text("c", "good");
    expect_content("c", "good");
}

TEST(folders_are_made_for_their_owner)
{
    struct stat about;
    write_text("x/y/z", "deep");
    expect_content("x/y/z", "deep");
    assert_int_equal(stat(path("x/y"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
}

TEST(a_disk_that_is_full_leaves_what_was_there)
{
    struct weir_whole_file file;
    write_text("d", "old");
    assert_true(weir_whole_file_begin(&file, path("d")));
    FILE *real = file.stream;
    file.stream = fopen("/dev/full", "w");
    assert_non_null(file.stream);
    fputs("new", file.stream);
    assert_false(weir_whole_file_commit(&file));
    assert_int_equal(errno, ENOSPC);
    fclose(real);
    expect_content("d", "old");
    assert_int_equal(access(path("d.new"), F_OK), -1);
}

TEST(a_path_that_cannot_be_written_is_told)
{
    struct weir_whole_file file;
    char long_path[PATH_MAX + 10];
    write_text("e", "a file");
    assert_false(weir_whole_file_begin(&file, path("e/below")));
    assert_true(errno == ENOTDIR || errno == EEXIST);
    memset(long_path, 'a', sizeof long_path);
    long_path[sizeof long_path - 1] = '\0';
    assert_false(weir_whole_file_begin(&file, long_path));
    assert_int_equal(errno, ENAMETOOLONG);
    assert_false(weir_whole_file_begin(&file, ""));
    weir_whole_file_abandon(&file);
}

TEST(a_link_at_the_place_of_the_new_file_leads_nowhere)
{
    write_text("f", "old");
    write_text("elsewhere", "kept");
    assert_int_equal(symlink(path("elsewhere"), path("f.new")), 0);
    write_text("f", "one");
    assert_int_equal(link(path("elsewhere"), path("f.new")), 0);
    write_text("f", "two");
    expect_content("f", "two");
    expect_content("elsewhere", "kept");
}

TEST(a_file_is_read_up_to_its_bound)
{
    size_t bytes;
    write_text("g", "12345");
    char *text = weir_whole_file_read(path("g"), 5, &bytes);
    assert_non_null(text);
    assert_int_equal(bytes, 5);
    free(text);
    assert_null(weir_whole_file_read(path("g"), 4, &bytes));
    assert_int_equal(errno, EFBIG);
    assert_null(weir_whole_file_read(path("none"), 4, &bytes));
    assert_int_equal(errno, ENOENT);
    assert_null(weir_whole_file_read(folder, 4, &bytes));
}

TEST(a_lock_is_held_by_one_at_a_time)
{
    int first = weir_whole_file_lock(path("h.lock"), 0);
    assert_true(first >= 0);
    assert_int_equal(weir_whole_file_lock(path("h.lock"), 0), -1);
    assert_int_equal(errno, EWOULDBLOCK);
    assert_int_equal(weir_whole_file_lock(path("h.lock"), 50), -1);
    close(first);
    int second = weir_whole_file_lock(path("h.lock"), 0);
    assert_true(second >= 0);
    close(second);
    assert_int_equal(weir_whole_file_lock(path("h.lock/below"), 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_committed_takes_the_place_of_what_was_there),
        cmocka_unit_test(what_is_made_in_somebody_elses_folder_is_theirs),
        cmocka_unit_test(what_is_abandoned_leaves_what_was_there),
        cmocka_unit_test(what_a_dead_writer_left_is_in_nobody_s_way),
        cmocka_unit_test(folders_are_made_for_their_owner),
        cmocka_unit_test(a_disk_that_is_full_leaves_what_was_there),
        cmocka_unit_test(a_path_that_cannot_be_written_is_told),
        cmocka_unit_test(a_link_at_the_place_of_the_new_file_leads_nowhere),
        cmocka_unit_test(a_file_is_read_up_to_its_bound),
        cmocka_unit_test(a_lock_is_held_by_one_at_a_time),
    };
    return cmocka_run_group_tests_name("whole_file", tests, make_folder, remove_folder);
}
