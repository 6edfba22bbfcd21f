/* schema_log.c - what is written about what Weir does: the fields of `log`, `access_log` and
 * `metrics`, and their defaults. Called by the thread that reads a config. */
#include "config/schema.h"

static const char *const level_words[] = {"debug", "info", "warn", "error", NULL};
static const char *const log_format_words[] = {"text", "json", NULL};

static const struct weir_field log_fields[] = {
    WEIR_FIELD_WORD("level", struct weir_config_log, level, level_words, 0),
    WEIR_FIELD_WORD("format", struct weir_config_log, format, log_format_words, 0),
    WEIR_FIELD_TEXT("file", struct weir_config_log, file),
};

WEIR_SECTION(weir_section_log, "log", log_fields);

static const char *const access_format_words[] = {"json", "combined", NULL};

static bool has_access_log(const void *section)
{
    return ((const struct weir_config_access_log *)section)->file.bytes > 0;
}

static const struct weir_field access_log_fields[] = {
    {.name = "file",
     .read = weir_read_text,
     .print = weir_print_text,
     .offset = WEIR_MEMBER(struct weir_config_access_log, file, sizeof(struct weir_slice)),
     .required = true},
    {.name = "format",
     .read = weir_read_word,
     .print = weir_print_word,
     .when = has_access_log,
     .offset = WEIR_MEMBER(struct weir_config_access_log, format, 4),
     .words = access_format_words},
    {.name = "query",
     .read = weir_read_boolean,
     .print = weir_print_boolean,
     .when = has_access_log,
     .offset = WEIR_MEMBER(struct weir_config_access_log, query, 1)},
};

WEIR_SECTION(weir_section_access_log, "access_log", access_log_fields);

static const struct weir_field metrics_fields[] = {
    WEIR_FIELD_BOOLEAN("llm_names", struct weir_config_metrics, llm_names),
};

WEIR_SECTION(weir_section_metrics, "metrics", metrics_fields);

/* A file without the section is one whose operator has not asked for a log: it gets what needs an
 * eye, and no more. */
void weir_read_log(struct weir_reader *reader, const struct weir_yaml *value,
                   const struct weir_field *field, void *target)
{
    struct weir_config_log *log = target;
    log->level = WEIR_CONFIG_LOG_INFO;
    weir_read_section(reader, value, field->section, log);
}
