#include "jobs/job.h"

#include "base/slice.h"

static const char *const state_names[WEIR_JOB_STATE_COUNT] = {
    [WEIR_JOB_QUEUED] = "queued", [WEIR_JOB_RUNNING] = "running",     [WEIR_JOB_DONE] = "done",
    [WEIR_JOB_FAILED] = "failed", [WEIR_JOB_CANCELLED] = "cancelled",
};

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool weir_job_id_valid(struct weir_slice id)
{
    if (id.bytes == 0 || id.bytes > WEIR_JOB_ID_BYTES_MAX || !is_letter_or_digit(id.data[0])) {
        return false;
    }
    for (size_t i = 1; i < id.bytes; i++) {
        char c = id.data[i];
        if (!is_letter_or_digit(c) && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

const char *weir_job_state_name(enum weir_job_state state)
{
    return (unsigned)state < WEIR_JOB_STATE_COUNT ? state_names[state] : "unknown";
}

bool weir_job_state_read(struct weir_slice name, enum weir_job_state *state)
{
    for (int i = 0; i < WEIR_JOB_STATE_COUNT; i++) {
        if (weir_slice_equal(name, weir_slice_of(state_names[i]))) {
            *state = (enum weir_job_state)i;
            return true;
        }
    }
    return false;
}
