#include "wire/exposition.h"

#include "base/slice.h"
#include "wire/chars.h"
#include "wire/digits.h"

char *weir_exposition_label(char *to, struct weir_slice value)
{
    while (value.bytes > 0) {
        size_t bytes = weir_text_character(value);
        char c = value.data[0];
        if (bytes == 0) {
            to = weir_exposition_raw(to, weir_slice_of("\xef\xbf\xbd"));
            bytes = 1;
        } else if (c == '\\' || c == '"' || c == '\n') {
            *to++ = '\\';
            *to++ = c == '\n' ? 'n' : c;
        } else {
            to = weir_exposition_raw(to, (struct weir_slice){value.data, bytes});
        }
        value.data += bytes;
        value.bytes -= bytes;
    }
    return to;
}

char *weir_exposition_number(char *to, uint64_t number)
{
    char room[WEIR_DIGITS_MAX];
    return weir_exposition_raw(to, weir_digits(room, number));
}

char *weir_exposition_seconds(char *to, uint64_t ns)
{
    uint64_t rest = ns % WEIR_NS_PER_SECOND;
    to = weir_exposition_number(to, ns / WEIR_NS_PER_SECOND);
    if (rest == 0) {
        return to;
    }
    *to++ = '.';
    for (uint64_t unit = WEIR_NS_PER_SECOND / 10; rest > 0; unit /= 10) {
        *to++ = (char)('0' + rest / unit);
        rest %= unit;
    }
    return to;
}
