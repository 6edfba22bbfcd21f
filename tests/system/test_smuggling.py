"""Requests that programs read differently. Whatever a client sends, what reaches the upstream has one reading, a
request that was hidden in another never arrives, and there are as many replies as requests that were served."""
import asyncio
import re

import pytest
from raw import connect, front, request, run, upstream
from storm_raw import read_reply
from weir import PATIENCE

HIDDEN = request('/functions/hidden')
AFTER = request('/functions/after', 'Connection: close')  # what follows on the same connection


def post(*fields, body=b'', target='/functions/f', **more):
    return request(target, *fields, method='POST', body=body, **more)


def coded(line, body=b'0\r\n\r\n'):
    """A body in chunks, as this line has it, with a request behind it."""
    return post(line, body=body) + HIDDEN


def sized(line, body=b'hello'):
    """A body whose length stands in this line, with a request behind it."""
    return post(line, body=body) + HIDDEN


def chunks(body):
    return post('Transfer-Encoding: chunked', body=body) + HIDDEN


HEAD = 'POST /functions/f HTTP/1.1\r\nHost: localhost\r\n'


def lines(text, body=b''):
    """A head of these very bytes."""
    return (HEAD + text).encode('latin-1') + body + HIDDEN


TE = 'Transfer-Encoding: chunked'
LAST = b'0\r\n\r\n'

