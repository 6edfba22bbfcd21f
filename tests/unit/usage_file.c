/* What tenants have used, across restarts. */
#define _GNU_SOURCE
#include "tenants/usage_file.h"

#include "unit/folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#define NOON_S  INT64_C(1755777600)
#define A_DAY_S INT64_C(86400)

static struct weir_usage_book *usage;
static struct weir_budget_book *budgets;
static struct weir_usage_file *file;

static const char *path(const char *name)
{
    static char text[256];
    snprintf(text, sizeof text, "%s/usage/%s", folder, name);
    return text;
}

static void open_with(uint32_t rows_max)
{
    const char *error;
    usage = weir_usage_create(rows_max);
    budgets = weir_budget_book_create(usage, 100);
    file = weir_usage_file_open(usage, budgets, weir_slice_of(folder), &error);
    assert_non_null(file);
}

static void open_file(void)
{
    open_with(WEIR_USAGE_ROWS_MAX);
}

static void close_file(void)
{
    weir_usage_file_close(file);
    weir_budget_book_destroy(budgets);
    weir_usage_destroy(usage);
}

static void use(int64_t wall_s, const char *tenant, const char *model, uint64_t input)
{
    struct weir_usage_counts counts = {.requests = 1,
                                       .refused = 2,
                                       .input = input,
                                       .output = 5,
                                       .cached = 6,
                                       .cache_written = 7,
                                       .money = 8};
    weir_usage_add(usage, wall_s, weir_slice_of(tenant), weir_slice_of(model), &counts);
}

static uint64_t spent(int64_t wall_s, const char *tenant)
{
    uint32_t day = weir_usage_day(wall_s);
    return weir_usage_sums(usage, day, day, weir_slice_of(tenant)).units[WEIR_BUDGET_TOKENS];
}

static void write_day(const char *name, const char *text)
{
    char folder_path[256];
    snprintf(folder_path, sizeof folder_path, "%s/usage", folder);
    mkdir(folder_path, 0700);
    FILE *out = fopen(path(name), "w");
    assert_non_null(out);
    fputs(text, out);
    fclose(out);
}

static bool exists(const char *name)
{
    return access(path(name), F_OK) == 0;
}

/* What is said on stderr meanwhile. */
static char said[4096];
static int kept_stderr;

static void listen_up(void)
{
    fflush(stderr);
    kept_stderr = dup(STDERR_FILENO);
    char name[] = "/tmp/weir-said-XXXXXX";
    int fd = mkstemp(name);
    unlink(name);
    dup2(fd, STDERR_FILENO);
    close(fd);
}

static void hear(void)
{
    fflush(stderr);
    lseek(STDERR_FILENO, 0, SEEK_SET);
    ssize_t bytes = read(STDERR_FILENO, said, sizeof said - 1);
    said[bytes > 0 ? bytes : 0] = '\0';
    dup2(kept_stderr, STDERR_FILENO);
    close(kept_stderr);
}

TEST(what_was_counted_is_there_after_a_restart)
{
    open_file();
    use(NOON_S, "acme", "gpt", 100);
    use(NOON_S, "acme \"x\" \xc3\xbc", "m\\", 7);
    use(NOON_S, "", "", 1);
    use(NOON_S + A_DAY_S, "acme", "gpt", 50);
    close_file();
    open_file();
    assert_int_equal(spent(NOON_S, "acme"), 105);
    assert_int_equal(spent(NOON_S, "acme \"x\" \xc3\xbc"), 12);
    assert_int_equal(spent(NOON_S, ""), 6);
    assert_int_equal(spent(NOON_S + A_DAY_S, "acme"), 55);
    use(NOON_S, "acme", "gpt", 1000);
    close_file();
    open_file();
    assert_int_equal(spent(NOON_S, "acme"), 1110);
    struct weir_usage_cursor cursor = {0};
    struct weir_usage_filter all = {.to_day = UINT32_MAX};
    struct weir_usage_row row;
    bool over;
    assert_int_equal(weir_usage_page(usage, &all, &cursor, &row, 1, &over), 1);
    assert_int_equal(row.counts.requests, 2);
    assert_int_equal(row.counts.refused, 4);
    assert_int_equal(row.counts.input, 1100);
    assert_int_equal(row.counts.output, 10);
    assert_int_equal(row.counts.cached, 12);
    close_file();
}

