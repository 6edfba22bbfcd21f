/* Reads the CSV file line by line: the heading names columns, each row becomes an arrival, and
 * rows are sorted by time at the end. A mistake names its line and column. */
#include "lab/sim/trace.h"

#include "base/slice.h"
#include "config/scalars.h"
#include "lab/sim/world.h"

#include <stdlib.h>

enum trace_column {
    COLUMN_TIME,
    COLUMN_TENANT,
    COLUMN_INPUT,
    COLUMN_OUTPUT,
    COLUMN_MAX_TOKENS,
    COLUMN_COST,
    COLUMN_COUNT
};

static const char *const column_names[COLUMN_COUNT] = {"time",   "tenant",     "input",
                                                       "output", "max_tokens", "cost"};

#define COLUMNS_MAX  64
#define TIME_DIGITS  9
#define NOT_A_COLUMN UINT32_MAX

struct reader {
    struct weir_sim_scenario *scenario;
    struct weir_config_errors *errors;
    struct weir_slice rest;
    uint32_t line;
    uint32_t place[COLUMN_COUNT]; /* of each column in a row */
    struct weir_sim_arrival *arrivals;
    uint32_t count;
    struct weir_sim_tenant_settings *tenants;
    uint32_t tenant_count;
    struct weir_sim_tenant_settings usual;
};

/* ---- lines and cells ---- */

static struct weir_slice take_line(struct reader *reader)
{
    const char *end = memchr(reader->rest.data, '\n', reader->rest.bytes);
    size_t bytes = end == NULL ? reader->rest.bytes : (size_t)(end - reader->rest.data);
    struct weir_slice line = {reader->rest.data, bytes};
    size_t taken = end == NULL ? bytes : bytes + 1;
    reader->rest = (struct weir_slice){reader->rest.data + taken, reader->rest.bytes - taken};
    reader->line++;
    if (line.bytes > 0 && line.data[line.bytes - 1] == '\r') {
        line.bytes--;
    }
    return line;
}

/* Splits a row; returns how many cells there are, of which the first COLUMNS_MAX are stored. */
static uint32_t split(struct weir_slice line, struct weir_slice *cells)
{
    uint32_t count = 0;
    size_t start = 0;
    for (size_t i = 0; i <= line.bytes; i++) {
        if (i == line.bytes || line.data[i] == ',') {
            if (count < COLUMNS_MAX) {
                cells[count] = (struct weir_slice){line.data + start, i - start};
            }
            count++;
            start = i + 1;
        }
    }
    return count;
}

static bool complain(struct reader *reader, struct weir_slice line, struct weir_slice cell,
                     enum trace_column column, const char *expected)
{
    uint32_t at = (uint32_t)(cell.data - line.data) + 1;
    weir_config_errors_add(reader->errors, reader->line, at, "%s is \"%s\"; expected %s",
                           column_names[column], weir_show(cell).text, expected);
    return false;
}

/* ---- the first line ---- */

static bool read_heading(struct reader *reader)
{
    struct weir_slice cells[COLUMNS_MAX];
    struct weir_slice line = take_line(reader);
    uint32_t count = split(line, cells);
    for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
        reader->place[i] = NOT_A_COLUMN;
        for (uint32_t j = 0; j < count && j < COLUMNS_MAX; j++) {
            if (weir_slice_equal(cells[j], weir_slice_of(column_names[i]))) {
                reader->place[i] = j;
            }
        }
    }
    bool cost = reader->place[COLUMN_COST] != NOT_A_COLUMN;
    for (uint32_t i = 0; i <= (cost ? COLUMN_TENANT : COLUMN_OUTPUT); i++) {
        if (reader->place[i] == NOT_A_COLUMN) {
            weir_config_errors_add(reader->errors, 1, 1,
                                   "there is no column %s; expected a first line such as "
                                   "time,tenant,input,output,max_tokens or time,tenant,cost",
                                   column_names[i]);
        }
    }
    return reader->errors->count == 0;
}

/* ---- rows ---- */

