#include "weir/status.h"

#include "weir/version.h"

const char *weir_status_name(enum weir_status status)
{
    static const char *const names[WEIR_STATUS_COUNT] = {
#define WEIR_STATUS_NAME(name, text) #name,
        WEIR_STATUS_MAP(WEIR_STATUS_NAME)
#undef WEIR_STATUS_NAME
    };
    return (unsigned)status < WEIR_STATUS_COUNT ? names[status] : "UNKNOWN";
}

const char *weir_status_text(enum weir_status status)
{
    static const char *const texts[WEIR_STATUS_COUNT] = {
#define WEIR_STATUS_TEXT(name, text) text,
        WEIR_STATUS_MAP(WEIR_STATUS_TEXT)
#undef WEIR_STATUS_TEXT
    };
    return (unsigned)status < WEIR_STATUS_COUNT ? texts[status] : "this number is no status";
}

const char *weir_version(void)
{
    return WEIR_VERSION;
}