TEST(the_file_is_as_documented)
{
    char text[1024];
    open_file();
    use(NOON_S, "acme", "gpt-4o", 4100);
    close_file();
    struct stat about;
    assert_int_equal(stat(path("2025-08-21"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    FILE *in = fopen(path("2025-08-21"), "r");
    size_t bytes = fread(text, 1, sizeof text - 1, in);
    fclose(in);
    text[bytes] = '\0';
    assert_string_equal(text,
                        "{\"weir\":\"usage\",\"version\":2,\"day\":\"2025-08-21\"}\n"
                        "{\"tenant\":\"acme\",\"model\":\"gpt-4o\",\"requests\":1,\"refused\":2,"
                        "\"input\":4100,\"output\":5,\"cached\":6,\"written\":7,\"money\":8,"
                        "\"most\":5}\n"
                        "{\"rows\":1}\n");
}

TEST(without_use_nothing_is_written)
{
    open_file();
    close_file();
    assert_false(exists(""));
}

TEST(a_day_of_many_rows_comes_back_whole)
{
    char name[32];
    open_file();
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "tenant-%d", i);
        use(NOON_S, name, "m", (uint64_t)i);
    }
    close_file();
    open_file();
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "tenant-%d", i);
        assert_int_equal(spent(NOON_S, name), i + 5);
    }
    close_file();
}

#define FIRST "{\"weir\":\"usage\",\"version\":1,\"day\":\"2025-08-21\"}\n"
#define ROW                                                                                    \
    "{\"tenant\":\"a\",\"model\":\"m\",\"requests\":1,\"refused\":0,\"input\":9,\"output\":0," \
    "\"cached\":0}\n"

TEST(a_damaged_day_is_moved_aside_and_takes_no_other_with_it)
{
    static const char *const error[] = {
        "",
        "nonsense\n",
        "{}\n",
        FIRST,
        FIRST ROW,
        FIRST ROW "{\"rows\":2}\n",
        FIRST ROW "{\"rows\":0}\n",
        FIRST ROW "{\"rows\":1}\n{\"rows\":1}\n",
        FIRST ROW "{\"rows\":1}",
        FIRST ROW "nonsense\n{\"rows\":1}\n",
        FIRST ROW "{\"tenant\":\"b\"}\n{\"rows\":2}\n",
        FIRST
        "{\"tenant\":\"a\",\"model\":\"m\",\"requests\":-1,\"refused\":0,\"input\":9,\"output\":0,"
        "\"cached\":0}\n{\"rows\":1}\n",
        FIRST "{\"tenant\":7,\"model\":\"m\",\"requests\":1,\"refused\":0,\"input\":9,\"output\":0,"
              "\"cached\":0}\n{\"rows\":1}\n",
        "{\"weir\":\"usage\",\"version\":1,\"day\":\"2025-08-22\"}\n" ROW "{\"rows\":1}\n",
        "{\"weir\":\"other\",\"version\":1,\"day\":\"2025-08-21\"}\n" ROW "{\"rows\":1}\n",
    };
    for (size_t i = 0; i < COUNT_OF(error); i++) {
        write_day("2025-08-20", "{\"weir\":\"usage\",\"version\":1,\"day\":\"2025-08-20\"}\n" ROW
                                "{\"rows\":1}\n");
        write_day("2025-08-21", error[i]);
        listen_up();
        open_file();
        hear();
        assert_non_null(strstr(said, "usage/2025-08-21 is damaged and moved aside"));
        assert_int_equal(spent(NOON_S - A_DAY_S, "a"), 9);
        assert_int_equal(spent(NOON_S, "a"), 0);
        close_file();
        assert_false(exists("2025-08-21"));
        assert_true(exists("2025-08-21.damaged"));
        assert_true(exists("2025-08-20"));
    }
}

