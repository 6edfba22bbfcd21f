/* docs/reference/config.md lists every field of the schema, and nothing else. */
#include "unit/config_helpers.h"

#include "config/scalars.h"
#include "config/schema.h"

#define PAGE_BYTES_MAX 65536

static char page[PAGE_BYTES_MAX];
static char jobs_page[PAGE_BYTES_MAX];

static void read_page(const char *name, char *text)
{
    char path[512];
    const char *root = getenv("WEIR_ROOT");
    assert_non_null(root);
    snprintf(path, sizeof path, "%s/docs/%s", root, name);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(text, 1, PAGE_BYTES_MAX - 1, file);
    assert_true(bytes < PAGE_BYTES_MAX - 1);
    fclose(file);
}

static int read_pages(void **state)
{
    (void)state;
    read_page("reference/config.md", page);
    read_page("guides/jobs.md", jobs_page);
    return 0;
}

/* What stands under the heading, up to the next one; a copy to be freed. */
static char *text_under(const char *title)
{
    char heading[128];
    snprintf(heading, sizeof heading, "\n## %s\n", title);
    const char *start = strstr(page, heading);
    if (start == NULL) {
        fail_msg("there is no heading for %s", title);
    }
    start += strlen(heading);
    const char *end = strstr(start, "\n## ");
    return strndup(start, end == NULL ? strlen(start) : (size_t)(end - start));
}

static uint32_t count_rows(const char *text)
{
    uint32_t rows = 0;
    for (const char *at = text; (at = strstr(at, "\n| `")) != NULL; at++) {
        rows++;
    }
    return rows;
}

/* A number as the page writes it. */
struct written {
    char text[32];
};

static struct written write_number(uint64_t number)
{
    struct written written;
    bool power = number >= UINT64_C(1) << 32 && (number & (number - 1)) == 0;
    if (power) {
        snprintf(written.text, sizeof written.text, "2^%d", __builtin_ctzll(number));
    } else {
        snprintf(written.text, sizeof written.text, "%llu", (unsigned long long)number);
    }
    return written;
}

/* The row says between which bounds the value lies. */
static void check_range(const struct weir_section *section, const struct weir_field *field,
                        const char *row)
{
    char range[128] = "";
    if (field->read == weir_read_duration) {
        snprintf(range, sizeof range, "duration, `%s` to `%s`%s",
                 weir_scalar_show_duration(field->min).text,
                 weir_scalar_show_duration(field->max).text, field->or_none ? ", or `none`" : " |");
    } else if (field->read == weir_read_size) {
        if (!field->or_none) {
            snprintf(range, sizeof range, "size, `%s` to `%s` |",
                     weir_scalar_show_size(field->min).text,
                     weir_scalar_show_size(field->max).text);
        }
    } else if (field->read == weir_read_percent) {
        snprintf(range, sizeof range, "percentage, `%llu%%` to `%llu%%` |",
                 (unsigned long long)field->min, (unsigned long long)field->max);
    } else if (field->max > 0) {
        snprintf(range, sizeof range, "| %s to %s", write_number(field->min).text,
                 write_number(field->max).text);
    }
    const char *found = strstr(row, range);
    const char *end = strchr(row + 1, '\n');
    if (found == NULL || (end != NULL && found > end)) {
        fail_msg("%s.%s does not say: %s", section->title, field->name, range);
    }
}

/* Recursion ends because sections are nested a few deep. */
static void check_section(const struct weir_section *section, uint32_t *fields)
{
    char *text = text_under(section->title);
    for (uint32_t i = 0; i < section->field_count; i++) {
        char row[64];
        snprintf(row, sizeof row, "\n| `%s` |", section->fields[i].name);
        const char *found = strstr(text, row);
        if (found == NULL) {
            fail_msg("%s has no row for %s", section->title, section->fields[i].name);
        }
        if (strcmp(section->title, "gates.NAME.keys.NAME") != 0) {
            check_range(section, &section->fields[i], found);
        }
        assert_non_null(section->fields[i].print); /* beside its read, for check --print */
        (*fields)++;
    }
    if (count_rows(text) != section->field_count) {
        fail_msg("%s has %u rows, but there are %u fields", section->title, count_rows(text),
                 section->field_count);
    }
    free(text);
    for (uint32_t i = 0; i < section->field_count; i++) {
        if (section->fields[i].section != NULL) {
            check_section(section->fields[i].section, fields);
        }
    }
}

TEST(every_field_has_its_row_and_every_row_its_field)
{
    uint32_t fields = 0;
    check_section(&weir_section_top, &fields);
    assert_true(fields > 90);
}

/* The first example of a page after what stands before it; a copy to be freed. */
static char *example_on(const char *from, const char *before)
{
    char *text = NULL;
    const char *start = strstr(from, "```yaml\n");
    assert_non_null(start);
    start += strlen("```yaml\n");
    assert_true(asprintf(&text, "%s%.*s", before, (int)(strstr(start, "```") - start), start) > 0);
    return text;
}

TEST(the_example_on_the_page_can_be_loaded)
{
    char *text = example_on(page, "");
    USE_ENVIRONMENT("OPENAI_API_KEY", "sk-1");
    unload(load(text));
    free(text);
}

TEST(the_queues_on_the_page_of_jobs_can_be_loaded)
{
    char *text = example_on(jobs_page, "");
    struct weir_config *config = load(text);
    assert_int_equal(config->queue_count, 1);
    unload(config);
    free(text);

    const char *rest = strstr(jobs_page, "\n## A queue\n");
    assert_non_null(rest);
    text = example_on(rest, API);
    config = load(text);
    assert_int_equal(config->queue_count, 1);
    assert_int_equal(config->protocol_count, 1);
    assert_int_equal(config->queues[0].run_count, 3);
    unload(config);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_its_row_and_every_row_its_field),
        cmocka_unit_test(the_example_on_the_page_can_be_loaded),
        cmocka_unit_test(the_queues_on_the_page_of_jobs_can_be_loaded),
    };
    return cmocka_run_group_tests_name("config_docs", tests, read_pages, NULL);
}
