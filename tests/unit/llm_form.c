/* The model in a form, and types of bodies that have no text. */
#include "llm/llm_form.h"

#include "unit/wire.h"

TEST(forms_and_files_have_no_text)
{
    static const char *const media[] = {"multipart/form-data; boundary=x", "Audio/mpeg",
                                        "application/octet-stream", "image/png", "video/mp4"};
    static const char *const text[] = {"application/json", "", "text/plain",
                                       "application/x-www-form-urlencoded", "multipart"};
    for (size_t i = 0; i < COUNT_OF(media); i++) {
        assert_true(weir_llm_form_is_media(weir_slice_of(media[i])));
        assert_false(weir_llm_form_is_media(weir_slice_of(text[i])));
    }
}

TEST(a_form_has_a_boundary)
{
    static const struct {
        const char *type, *boundary;
    } cases[] = {
        {"multipart/form-data; boundary=abc", "abc"},
        {"Multipart/Form-Data;charset=utf-8;Boundary=\"a b;c\"", "a b;c"},
        {"multipart/form-data; boundary=abc; charset=utf-8", "abc"},
        {"multipart/form-data;boundary=", NULL},
        {"multipart/form-data; boundary=\"abc", NULL},
        {"multipart/form-data", NULL},
        {"multipart/mixed; boundary=abc", NULL},
        {"application/json; boundary=abc", NULL},
        {"multipart/form-data; boundary="
         "12345678901234567890123456789012345678901234567890123456789012345678901",
         NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_slice type = weir_slice_of(cases[i].type);
        struct weir_slice boundary;
        type.data = guarded(type);
        bool found = weir_llm_form_boundary(type, &boundary);
        assert_true(found == (cases[i].boundary != NULL));
        if (found) {
            assert_int_equal(boundary.bytes, strlen(cases[i].boundary));
            assert_memory_equal(boundary.data, cases[i].boundary, boundary.bytes);
        }
    }
}

#define PART(name, value) \
    "--b\r\nContent-Disposition: form-data; name=\"" name "\"\r\n\r\n" value "\r\n"
#define FILE_PART                                                                   \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n"  \
    "Content-Type: audio/mpeg\r\n\r\n--\r\n--bb name=\"model\"\r\n\r\nwrong\r\n--b" \
    "\r\ncontent-disposition: form-data; name=x\r\n\r\n\r\n"
#define END "--b--\r\n"

TEST(the_model_is_what_the_part_of_that_name_holds)
{
    static const struct {
        const char *form, *model;
    } cases[] = {
        {PART("model", "whisper-1") END, "whisper-1"},
        {PART("a", "1") PART("model", "whisper-1") PART("model", "other") END, "whisper-1"},
        {FILE_PART PART("model", "gpt-4o-transcribe") END, "gpt-4o-transcribe"},
        {"a preamble\r\n" PART("model", "m") END, "m"},
        {"--b\r\nX: y\r\nCONTENT-DISPOSITION:form-data;name=model\r\n\r\nm\r\n" END, "m"},
        {PART("models", "m") END, NULL},
        {PART("model", "") END, NULL},
        {PART("model", "a\r\nb") END, NULL},
        {PART("Model", "m") END, NULL},
        {"", NULL},
        {END, NULL},
    };
    struct weir_slice boundary = BYTES("b");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct weir_slice form = weir_slice_of(cases[i].form);
        struct weir_slice model;
        /* The beginning of a form says nothing, or what all of it says. */
        for (size_t bytes = 0; bytes <= form.bytes; bytes++) {
            struct weir_slice part = {guarded((struct weir_slice){form.data, bytes}), bytes};
            bool found = weir_llm_form_model(part, boundary, &model);
            assert_true(cases[i].model != NULL || !found);
            assert_true(found || bytes < form.bytes || cases[i].model == NULL);
            if (found) {
                assert_int_equal(model.bytes, strlen(cases[i].model));
                assert_memory_equal(model.data, cases[i].model, model.bytes);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_and_files_have_no_text),
        cmocka_unit_test(a_form_has_a_boundary),
        cmocka_unit_test(the_model_is_what_the_part_of_that_name_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
