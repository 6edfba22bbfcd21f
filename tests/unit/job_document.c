/* What the API tells of a job, and the ids that it makes. Documents are read by a JSON library that
 * is not ours, moments by libc. */
#define _GNU_SOURCE /* timegm, strptime */
#include "api/job_document.h"
#include "api/job_id.h"
#include "tenants/api_key.h"

#include "unit/helpers.h"

#include <jansson.h>
#include <time.h>

static char room[WEIR_JOB_DOCUMENT_BYTES_MAX];

static json_t *document_of(const struct weir_job_row *row, const struct weir_job_present *present)
{
    struct weir_json json;
    weir_json_init(&json, room, sizeof room);
    weir_job_document(&json, row, present);
    assert_false(json.failed);
    json_t *document = json_loadb(room, json.bytes, JSON_REJECT_DUPLICATES, NULL);
    assert_true(json_is_object(document));
    return document;
}

static const char *text_of(json_t *document, const char *name)
{
    const char *text = json_string_value(json_object_get(document, name));
    return text == NULL ? "(none)" : text;
}

static void expect_names(json_t *document, const char *names)
{
    char all[512] = "";
    size_t bytes = 0;
    const char *name;
    json_t *value;
    json_object_foreach(document, name, value)
    {
        bytes +=
            (size_t)snprintf(all + bytes, sizeof all - bytes, "%s%s", bytes > 0 ? " " : "", name);
    }
    assert_string_equal(all, names);
}

TEST(a_moment_is_what_libc_takes_it_for)
{
    static const int64_t moments[] = {1,
                                      999,
                                      1000,
                                      INT64_C(951782399999),  /* before 29 February 2000 */
                                      INT64_C(951782400000),  /* that day */
                                      INT64_C(951868800000),  /* the day after */
                                      INT64_C(1709164799999), /* 28 February 2024 */
                                      INT64_C(1735689599999), /* the last of 2024 */
                                      INT64_C(1735689600000),
                                      INT64_C(4107542399999), /* 28 February 2100: no leap year */
                                      INT64_C(4107542400000),
                                      INT64_C(253402300799999)};
    for (size_t i = 0; i < sizeof moments / sizeof moments[0]; i++) {
        char text[WEIR_JOB_MOMENT_BYTES + 1] = "";
        struct tm tm = {0};
        weir_job_moment(moments[i], text);
        const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
        assert_non_null(rest);
        assert_int_equal(timegm(&tm), moments[i] / 1000);
        assert_int_equal(rest[0], '.');
        assert_int_equal(strtol(rest + 1, NULL, 10), moments[i] % 1000);
        assert_int_equal(rest[4], 'Z');
    }
}

TEST(every_day_of_four_centuries_is_the_one_behind_the_day_before)
{
    struct tm tm = {.tm_year = 70, .tm_mday = 1};
    for (int64_t day = 0; day < 146097; day++) {
        char text[WEIR_JOB_MOMENT_BYTES + 1] = "";
        char expected[16];
        weir_job_moment(day * 86400000, text);
        strftime(expected, sizeof expected, "%Y-%m-%d", &tm);
        if (memcmp(text, expected, 10) != 0) {
            fail_msg("%s is not %s", text, expected);
        }
        tm.tm_mday++;
        timegm(&tm);
    }
}

