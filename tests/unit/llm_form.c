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
        {"multipart/form-data; x=\"; boundary=b\"; boundary=a;", "a"},
        {"multipart/form-data; boundary=a; boundary=b", NULL},
        {"multipart/form-data; boundary*=utf-8''a; boundary=b", NULL},
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
#define NAMED(parameters, value) \
    "--b\r\nContent-Disposition: form-data; " parameters "\r\n\r\n" value "\r\n"
#define FILE_PART                                                                      \
    "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"model\"\r\n"     \
    "Content-Type: audio/mpeg\r\n\r\n--\r\n-- b name=\"model\"\r\n\r\nwrong\r\n--\r\n" \
    "--b\r\ncontent-disposition: form-data; name=x\r\n\r\n\r\n"
#define END "--b--\r\n"

static bool find_model(const char *text, size_t piece_bytes, struct weir_llm_form *form,
                       struct weir_slice *model)
{
    struct weir_slice rest = weir_slice_of(text);
    weir_llm_form_init(form, (struct weir_slice)BYTES("b"));
    while (rest.bytes > 0) {
        size_t bytes = rest.bytes < piece_bytes ? rest.bytes : piece_bytes;
        struct weir_slice piece = {rest.data, bytes};
        weir_llm_form_feed(form, (struct weir_slice){guarded(piece), bytes});
        rest = (struct weir_slice){rest.data + bytes, rest.bytes - bytes};
    }
    return weir_llm_form_end(form, model);
}

/* Servers take the first part or the last one, and differ in what they take for one. */
TEST(the_model_is_what_the_only_part_of_that_name_holds)
{
    static const struct {
        const char *form, *model;
    } cases[] = {
        {PART("model", "whisper-1") END, "whisper-1"},
        {PART("a", "1") PART("model", "whisper-1") PART("models", "other") END, "whisper-1"},
        {FILE_PART PART("model", "gpt-4o-transcribe") END, "gpt-4o-transcribe"},
        {"a preamble\r\n" PART("model", "m") END "the end", "m"},
        {"--b\r\nX: y\r\nCONTENT-DISPOSITION:form-data;name=model\r\n\r\nm\r\n" END, "m"},
        {NAMED("filename=\"; name=x\"; name=\"model\"", "m") END, "m"},
        {PART("model", "a-\r\n-") END, NULL},
        {PART("models", "m") END, NULL},
        {PART("model", "") END, NULL},
        {PART("model", "a\r\nb") END, NULL},
        {"", NULL},
        {END, NULL},
        /* several */
        {PART("model", "cheap") PART("model", "costly") END, NULL},
        {PART("model", "same") PART("model", "same") END, NULL},
        {PART("model", "cheap") PART("Model", "costly") END, NULL},
        {PART("Model", "m") END, NULL},
        /* a second one for some readers */
        {PART("model", "cheap") NAMED("name=\"x\"; name=\"model\"", "costly") END, NULL},
        {PART("model", "cheap") NAMED("name*=utf-8''model", "costly") END, NULL},
        {PART("model", "cheap") NAMED("name=\"a\\\"; name=model; x=\"", "costly") END, NULL},
        {PART("model", "cheap") NAMED("name = \"model\"", "costly") END, NULL},
        {PART("model", "cheap") NAMED("\r\n name=\"model\"", "costly") END, NULL},
        {PART("model", "cheap") "--b\r\n\r\ncostly\r\n" END, NULL},
        {PART("model", "cheap") "--b\r\nX: y\r\n\r\ncostly\r\n" END, NULL},
        {PART("model",
              "cheap") "--b\r\nContent-Disposition : form-data; name=model\r\n\r\nm\r\n" END,
         NULL},
        {PART("model",
              "cheap") "--b\r\nX: y\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n" END,
         NULL},
        {PART("model", "cheap") PART("x", "y\n--b\nContent-Disposition: form-data; name=model\n\nm")
             END,
         NULL},
        {PART("model", "cheap") "--b \r\n" END, NULL},
        {PART("model", "cheap") END PART("model", "costly") END, NULL},
        {PART("model", "cheap") "--b--" PART("model", "costly") END, NULL},
        /* cut off */
        {PART("model", "cheap"), NULL},
        {PART("model", "cheap") "--b", NULL},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        for (size_t bytes = 1; bytes <= strlen(cases[i].form) + 1; bytes++) {
            struct weir_llm_form form;
            struct weir_slice model;
            bool found = find_model(cases[i].form, bytes, &form, &model);
            assert_true(found == (cases[i].model != NULL));
            if (found) {
                assert_int_equal(model.bytes, strlen(cases[i].model));
                assert_memory_equal(model.data, cases[i].model, model.bytes);
            }
        }
    }
}

TEST(names_and_headers_have_a_longest_that_is_read)
{
    char text[WEIR_LLM_FORM_HEADER_BYTES_MAX + 200];
    struct weir_llm_form form;
    struct weir_slice model;
    for (int bytes = 1; bytes <= 600; bytes++) {
        snprintf(text, sizeof text, PART("model", "%0*d") END, bytes, 1);
        assert_true(find_model(text, 7, &form, &model) == (bytes <= WEIR_NAME_BYTES_MAX));
    }
    int usual = (int)strlen("X: \r\nContent-Disposition: form-data; name=model\r\n\r\n");
    for (int bytes = usual + 1; bytes <= WEIR_LLM_FORM_HEADER_BYTES_MAX + 2; bytes++) {
        snprintf(text, sizeof text,
                 "--b\r\nX: %0*d\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n" END,
                 bytes - usual, 1);
        assert_true(find_model(text, 7, &form, &model) ==
                    (bytes <= WEIR_LLM_FORM_HEADER_BYTES_MAX));
    }
}

/* The beginning of a boundary may be in front of one. */
TEST(a_boundary_is_found_behind_its_own_beginning)
{
    struct weir_llm_form form;
    struct weir_slice model;
    struct weir_slice text =
        BYTES("----a--\r\nContent-Disposition: form-data; name=x\r\n\r\n--\r\n---\r\n----a-\r\n"
              "----a--\r\nContent-Disposition: form-data; name=model\r\n\r\n-\r\n----a----");
    weir_llm_form_init(&form, (struct weir_slice)BYTES("--a--"));
    weir_llm_form_feed(&form, text);
    assert_true(weir_llm_form_end(&form, &model));
    assert_int_equal(model.bytes, 1);
    assert_memory_equal(model.data, "-", 1);
    weir_llm_form_feed(&form, (struct weir_slice)BYTES("-----a--"));
    assert_false(weir_llm_form_end(&form, &model));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms_and_files_have_no_text),
        cmocka_unit_test(a_form_has_a_boundary),
        cmocka_unit_test(the_model_is_what_the_only_part_of_that_name_holds),
        cmocka_unit_test(names_and_headers_have_a_longest_that_is_read),
        cmocka_unit_test(a_boundary_is_found_behind_its_own_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
