/* The section `queues`: what does a queue's jobs (a command or a route), with which environment
 * and limits, how often it is tried, and the queue's line. A queue's tenants begin as a copy of
 * its default tenant. */
#include "config/match.h"
#include "config/print.h"
#include "config/scalars.h"
#include "config/schema.h"

#include <assert.h>

#define QUEUES_MAX    256
#define ARGUMENTS_MAX 64
#define VARIABLES_MAX 256
#define WORKERS_MAX   10000
#define ATTEMPTS_MAX  1000
#define DEAD_MAX      WEIR_TICKETS_MAX
#define PROCESSES_MAX 1000000

/* No program can be loaded into less. */
#define MEMORY_MIN_BYTES (UINT64_C(1) << 20)
#define SIZE_MAX_BYTES   (UINT64_C(1) << 50)

/* ---- what a queue does with its jobs ---- */

static void read_run(struct weir_reader *reader, const struct weir_yaml *value,
                     const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_queue *queue = target;
    static const char expected[] =
        "a list of a command and its arguments, such as [./pricer, \"{in}\"]";
    if (value->kind == WEIR_YAML_EMPTY || (value->kind == WEIR_YAML_LIST && value->count == 0)) {
        weir_reader_complain(reader, value, "is empty; expected %s", expected);
        return;
    }
    struct weir_slice *arguments =
        weir_reader_items(reader, value, WEIR_YAML_LIST, ARGUMENTS_MAX, expected, sizeof *arguments,
                          &queue->run_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < queue->run_count; i++, item = item->next) {
        arguments[i] = weir_reader_text(reader, item, "a command or an argument");
    }
    queue->run = arguments;
}

/* Characters of a path that mean nothing but themselves to any server. A segment that begins with a
 * dot could be one of those that lead upwards; empty segments and parameters are dropped by some.
 */
static bool is_plain_path(struct weir_slice text)
{
    static const char marks[] = "/-._~!$&'()*+,=:@";
    for (size_t i = 0; i < text.bytes; i++) {
        char c = text.data[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        bool hidden = c == '.' && i > 0 && text.data[i - 1] == '/';
        bool empty = c == '/' && i > 0 && text.data[i - 1] == '/';
        if (hidden || empty || (!letter && memchr(marks, c, sizeof marks - 1) == NULL)) {
            return false;
        }
    }
    return text.bytes > 0 && text.data[0] == '/';
}

static void read_route(struct weir_reader *reader, const struct weir_yaml *value,
                       const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_queue *queue = target;
    static const char expected[] = "a path that a route matches";
    struct weir_match match;
    queue->route = weir_reader_text(reader, value, expected);
    if (queue->route.bytes > 0 && !is_plain_path(queue->route)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "%s, without a query, escapes, parameters (;), empty segments (//) or "
                           "segments that begin with a dot",
                           expected);
        return;
    }
    const struct weir_matcher *matcher = reader->config->matcher;
    /* Routes without a matcher have mistakes of their own. */
    bool known = reader->config->route_count == 0 || matcher != NULL;
    if (queue->route.bytes == 0 || !known) {
        return;
    }
    if (!weir_matcher_find(matcher, queue->route, &match)) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION, "%s", expected);
    } else if (weir_config_find_route(reader->config, match.route, WEIR_CONFIG_METHOD_POST) ==
               WEIR_CONFIG_NONE) {
        weir_reader_expect(reader, value, WEIR_NO_SUGGESTION,
                           "%s, with POST among its methods, by which jobs are sent", expected);
    }
}

/* ---- what commands find ---- */

static bool is_ours(struct weir_slice name)
{
    struct weir_slice prefix = weir_slice_of("WEIR_");
    return name.bytes >= prefix.bytes && memcmp(name.data, prefix.data, prefix.bytes) == 0;
}

/* NAME=value. */
static struct weir_slice join(struct weir_reader *reader, struct weir_slice name,
                              struct weir_slice value)
{
    size_t bytes = name.bytes + 1 + value.bytes;
    char *text = weir_reader_allocate(reader, (uint32_t)bytes, 1);
    if (text == NULL) {
        return WEIR_NO_SUGGESTION;
    }
    memcpy(text, name.data, name.bytes);
    text[name.bytes] = '=';
    memcpy(text + name.bytes + 1, value.data, value.bytes);
    return (struct weir_slice){text, bytes};
}

/* An empty text is a value, too. */
static struct weir_slice read_variable(struct weir_reader *reader, const struct weir_yaml *item)
{
    struct weir_slice name = item->key->text;
    if (!weir_scalar_variable(name)) {
        weir_reader_complain(reader, item,
                             "is no name of a variable; expected 1 to 64 letters, digits and _, no "
                             "digit first");
    } else if (is_ours(name)) {
        weir_reader_complain(reader, item,
                             "is a name that Weir fills in; expected one without WEIR_");
    }
    struct weir_slice value = {"", 0};
    if (item->kind != WEIR_YAML_SCALAR || item->text.bytes > 0) {
        value = weir_reader_text(reader, item, "the value of a variable; \"\" is an empty one");
    }
    return join(reader, name, value);
}