TEST(what_is_out_of_bounds_is_a_moment_all_the_same)
{
    char text[WEIR_JOB_MOMENT_BYTES + 1] = "";
    weir_job_moment(INT64_MIN, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000Z");
    weir_job_moment(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999Z");
}

TEST(a_new_job_tells_what_was_ordered)
{
    struct weir_job_row row = {.order = {.id = weir_slice_of("a"),
                                         .queue = weir_slice_of("q"),
                                         .attempts_max = 5,
                                         .created_ms = 1000,
                                         .body = {.count = 7}}};
    json_t *document = document_of(&row, NULL);
    expect_names(document, "id queue priority state attempts attempts_max created body_bytes");
    assert_string_equal(text_of(document, "state"), "queued");
    assert_string_equal(text_of(document, "priority"), "normal");
    assert_string_equal(text_of(document, "created"), "1970-01-01T00:00:01.000Z");
    json_decref(document);
}

TEST(the_longest_names_fit)
{
    char name[WEIR_NAME_BYTES_MAX], id[WEIR_JOB_ID_BYTES_MAX], error[WEIR_JOB_ERROR_BYTES_MAX];
    memset(name, 1, sizeof name);
    memset(id, 'i', sizeof id);
    memset(error, 2, sizeof error);
    struct weir_job_row row = {.order = {.id = {id, sizeof id},
                                         .queue = {id, 64},
                                         .tenant = {name, sizeof name},
                                         .key = {name, sizeof name},
                                         .priority = WEIR_PRIORITY_HIGH,
                                         .attempts_max = 1000,
                                         .created_ms = INT64_MAX,
                                         .due_ms = INT64_MAX,
                                         .body = {.count = INT64_MAX}},
                               .state = WEIR_JOB_DONE,
                               .attempts = UINT32_MAX,
                               .started_ms = INT64_MAX,
                               .ended_ms = INT64_MAX,
                               .error = {error, sizeof error},
                               .result_status = 599,
                               .result_type = {id, WEIR_JOB_TYPE_BYTES_MAX},
                               .result = {.count = INT64_MAX}};
    json_decref(document_of(&row, NULL));
    struct weir_job_present present = {
        .live = {.look = {.place = WEIR_SCHEDULE_RUNNING}, .progress = 1.0 / 3}};
    row.state = WEIR_JOB_RUNNING;
    present.live.progress_bytes = sizeof present.live.progress_text;
    memset(present.live.progress_text, 3, sizeof present.live.progress_text);
    json_t *document = document_of(&row, &present);
    assert_string_equal(text_of(document, "state"), "running");
    json_decref(document);
}

TEST(one_that_waits_tells_its_place_and_when_it_will_start)
{
    struct weir_job_row row = {.order = {.id = weir_slice_of("a")}};
    struct weir_job_present present = {
        .live = {.look = {.place = WEIR_SCHEDULE_WAITING, .ahead = 4, .start_ns = 3000000000}},
        .now_ns = 1000000000,
        .now_ms = 60000};
    json_t *document = document_of(&row, &present);
    assert_int_equal(json_integer_value(json_object_get(document, "position")), 5);
    assert_string_equal(text_of(document, "predicted_start"), "1970-01-01T00:01:02.000Z");
    json_decref(document);
    present.live.look.start_ns = 1; /* past: any moment now */
    document = document_of(&row, &present);
    assert_string_equal(text_of(document, "predicted_start"), "1970-01-01T00:01:00.000Z");
    json_decref(document);
    present.live.look.start_ns = 0;
    present.live.look.place = WEIR_SCHEDULE_DELAYED;
    row.next_ms = 90000;
    document = document_of(&row, &present);
    assert_null(json_object_get(document, "position"));
    assert_null(json_object_get(document, "predicted_start"));
    assert_string_equal(text_of(document, "due"), "1970-01-01T00:01:30.000Z");
    json_decref(document);
}

TEST(one_that_runs_tells_how_far_it_is_once_it_has_said_so)
{
    struct weir_job_row row = {.order = {.id = weir_slice_of("a")}, .state = WEIR_JOB_RUNNING};
    struct weir_job_present present = {
        .live = {.look = {.place = WEIR_SCHEDULE_RUNNING}, .progress = -1}};
    json_t *document = document_of(&row, &present);
    assert_null(json_object_get(document, "progress"));
    assert_null(json_object_get(document, "progress_text"));
    json_decref(document);
    present.live.progress = 0.5;
    present.live.progress_bytes = 4;
    memcpy(present.live.progress_text, "half", 4);
    document = document_of(&row, &present);
    assert_true(json_number_value(json_object_get(document, "progress")) == 0.5);
    assert_string_equal(text_of(document, "progress_text"), "half");
    json_decref(document);
}

TEST(of_one_that_is_forgotten_only_what_is_remembered_is_told)
{
    struct weir_job_row row = {.order = {.id = weir_slice_of("a")},
                               .state = WEIR_JOB_DONE,
                               .ended_ms = 1000,
                               .forgotten = true};
    json_t *document = document_of(&row, NULL);
    expect_names(document, "id state ended");
    json_decref(document);
}

TEST(ids_of_ours_are_valid_and_in_order_and_never_the_same)
{
    char before[WEIR_JOB_ID_MADE_BYTES], id[WEIR_JOB_ID_MADE_BYTES];
    memset(before, 0, sizeof before);
    for (int64_t i = 0; i < 1000; i++) {
        assert_true(weir_job_id_make(INT64_C(1767225600000) + i, id));
        assert_true(weir_job_id_valid((struct weir_slice){id, sizeof id}));
        assert_true(memcmp(before, id, sizeof id) < 0);
        memcpy(before, id, sizeof id);
    }
    assert_true(weir_job_id_make(INT64_C(1767225600999), id));
    assert_memory_equal(before, id, 14);
    assert_memory_not_equal(before + 14, id + 14, 20);
}

TEST(an_id_of_a_key_is_the_same_for_the_same_and_no_other)
{
    struct weir_hasher *hasher = weir_hasher_create();
    struct weir_idempotency keys[] = {
        {.tenant = weir_slice_of("ab"), .key = weir_slice_of("c")},
        {.tenant = weir_slice_of("a"), .key = weir_slice_of("bc")},
        {.tenant = weir_slice_of(""), .key = weir_slice_of("abc")},
        {.tenant = weir_slice_of("ab"), .key = weir_slice_of("c"), .line = 1},
        {.tenant = weir_slice_of("ab"), .key = weir_slice_of("d")},
    };
    char ids[5][WEIR_JOB_ID_KEYED_BYTES], again[WEIR_JOB_ID_KEYED_BYTES];
    for (size_t i = 0; i < 5; i++) {
        assert_true(weir_job_id_of_key(&keys[i], hasher, ids[i]));
        assert_true(weir_job_id_valid((struct weir_slice){ids[i], sizeof ids[i]}));
        assert_true(weir_job_id_of_key(&keys[i], hasher, again));
        assert_memory_equal(ids[i], again, sizeof again);
        for (size_t j = 0; j < i; j++) {
            assert_memory_not_equal(ids[i], ids[j], sizeof again);
        }
    }
    weir_hasher_destroy(hasher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moment_is_what_libc_takes_it_for),
        cmocka_unit_test(every_day_of_four_centuries_is_the_one_behind_the_day_before),
        cmocka_unit_test(what_is_out_of_bounds_is_a_moment_all_the_same),
        cmocka_unit_test(a_new_job_tells_what_was_ordered),
        cmocka_unit_test(the_longest_names_fit),
        cmocka_unit_test(one_that_waits_tells_its_place_and_when_it_will_start),
        cmocka_unit_test(one_that_runs_tells_how_far_it_is_once_it_has_said_so),
        cmocka_unit_test(of_one_that_is_forgotten_only_what_is_remembered_is_told),
        cmocka_unit_test(ids_of_ours_are_valid_and_in_order_and_never_the_same),
        cmocka_unit_test(an_id_of_a_key_is_the_same_for_the_same_and_no_other),
    };
    return cmocka_run_group_tests_name("job_document", tests, NULL, NULL);
}
