/* Any bytes as what a command says: the same is kept and the same progress told however they
 * arrive, and what is told is within its bounds and is text. */
#include "wire.h"

#include "runner/command_log.h"
#include "wire/chars.h"

static void read_all(struct input *input, size_t step, struct weir_command_log *log)
{
    for (size_t at = 0, end = 0; end < input->bytes; at = end) {
        end = input->bytes - at < step ? input->bytes : at + step;
        show(input, end);
        weir_command_log_take(log, (struct weir_slice){input->data + at, end - at});
    }
    weir_command_log_end(log);
}

static void compare(struct weir_command_log *log, struct weir_command_log *other)
{
    struct weir_slice kept = weir_command_log_kept(log);
    struct weir_slice other_kept = weir_command_log_kept(other);
    must(kept.bytes == other_kept.bytes);
    must(kept.bytes <= WEIR_COMMAND_LOG_BYTES_MAX);
    must(memcmp(kept.data, other_kept.data, kept.bytes) == 0);
    double progress, other_progress;
    struct weir_slice text, other_text;
    bool news = weir_command_log_progress(log, &progress, &text);
    must(news == weir_command_log_progress(other, &other_progress, &other_text));
    if (news) {
        must(progress == other_progress);
        must(progress == -1 || (progress >= 0 && progress <= 1));
        must(text.bytes == other_text.bytes && text.bytes <= WEIR_COMMAND_PROGRESS_BYTES_MAX);
        must(memcmp(text.data, other_text.data, text.bytes) == 0);
        must(weir_text_is_utf8(text));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct input input = input_of(data, bytes);
    struct weir_command_log whole = {0};
    struct weir_command_log pieces = {0};
    read_all(&input, bytes + 1, &whole);
    read_all(&input, 1 + bytes % 7, &pieces);
    compare(&whole, &pieces);
    weir_command_log_deinit(&whole);
    weir_command_log_deinit(&pieces);
    give_back(&input);
    return 0;
}
