/* The model that a path names. */
#include "llm/path_model.h"
#include "unit/helpers.h"
#include "unit/wire.h"

static void expect_model(const char *path, const char *model, bool counts)
{
    struct weir_slice text = weir_slice_of(path);
    struct weir_path_model found =
        weir_path_model_find((struct weir_slice){guarded(text), text.bytes});
    if (found.name.bytes != strlen(model) ||
        memcmp(found.name.data, model, found.name.bytes) != 0) {
        fail_msg("%s names %.*s", path, (int)found.name.bytes, found.name.data);
    }
    assert_int_equal(found.counts, counts);
}

TEST(the_calls_of_gemini_name_their_model_before_a_colon)
{
    expect_model("/v1beta/models/gemini-2.5-pro:generateContent", "gemini-2.5-pro", false);
    expect_model("/v1beta/models/gemini-2.5-pro:streamGenerateContent", "gemini-2.5-pro", false);
    expect_model("/v1beta/models/gemini-2.5-pro:countTokens", "gemini-2.5-pro", true);
    expect_model("/google/v1/models/m:embedContent/", "m", false);
    expect_model("/v1/projects/p/locations/l/publishers/google/models/m@1:rawPredict", "m@1",
                 false);
    expect_model("/v1beta/models/m%3AgenerateContent", "m", false);
    expect_model("/v1beta/models/m%3agenerateContent", "m", false);
    expect_model("/v1beta/models/a:b:generateContent", "a:b", false);
}

TEST(the_calls_of_azure_name_their_deployment)
{
    expect_model("/openai/deployments/gpt-4o/chat/completions", "gpt-4o", false);
    expect_model("/azure/openai/deployments/a%20b/embeddings", "a%20b", false);
    expect_model("/openai/deployments/gpt-4o/", "", false);
    expect_model("/openai/deployments/gpt-4o", "", false);
    expect_model("/deployments/gpt-4o/chat/completions", "", false);
}

TEST(other_paths_name_none)
{
    static const char *const paths[] = {
        "",
        "/",
        "/v1/chat/completions",
        "/v1/models",
        "/v1/models/gpt-4o",
        "/v1/models/ft:gpt-4o:org",
        "/v1beta/models/:generateContent",
        "/v1beta/models/m:generateContent/more",
        "/v1beta/model/m:generateContent",
        "/v1beta/models/m:generatecontent",
        "/models",
        "/models/",
    };
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        expect_model(paths[i], "", false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_calls_of_gemini_name_their_model_before_a_colon),
        cmocka_unit_test(the_calls_of_azure_name_their_deployment),
        cmocka_unit_test(other_paths_name_none),
    };
    return cmocka_run_group_tests_name("path_model", tests, NULL, NULL);
}
