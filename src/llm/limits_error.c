/* limits_error.c - what Google's APIs put into the body of a refusal instead of its head:
 *
 *     {"error": {"details": [
 *         {"@type": ".../google.rpc.RetryInfo", "retryDelay": "34.5s"},
 *         {"@type": ".../google.rpc.QuotaFailure", "violations": [
 *             {"quotaId": "GenerateRequestsPerDayPerProjectPerModel", "quotaValue": "50"}]}]}}
 *
 * The names are their own, so that @type need not be looked at. Streams are refused with an array
 * of such documents. Only refusals tell of quotas, so what is learned from one must not outlive its
 * time: they are windows that end when one may come again. For a day's quota the reply states that
 * time far too soon, or not at all, and a request probes every ten minutes. */
#include "base/slice.h"
#include "llm/limits.h"
#include "wire/json_walk.h"
#include "wire/time_text.h"

#define TEXT_BYTES_MAX 128 /* a longer one is none that is known */
#define ASK_AGAIN_NS   (10 * WEIR_NS_PER_MINUTE)

enum name {
    NAME_ERROR = WEIR_JSON_FIRST_NAME,
    NAME_DETAILS,
    NAME_QUOTA_ID,
    NAME_QUOTA_VALUE,
    NAME_RETRY_DELAY,
    NAME_VIOLATIONS
};

static const struct weir_slice name_texts[] = {{"error", 5},       {"details", 7},
                                               {"quotaId", 7},     {"quotaValue", 10},
                                               {"retryDelay", 10}, {"violations", 10}};

/* The place of the first name that has as many bytes or more. */
static const struct weir_json_names names = {
    .names = name_texts,
    .starts = {
        [6] = 1, [7] = 1, [8] = 3, [9] = 3, [10] = 3, [11 ... WEIR_JSON_NAME_BYTES_MAX + 1] = 6}};

#define PATH_DELAY WEIR_JSON_PATH4(NAME_ERROR, NAME_DETAILS, WEIR_JSON_ELEMENT, NAME_RETRY_DELAY)
#define PATH_VIOLATION \
    WEIR_JSON_PATH5(NAME_ERROR, NAME_DETAILS, WEIR_JSON_ELEMENT, NAME_VIOLATIONS, WEIR_JSON_ELEMENT)
#define PATH_ID                                                                   \
    WEIR_JSON_PATH6(NAME_ERROR, NAME_DETAILS, WEIR_JSON_ELEMENT, NAME_VIOLATIONS, \
                    WEIR_JSON_ELEMENT, NAME_QUOTA_ID)
#define PATH_VALUE                                                                \
    WEIR_JSON_PATH6(NAME_ERROR, NAME_DETAILS, WEIR_JSON_ELEMENT, NAME_VIOLATIONS, \
                    WEIR_JSON_ELEMENT, NAME_QUOTA_VALUE)

struct error_reader {
    struct weir_json_walk walk;
    struct weir_limits found; /* believed once the document is whole */
    char text[TEXT_BYTES_MAX];
    size_t text_bytes; /* more than fit: too long */
    char id[TEXT_BYTES_MAX];
    size_t id_bytes;
    int64_t value; /* 0: not told */
};

static bool contains(struct weir_slice text, const char *part)
{
    size_t bytes = strlen(part);
    for (size_t i = 0; i + bytes <= text.bytes; i++) {
        if (memcmp(text.data + i, part, bytes) == 0) {
            return true;
        }
    }
    return false;
}

static void end_violation(struct error_reader *reading)
{
    struct weir_slice id = {reading->id, reading->id_bytes};
    bool by_day = contains(id, "PerDay");
    bool input = contains(id, "InputToken");
    enum weir_unit unit = input                     ? WEIR_UNIT_INPUT
                          : contains(id, "Token")   ? WEIR_UNIT_COST
                          : contains(id, "Request") ? WEIR_UNIT_REQUESTS
                                                    : WEIR_UNIT_COUNT;
    struct weir_limits *found = &reading->found;
    if ((by_day || contains(id, "PerMinute")) && unit != WEIR_UNIT_COUNT && reading->value > 0 &&
        found->quota_count < WEIR_QUOTAS_MAX) {
        uint64_t period_ns = by_day ? WEIR_NS_PER_DAY : WEIR_NS_PER_MINUTE;
        found->quotas[found->quota_count++] = (struct weir_quota){.unit = unit,
                                                                  .reset = WEIR_RESET_WINDOW,
                                                                  .period_ns = period_ns,
                                                                  .limit = reading->value};
    }
    reading->id_bytes = 0;
    reading->value = 0;
}

