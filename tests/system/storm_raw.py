"""HTTP over bare sockets, for tests whose clients or upstreams do what no library would do, and what a
process costs as the kernel sees it."""
import asyncio
import contextlib
import os
import re
import time

from weir import PATIENCE, PROGRAM, weir


# ---- the process

def instrumented():
    """Whether the program was built with a sanitizer, so that its memory and speed say little."""
    with open(PROGRAM, 'rb') as file:
        program = file.read()
    return b'__asan_init' in program or b'__tsan_init' in program


INSTRUMENTED = instrumented()


def memory(pid):
    """Resident memory in bytes."""
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return int(re.search(r'VmRSS:\s+(\d+) kB', file.read())[1]) * 1024


def descriptors(pid):
    return len(os.listdir(f'/proc/{pid}/fd'))


def cpu_seconds(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        fields = file.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


# ---- messages

class Malformed(Exception):
    """What came is no HTTP/1.1 reply."""


TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
STATUS_LINE = re.compile(rb'HTTP/1\.1 ([1-9][0-9]{2}) [\t\x20-\x7e\x80-\xff]*')
FIELD = re.compile(rb'(%s):[ \t]*([\t\x20-\x7e\x80-\xff]*?)[ \t]*' % TOKEN)


def parse_head(head):
    """Status and fields, names in lower case, of a reply's head; it is judged strictly."""
    lines = head[:-4].split(b'\r\n')
    first = STATUS_LINE.fullmatch(lines[0])
    fields = {}
    for line in lines[1:]:
        field = FIELD.fullmatch(line)
        if field is None:
            raise Malformed(f'field {line[:200]!r}')
        name = field[1].lower()
        if name in (b'content-length', b'transfer-encoding') and name in fields:
            raise Malformed(f'{name} twice')
        fields[name] = field[2]
    if first is None or (b'content-length' in fields and b'transfer-encoding' in fields):
        raise Malformed(f'head {head[:200]!r}')
    return int(first[1]), fields


async def read_chunks(reader):
    body = []
    while True:
        size = await reader.readuntil(b'\r\n')
        if not re.fullmatch(rb'[0-9a-fA-F]{1,16}(;[^\r\n]*)?\r\n', size):
            raise Malformed(f'chunk size {size[:100]!r}')
        length = int(size.split(b';')[0], 16)
        if length == 0:
            break
        body.append(await reader.readexactly(length))
        if await reader.readexactly(2) != b'\r\n':
            raise Malformed('a chunk that does not end')
    while await reader.readuntil(b'\r\n') != b'\r\n':
        pass
    return b''.join(body)


async def read_reply(reader, method='GET', interim=None):
    """The next reply: status, fields, body. Interim replies go to the list, if there is one."""
    while True:
        status, fields = parse_head(await reader.readuntil(b'\r\n\r\n'))
        if status >= 200:
            break
        if interim is not None:
            interim.append(status)
    if method == 'HEAD' or status in (204, 304):
        return status, fields, b''
    if b'transfer-encoding' in fields:
        return status, fields, await read_chunks(reader)
    if b'content-length' in fields:
        return status, fields, await reader.readexactly(int(fields[b'content-length']))
    return status, fields, await reader.read()


def request(path, *fields, method='GET', body=b''):
    """The bytes of a request; its body, if any, is announced by its length."""
    lines = [f'{method} {path} HTTP/1.1', 'Host: localhost', *fields]
    if body:
        lines.append(f'Content-Length: {len(body)}')
    return '\r\n'.join([*lines, '', '']).encode('latin-1') + body


# ---- clients

class Wire:
    """One connection to the gateway."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await self.writer.drain()

    async def reply(self, **more):
        return await asyncio.wait_for(read_reply(self.reader, **more), PATIENCE)

    async def until_closed(self):
        """What comes until the other side closes or resets."""
        with contextlib.suppress(ConnectionError):
            return await asyncio.wait_for(self.reader.read(), PATIENCE)
        return b''

    def reset(self):
        self.writer.transport.abort()


@contextlib.asynccontextmanager
async def dial(port, limit=1 << 20):
    reader, writer = await asyncio.open_connection('127.0.0.1', port, limit=limit)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


class Steady:
    """A client that behaves well, all the time: each of its requests must succeed, and soon."""

    def __init__(self, port):
        self.port = port
        self.served = 0
        self.slowest = 0.0

    async def _run(self, pause):
        async with dial(self.port) as wire:
            while True:
                began = time.monotonic()
                await wire.send(request('/functions/steady'))
                status, _, body = await wire.reply()
                assert (status, body) == (200, b'steady'), (status, body)
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.served += 1
                await asyncio.sleep(pause)

    @contextlib.asynccontextmanager
    async def at_work(self, pause=0.005):
        task = asyncio.create_task(self._run(pause))
        try:
            yield self
            served = self.served
            while not task.done() and self.served < served + 2:  # it is still well afterwards
                await asyncio.sleep(0.01)
        finally:
            while not task.done():  # before Python 3.12 wait_for() may swallow a cancellation
                task.cancel()
                await asyncio.wait([task], timeout=0.1)
            if not task.cancelled():
                task.result()


# ---- upstreams

class RawUpstream:
    """An upstream whose replies are written by hand: `answers` has a coroutine function for each
    function's name, which gets the head, the reader and the writer, and returns whether the
    connection goes on; `anything` is for all other names."""

    def __init__(self, anything=None, **answers):
        self.answers = {'steady': self._steady, **answers}
        self.anything = anything
        self.heads = []

    @staticmethod
    async def _steady(_head, _reader, writer):
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsteady')
        return True

    async def _serve(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b'\r\n\r\n')
                line = re.match(rb'\S+ /functions/([\w-]*)', head)
                if line is None:
                    break  # what the function did not read of its body
                name = line[1].decode()
                if name != 'steady':
                    self.heads.append(head)
                if not await self.answers.get(name, self.anything)(head, reader, writer):
                    break
                await writer.drain()
        with contextlib.suppress(ConnectionError):
            writer.close()
            await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def serve(self):
        server = await asyncio.start_server(self._serve, '127.0.0.1', 0, limit=1 << 20, backlog=4096)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()


def url_of(where):
    return where if isinstance(where, str) else f'http://127.0.0.1:{where}'


@contextlib.asynccontextmanager
async def behind(upstream, limit=1000, line='timeout: 10s, max: 100000', timeouts='', top='',
                 listen='127.0.0.1:0'):
    """The gateway in front of such an upstream, which tells its port or its url, with a route for its
    functions. The timeouts are not for whoever behaves well."""
    async with upstream.serve() as where, weir(f'''
listen: {listen}
api: 127.0.0.1:0
threads: 2
grace: 2s
{top}
upstreams:
  functions: {{ url: "{url_of(where)}", timeouts: {{ {timeouts} }} }}
  steady: {{ url: "{url_of(where)}" }}
gates: {{ functions: {{ limit: {limit}, line: {{ {line} }} }} }}
routes:
  - {{ match: /functions/steady, key: steady, gate: functions, upstream: steady }}
  - match: /functions/{{function}}
    key: "{{function}}"
    tenant: header:X-Tenant
    flow: header:X-Flow
    gate: functions
    upstream: functions
''') as gateway:
        yield gateway
