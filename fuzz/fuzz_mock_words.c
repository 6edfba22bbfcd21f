/* Any bytes as a change of the emulated provider's rules: whatever is accepted is a rule by which
 * an account can be kept. */
#include "lab/mock/mock.h"
#include "lab/mock/settings.h"
#include "wire.h"

static void check(const struct weir_mock_rules *rules)
{
    struct weir_mock_quota quota;
    struct weir_mock_bill bill;
    struct weir_mock_lack lack;
    struct weir_mock_usage usage = {100, 20, 50};
    must(rules->fail_share <= WEIR_MOCK_SHARE_ALL);
    must(rules->tools_share <= WEIR_MOCK_SHARE_ALL);
    must(rules->input_noise_share <= WEIR_MOCK_SHARE_ALL);
    must(rules->concurrency_max <= WEIR_MOCK_CONCURRENCY_MAX);
    must(rules->output >= 1 && rules->output <= WEIR_MOCK_OUTPUT_MAX);
    must(rules->output_max >= 1 && rules->output_max <= WEIR_MOCK_OUTPUT_MAX);
    must(rules->chunk >= 1 && rules->chunk <= WEIR_MOCK_OUTPUT_MAX);
    must(rules->first_spread >= 0 && rules->first_spread <= 3);
    must(rules->output_spread >= 0 && rules->output_spread <= 3);
    weir_mock_quota_init(&quota, &rules->quota, 0);
    if (weir_mock_quota_take(&quota, &usage, 0, &bill, &lack)) {
        weir_mock_quota_settle(&quota, &bill, &usage, 1);
    } else {
        must(lack.wait_ns > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input input = input_of(data, bytes);
    static struct weir_mock_llm_settings settings;
    settings = (struct weir_mock_llm_settings){.rules = weir_mock_rules_default()};
    show(&input, bytes);
    if (weir_mock_change_add(&settings, (struct weir_slice){input.data, bytes}) == NULL) {
        const struct weir_mock_change *change = &settings.changes[0];
        must(settings.change_count == 1);
        must(weir_mock_word_apply(&settings.rules, change->name, change->value) == NULL);
        check(&settings.rules);
    } else {
        must(settings.change_count == 0);
    }
    give_back(&input);
    return 0;
}
