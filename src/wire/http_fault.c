#include "wire/http_fault.h"

#include <assert.h>

struct fault_text {
    uint16_t status;
    const char *name;
    const char *text;
};

#define ENTRY(name, status, text) {status, #name, text},
static const struct fault_text entries[WEIR_HTTP_FAULT_COUNT] = {WEIR_HTTP_FAULTS(ENTRY)};
#undef ENTRY

static const struct fault_text *entry_of(enum weir_http_fault fault)
{
    assert(fault < WEIR_HTTP_FAULT_COUNT);
    return &entries[fault];
}

uint16_t weir_http_fault_status(enum weir_http_fault fault)
{
    return entry_of(fault)->status;
}

const char *weir_http_fault_name(enum weir_http_fault fault)
{
    return entry_of(fault)->name;
}

const char *weir_http_fault_text(enum weir_http_fault fault)
{
    return entry_of(fault)->text;
}
