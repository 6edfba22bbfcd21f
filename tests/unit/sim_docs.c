/* docs/reference/simulator.md lists every field of a scenario and every policy, and nothing else.
 */
#define _GNU_SOURCE /* memmem() */

#include "config/reader.h"
#include "lab/sim/load.h"
#include "lab/sim/world.h"
#include "unit/helpers.h"

static char page[65536];

static int read_page(void **state)
{
    (void)state;
    char path[512];
    snprintf(path, sizeof path, "%s/docs/reference/simulator.md", getenv("WEIR_ROOT"));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t bytes = fread(page, 1, sizeof page - 1, file);
    assert_true(bytes < sizeof page - 1);
    fclose(file);
    return 0;
}

/* What stands under a heading, up to the next one. */
static struct weir_slice text_under(const char *title)
{
    char heading[128];
    snprintf(heading, sizeof heading, "\n## %s\n", title);
    const char *start = strstr(page, heading);
    if (start == NULL) {
        fail_msg("there is no heading for %s", title);
    }
    start += strlen(heading);
    const char *end = strstr(start, "\n## ");
    return (struct weir_slice){start, end == NULL ? strlen(start) : (size_t)(end - start)};
}

static uint32_t count_rows(struct weir_slice text)
{
    uint32_t rows = 0;
    for (size_t i = 0; i + 4 < text.bytes; i++) {
        rows += memcmp(text.data + i, "\n| `", 4) == 0;
    }
    return rows;
}

/* Bounds and defaults are compared where they can be written in one way only. */
static void check_field(const struct weir_section *section, const struct weir_field *field)
{
    struct weir_slice text = text_under(section->title);
    char start[128];
    snprintf(start, sizeof start, "\n| `%s` | ", field->name);
    const char *row = memmem(text.data, text.bytes, start, strlen(start));
    if (row == NULL) {
        fail_msg("%s has no row for %s", section->title, field->name);
    }
    size_t bytes = strcspn(row + 1, "\n") + 1;
    char expected[128] = "";
    bool word = field->words != NULL;
    if (!word && field->max > 0 && field->read != NULL && field->read != weir_read_duration &&
        field->max < 600 * WEIR_NS_PER_SECOND) {
        snprintf(expected, sizeof expected, "%llu to %llu |", (unsigned long long)field->min,
                 (unsigned long long)field->max);
    }
    for (uint32_t i = 0; word && field->words[i] != NULL; i++) {
        snprintf(expected, sizeof expected, "`%s`", field->words[i]);
        assert_non_null(memmem(row, bytes, expected, strlen(expected)));
    }
    if (memmem(row, bytes, expected, strlen(expected)) == NULL) {
        fail_msg("%s.%s does not say: %s", section->title, field->name, expected);
    }
    snprintf(expected, sizeof expected, "required");
    if (field->required && memmem(row, bytes, expected, strlen(expected)) == NULL) {
        fail_msg("%s.%s does not say that it is required", section->title, field->name);
    }
}

TEST(every_field_has_its_row)
{
    for (uint32_t i = 0; weir_sim_sections[i] != NULL; i++) {
        const struct weir_section *section = weir_sim_sections[i];
        for (uint32_t j = 0; j < section->field_count; j++) {
            check_field(section, &section->fields[j]);
        }
        assert_int_equal(count_rows(text_under(section->title)), section->field_count);
    }
}

TEST(every_policy_is_told_of)
{
    struct weir_slice text = text_under("The policies");
    for (uint32_t i = 0; weir_sim_policies[i] != NULL; i++) {
        char name[64];
        snprintf(name, sizeof name, "`%s`", weir_sim_policies[i]->name);
        if (memmem(text.data, text.bytes, name, strlen(name)) == NULL) {
            fail_msg("nothing is said of %s", name);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_has_its_row),
        cmocka_unit_test(every_policy_is_told_of),
    };
    return cmocka_run_group_tests(tests, read_page, NULL);
}
