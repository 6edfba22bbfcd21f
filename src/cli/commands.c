#include "cli/commands.h"

#include "config/suggest.h"

#include <string.h>

const struct weir_command *const weir_commands[] = {
    &weir_command_serve,   &weir_command_check,       &weir_command_gates,
    &weir_command_gate,    &weir_command_line,        &weir_command_holders,
    &weir_command_explain, &weir_command_events,      &weir_command_acquire,
    &weir_command_release, &weir_command_renew,       &weir_command_run,
    &weir_command_submit,  &weir_command_status,      &weir_command_result,
    &weir_command_log,     &weir_command_cancel_jobs, &weir_command_jobs,
    &weir_command_dlq,     &weir_command_redrive,     &weir_command_capacity,
    &weir_command_reload,  &weir_command_keys,        &weir_command_usage,
    &weir_command_mock,    &weir_command_sim,         &weir_command_demo,
    &weir_command_version, &weir_command_help,        NULL,
};

const struct weir_command *weir_command_find(const char *name)
{
    for (const struct weir_command *const *each = weir_commands; *each != NULL; each++) {
        if (strcmp(name, (*each)->name) == 0) {
            return *each;
        }
    }
    return strcmp(name, weir_command_complete.name) == 0 ? &weir_command_complete : NULL;
}

int weir_command_unknown(const char *name)
{
    struct weir_suggestion suggestion = weir_suggestion_for(weir_slice_of(name));
    for (const struct weir_command *const *each = weir_commands; *each != NULL; each++) {
        weir_suggestion_offer(&suggestion, weir_slice_of((*each)->name));
    }
    bool close = suggestion.best.bytes > 0;
    fprintf(stderr, "weir: there is no command %s%s%.*s%s; `weir help` lists them\n", name,
            close ? " (did you mean " : "", (int)suggestion.best.bytes,
            close ? suggestion.best.data : "", close ? "?)" : "");
    return WEIR_EXIT_USAGE;
}

void weir_command_list(FILE *out)
{
    fprintf(out, "Weir " WEIR_DOES ".\n\n");
    for (const struct weir_command *const *each = weir_commands; *each != NULL; each++) {
        fprintf(out, "  weir %-9s%s\n", (*each)->name, (*each)->brief);
    }
    fprintf(out, "\n`weir help COMMAND` shows how to call it, and its flags.\n");
}
