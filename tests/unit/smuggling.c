/* Messages that different programs read differently: each must be refused by us, whoever stands
 * behind. Every one is a whole connection's worth of bytes, so that its body is read as well. */
#include "unit/wire.h"

struct attempt {
    enum weir_http_fault fault;
    struct weir_slice bytes;
};

#define ATTEMPT(fault, literal)          \
    {                                    \
        WEIR_HTTP_FAULT_##fault,         \
        {                                \
            literal, sizeof(literal) - 1 \
        }                                \
    }

/* A second request that an attacker hides behind the first. */
#define HIDDEN "GET /admin HTTP/1.1\r\nHost: a\r\n\r\n"

static const struct attempt attempts[] = {
    /* CL.TE: the one in front counts bytes, the one behind reads chunks. */
    ATTEMPT(LENGTH_AND_CODING, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 37\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" HIDDEN),
    /* TE.CL: the other way round. */
    ATTEMPT(LENGTH_AND_CODING, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                               "Content-Length: 4\r\n\r\n20\r\n" HIDDEN "\r\n0\r\n\r\n"),
    /* CL.TE with a length of 0, which some take for "no body". */
    ATTEMPT(LENGTH_AND_CODING, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    /* TE.TE: a second coding that only one of them understands. */
    ATTEMPT(CODING_REPEATED, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                             "Transfer-Encoding: cow\r\n\r\n0\r\n\r\n"),
    /* TE.TE in one line. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, cow\r\n"
                            "\r\n0\r\n\r\n"),
    /* The last coding is not chunked, so the body would have no end. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity"
                            "\r\n\r\n0\r\n\r\n"),
    /* A coding that is removed by one and passed on by the other. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n"),
    /* A word that contains "chunked": some search for it. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n"),
    /* Chunked twice. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked"
                            "\r\n\r\n0\r\n\r\n"),
    /* Chunked in quotes. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n"),
    /* An empty coding beside a length is dropped by some. */
    ATTEMPT(LENGTH_AND_CODING, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n"
                               "Content-Length: 1\r\n\r\nx"),
    /* A vertical tab that some trim and others do not. */
    ATTEMPT(VALUE, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0b"
                   "chunked\r\n\r\n0\r\n\r\n"),
    /* A tab before the value: a blank to some, a part of the word to others. */
    ATTEMPT(FRAMING_TAB, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\n\r\n"),
    /* A tab behind the value. */
    ATTEMPT(FRAMING_TAB, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\t\r\n\r\n"),
    /* A no-break space in Latin-1, which some libraries trim. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\xa0\r\n\r\n"),
    /* A blank before the colon: dropped with or without its field. */
    ATTEMPT(SPACE_IN_NAME, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n"
                           "Content-Length: 5\r\n\r\n0\r\n\r\n"),
    /* A tab before the colon. */
    ATTEMPT(SPACE_IN_NAME, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 5\r\n\r\nhello"),
    /* A NUL in a name: the end of it to whoever uses C strings. */
    ATTEMPT(NAME, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\0: chunked\r\n\r\n0\r\n\r\n"),
    /* A NUL in a value. */
    ATTEMPT(VALUE, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\0x\r\n\r\n0\r\n\r\n"),
    /* A name that some turn into Transfer-Encoding because they drop odd characters. */
    ATTEMPT(NAME, "POST / HTTP/1.1\r\nHost: a\r\nTransfer\xff"
                  "Encoding: chunked\r\n\r\n"),
    /* A CR in the name, whose lowest bits are those of '-'. */
    ATTEMPT(NAME, "POST / HTTP/1.1\r\nHost: a\r\nTransfer\rEncoding: chunked\r\n\r\n"),
    /* A folded line: its value begins on the next one. */
    ATTEMPT(FOLDED, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n chunked\r\n\r\n"),
    /* A folded line that hides a field. */
    ATTEMPT(FOLDED, "POST / HTTP/1.1\r\nHost: a\r\nX: y\r\n\tTransfer-Encoding: chunked\r\n\r\n"),
    /* A blank before the first field: a continuation of the request line, or a field. */
    ATTEMPT(FOLDED, "POST / HTTP/1.1\r\n Transfer-Encoding: chunked\r\nHost: a\r\n\r\n"),
    /* A bare LF ends the line for some, so a field follows. */
    ATTEMPT(BARE_LF, "POST / HTTP/1.1\r\nHost: a\r\nX: y\nTransfer-Encoding: chunked\r\n\r\n"),
    /* Bare LFs end the head for some. */
    ATTEMPT(BARE_LF, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 32\n\n" HIDDEN),
    /* A bare CR ends the line for some. */
    ATTEMPT(BARE_CR, "POST / HTTP/1.1\r\nHost: a\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n"),
    /* CR CR LF, which some take for an empty line. */
    ATTEMPT(BARE_CR, "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n" HIDDEN),
    /* LF CR instead of CR LF. */
    ATTEMPT(BARE_LF, "GET / HTTP/1.1\n\rHost: a\n\r\n\r"),
    /* Two lengths that differ: the first one or the last one counts. */
    ATTEMPT(LENGTH_REPEATED, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n"
                             "Content-Length: 32\r\n\r\n" HIDDEN),
    /* Two that agree: some pass both on, some make a list of them. */
    ATTEMPT(LENGTH_REPEATED, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
                             "content-length: 1\r\n\r\nx"),
    /* The list. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\nx"),
    /* A list whose members differ. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0,32\r\n\r\n" HIDDEN),
    /* A sign, which strtol() accepts. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +32\r\n\r\n" HIDDEN),
    /* A negative length, which becomes a huge one. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n"),
    /* Hexadecimal, which strtol(, 0) accepts. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x20\r\n\r\n" HIDDEN),
    /* Leading zeros, octal to strtol(, 0). */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 040\r\n\r\n" HIDDEN),
    /* Rubbish behind the number, at which atoi() stops. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 32 bytes\r\n\r\n" HIDDEN),
    /* 2^64 + 32, which becomes 32 where nobody checks. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551648\r\n\r\n"),
    /* An empty length: 0 or no length at all. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \r\n\r\n" HIDDEN),
    /* Chunks in HTTP/1.0, which has none. */
    ATTEMPT(CODING_VERSION, "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                            "0\r\n\r\n" HIDDEN),
    /* Connection asks for the removal of the length, and the body becomes a request. */
    ATTEMPT(CONNECTION_OPTION, "POST / HTTP/1.1\r\nHost: a\r\nConnection: Content-Length\r\n"
                               "Content-Length: 32\r\n\r\n" HIDDEN),
    /* Two hosts: routed by the one, answered by the other. */
    ATTEMPT(HOST_REPEATED, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    /* Both in one line. */
    ATTEMPT(HOST, "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n"),
    /* A host with a user name: which side of the @ is it? */
    ATTEMPT(HOST, "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n"),
    /* A host that ends in a path. */
    ATTEMPT(HOST, "GET / HTTP/1.1\r\nHost: a/../b\r\n\r\n"),
    /* A target with a user name. */
    ATTEMPT(TARGET_FORM, "GET http://a@b/ HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* A target that is neither a path nor a URI. */
    ATTEMPT(TARGET_FORM, "GET admin HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* Two spaces before the target. */
    ATTEMPT(TARGET, "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* A space in the target: the version is the last word, or the third. */
    ATTEMPT(VERSION, "GET / HTTP/1.1 x HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* A tab instead of a space. */
    ATTEMPT(TARGET, "GET /\tHTTP/1.1\r\nHost: a\r\n\r\n"),
    /* A fragment: part of the path, or nothing. */
    ATTEMPT(TARGET, "GET /public#/../admin HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* A byte above 127 in the target. */
    ATTEMPT(TARGET, "GET /\xe2\x80\xa8 HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* A NUL in the target. */
    ATTEMPT(TARGET, "GET /public\0/admin HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* HTTP/0.9, whose answer has no head. */
    ATTEMPT(TARGET, "GET /\r\n\r\n"),
    /* A version that some take for HTTP/1.1 and some for HTTP/1.0. */
    ATTEMPT(VERSION_UNKNOWN, "POST / HTTP/1.2\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"),
    /* The preface of HTTP/2. */
    ATTEMPT(VERSION_UNKNOWN, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    /* Empty lines, which shift whoever skips more of them than others. */
    ATTEMPT(EMPTY_LINES, "\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    /* A body behind a wish for another protocol: body, or the protocol's first bytes? */
    ATTEMPT(BODY_FORBIDDEN, "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\n"
                            "Upgrade: websocket\r\nContent-Length: 32\r\n\r\n" HIDDEN),
    /* A field without a colon, which some drop. */
    ATTEMPT(NAME, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding\r\nContent-Length: 1\r\n\r\nx"),
    /* A comma behind the coding: a list of one, or of two. */
    ATTEMPT(CODING_UNKNOWN,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n0\r\n\r\n"),
    /* A parameter of the coding, at which some stop reading. */
    ATTEMPT(CODING_UNKNOWN,
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
    /* A form feed, which isspace() takes for a blank. */
    ATTEMPT(VALUE, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0c"
                   "chunked\r\n\r\n0\r\n\r\n"),
    /* A next-line character in Latin-1: the end of a line in Unicode. */
    ATTEMPT(CODING_UNKNOWN, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\x85\r\n\r\n"),
    /* Another sign for the colon. */
    ATTEMPT(NAME, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding=chunked\r\n\r\n0\r\n\r\n"),
    /* Underscores between digits, which Python's int() accepts. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3_2\r\n\r\n" HIDDEN),
    /* A vertical tab before the length, which strtol() skips. */
    ATTEMPT(VALUE, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \x0b"
                   "32\r\n\r\n" HIDDEN),
    /* Two numbers with a blank between them. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0 32\r\n\r\n" HIDDEN),
    /* A superscript digit in Latin-1, which Python's isdigit() accepts. */
    ATTEMPT(LENGTH, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \xb9\r\n\r\nx"),
    /* A folded line in the middle of the length. */
    ATTEMPT(FOLDED, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n 2\r\n\r\n" HIDDEN),
    /* A field without a name. */
    ATTEMPT(NAME, "POST / HTTP/1.1\r\nHost: a\r\n: chunked\r\n\r\n"),

/* Chunked bodies that are read in two ways. */
#define CHUNKED "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    /* A size with 0x, which strtoul(, 16) accepts. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "0x1\r\nx\r\n0\r\n\r\n"),
    /* A sign. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "+1\r\nx\r\n0\r\n\r\n"),
    /* Minus nothing: the last chunk, or an error. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "-0\r\n\r\n" HIDDEN),
    /* A blank before the size. */
    ATTEMPT(CHUNK_SIZE, CHUNKED " 1\r\nx\r\n0\r\n\r\n"),
    /* A blank behind it. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "1 \r\nx\r\n0\r\n\r\n"),
    /* 2^64 + 1, which becomes 1 where nobody checks. */
    ATTEMPT(CHUNK_SIZE_LARGE, CHUNKED "10000000000000001\r\nx\r\n0\r\n\r\n"),
    /* The largest number, which overflows when the CRLF behind the data is added. */
    ATTEMPT(CHUNK_SIZE_LARGE, CHUNKED "ffffffffffffffff\r\nx\r\n0\r\n\r\n"),
    /* No size at all. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "\r\n\r\n"),
    /* Underscores between digits, which Python's int(, 16) accepts. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "1_0\r\n0123456789abcdef\r\n0\r\n\r\n"),
    /* So many zeros that what follows them is cut off somewhere. */
    ATTEMPT(CHUNK_SIZE_LARGE, CHUNKED "00000000000000001\r\nx\r\n0\r\n\r\n"),
    /* A blank inside of the size. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "0 1\r\nx\r\n0\r\n\r\n"),
    /* A tab behind it. */
    ATTEMPT(CHUNK_SIZE, CHUNKED "1\t\r\nx\r\n0\r\n\r\n"),
    /* An extension without a size: of a chunk of none, or an error. */
    ATTEMPT(CHUNK_SIZE, CHUNKED ";a\r\n\r\n" HIDDEN),
    /* CR alone behind the data. */
    ATTEMPT(CHUNK_END, CHUNKED "1\r\nx\r0\r\n\r\n"),
    /* A backslash in a quoted extension, which takes the quote away for some. */
    ATTEMPT(CHUNK_EXTENSION, CHUNKED "1;a=\"\\\"\r\nx\r\n0\r\n\r\n"),
    /* A coding in the trailers. */
    ATTEMPT(TRAILER, CHUNKED "0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    /* A bare LF behind the size. */
    ATTEMPT(BARE_LF, CHUNKED "1\nx\r\n0\r\n\r\n"),
    /* A bare LF in an extension: a new line to some (TERM.EXT). */
    ATTEMPT(BARE_LF, CHUNKED "1;a\nx\r\n0\r\n\r\n"),
    /* A bare CR in an extension. */
    ATTEMPT(BARE_CR, CHUNKED "1;a\rx\r\n0\r\n\r\n"),
    /* A quoted extension that swallows the end of its line. */
    ATTEMPT(CHUNK_EXTENSION, CHUNKED "1;a=\"\r\nx\r\n0\r\n\r\n\"\r\n"),
    /* A NUL in an extension. */
    ATTEMPT(CHUNK_EXTENSION, CHUNKED "1;\0\r\nx\r\n0\r\n\r\n"),
    /* Data longer than its size: some skip to the next line. */
    ATTEMPT(CHUNK_END, CHUNKED "1\r\nxyz\r\n0\r\n\r\n"),
    /* LF alone behind the data. */
    ATTEMPT(CHUNK_END, CHUNKED "1\r\nx\n0\r\n\r\n"),
    /* Any two bytes behind the data, which some skip unseen. */
    ATTEMPT(CHUNK_END, CHUNKED "1\r\nxAA0\r\n\r\n"),
    /* A length in the trailers, which whoever merges them takes for that of the next message. */
    ATTEMPT(TRAILER, CHUNKED "0\r\nContent-Length: 32\r\n\r\n" HIDDEN),
    /* A host in the trailers. */
    ATTEMPT(TRAILER, CHUNKED "0\r\nHost: b\r\n\r\n"),
    /* Rights in the trailers. */
    ATTEMPT(TRAILER, CHUNKED "0\r\nAuthorization: Basic YTph\r\n\r\n"),
    /* The hidden request where trailers belong. */
    ATTEMPT(SPACE_IN_NAME, CHUNKED "0\r\n" HIDDEN),
    /* A bare LF at the end of the trailers. */
    ATTEMPT(BARE_LF, CHUNKED "0\r\n\n" HIDDEN),
    /* A folded trailer. */
    ATTEMPT(FOLDED, CHUNKED "0\r\nX: y\r\n z\r\n\r\n"),
};

/* Reads the trailers that begin the bytes. */
static enum weir_http_fault read_trailers(struct weir_slice bytes)
{
    struct weir_http1_head trailers;
    struct reading reading = {WEIR_HTTP1_TRAILERS, WEIR_HTTP1_LIMITS_DEFAULT, 0, bytes};
    return read_head(&reading, &trailers) == WEIR_HTTP1_FAULT ? trailers.fault
                                                              : WEIR_HTTP_FAULT_NONE;
}

/* Reads chunks, in pieces of `step` bytes, and the trailers behind them. */
static enum weir_http_fault read_chunks(struct weir_slice bytes, size_t step)
{
    struct weir_chunked chunked;
    weir_chunked_init(&chunked, UINT64_MAX);
    for (size_t at = 0; at < bytes.bytes;) {
        size_t piece = bytes.bytes - at < step ? bytes.bytes - at : step;
        struct weir_slice input = {bytes.data + at, piece};
        struct weir_slice body;
        size_t used;
        input.data = guarded(input);
        enum weir_chunked_event event = weir_chunked_next(&chunked, input, &used, &body);
        at += used;
        if (event == WEIR_CHUNKED_END) {
            return read_trailers((struct weir_slice){bytes.data + at, bytes.bytes - at});
        }
        if (event == WEIR_CHUNKED_FAULT) {
            return chunked.fault;
        }
    }
    return WEIR_HTTP_FAULT_NONE;
}

static enum weir_http_fault read_message(struct weir_slice bytes, size_t step)
{
    struct weir_http1_head head;
    struct reading reading = request_reading(bytes);
    enum weir_http1_result result = read_head(&reading, &head);
    if (result == WEIR_HTTP1_FAULT) {
        return head.fault;
    }
    assert_int_equal(result, WEIR_HTTP1_DONE);
    struct weir_slice rest = {bytes.data + head.head_bytes, bytes.bytes - head.head_bytes};
    return head.framing == WEIR_FRAMING_CHUNKED ? read_chunks(rest, step) : WEIR_HTTP_FAULT_NONE;
}

TEST(every_attempt_at_smuggling_is_refused_for_its_own_reason)
{
    assert_true(COUNT_OF(attempts) >= 101);
    for (size_t i = 0; i < COUNT_OF(attempts); i++) {
        for (size_t step = 1; step <= 64; step *= 4) {
            enum weir_http_fault fault = read_message(attempts[i].bytes, step);
            if (fault != attempts[i].fault) {
                fail_msg("expected %s, got %s for:\n%.*s", weir_http_fault_name(attempts[i].fault),
                         weir_http_fault_name(fault), (int)attempts[i].bytes.bytes,
                         attempts[i].bytes.data);
            }
        }
    }
}

TEST(the_messages_that_the_attempts_imitate_are_accepted)
{
    static const struct weir_slice messages[] = {
        {HIDDEN, sizeof HIDDEN - 1},
        {CHUNKED "0\r\n\r\n", sizeof(CHUNKED "0\r\n\r\n") - 1},
        {CHUNKED "1;a=\"b\"\r\nx\r\n0\r\nX: y\r\n\r\n",
         sizeof(CHUNKED "1;a=\"b\"\r\nx\r\n0\r\nX: y\r\n\r\n") - 1},
    };
    for (size_t i = 0; i < COUNT_OF(messages); i++) {
        assert_int_equal(read_message(messages[i], 7), WEIR_HTTP_FAULT_NONE);
    }
    struct reading reading =
        request_reading(BYTES("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 32\r\n\r\n" HIDDEN));
    struct weir_http1_head head;
    accept_head(&reading, &head);
    assert_int_equal(strlen(HIDDEN), 32);
}

TEST(every_fault_has_a_name_a_text_and_a_status_that_refuses)
{
    for (unsigned fault = 1; fault < WEIR_HTTP_FAULT_COUNT; fault++) {
        uint16_t status = weir_http_fault_status((enum weir_http_fault)fault);
        assert_true(status == 400 || status == 413 || status == 414 || status == 417 ||
                    status == 431 || status == 501 || status == 505);
        assert_true(strlen(weir_http_fault_name((enum weir_http_fault)fault)) > 3);
        assert_true(strlen(weir_http_fault_text((enum weir_http_fault)fault)) > 10);
    }
    assert_int_equal(weir_http_fault_status(WEIR_HTTP_FAULT_NONE), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_attempt_at_smuggling_is_refused_for_its_own_reason),
        cmocka_unit_test(the_messages_that_the_attempts_imitate_are_accepted),
        cmocka_unit_test(every_fault_has_a_name_a_text_and_a_status_that_refuses),
    };
    return cmocka_run_group_tests_name("smuggling", tests, NULL, NULL);
}
