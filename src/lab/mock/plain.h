/* plain.h - the mock as any upstream: every request gets the same kind of reply, as late and as
 * rarely as the settings say. */
#ifndef WEIR_LAB_MOCK_PLAIN_H
#define WEIR_LAB_MOCK_PLAIN_H

#include "lab/mock/visit.h"

extern const struct weir_mock_role weir_mock_plain;

#endif