/* Seconds with up to nine digits behind the point. */
static bool parse_time(struct weir_slice text, uint64_t *at_ns)
{
    const char *point = memchr(text.data, '.', text.bytes);
    size_t whole = point == NULL ? text.bytes : (size_t)(point - text.data);
    size_t digits = point == NULL ? 0 : text.bytes - whole - 1;
    uint64_t seconds;
    if (!weir_scalar_number((struct weir_slice){text.data, whole}, &seconds) ||
        seconds > UINT32_MAX * UINT64_C(4) || digits > TIME_DIGITS ||
        (point != NULL && digits == 0)) {
        return false;
    }
    uint64_t behind = 0;
    for (size_t i = 0; i < TIME_DIGITS; i++) {
        char digit = i < digits ? point[1 + i] : '0';
        if (digit < '0' || digit > '9') {
            return false;
        }
        behind = behind * 10 + (uint64_t)(digit - '0');
    }
    *at_ns = seconds * WEIR_NS_PER_SECOND + behind;
    return true;
}

static bool find_tenant(struct reader *reader, struct weir_slice name, uint32_t *number)
{
    for (uint32_t i = 0; i < reader->tenant_count; i++) {
        if (weir_slice_equal(reader->tenants[i].name, name)) {
            *number = i;
            return true;
        }
    }
    if (reader->tenant_count >= WEIR_SIM_TENANTS_MAX) {
        return false;
    }
    struct weir_sim_tenant_settings *tenant = &reader->tenants[reader->tenant_count];
    *tenant = reader->usual;
    for (uint32_t i = 0; i < reader->scenario->tenant_count; i++) {
        if (weir_slice_equal(reader->scenario->tenants[i].name, name)) {
            *tenant = reader->scenario->tenants[i];
        }
    }
    tenant->name = name;
    tenant->count = 1;
    *number = reader->tenant_count++;
    return weir_arena_keep(&reader->scenario->arena, &tenant->name);
}

static bool read_tokens(struct reader *reader, struct weir_slice line, struct weir_slice cell,
                        enum trace_column column, uint32_t least, uint32_t *tokens)
{
    uint64_t number;
    if (!weir_scalar_number(cell, &number) || number < least || number > WEIR_SIM_TOKENS_MAX) {
        return complain(reader, line, cell, column,
                        least == 0 ? "a number from 0 to 1000000" : "a number from 1 to 1000000");
    }
    *tokens = (uint32_t)number;
    return true;
}

static bool read_row(struct reader *reader, struct weir_slice line)
{
    struct weir_slice cells[COLUMNS_MAX];
    struct weir_sim_arrival *arrival = &reader->arrivals[reader->count];
    uint32_t count = split(line, cells);
    for (uint32_t i = 0; i < COLUMN_COUNT; i++) {
        if (reader->place[i] != NOT_A_COLUMN && reader->place[i] >= count) {
            weir_config_errors_add(reader->errors, reader->line, 1,
                                   "there are %u columns; expected as many as the first line has",
                                   count);
            return false;
        }
    }
    struct weir_slice time = cells[reader->place[COLUMN_TIME]];
    struct weir_slice tenant = cells[reader->place[COLUMN_TENANT]];
    if (!parse_time(time, &arrival->at_ns)) {
        return complain(reader, line, time, COLUMN_TIME, "seconds such as 12 or 1794802319.042");
    }
    if (!weir_scalar_name(tenant)) {
        return complain(reader, line, tenant, COLUMN_TENANT,
                        "1 to 64 letters, digits, -, _ and ., starting with a letter or digit");
    }
    if (!find_tenant(reader, tenant, &arrival->tenant)) {
        return complain(reader, line, tenant, COLUMN_TENANT, "at most 1000 different ones");
    }
    if (reader->place[COLUMN_COST] != NOT_A_COLUMN) {
        return read_tokens(reader, line, cells[reader->place[COLUMN_COST]], COLUMN_COST, 1,
                           &arrival->cost);
    }
    struct weir_slice most = {"", 0};
    if (reader->place[COLUMN_MAX_TOKENS] != NOT_A_COLUMN) {
        most = cells[reader->place[COLUMN_MAX_TOKENS]];
    }
    return read_tokens(reader, line, cells[reader->place[COLUMN_INPUT]], COLUMN_INPUT, 1,
                       &arrival->input) &&
           read_tokens(reader, line, cells[reader->place[COLUMN_OUTPUT]], COLUMN_OUTPUT, 0,
                       &arrival->output) &&
           (most.bytes == 0 ||
            read_tokens(reader, line, most, COLUMN_MAX_TOKENS, 1, &arrival->max_tokens));
}