TEST(every_cut_of_a_file_is_noticed)
{
    static const char whole[] = FIRST ROW "{\"rows\":1}\n";
    char cut[sizeof whole];
    for (size_t bytes = 0; bytes < sizeof whole - 1; bytes++) {
        snprintf(cut, sizeof cut, "%.*s", (int)bytes, whole);
        write_day("2025-08-21", cut);
        listen_up();
        open_file();
        hear();
        assert_int_equal(spent(NOON_S, "a"), 0);
        close_file();
        assert_false(exists("2025-08-21"));
    }
    write_day("2025-08-21", whole);
    open_file();
    assert_int_equal(spent(NOON_S, "a"), 9);
    close_file();
}

TEST(a_file_of_version_1_is_read_and_what_it_lacks_is_none)
{
    write_day("2025-08-21", FIRST ROW "{\"rows\":1}\n");
    open_file();
    uint32_t day = weir_usage_day(NOON_S);
    struct weir_slice tenant = weir_slice_of("a");
    struct weir_budget_amount sums = weir_usage_sums(usage, day, day, tenant);
    assert_int_equal(sums.units[WEIR_BUDGET_REQUESTS], 1);
    assert_int_equal(sums.units[WEIR_BUDGET_MONEY], 0);
    assert_int_equal(weir_usage_output_most(usage, NOON_S, tenant, weir_slice_of("m")), 0);
    close_file();
}

TEST(money_and_the_largest_output_come_back)
{
    open_file();
    use(NOON_S, "a", "m", 1);
    use(NOON_S, "a", "m", 1);
    close_file();
    open_file();
    uint32_t day = weir_usage_day(NOON_S);
    struct weir_slice tenant = weir_slice_of("a");
    struct weir_budget_amount sums = weir_usage_sums(usage, day - 1, day, tenant);
    assert_int_equal(sums.units[WEIR_BUDGET_MONEY], 16);
    assert_int_equal(weir_usage_output_most(usage, NOON_S, tenant, weir_slice_of("m")), 5);
    assert_int_equal(weir_usage_output_most(usage, NOON_S + A_DAY_S, tenant, weir_slice_of("m")),
                     0);
    close_file();
}

TEST(a_file_of_another_version_is_left_alone)
{
    static const char newer[] = "{\"weir\":\"usage\",\"version\":3,\"days\":[]}\n";
    write_day("2025-08-22", newer);
    write_day("2025-08-21", FIRST ROW "{\"rows\":1}\n");
    listen_up();
    open_file();
    hear();
    assert_non_null(strstr(said, "2025-08-22 is of another version of Weir"));
    assert_int_equal(spent(NOON_S, "a"), 9);
    use(NOON_S + A_DAY_S, "a", "m", 1);
    use(NOON_S + 2 * A_DAY_S, "a", "m", 1);
    close_file();
    char text[sizeof newer] = "";
    FILE *file_read = fopen(path("2025-08-22"), "r");
    assert_non_null(fgets(text, sizeof text, file_read));
    fclose(file_read);
    assert_string_equal(text, newer);
    assert_true(exists("2025-08-23"));
}

TEST(a_file_that_cannot_be_read_is_left_alone)
{
    write_day("2025-08-21", FIRST ROW "{\"rows\":1}\n");
    assert_int_equal(mkdir(path("2025-08-22"), 0700), 0); /* root cannot read it either */
    listen_up();
    open_file();
    hear();
    assert_non_null(strstr(said, "usage/2025-08-22 cannot be read"));
    assert_int_equal(spent(NOON_S, "a"), 9);
    use(NOON_S + A_DAY_S, "a", "m", 1);
    close_file();
    assert_int_equal(rmdir(path("2025-08-22")), 0);
}

/* A budget of acme's changes. */
static void spend(void)
{
    struct weir_budget_limits limits = weir_budget_unlimited();
    struct weir_budget_owner acme = {WEIR_BUDGET_OF_TENANT, weir_slice_of("acme"), &limits};
    struct weir_budget_amount amount = {{10, 1, 0}};
    struct weir_budget_claim claim = {0};
    assert_int_equal(weir_budget_book_reserve(budgets, NOON_S, &acme, 1, &amount, &claim), WEIR_OK);
    weir_budget_book_settle(budgets, NOON_S, &claim, &amount);
}