static void read_environment(struct weir_reader *reader, const struct weir_yaml *value,
                             const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_queue *queue = target;
    struct weir_slice *variables = weir_reader_items(
        reader, value, WEIR_YAML_MAPPING, VARIABLES_MAX, "a mapping of variables to their values",
        sizeof *variables, &queue->environment_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < queue->environment_count; i++, item = item->next) {
        variables[i] = read_variable(reader, item);
    }
    queue->environment = variables;
}

/* The name of a variable; its value is a secret. */
static void print_variable(struct weir_printer *printer, const struct weir_field *field,
                           const void *target)
{
    struct weir_slice name = *(const struct weir_slice *)target;
    (void)field;
    const char *end = memchr(name.data, '=', name.bytes);
    assert(end != NULL);
    name.bytes = (size_t)(end - name.data);
    fputs(WEIR_PRINT_MASK, weir_print_label(printer, name));
}

/* The system counts whole seconds; less than one would end every command at once. */
static void read_cpu(struct weir_reader *reader, const struct weir_yaml *value,
                     const struct weir_field *field, void *target)
{
    (void)field;
    static const struct weir_field bounds = {.min = WEIR_NS_PER_SECOND, .max = WEIR_YEAR};
    uint64_t duration_ns = 0;
    weir_read_duration(reader, value, &bounds, &duration_ns);
    *(uint64_t *)target = (duration_ns + WEIR_NS_PER_SECOND - 1) / WEIR_NS_PER_SECOND;
}

static void print_cpu(struct weir_printer *printer, const struct weir_field *field,
                      const void *target)
{
    uint64_t seconds = *(const uint64_t *)target;
    if (seconds > 0) {
        fprintf(weir_print_entry(printer, field->name), "%llus", (unsigned long long)seconds);
    }
}

static const struct weir_field limit_fields[] = {
    WEIR_FIELD_SIZE("memory", struct weir_config_queue, limit_memory_bytes, MEMORY_MIN_BYTES,
                    SIZE_MAX_BYTES),
    WEIR_FIELD_AMOUNT("processes", struct weir_config_queue, limit_processes, 1, PROCESSES_MAX),
    {.name = "cpu",
     .read = read_cpu,
     .print = print_cpu,
     .offset = WEIR_MEMBER(struct weir_config_queue, limit_cpu_seconds, 8)},
    WEIR_FIELD_SIZE("output", struct weir_config_queue, limit_output_bytes, 1, SIZE_MAX_BYTES),
};

static WEIR_SECTION_IN_BRACES(section_limits, "queues.NAME.limits", limit_fields);

/* ---- lines and backoff ---- */

static const char *const full_words[] = {"reject", "wait", "drop_oldest", NULL};

static const struct weir_field line_fields[] = {
    WEIR_FIELD_COUNT("max", struct weir_config_queue, jobs_max, 1, WEIR_TICKETS_MAX),
    WEIR_FIELD_SECTION("by_priority", struct weir_config_queue, jobs_by_priority,
                       weir_section_queue_by_priority),
    WEIR_FIELD_WORD("full", struct weir_config_queue, full, full_words, WEIR_CONFIG_FULL_REJECT),
};

static WEIR_SECTION_IN_BRACES(section_line, "queues.NAME.line", line_fields);

/* Who names the most of all jobs bounds no priority, unless it is named too. */
static void complete_line(struct weir_config_queue *queue)
{
    static const uint32_t usual[WEIR_PRIORITY_COUNT] = {
        [WEIR_PRIORITY_HIGH] = 100, [WEIR_PRIORITY_NORMAL] = 300, [WEIR_PRIORITY_LOW] = 200};
    if (queue->jobs_max > 0) {
        return;
    }
    for (int i = 0; i < WEIR_PRIORITY_COUNT; i++) {
        if (queue->jobs_by_priority[i] == 0) {
            queue->jobs_by_priority[i] = usual[i];
        }
        queue->jobs_max += queue->jobs_by_priority[i];
    }
    queue->jobs_max = queue->jobs_max > WEIR_TICKETS_MAX ? WEIR_TICKETS_MAX : queue->jobs_max;
}

static const struct weir_field backoff_fields[] = {
    WEIR_FIELD_DURATION("first", struct weir_config_queue, backoff_first_ns, WEIR_NS_PER_MS,
                        WEIR_YEAR),
    WEIR_FIELD_DURATION("max", struct weir_config_queue, backoff_max_ns, WEIR_NS_PER_MS, WEIR_YEAR),
};