static bool read_rows(struct reader *reader)
{
    while (reader->rest.bytes > 0) {
        struct weir_slice line = take_line(reader);
        if (line.bytes == 0) {
            continue;
        }
        if (!read_row(reader, line)) {
            return false;
        }
        reader->count++;
    }
    if (reader->count == 0) {
        weir_config_errors_add(reader->errors, reader->line, 1,
                               "there is no arrival; expected at least one row");
    }
    return reader->count > 0;
}

/* ---- the whole ---- */

static uint32_t count_lines(struct weir_slice text)
{
    uint32_t lines = 1;
    for (size_t i = 0; i < text.bytes; i++) {
        lines += text.data[i] == '\n';
    }
    return lines;
}

/* By time; what comes at once stays in the order of tenants and sizes, so that it is total. */
static int compare(const void *a, const void *b)
{
    const struct weir_sim_arrival *x = a;
    const struct weir_sim_arrival *y = b;
    uint64_t keys[][2] = {{x->at_ns, y->at_ns},           {x->tenant, y->tenant},
                          {x->input, y->input},           {x->output, y->output},
                          {x->max_tokens, y->max_tokens}, {x->cost, y->cost}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (keys[i][0] != keys[i][1]) {
            return keys[i][0] < keys[i][1] ? -1 : 1;
        }
    }
    return 0;
}

static bool finish(struct reader *reader)
{
    struct weir_sim_scenario *scenario = reader->scenario;
    qsort(reader->arrivals, reader->count, sizeof *reader->arrivals, compare);
    uint64_t first_ns = reader->arrivals[0].at_ns;
    for (uint32_t i = 0; i < reader->count; i++) {
        reader->arrivals[i].at_ns -= first_ns;
    }
    uint64_t last_ns = reader->arrivals[reader->count - 1].at_ns;
    if (last_ns > WEIR_SIM_DURATION_MAX - WEIR_SIM_TRACE_TAIL_NS) {
        weir_config_errors_add(reader->errors, 0, 0,
                               "it lasts longer than two days; expected a shorter one");
        return false;
    }
    scenario->duration_ns = last_ns + WEIR_SIM_TRACE_TAIL_NS;
    if (scenario->warmup_ns > last_ns / 10) {
        scenario->warmup_ns = last_ns / 10;
    }
    scenario->tenants = reader->tenants;
    scenario->tenant_count = reader->tenant_count;
    scenario->trace = reader->arrivals;
    scenario->trace_count = reader->count;
    return true;
}

static struct weir_sim_tenant_settings usual_of(const struct weir_sim_scenario *scenario)
{
    struct weir_sim_tenant_settings usual = scenario->tenants[0];
    for (uint32_t i = 0; i < scenario->tenant_count; i++) {
        if (weir_slice_equal(scenario->tenants[i].name, weir_slice_of("default"))) {
            usual = scenario->tenants[i];
        }
    }
    return usual;
}

bool weir_sim_trace_read(struct weir_sim_scenario *scenario, struct weir_slice text,
                         struct weir_config_errors *errors)
{
    if (text.bytes == 0) {
        weir_config_errors_add(errors, 0, 0, "it is empty; expected rows of arrivals");
        return false;
    }
    uint32_t lines = text.bytes > WEIR_SIM_TRACE_BYTES_MAX ? UINT32_MAX : count_lines(text);
    if (lines > WEIR_SIM_TRACE_ROWS_MAX) {
        weir_config_errors_add(errors, 0, 0, "it is too long; expected at most %u rows",
                               WEIR_SIM_TRACE_ROWS_MAX);
        return false;
    }
    struct reader reader = {
        .scenario = scenario, .errors = errors, .rest = text, .usual = usual_of(scenario)};
    reader.arrivals = weir_arena_allocate(&scenario->arena, lines, sizeof *reader.arrivals);
    reader.tenants =
        weir_arena_allocate(&scenario->arena, WEIR_SIM_TENANTS_MAX, sizeof *reader.tenants);
    if (reader.arrivals == NULL || reader.tenants == NULL) {
        weir_config_errors_add(errors, 0, 0, "there is not enough memory for it");
        return false;
    }
    return read_heading(&reader) && read_rows(&reader) && finish(&reader);
}
