/* Any bytes as the body of a request to the emulated provider, whose call the first byte chooses:
 * the same facts however they arrive, and none that is out of its bounds. */
#include "lab/mock/ask.h"
#include "wire.h"

static struct weir_mock_ask_names names;

static const char *read_in(struct weir_mock_ask *ask, enum weir_llm_api api, struct input *input,
                           size_t step)
{
    memset(ask, 0, sizeof *ask);
    weir_mock_ask_init(ask, api, &names);
    for (size_t at = 1; at < input->bytes; at += step) {
        size_t end = input->bytes - at < step ? input->bytes : at + step;
        show(input, end);
        weir_mock_ask_feed(ask, (struct weir_slice){input->data + at, end - at});
    }
    const char *wrong = weir_mock_ask_end(ask);
    must(ask->tool_bytes <= sizeof ask->tool);
    must(ask->user_bytes <= sizeof ask->user);
    must(ask->request.model_bytes <= sizeof ask->request.model);
    must(wrong != NULL || (ask->inputs >= 1 && ask->inputs <= WEIR_MOCK_INPUTS_MAX));
    return wrong;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input input = input_of(data, bytes);
    static struct weir_mock_ask whole;
    static struct weir_mock_ask piecewise;
    weir_mock_ask_names_init(&names);
    show(&input, bytes);
    enum weir_llm_api api =
        bytes == 0 ? WEIR_LLM_API_OPENAI_CHAT
                   : (enum weir_llm_api)(1 + data[0] % WEIR_LLM_API_ANTHROPIC_MESSAGES);
    const char *wrong = read_in(&whole, api, &input, bytes + 1);
    for (size_t step = 1; step <= 3; step++) {
        must(read_in(&piecewise, api, &input, step) == wrong);
        if (wrong == NULL) {
            must(piecewise.has_tools == whole.has_tools);
            must(piecewise.tool_ran == whole.tool_ran);
            must(piecewise.base64 == whole.base64);
            must(piecewise.inputs == whole.inputs);
            must(piecewise.tool_bytes == whole.tool_bytes);
            must(memcmp(piecewise.tool, whole.tool, whole.tool_bytes) == 0);
            must(piecewise.user_bytes == whole.user_bytes);
            must(memcmp(piecewise.user, whole.user, whole.user_bytes) == 0);
            must(weir_mock_ask_tokens(&piecewise) == weir_mock_ask_tokens(&whole));
        }
    }
    give_back(&input);
    return 0;
}