/* Digits only, as Google writes numbers of 64 bits. */
static int64_t number_of(struct weir_slice text)
{
    int64_t number = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || i == 15) {
            return 0;
        }
        number = number * 10 + (text.data[i] - '0');
    }
    return number;
}

static void end_text(struct error_reader *reading, uint64_t path)
{
    struct weir_slice text = {reading->text, reading->text_bytes};
    struct weir_time_text delay;
    if (text.bytes > TEXT_BYTES_MAX) {
        return;
    }
    if (path == PATH_ID) {
        memcpy(reading->id, text.data, text.bytes);
        reading->id_bytes = text.bytes;
    } else if (path == PATH_VALUE) {
        reading->value = number_of(text);
    } else if (weir_time_text_read(text, &delay) == WEIR_TIME_DURATION) {
        struct weir_limits *found = &reading->found;
        found->retry_after_known = true;
        found->retry_after_ns =
            delay.ns < WEIR_RETRY_AFTER_MAX_NS ? delay.ns : WEIR_RETRY_AFTER_MAX_NS;
        found->retry_after_rounding_ns = delay.rounding_ns;
    }
}

static void take_piece(struct error_reader *reading, struct weir_slice piece)
{
    if (reading->text_bytes + piece.bytes <= TEXT_BYTES_MAX) {
        memcpy(reading->text + reading->text_bytes, piece.data, piece.bytes);
    }
    reading->text_bytes += piece.bytes;
}

static void take_token(struct error_reader *reading, enum weir_json_token token,
                       struct weir_slice piece)
{
    uint64_t path = reading->walk.path;
    if ((path & 0xff) == WEIR_JSON_ELEMENT) {
        path >>= 8; /* one of an array of them */
    }
    if (token == WEIR_JSON_OBJECT_END && path == PATH_VIOLATION) {
        end_violation(reading);
    } else if (token == WEIR_JSON_STRING &&
               (path == PATH_ID || path == PATH_VALUE || path == PATH_DELAY)) {
        take_piece(reading, piece);
        if (reading->walk.scan.ends) {
            end_text(reading, path);
            reading->text_bytes = 0;
        }
    }
}

/* Runs once it is known whether the document has a delay, which may stand behind the violations. */
static void set_reset(struct weir_quota *quota, const struct weir_limits *found)
{
    uint64_t least_ns = quota->period_ns == WEIR_NS_PER_DAY ? ASK_AGAIN_NS : 0;
    uint64_t told_ns = found->retry_after_known ? found->retry_after_ns
                       : least_ns > 0           ? least_ns
                                                : quota->period_ns;
    quota->reset_ns = told_ns > least_ns ? told_ns : least_ns;
    quota->reset_rounding_ns = WEIR_NS_PER_SECOND;
}

static void believe(struct weir_limits *limits, struct weir_limits *found)
{
    for (uint32_t i = 0; i < found->quota_count; i++) {
        set_reset(&found->quotas[i], found);
    }
    if (!limits->retry_after_known && found->retry_after_known) {
        limits->retry_after_known = true;
        limits->retry_after_ns = found->retry_after_ns;
        limits->retry_after_rounding_ns = found->retry_after_rounding_ns;
    }
    if (limits->quota_count == 0) {
        memcpy(limits->quotas, found->quotas, found->quota_count * sizeof found->quotas[0]);
        limits->quota_count = found->quota_count;
    }
}

void weir_limits_read_error(struct weir_slice body, struct weir_limits *limits)
{
    struct error_reader reading;
    reading.found.quota_count = 0;
    reading.found.retry_after_known = false;
    reading.text_bytes = 0;
    reading.id_bytes = 0;
    reading.value = 0;
    if (body.bytes > WEIR_LIMITS_ERROR_BYTES_MAX) {
        return;
    }
    weir_json_walk_init(&reading.walk, &names);
    for (;;) {
        size_t used;
        struct weir_slice piece;
        enum weir_json_token token = weir_json_walk_next(&reading.walk, body, &used, &piece);
        if (token == WEIR_JSON_MORE || token == WEIR_JSON_FAULT) {
            break;
        }
        take_token(&reading, token, piece);
        body = (struct weir_slice){body.data + used, body.bytes - used};
    }
    if (weir_json_scan_is_whole(&reading.walk.scan)) {
        believe(limits, &reading.found);
    }
}
