#include "weir/control.h"

const char *weir_controller_name(enum weir_controller controller)
{
    switch (controller) {
    case WEIR_CONTROLLER_NONE:
        return "none";
    case WEIR_CONTROLLER_LEARNED:
        return "learned";
    case WEIR_CONTROLLER_AIMD:
        return "aimd";
    }
    return "unknown";
}
