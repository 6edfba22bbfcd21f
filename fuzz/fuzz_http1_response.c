/* The first byte says which request is answered: G, H or C for GET, HEAD or CONNECT. The rest is
 * taken for a response, with the same properties as requests. */
#include "wire_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0) {
        return 0;
    }
    struct reading reading = {
        .kind = WEIR_HTTP1_RESPONSE,
        .limits = WEIR_HTTP1_LIMITS_DEFAULT,
        .method = data[0] == 'H'   ? WEIR_METHOD_HEAD
                  : data[0] == 'C' ? WEIR_METHOD_CONNECT
                                   : WEIR_METHOD_GET,
    };
    try_head(reading, data + 1, bytes - 1);
    return 0;
}
