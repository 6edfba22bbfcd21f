/* schema_tenant.c - the section tenants: what each may use, and how urgent it may be. Called while
 * a configuration is read, by one thread. */
#include "base/slice.h"
#include "base/words.h"
#include "config/budget_bounds.h"
#include "config/print.h"
#include "config/schema.h"

#include <assert.h>
#include <stdlib.h>

#define TENANTS_MAX 10000
#define MODELS_MAX  256

/* The field's name is the bound's. */
static const struct weir_budget_bound *find_bound(const struct weir_field *field)
{
    const struct weir_budget_bound *bound = weir_budget_bounds;
    while (strcmp(bound->name, field->name) != 0) {
        bound++;
    }
    return bound;
}

static void read_bound(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    const struct weir_budget_bound *bound = find_bound(field);
    if (weir_yaml_is(value, "none")) {
        *(uint64_t *)target = WEIR_NEVER;
    } else if (value->kind != WEIR_YAML_SCALAR || !value->plain ||
               !weir_budget_bound_read(bound, value->text, target)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s%s",
                           weir_budget_bound_expected(bound), weir_reader_quotes(value));
    }
}

static void print_bound(struct weir_printer *printer, const struct weir_field *field,
                        const void *target)
{
    uint64_t most = *(const uint64_t *)target;
    fputs(most == WEIR_NEVER ? "none" : weir_budget_show(find_bound(field)->unit, most).text,
          weir_print_entry(printer, field->name));
}

static void read_models(struct weir_reader *reader, const struct weir_yaml *value,
                        const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_tenant *tenant = target;
    static const char expected[] = "a model such as gpt-4o, in which * stands for any text, of up "
                                   "to 255 bytes";
    uint32_t count;
    struct weir_slice *models =
        weir_reader_items(reader, value, WEIR_YAML_LIST, MODELS_MAX,
                          "a list of models, such as [gpt-4o*, claude-*]", sizeof *models, &count);
    if (value->kind == WEIR_YAML_LIST && value->count == 0) {
        weir_reader_complain(reader, value,
                             "is empty; expected at least one model, or no models "
                             "field at all, which allows every model");
    }
    const struct weir_yaml *item = models == NULL ? NULL : value->first;
    for (uint32_t i = 0; i < count; i++, item = item->next) {
        models[i] = weir_reader_text(reader, item, expected);
        if (models[i].bytes > WEIR_NAME_BYTES_MAX) {
            weir_reader_expect(reader, item, WEIR_NO_SUGGESTION, "%s", expected);
        }
    }
    tenant->models = models;
    tenant->model_count = count;
}

/* One bound of a tenant's budget. */
#define BOUND(word, period, unit)                                                            \
    {                                                                                        \
        .name = word, .read = read_bound, .print = print_bound,                              \
        .offset = WEIR_MEMBER(struct weir_config_tenant, budget.most[period].units[unit], 8) \
    }

static const struct weir_field tenant_fields[] = {
    BOUND("tokens_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_TOKENS),
    BOUND("tokens_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_TOKENS),
    BOUND("requests_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_REQUESTS),
    BOUND("requests_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_REQUESTS),
    BOUND("money_per_day", WEIR_BUDGET_DAY, WEIR_BUDGET_MONEY),
    BOUND("money_per_month", WEIR_BUDGET_MONTH, WEIR_BUDGET_MONEY),
    WEIR_FIELD_WORD("priority", struct weir_config_tenant, priority, weir_priority_words,
                    WEIR_PRIORITY_NORMAL),
    WEIR_FIELD_ITEMS("models", read_models, struct weir_config_tenant, models, model_count,
                     weir_print_text, .in_brackets = true),
};

WEIR_SECTION_IN_BRACES(weir_section_tenant, "tenants.NAME", tenant_fields);

static int compare_names(const void *left, const void *right)
{
    const struct weir_config_tenant *a = left;
    const struct weir_config_tenant *b = right;
    return weir_slice_compare(a->name, b->name);
}

void weir_read_tenants(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    uint32_t count;
    struct weir_config_tenant *tenants = weir_reader_items(
        reader, value, WEIR_YAML_MAPPING, TENANTS_MAX,
        "a mapping of tenants to {tokens_per_day, requests_per_day, models, priority}",
        sizeof *tenants, &count);
    if (tenants == NULL) {
        return;
    }
    /* First, because the others start from it. */
    const struct weir_yaml *usual = weir_yaml_get(value, "default");
    if (usual != NULL) {
        weir_read_section(reader, usual, &weir_section_tenant, &config->tenant_default);
    }
    uint32_t used = 0;
    for (const struct weir_yaml *item = value->first; item != NULL; item = item->next) {
        if (weir_reader_is_default(item)) {
            continue;
        }
        assert(used < count);
        tenants[used] = config->tenant_default;
        tenants[used].name = weir_reader_label(reader, item);
        tenants[used].line = item->key->line;
        weir_read_section(reader, item, &weir_section_tenant, &tenants[used]);
        used++;
    }
    qsort(tenants, used, sizeof *tenants, compare_names);
    config->tenants = tenants;
    config->tenant_count = used;
}