TEST(budgets_of_another_version_are_not_replaced)
{
    static const char newer[] = "{\"weir\":\"budgets\",\"version\":2}\n";
    char text[sizeof newer] = "";
    write_day("budgets", newer);
    listen_up();
    open_file();
    hear();
    assert_non_null(strstr(said, "usage/budgets is of another version of Weir"));
    spend();
    close_file();
    FILE *file_read = fopen(path("budgets"), "r");
    assert_non_null(fgets(text, sizeof text, file_read));
    fclose(file_read);
    assert_string_equal(text, newer);
}

TEST(usage_and_budgets_that_cannot_be_saved_are_reported_apart)
{
    const char *error;
    usage = weir_usage_create(100);
    budgets = weir_budget_book_create(usage, 100);
    listen_up();
    file = weir_usage_file_open(usage, budgets, weir_slice_of("/dev/null/x"), &error);
    assert_non_null(file);
    use(NOON_S, "acme", "gpt", 1);
    spend();
    close_file();
    hear();
    assert_non_null(strstr(said, "tenants' usage cannot be kept in /dev/null/x/usage"));
    assert_non_null(strstr(said, "spent of budgets cannot be saved in /dev/null/x/usage"));
}

TEST(names_of_any_bytes_come_back)
{
    char longest[256];
    memset(longest, '\xff', sizeof longest - 1);
    longest[255] = '\0';
    open_file();
    use(NOON_S, "b\xfc", longest, 7);
    use(NOON_S, "b\xe4", "m\xff", 20);
    use(NOON_S, longest, "m", 30);
    close_file();
    open_file();
    assert_int_equal(spent(NOON_S, "b\xfc"), 12);
    assert_int_equal(spent(NOON_S, "b\xe4"), 25);
    assert_int_equal(spent(NOON_S, longest), 35);
    close_file();
}

TEST(the_longest_names_come_back)
{
    char name[256];
    memset(name, '\x01', sizeof name - 1); /* of which JSON makes six bytes each */
    name[255] = '\0';
    open_file();
    use(NOON_S, name, name, 7);
    close_file();
    open_file();
    assert_int_equal(spent(NOON_S, name), 12);
    close_file();
}

TEST(what_is_counted_is_saved_while_it_goes_on)
{
    open_file();
    use(NOON_S, "acme", "gpt", 1);
    for (int i = 0; i < 3000 && !exists("2025-08-21"); i++) {
        usleep(10000);
    }
    assert_true(exists("2025-08-21"));
    /* Nothing has changed since, so nothing is to be written at the end. */
    unlink(path("2025-08-21"));
    close_file();
    assert_false(exists("2025-08-21"));
}

TEST(other_files_of_the_folder_are_left_alone)
{
    write_day("notes", "mine\n");
    write_day("2025-08-21.damaged", "x");
    write_day("2025-13-01", "x");
    listen_up();
    open_file();
    hear();
    assert_string_equal(said, "");
    close_file();
    assert_true(exists("notes") && exists("2025-08-21.damaged") && exists("2025-13-01"));
}

TEST(the_newest_days_are_put_back_while_there_is_room)
{
    open_file();
    use(NOON_S, "old", "m", 1);
    use(NOON_S, "older", "m", 1);
    use(NOON_S + A_DAY_S, "new", "m", 1);
    use(NOON_S + A_DAY_S, "newer", "m", 1);
    close_file();
    listen_up();
    open_with(3);
    hear();
    assert_non_null(strstr(said, "there is no room for what tenants used up to 2025-08-21"));
    assert_int_equal(spent(NOON_S + A_DAY_S, "newer"), 6);
    assert_int_equal(spent(NOON_S, "old"), 0);
    close_file();
    assert_true(exists("2025-08-21"));
}

