#include "worker/descriptor_log.h"

#include "log/rate_limited_log.h"
#include "net/descriptors.h"

#include <inttypes.h>

void weir_log_descriptors(const char *what, uint64_t now_ns)
{
    static struct weir_rate_limited_log log; /* one for the process, as the descriptors are */
    uint64_t limit = weir_descriptors_limit();
    if (limit == UINT64_MAX) { /* the process has no limit: the whole system has none left */
        weir_log_rate_limited(&log, now_ns, WEIR_LOG_WARN, "out_of_descriptors", NULL,
                              "%s: out of file descriptors (%" PRIu64
                              " in use, without a limit of the process). Weir closes idle "
                              "connections to make room. Raise fs.file-max, or lower "
                              "max_connections.",
                              what, weir_descriptors_count());
        return;
    }
    weir_log_rate_limited(
        &log, now_ns, WEIR_LOG_WARN, "out_of_descriptors", NULL,
        "%s: out of file descriptors (%" PRIu64 " of %" PRIu64 " in use; the last %" PRIu64
        " are kept for upstreams, files and the API). Weir closes idle connections to make room. "
        "Raise the limit of open files (ulimit -n, or LimitNOFILE= of a systemd unit), or lower "
        "max_connections.",
        what, weir_descriptors_count(), limit, weir_descriptors_reserve());
}
