/* body_reader.h - the body of a request as it comes in: read, checked and decoded in the client's
 * buffer.
 *
 * What belongs to the body lies at the front, without the frames of its chunks; behind it what
 * cannot be judged yet, or the next request. */
#ifndef WEIR_API_BODY_READER_H
#define WEIR_API_BODY_READER_H

#include "api/call.h"

enum weir_intake {
    WEIR_INTAKE_WAITS, /* for the client */
    WEIR_INTAKE_FULL,  /* as much as a buffer holds is there, and more will come */
    WEIR_INTAKE_ENDED, /* all of it has been read */
    WEIR_INTAKE_FAULT, /* body_in.fault says which */
    WEIR_INTAKE_GONE   /* so is the client; or there is no memory */
};

/* Reads on until one of these. */
enum weir_intake weir_intake_read(struct weir_call *call);

/* What is there of the body is no longer needed. */
void weir_intake_use_up(struct weir_call *call);

#endif