# Each is refused, and with it all that follows on its connection.
REFUSED = {
    # The coding is written so that one program sees it and another does not.
    'TE: space before the colon': coded('Transfer-Encoding : chunked'),
    'TE: tab before the colon': coded('Transfer-Encoding\t: chunked'),
    'TE: space before the name': coded(' Transfer-Encoding: chunked'),
    'TE: tab before the name': coded('\tTransfer-Encoding: chunked'),
    'TE: vertical tab before the value': coded('Transfer-Encoding: \x0bchunked'),
    'TE: vertical tab behind the value': coded('Transfer-Encoding: chunked\x0b'),
    'TE: form feed before the value': coded('Transfer-Encoding: \x0cchunked'),
    'TE: tab before the value': coded('Transfer-Encoding:\tchunked'),
    'TE: tab behind the value': coded('Transfer-Encoding: chunked\t'),
    'TE: control character': coded('Transfer-Encoding: \x01chunked'),
    'TE: delete character': coded('Transfer-Encoding: chunked\x7f'),
    'TE: NUL behind the value': coded('Transfer-Encoding: chunked\0'),
    'TE: NUL behind the name': coded('Transfer-Encoding\0: chunked'),
    'TE: no-break space': coded('Transfer-Encoding: \xa0chunked'),
    'TE: next-line character': coded('Transfer-Encoding: chunked\x85'),
    'TE: bare CR before the value': coded('Transfer-Encoding: \rchunked'),
    'TE: bare CR behind the value': coded('Transfer-Encoding: chunked\r'),
    'TE: folded before the value': coded('Transfer-Encoding:\r\n chunked'),
    'TE: folded behind the value': coded('Transfer-Encoding: chunked\r\n , identity'),
    'TE: folded with a tab': coded('Transfer-Encoding:\r\n\tchunked'),
    'TE: behind a folded line': lines(f'X: y\r\n {TE}\r\n\r\n', LAST),
    'TE: behind a bare LF': lines(f'X: y\n{TE}\r\n\r\n', LAST),
    'TE: behind a bare CR': lines(f'X: y\r{TE}\r\n\r\n', LAST),
    'TE: without a colon': lines('Transfer-Encoding\r\nContent-Length: 5\r\n\r\n', LAST),
    'TE: semicolon for the colon': coded('Transfer-Encoding; chunked'),
    'TE: equals sign for the colon': coded('Transfer-Encoding=chunked'),
    'TE: bytes above 127 in the name': coded('Transfer\xadEncoding: chunked'),
    'TE: space in the name': coded('Transfer Encoding: chunked'),
    # The coding itself.
    'TE: xchunked': coded('Transfer-Encoding: xchunked'),
    'TE: chunkedx': coded('Transfer-Encoding: chunkedx'),
    'TE: cow': coded('Transfer-Encoding: cow'),
    'TE: quotes': coded('Transfer-Encoding: "chunked"'),
    'TE: single quotes': coded("Transfer-Encoding: 'chunked'"),
    'TE: parameter': coded('Transfer-Encoding: chunked;q=1'),
    'TE: chunked, identity': coded('Transfer-Encoding: chunked, identity'),
    'TE: identity, chunked': coded('Transfer-Encoding: identity, chunked'),
    'TE: chunked, chunked': coded('Transfer-Encoding: chunked, chunked'),
    'TE: gzip, chunked': coded('Transfer-Encoding: gzip, chunked'),
    'TE: comma behind': coded('Transfer-Encoding: chunked,'),
    'TE: comma before': coded('Transfer-Encoding: ,chunked'),
    'TE: two words': coded('Transfer-Encoding: chunked chunked'),
    'TE: empty': coded('Transfer-Encoding:'),
    'TE: identity': sized('Transfer-Encoding: identity'),
    'TE: in HTTP/1.0': post(TE, body=LAST, version='1.0') + HIDDEN,
    'TE: as an option of Connection': post(TE, 'Connection: transfer-encoding', body=LAST) + HIDDEN,
    'TE.TE: twice the same': post(TE, TE, body=LAST) + HIDDEN,
    'TE.TE: the second is unknown': post(TE, 'Transfer-Encoding: cow', body=LAST) + HIDDEN,
    'TE.TE: the first is unknown': post('Transfer-Encoding: cow', TE, body=LAST) + HIDDEN,
    'TE.TE: the second is empty': post(TE, 'Transfer-Encoding:', body=LAST) + HIDDEN,
    'TE.TE: in another case': post(TE, 'transfer-ENCODING: identity', body=LAST) + HIDDEN,
    # Length and coding.
    'CL.TE': post(f'Content-Length: {len(LAST + HIDDEN)}', TE, body=LAST + HIDDEN),
    'TE.CL': post(TE, 'Content-Length: 4', body=b'%x\r\n%s\r\n0\r\n\r\n' % (len(HIDDEN), HIDDEN)),
    'CL.TE: a length of 0': post('Content-Length: 0', TE, body=LAST) + HIDDEN,
    'CL.TE: the coding is empty': post('Content-Length: 5', 'Transfer-Encoding:', body=b'hello') + HIDDEN,
    'CL.TE: the coding is identity': post('Content-Length: 5', 'Transfer-Encoding: identity', body=b'hello')
    + HIDDEN,
    # The length is written so that programs read different numbers.
    'CL: twice the same': post('Content-Length: 5', 'Content-Length: 5', body=b'hello') + HIDDEN,
    'CL: twice, 0 first': post('Content-Length: 0', f'Content-Length: {len(HIDDEN)}') + HIDDEN,
    'CL: twice, 0 last': post(f'Content-Length: {len(HIDDEN)}', 'Content-Length: 0') + HIDDEN,
    'CL: 5,5': sized('Content-Length: 5,5'),
    'CL: 5, 0': sized('Content-Length: 5, 0'),
    'CL: comma behind': sized('Content-Length: 5,'),
    'CL: +5': sized('Content-Length: +5'),
    'CL: -5': sized('Content-Length: -5'),
    'CL: -0': sized('Content-Length: -0', body=b''),
    'CL: 0x5': sized('Content-Length: 0x5'),
    'CL: 0b101': sized('Content-Length: 0b101'),
    'CL: 05': sized('Content-Length: 05'),
    'CL: 00': sized('Content-Length: 00', body=b''),
    'CL: 1_0': sized('Content-Length: 1_0', body=b'0123456789'),
    'CL: 5.0': sized('Content-Length: 5.0'),
    'CL: 5e0': sized('Content-Length: 5e0'),
    'CL: 0 5': sized('Content-Length: 0 5'),
    'CL: 5 bytes': sized('Content-Length: 5 bytes'),
    'CL: 5;': sized('Content-Length: 5;'),
    'CL: quotes': sized('Content-Length: "5"'),
    'CL: empty': sized('Content-Length:'),
    'CL: a superscript digit': sized('Content-Length: \xb9', body=b'h'),
    'CL: 2^64 + 5': sized(f'Content-Length: {2 ** 64 + 5}'),
    'CL: 2^63': sized(f'Content-Length: {2 ** 63}'),
    'CL: 2^32 as 20 digits': sized('Content-Length: 00000000004294967301'),
    'CL: space before the colon': sized('Content-Length : 5'),
    'CL: tab before the value': sized('Content-Length:\t5'),
    'CL: tab behind the value': sized('Content-Length: 5\t'),
    'CL: vertical tab': sized('Content-Length: \x0b5'),
    'CL: NUL behind the value': sized('Content-Length: 5\0'),
    'CL: NUL behind the name': sized('Content-Length\0: 5'),
    'CL: tab behind the name': sized('Content-Length\t: 5'),
    'CL: folded': sized('Content-Length:\r\n 5'),
    'CL: folded digits': sized('Content-Length: 5\r\n 0'),
    'CL: behind a bare CR': lines('X: y\rContent-Length: 5\r\n\r\n', b'hello'),
    'CL: as an option of Connection': post('Content-Length: 5', 'Connection: content-length', body=b'hello')
    + HIDDEN,
    # Sizes of chunks.
    'chunk: 0x5': chunks(b'0x5\r\nhello\r\n0\r\n\r\n'),
    'chunk: +5': chunks(b'+5\r\nhello\r\n0\r\n\r\n'),
    'chunk: -5': chunks(b'-5\r\nhello\r\n0\r\n\r\n'),
    'chunk: -0': chunks(b'-0\r\n\r\n'),
    'chunk: 1_0': chunks(b'1_0\r\n0123456789abcdef\r\n0\r\n\r\n'),
    'chunk: 5h': chunks(b'5h\r\nhello\r\n0\r\n\r\n'),
    'chunk: 5.0': chunks(b'5.0\r\nhello\r\n0\r\n\r\n'),
    'chunk: no digit': chunks(b'\r\nhello\r\n0\r\n\r\n'),
    'chunk: an extension without a size': chunks(b';a\r\nhello\r\n0\r\n\r\n'),
    'chunk: a superscript digit': chunks(b'\xb9\r\nh\r\n0\r\n\r\n'),
    'chunk: 17 digits': chunks(b'00000000000000005\r\nhello\r\n0\r\n\r\n'),
    'chunk: 2^64 + 5': chunks(b'10000000000000005\r\nhello\r\n0\r\n\r\n'),
    'chunk: 2^64 - 1': chunks(b'ffffffffffffffff\r\nhello\r\n0\r\n\r\n'),
    'chunk: 2^63': chunks(b'8000000000000000\r\nhello\r\n0\r\n\r\n'),
    'chunk: space before the size': chunks(b' 5\r\nhello\r\n0\r\n\r\n'),
    'chunk: space behind the size': chunks(b'5 \r\nhello\r\n0\r\n\r\n'),
    'chunk: space inside the size': chunks(b'0 5\r\nhello\r\n0\r\n\r\n'),
    'chunk: tab behind the size': chunks(b'5\t\r\nhello\r\n0\r\n\r\n'),
    'chunk: NUL behind the size': chunks(b'5\0\r\nhello\r\n0\r\n\r\n'),
    'chunk: bare LF behind the size': chunks(b'5\nhello\r\n0\r\n\r\n'),
    'chunk: bare CR behind the size': chunks(b'5\rhello\r\n0\r\n\r\n'),
    'chunk: CR CR LF behind the size': chunks(b'5\r\r\nhello\r\n0\r\n\r\n'),
    'chunk: LF CR behind the size': chunks(b'5\n\rhello\r\n0\r\n\r\n'),
    'chunk: longer than its size': chunks(b'5\r\nhello, world\r\n0\r\n\r\n'),
    'chunk: shorter than its size': chunks(b'7\r\nhello\r\n0\r\n\r\n'),
    'chunk: LF behind the data': chunks(b'5\r\nhello\n0\r\n\r\n'),
    'chunk: CR behind the data': chunks(b'5\r\nhello\r0\r\n\r\n'),
    'chunk: other bytes behind the data': chunks(b'5\r\nhelloXX0\r\n\r\n'),
    'chunk: an empty line behind the data': chunks(b'5\r\nhello\r\n\r\n0\r\n\r\n'),
    # Extensions.
    'extension: bare LF': chunks(b'5;a\nhello\r\n0\r\n\r\n'),
    'extension: bare LF inside': chunks(b'5;a=b\nc\r\nhello\r\n0\r\n\r\n'),
    'extension: bare LF, and a size behind it': chunks(b'5;\n\r\nhello\r\n0\r\n\r\n'),
    'extension: bare CR': chunks(b'5;a\rb\r\nhello\r\n0\r\n\r\n'),
    'extension: NUL': chunks(b'5;a\0\r\nhello\r\n0\r\n\r\n'),
    'extension: a newline in quotes': chunks(b'5;a="\r\nhello\r\n0\r\n\r\n"\r\nhello\r\n0\r\n\r\n'),
    'extension: a backslash in quotes': chunks(b'5;a="\\"\r\nhello\r\n0\r\n\r\n'),
    'extension: empty': chunks(b'5;\r\nhello\r\n0\r\n\r\n'),
    'extension: spaces around it': chunks(b'5 ; a = b\r\nhello\r\n0\r\n\r\n'),
    'extension: of the last chunk, bare LF': chunks(b'0;a\n\r\n'),
    'extension: too long': chunks(b'5;' + b'a' * 300 + b'\r\nhello\r\n0\r\n\r\n'),
    # Trailers.
    'trailer: Content-Length': chunks(b'0\r\nContent-Length: 60\r\n\r\n'),
    'trailer: Transfer-Encoding': chunks(b'0\r\nTransfer-Encoding: chunked\r\n\r\n'),
    'trailer: Host': chunks(b'0\r\nHost: other\r\n\r\n'),
    'trailer: Authorization': chunks(b'0\r\nAuthorization: Basic YTph\r\n\r\n'),
    'trailer: bare LF': chunks(b'0\r\nX: y\n\r\n'),
    'trailer: ends with LF': chunks(b'0\r\n\n'),
    'trailer: folded': chunks(b'0\r\nX: y\r\n z\r\n\r\n'),
    'trailer: NUL': chunks(b'0\r\nX: y\0\r\n\r\n'),
    'trailer: no colon': chunks(b'0\r\nX\r\n\r\n'),
    'trailer: the hidden request': chunks(b'0\r\n')[:-len(HIDDEN)] + HIDDEN,
    # Ends of the head, and names.
    'head: ends with LF LF': lines('X: y\n\n'),
    'head: ends with CR LF LF': lines('X: y\r\n\n'),
    'head: ends with LF CR LF': lines('X: y\n\r\n'),
    'head: ends with CR CR': lines('X: y\r\r'),
    'head: CR CR LF': lines('X: y\r\r\n\r\n'),
    'head: NUL in a name': lines('X\0Y: z\r\n\r\n'),
    'head: NUL in a value': lines('X: y\0z\r\n\r\n'),
    'head: tab behind a name': lines('X\t: y\r\n\r\n'),
    'head: empty name': lines(': y\r\n\r\n'),
    'head: a line without a colon': lines('X\r\n\r\n'),
    'head: two Hosts': lines('Host: other\r\n\r\n'),
    'head: Host in two lines': lines('Host:\r\n other\r\n\r\n'),
    'head: Host as an option of Connection': lines('Connection: host\r\n\r\n'),
    'head: a request line before the fields': b'GET / HTTP/1.1\r\n' + lines('\r\n'),
    'line: no version': b'GET /functions/f\r\n\r\n' + HIDDEN,
    'line: version 1.2': request('/functions/f', version='1.2') + HIDDEN,
    'line: version 01.1': request('/functions/f', version='01.1') + HIDDEN,
    'line: version in small letters': b'GET /functions/f http/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: two spaces': b'GET  /functions/f HTTP/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: a tab': b'GET\t/functions/f HTTP/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: a space at the end': b'GET /functions/f HTTP/1.1 \r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: a space in the target': b'GET /functions/f HTTP/1.1 HTTP/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: a space before the method': b' GET /functions/f HTTP/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: a bare CR': b'GET /functions/f\r HTTP/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: a NUL': b'GET /functions/f\0 HTTP/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN,
    'line: empty lines before it': b'\r\n\r\n\r\n' + HIDDEN,
    'upgrade: a body behind it': request('/functions/f', 'Connection: upgrade', 'Upgrade: websocket',
                                         f'Content-Length: {len(HIDDEN)}') + HIDDEN,
}

