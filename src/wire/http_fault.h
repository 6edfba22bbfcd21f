/* http_fault.h - why a message is refused, with the status for the client.
 *
 * Every fault ends the connection, because it is unknown where the next message begins. When an
 * upstream's reply has a fault, its client gets 502 whatever the status here. */
#ifndef WEIR_WIRE_HTTP_FAULT_H
#define WEIR_WIRE_HTTP_FAULT_H

#include <stdint.h>

/* X(NAME, status, text) */
#define WEIR_HTTP_FAULTS(X)                                                               \
    X(NONE, 0, "no fault")                                                                \
    /* lines */                                                                           \
    X(BARE_LF, 400, "a line ends with LF alone")                                          \
    X(BARE_CR, 400, "a CR is not followed by LF")                                         \
    X(EMPTY_LINES, 400, "there is more than one empty line before the message")           \
    X(METHOD, 400, "the method is not a token")                                           \
    X(METHOD_LONG, 501, "the method is too long")                                         \
    X(TARGET, 400, "the request target is empty or has an invalid character")             \
    X(LINE_LONG, 414, "the first line is too long")                                       \
    X(VERSION, 400, "the first line does not have the form that HTTP/1 gives it")         \
    X(VERSION_UNKNOWN, 505, "only HTTP/1.0 and HTTP/1.1 are supported")                   \
    X(STATUS, 400, "the status is not a number of three digits from 100")                 \
    X(REASON, 400, "the reason phrase has a control character")                           \
    /* fields */                                                                          \
    X(NAME, 400, "a field name is empty or not a token")                                  \
    X(NAME_LONG, 431, "a field name is too long")                                         \
    X(SPACE_IN_NAME, 400, "there is a blank before the colon of a field")                 \
    X(FOLDED, 400, "a line of the header section begins with a blank")                    \
    X(VALUE, 400, "a field value has a control character")                                \
    X(HEAD_LONG, 431, "the header section is too long")                                   \
    X(FIELDS_MANY, 431, "there are too many header fields")                               \
    /* what the fields say */                                                             \
    X(HOST_MISSING, 400, "there is no Host field")                                        \
    X(HOST_REPEATED, 400, "there is more than one Host field")                            \
    X(HOST, 400, "the Host field names no host")                                          \
    X(TARGET_FORM, 400, "the request target does not fit the method or names no host")    \
    X(LENGTH, 400, "Content-Length is not a plain number")                                \
    X(LENGTH_REPEATED, 400, "there is more than one Content-Length")                      \
    X(LENGTH_AND_CODING, 400, "there is both a Content-Length and a Transfer-Encoding")   \
    X(CODING_REPEATED, 400, "there is more than one Transfer-Encoding")                   \
    X(CODING_VERSION, 400, "Transfer-Encoding does not exist in HTTP/1.0")                \
    X(CODING_UNKNOWN, 501, "the only supported transfer coding is chunked, once")         \
    X(FRAMING_TAB, 400, "a field that frames the message has a tab around its value")     \
    X(BODY_FORBIDDEN, 400, "a message that has no body announces one")                    \
    X(CONNECTION, 400, "the Connection field is not a list of options")                   \
    X(CONNECTION_MANY, 400, "the Connection field has too many options")                  \
    X(CONNECTION_OPTION, 400, "the Connection field lists a field that frames or routes") \
    X(EXPECTATION, 417, "the only supported expectation is 100-continue")                 \
    X(TRAILER, 400, "a trailer field belongs in the header section")                      \
    /* chunked bodies */                                                                  \
    X(CHUNK_SIZE, 400, "a chunk size is not a plain hexadecimal number")                  \
    X(CHUNK_SIZE_LARGE, 400, "a chunk size is too large")                                 \
    X(CHUNK_EXTENSION, 400, "a chunk extension is malformed")                             \
    X(CHUNK_EXTENSION_LONG, 400, "a chunk extension is too long")                         \
    X(CHUNK_EXCESS, 400, "the chunks consist of extensions rather than of data")          \
    X(CHUNK_END, 400, "a chunk is not followed by CRLF")                                  \
    X(BODY_LARGE, 413, "the body is too large")

#define WEIR_HTTP_FAULT_MEMBER(name, status, text) WEIR_HTTP_FAULT_##name,
enum weir_http_fault {
    WEIR_HTTP_FAULTS(WEIR_HTTP_FAULT_MEMBER) WEIR_HTTP_FAULT_COUNT
};
#undef WEIR_HTTP_FAULT_MEMBER

/* The status to answer a request with; 0 for WEIR_HTTP_FAULT_NONE. */
uint16_t weir_http_fault_status(enum weir_http_fault fault);

/* "BARE_LF" and the like: for logs and metrics. */
const char *weir_http_fault_name(enum weir_http_fault fault);

/* An English sentence without its full stop. */
const char *weir_http_fault_text(enum weir_http_fault fault);

#endif
