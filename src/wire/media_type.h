/* media_type.h - what Content-Type and Accept say, as far as anyone here asks (RFC 9110, sections
 * 8.3.1 and 12.5.1). */
#ifndef WEIR_WIRE_MEDIA_TYPE_H
#define WEIR_WIRE_MEDIA_TYPE_H

#include "weir/types.h"

#include <stdbool.h>

/* The type of a Content-Type, without parameters and blanks: a part of the field's value. */
struct weir_slice weir_media_type(struct weir_slice content_type);

/* Whether an Accept names the type itself, whatever its weight; a range such as text/... does not
 * count. */
bool weir_media_type_accepted(struct weir_slice accept, struct weir_slice type);

#endif