OK = ('POST', '/functions/f')

# Each is served: what the upstream has to see of it, before what follows.
SERVED = {
    'CL.0: the request is the body': (post(f'Content-Length: {len(HIDDEN)}', body=HIDDEN), [(*OK, HIDDEN)]),
    'CL.0: GET with a body': (request('/functions/f', f'Content-Length: {len(HIDDEN)}', body=HIDDEN),
                              [('GET', '/functions/f', HIDDEN)]),
    '0.CL: no body, and a request': (post('Content-Length: 0') + request('/functions/g'),
                                     [(*OK, b''), ('GET', '/functions/g', b'')]),
    'no length: what follows is a request': (post() + request('/functions/g'),
                                             [(*OK, b''), ('GET', '/functions/g', b'')]),
    'TE: in capitals': (post('TRANSFER-ENCODING: CHUNKED', body=b'5\r\nhello\r\n' + LAST), [(*OK, b'hello')]),
    'TE: spaces around it': (post('Transfer-Encoding:   chunked  ', body=b'5\r\nhello\r\n' + LAST),
                             [(*OK, b'hello')]),
    'TE: with an underscore it is another field': (
        post('Transfer_Encoding: chunked', 'Content-Length: 5', body=b'hello'), [(*OK, b'hello')]),
    'TE: with a dot it is another field': (
        post('Transfer.Encoding: chunked', 'Content-Length: 5', body=b'hello'), [(*OK, b'hello')]),
    'CL: with an underscore it is another field': (
        post('Content_Length: 60', 'Content-Length: 5', body=b'hello'), [(*OK, b'hello')]),
    'TE in the field TE': (post('TE: chunked', 'Content-Length: 5', body=b'hello'), [(*OK, b'hello')]),
    'chunk: the request is the data': (
        post(TE, body=b'%x\r\n%s\r\n0\r\n\r\n' % (len(HIDDEN), HIDDEN)), [(*OK, HIDDEN)]),
    'chunk: an end is the data': (post(TE, body=b'5\r\n0\r\n\r\n\r\n' + LAST), [(*OK, LAST)]),
    'chunk: capitals and zeros': (post(TE, body=b'000A\r\n0123456789\r\n00000\r\n\r\n'), [(*OK, b'0123456789')]),
    'extension: a name': (post(TE, body=b'5;a\r\nhello\r\n' + LAST), [(*OK, b'hello')]),
    'extension: a request in quotes': (
        post(TE, body=b'5;a="GET /functions/hidden HTTP/1.1"\r\nhello\r\n0;b\r\n\r\n'), [(*OK, b'hello')]),
    'trailer: a request line': (post(TE, body=b'0\r\nX:POST /functions/hidden HTTP/1.1\r\n\r\n'), [(*OK, b'')]),
    'trailer: a request': (
        post(TE, body=b'5\r\nhello\r\n0\r\nGET:/functions/hidden HTTP/1.1\r\nX-Host: localhost\r\n\r\n'),
        [(*OK, b'hello')]),
    'trailer: a length of another spelling': (post(TE, body=b'0\r\nContent_Length: 60\r\n\r\n'), [(*OK, b'')]),
    'Expect: the body comes at once': (post('Expect: 100-continue', 'Content-Length: 5', body=b'hello'),
                                       [(*OK, b'hello')]),
    'upgrade: h2c, and a body': (post('Connection: upgrade, http2-settings', 'Upgrade: h2c', 'HTTP2-Settings: AA',
                                      f'Content-Length: {len(HIDDEN)}', body=HIDDEN), [(*OK, HIDDEN)]),
    'upgrade: h2c, and the preface of HTTP/2 as the body': (
        post('Connection: upgrade', 'Upgrade: h2c', 'Content-Length: 24', body=b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
        [(*OK, b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')]),
    'Connection lists another field': (post('Connection: x-mine', 'X-Mine: 1', 'Content-Length: 5', body=b'hello'),
                                       [(*OK, b'hello')]),
    'line: one empty line before it': (b'\r\n' + request('/functions/f'), [('GET', '/functions/f', b'')]),
    'line: the target names another host': (
        b'GET http://127.0.0.1/functions/f HTTP/1.1\r\nHost: localhost\r\n\r\n', [('GET', '/functions/f', b'')]),
}

LINE = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.[01]")
FIELD = re.compile(rb"([A-Za-z0-9-]+): ?([!-~](?:[ -~]*[!-~])?)?")
SIZE = re.compile(rb'[0-9a-fA-F]{1,16}')


async def plain_line(reader):
    line = await reader.readuntil(b'\n')
    assert line.endswith(b'\r\n') and b'\r' not in line[:-2], line
    return line[:-2]


async def plain_request(reader):
    """Reads a request that all programs read the same, or fails."""
    first = await plain_line(reader)
    start = LINE.fullmatch(first)
    assert start, first
    fields = []
    while line := await plain_line(reader):
        field = FIELD.fullmatch(line)
        assert field, line
        fields.append((field[1].lower(), field[2]))
    names = [name for name, _ in fields]
    assert not {b'upgrade', b'http2-settings', b'trailer', b'te', b'connection', b'keep-alive'} & set(names), names
    assert names.count(b'host') == 1
    assert names.count(b'content-length') + names.count(b'transfer-encoding') <= 1, names
    said, body = dict(fields), b''
    if b'content-length' in said:
        assert re.fullmatch(rb'0|[1-9][0-9]*', said[b'content-length']), said
        body = await reader.readexactly(int(said[b'content-length']))
    elif b'transfer-encoding' in said:
        assert said[b'transfer-encoding'] == b'chunked'
        size = None
        while size != 0:
            line = await plain_line(reader)
            assert SIZE.fullmatch(line), line
            size = int(line, 16)
            body += await reader.readexactly(size)
            assert await plain_line(reader) == b''
    return start[1].decode(), start[2].decode(), body


class Reached:
    """What has come to the upstream: requests that were complete, in their order."""

    def __init__(self):
        self.requests = []

    async def serve(self, wire):
        while True:
            came = await plain_request(wire.reader)
            self.requests.append(came)
            said = repr(came).encode()
            await wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n' % len(said), said)


async def replies_to(port, text, step):
    """Sends the text, so many bytes at a time, and returns all replies until the connection ends."""
    async with connect(port) as wire:
        reading = asyncio.create_task(all_replies(wire.reader))
        try:
            for at in range(0, len(text), step):
                await wire.send(text[at:at + step])
        except ConnectionError:
            pass  # it was refused before all of it was there
        return await asyncio.wait_for(reading, PATIENCE)


async def all_replies(reader):
    replies = []
    while not reader.at_eof():
        try:
            status, _, body = await read_reply(reader)
        except asyncio.IncompleteReadError as end:
            assert end.partial == b'', 'a reply is cut off'
            break
        replies.append((status, body))
    return replies


async def each_of(tricks, check):
    """Tries all, and then names those that failed."""
    failed = []
    for name in tricks:
        try:
            await check(name)
        except AssertionError as wrong:
            failed.append(f'{name}: {wrong}')
    assert failed == []


STEPS = pytest.mark.parametrize('step', [1 << 20, 1], ids=['at once', 'byte by byte'])


@STEPS
@run
async def test_an_ambiguous_request_is_refused_and_nothing_behind_it_is_served(step):
    reached = Reached()

    async def serve(wire):
        await reached.serve(wire)
    async with upstream(serve) as server, front(server) as gateway:
        async def check(name):
            reached.requests.clear()
            replies = await replies_to(gateway.port, request('/functions/before') + REFUSED[name] + AFTER, step)
            assert reached.requests == [('GET', '/functions/before', b'')]
            assert [status for status, _ in replies[:1]] == [200]
            assert len(replies) == 2, replies
            assert 400 <= replies[1][0] < 600, replies
            await gateway.until('f', active=0)
            # Another client's request, on whatever connection to the upstream there is, gets its own reply.
            own = request(f'/functions/after?{len(name)}', 'Connection: close')
            said = repr(('GET', f'/functions/after?{len(name)}', b'')).encode()
            assert await replies_to(gateway.port, own, 1 << 20) == [(200, said)]
        await each_of(REFUSED, check)


@STEPS
@run
async def test_a_request_that_only_looks_ambiguous_is_served_as_what_it_is(step):
    reached = Reached()

    async def serve(wire):
        await reached.serve(wire)
    async with upstream(serve) as server, front(server) as gateway:
        async def check(name):
            text, expected = SERVED[name]
            reached.requests.clear()
            replies = await replies_to(gateway.port, text + AFTER, step)
            expected = [*expected, ('GET', '/functions/after', b'')]
            assert reached.requests == expected
            assert replies == [(200, repr(came).encode()) for came in expected]
        await each_of(SERVED, check)
