/* weir.h - all of libweir's core. Programs with threads may prefer weir/sync.h. */
#ifndef WEIR_WEIR_H
#define WEIR_WEIR_H

#include "weir/budget.h"
#include "weir/control.h"
#include "weir/estimate.h"
#include "weir/event.h"
#include "weir/gate.h"
#include "weir/key.h"
#include "weir/retry.h"
#include "weir/settings.h"
#include "weir/status.h"
#include "weir/telemetry.h"
#include "weir/ticket.h"
#include "weir/types.h"
#include "weir/version.h"

#endif