static WEIR_SECTION_IN_BRACES(section_backoff, "queues.NAME.backoff", backoff_fields);

/* ---- queues ---- */

static void read_tenants(struct weir_reader *reader, const struct weir_yaml *value,
                         const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config_queue *queue = target;
    queue->tenants = weir_read_tenant_settings(reader, value, &weir_section_queue_tenant,
                                               &queue->tenant_default, &queue->tenant_count);
}

static const struct weir_field queue_fields[] = {
    WEIR_FIELD_ITEMS("run", read_run, struct weir_config_queue, run, run_count, weir_print_text,
                     .in_brackets = true),
    WEIR_FIELD_INSIDE("route", struct weir_config_queue, route, read_route, weir_print_text),
    WEIR_FIELD_TEXT("user", struct weir_config_queue, user),
    WEIR_FIELD_ITEMS("environment", read_environment, struct weir_config_queue, environment,
                     environment_count, print_variable, .named = true),
    WEIR_FIELD_INNER("limits", section_limits),
    WEIR_FIELD_DURATION("grace", struct weir_config_queue, grace_ns, 0, WEIR_NS_PER_DAY),
    WEIR_FIELD_COUNT("workers", struct weir_config_queue, workers, 1, WORKERS_MAX),
    WEIR_FIELD_COUNT("per_key", struct weir_config_queue, per_key, 1, WORKERS_MAX),
    WEIR_FIELD_INNER("line", section_line),
    WEIR_FIELD_DURATION("lease", struct weir_config_queue, lease_ns, WEIR_NS_PER_SECOND, WEIR_YEAR),
    WEIR_FIELD_DURATION("timeout", struct weir_config_queue, timeout_ns, WEIR_NS_PER_MS, WEIR_YEAR),
    WEIR_FIELD_COUNT("attempts", struct weir_config_queue, attempts, 1, ATTEMPTS_MAX),
    WEIR_FIELD_INNER("backoff", section_backoff),
    WEIR_FIELD_DURATION("keep", struct weir_config_queue, keep_ns, 0, WEIR_YEAR),
    WEIR_FIELD_COUNT("dead", struct weir_config_queue, dead_max, 1, DEAD_MAX),
    WEIR_FIELD_SIZE("body", struct weir_config_queue, body_bytes_max, 0, SIZE_MAX_BYTES),
    WEIR_FIELD_NAMED("tenants", read_tenants, struct weir_config_queue, tenants, tenant_count,
                     weir_section_queue_tenant,
                     .usual = offsetof(struct weir_config_queue, tenant_default)),
};

WEIR_SECTION(weir_section_queue, "queues.NAME", queue_fields);

static const struct weir_config_queue queue_defaults = {
    .grace_ns = 5 * WEIR_NS_PER_SECOND,
    .workers = 1,
    .per_key = 1,
    .lease_ns = 300 * WEIR_NS_PER_SECOND,
    .timeout_ns = 600 * WEIR_NS_PER_SECOND,
    .attempts = 5,
    .backoff_first_ns = WEIR_NS_PER_SECOND,
    .backoff_max_ns = 300 * WEIR_NS_PER_SECOND,
    .keep_ns = WEIR_NS_PER_DAY,
    .dead_max = 100000,
    .body_bytes_max = UINT64_C(1) << 30,
    .tenant_default = {.weight = 1},
};

static void read_queue(struct weir_reader *reader, const struct weir_yaml *node,
                       struct weir_config_queue *queue)
{
    *queue = queue_defaults;
    queue->name = weir_reader_name(reader, node, "a queue");
    queue->line = node->key->line;
    weir_read_section(reader, node, &weir_section_queue, queue);
    complete_line(queue);
    if (weir_yaml_get(node, "run") != NULL && weir_yaml_get(node, "route") != NULL) {
        weir_reader_complain(reader, node,
                             "has both run and route; expected one of them, or neither, which "
                             "keeps jobs and runs none");
    }
    if (queue->backoff_first_ns > queue->backoff_max_ns) {
        weir_reader_complain(reader, node,
                             "has a backoff with first above max; expected first <= max");
    }
}

void weir_read_queues(struct weir_reader *reader, const struct weir_yaml *value,
                      const struct weir_field *field, void *target)
{
    (void)field;
    struct weir_config *config = target;
    struct weir_config_queue *queues =
        weir_reader_items(reader, value, WEIR_YAML_MAPPING, QUEUES_MAX,
                          "a mapping of names to queues", sizeof *queues, &config->queue_count);
    const struct weir_yaml *item = value->first;
    for (uint32_t i = 0; i < config->queue_count; i++, item = item->next) {
        read_queue(reader, item, &queues[i]);
    }
    config->queues = queues;
}
