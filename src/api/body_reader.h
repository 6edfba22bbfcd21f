/* body_reader.h - the body of a request as it comes in: read, checked and decoded in the client's
 * buffer.
 *
 * What belongs to the body lies at the front, without the frames of its chunks; behind it what
 * cannot be judged yet, or the next request. */
#ifndef WEIR_API_BODY_READER_H
#define WEIR_API_BODY_READER_H

#include "frontend/body_pace.h"
#include "frontend/client.h"
#include "proxy/body.h"
#include "wire/chunked.h"

struct weir_body_reader {
    struct weir_body body;
    struct weir_body_pace pace; /* of the client, while it sends the body */
    struct weir_chunked decoder;
    uint32_t bytes; /* decoded, at the front of the client's buffer */
    bool reading;   /* the body has not ended */
    bool expects;   /* the client waits for a 100 before it sends it */
    bool skips;     /* it is short: it is read even if no handler wants it */
    bool persists;  /* the connection may be kept once it has been read */
};

enum weir_body_reader_event {
    WEIR_BODY_READER_WAITS, /* for the client */
    WEIR_BODY_READER_FULL,  /* as much as a buffer holds is there, and more will come */
    WEIR_BODY_READER_ENDED, /* all of it has been read */
    WEIR_BODY_READER_FAULT, /* body.fault says which */
    WEIR_BODY_READER_GONE   /* so is the client; or there is no memory */
};

/* Reads on until one of these. */
enum weir_body_reader_event weir_body_reader_read(struct weir_body_reader *reader,
                                                  struct weir_client *client);

/* What is there of the body is no longer needed. */
void weir_body_reader_consume(struct weir_body_reader *reader, struct weir_client *client);

#endif