TEST(a_day_that_is_full_comes_back_whole)
{
    open_with(4);
    use(NOON_S, "a", "m", 1);
    use(NOON_S, "b", "m", 1);
    use(NOON_S, "c", "m", 1);
    use(NOON_S, "d", "m", 1); /* which is one of the others */
    close_file();
    listen_up();
    open_with(4);
    hear();
    assert_string_equal(said, "");
    assert_int_equal(spent(NOON_S, "a"), 6);
    assert_int_equal(spent(NOON_S, "d"), 6);
    close_file();
}

TEST(two_who_keep_one_folder_do_not_undo_each_other)
{
    open_file();
    use(NOON_S, "acme", "gpt", 100);
    close_file();
    char name[256];
    snprintf(name, sizeof name, "%s", path("lock"));
    int other = open(name, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(other, LOCK_EX), 0);
    listen_up();
    open_file();
    use(NOON_S, "acme", "gpt", 1);
    close_file();
    hear();
    assert_non_null(strstr(said, "another process saves its usage there"));
    close(other);
    open_file();
    assert_int_equal(spent(NOON_S, "acme"), 105);
    close_file();
}

TEST(a_folder_that_cannot_be_written_is_told_once)
{
    const char *error;
    usage = weir_usage_create(100);
    budgets = weir_budget_book_create(usage, 100);
    listen_up();
    file = weir_usage_file_open(usage, budgets, weir_slice_of("/dev/null/x"), &error);
    assert_non_null(file);
    use(NOON_S, "acme", "gpt", 1);
    use(NOON_S + A_DAY_S, "acme", "gpt", 1);
    close_file();
    hear();
    const char *first = strstr(said, "cannot be kept in /dev/null/x/usage");
    assert_non_null(first);
    assert_null(strstr(first + 1, "cannot be kept"));
    usage = weir_usage_create(100);
    budgets = weir_budget_book_create(usage, 100);
    assert_null(weir_usage_file_open(usage, budgets, (struct weir_slice){folder, 100000}, &error));
    weir_budget_book_destroy(budgets);
    weir_usage_destroy(usage);
    weir_usage_file_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_was_counted_is_there_after_a_restart, clear_folder),
        cmocka_unit_test_setup(the_file_is_as_documented, clear_folder),
        cmocka_unit_test_setup(without_use_nothing_is_written, clear_folder),
        cmocka_unit_test_setup(a_day_of_many_rows_comes_back_whole, clear_folder),
        cmocka_unit_test_setup(a_damaged_day_is_moved_aside_and_takes_no_other_with_it,
                               clear_folder),
        cmocka_unit_test_setup(every_cut_of_a_file_is_noticed, clear_folder),
        cmocka_unit_test_setup(a_file_of_version_1_is_read_and_what_it_lacks_is_none, clear_folder),
        cmocka_unit_test_setup(money_and_the_largest_output_come_back, clear_folder),
        cmocka_unit_test_setup(a_file_of_another_version_is_left_alone, clear_folder),
        cmocka_unit_test_setup(a_file_that_cannot_be_read_is_left_alone, clear_folder),
        cmocka_unit_test_setup(names_of_any_bytes_come_back, clear_folder),
        cmocka_unit_test_setup(budgets_of_another_version_are_not_replaced, clear_folder),
        cmocka_unit_test_setup(usage_and_budgets_that_cannot_be_saved_are_reported_apart,
                               clear_folder),
        cmocka_unit_test_setup(the_longest_names_come_back, clear_folder),
        cmocka_unit_test_setup(what_is_counted_is_saved_while_it_goes_on, clear_folder),
        cmocka_unit_test_setup(other_files_of_the_folder_are_left_alone, clear_folder),
        cmocka_unit_test_setup(the_newest_days_are_put_back_while_there_is_room, clear_folder),
        cmocka_unit_test_setup(a_day_that_is_full_comes_back_whole, clear_folder),
        cmocka_unit_test_setup(two_who_keep_one_folder_do_not_undo_each_other, clear_folder),
        cmocka_unit_test_setup(a_folder_that_cannot_be_written_is_told_once, clear_folder),
    };
    return cmocka_run_group_tests_name("usage_file", tests, make_folder, remove_folder);
}
