"""Clients and upstreams that say exactly what they are told to, byte by byte."""
import asyncio
import contextlib
import functools
import socket
import struct

from weir import PATIENCE, weir

LIMIT = 1 << 26  # of what a reader holds back for a line; nothing here comes near it


def run(test):
    """Makes a test of a coroutine function; the time is only there to end one that hangs."""
    @functools.wraps(test)
    def wrapper(*args, **more):
        asyncio.run(asyncio.wait_for(test(*args, **more), 3 * PATIENCE))
    return wrapper


class Message:
    """A request or a reply as it came: `fields` and `trailers` are names in lower case and values."""

    def __init__(self, start, fields):
        self.start = start
        self.fields = fields
        self.body = b''
        self.trailers = []

    @property
    def status(self):
        return int(self.start.split(' ')[1])

    @property
    def target(self):
        return self.start.split(' ')[1]

    def all(self, name):
        return [value for key, value in self.fields if key == name.lower()]

    def one(self, name):
        """The value of a field that stands at most once; None without it."""
        values = self.all(name)
        assert len(values) < 2, f'{name} stands there {len(values)} times'
        return values[0] if values else None


def split_fields(text):
    pairs = [line.split(':', 1) for line in text.split('\r\n') if line]
    return [(name.lower(), value.strip()) for name, value in pairs]


class Wire:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, *parts):
        self.writer.write(b''.join(p.encode() if isinstance(p, str) else p for p in parts))
        await self.writer.drain()

    async def head(self):
        text = await asyncio.wait_for(self.reader.readuntil(b'\r\n\r\n'), PATIENCE)
        start, _, fields = text.decode('latin-1').partition('\r\n')
        return Message(start, split_fields(fields))

    async def message(self, method='GET'):
        """The next message with its body; `method` is what a reply answers."""
        message = await self.head()
        await asyncio.wait_for(self._body(message, method), PATIENCE)
        return message

    async def _body(self, message, method):
        is_reply = message.start.startswith('HTTP/')
        if is_reply and (method == 'HEAD' or message.status < 200 or message.status in (204, 304)):
            return
        length = message.one('content-length')
        if message.one('transfer-encoding') == 'chunked':
            await self._chunks(message)
        elif length is not None:
            message.body = await self.reader.readexactly(int(length))
        elif is_reply:
            message.body = await self.reader.read()

    async def _chunks(self, message):
        parts = []
        while True:
            size = int((await self.reader.readuntil(b'\r\n')).split(b';')[0], 16)
            if size == 0:
                break
            parts.append(await self.reader.readexactly(size))
            assert await self.reader.readexactly(2) == b'\r\n'
        message.body = b''.join(parts)
        while (line := await self.reader.readuntil(b'\r\n')) != b'\r\n':
            message.trailers += split_fields(line.decode('latin-1'))

    async def exactly(self, count):
        return await asyncio.wait_for(self.reader.readexactly(count), PATIENCE)

    async def rest(self):
        """All until the connection ends."""
        return await asyncio.wait_for(self.reader.read(), PATIENCE)

    async def ended(self):
        """Waits until the other side has closed or reset the connection, whatever it says before."""
        with contextlib.suppress(ConnectionError):
            await self.rest()

    def finish(self):
        """Closes the sending side."""
        self.writer.write_eof()

    def reset(self):
        """Ends the connection with a RST."""
        raw = self.writer.get_extra_info('socket')
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        self.writer.transport.abort()

    def abort(self):
        """Closes without waiting for what has not been sent."""
        self.writer.transport.abort()

    def close(self):
        self.writer.close()


async def open_wire(where):
    """A connection to a port, `[v6]:port` or unix:/path."""
    if isinstance(where, int):
        return Wire(*await asyncio.open_connection('127.0.0.1', where, limit=LIMIT))
    if where.startswith('unix:'):
        return Wire(*await asyncio.open_unix_connection(where[len('unix:'):], limit=LIMIT))
    host, port = where.rsplit(':', 1)
    return Wire(*await asyncio.open_connection(host.strip('[]'), int(port), limit=LIMIT))


async def open_narrow_wire(port):
    """One whose receiving side holds little, so that whoever sends has to wait for it."""
    raw = socket.socket()
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    raw.setblocking(False)
    await asyncio.get_running_loop().sock_connect(raw, ('127.0.0.1', port))
    return Wire(*await asyncio.open_connection(sock=raw, limit=16384))


@contextlib.asynccontextmanager
async def connect(where):
    wire = await open_wire(where)
    try:
        yield wire
    finally:
        wire.close()


def request(target='/functions/f', *fields, method='GET', version='1.1', host='localhost', body=b''):
    """The bytes of a request; `host` None leaves it out."""
    lines = [f'{method} {target} HTTP/{version}', *([f'Host: {host}'] if host else []), *fields]
    return '\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + body


async def ask(where, text, method='GET'):
    """Says this on a connection of its own, and returns the reply."""
    async with connect(where) as wire:
        await wire.send(text)
        return await wire.message(method)


def reply(body=b'ok', *fields, status='200 OK'):
    """The bytes of a reply with its length."""
    lines = [f'HTTP/1.1 {status}', f'Content-Length: {len(body)}', *fields]
    return '\r\n'.join(lines).encode('latin-1') + b'\r\n\r\n' + body


class Server:
    """An upstream of a test's own. What it has seen is kept; `serve(wire)` is a connection's life."""

    def __init__(self, serve):
        self.seen = []
        self.connections = 0
        self.ended = 0
        self.url = None
        self.authority = None
        self.wrong = []
        self._serve = serve
        self._tasks = set()

    async def accept(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        self.connections += 1
        try:
            await self._serve(Wire(reader, writer))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        except Exception as wrong:  # an assertion of the test's: it has to be heard
            self.wrong.append(wrong)
        finally:
            self._tasks.discard(asyncio.current_task())
            self.ended += 1
            writer.transport.abort()

    async def stop(self):
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def upstream(serve=reply(), host='127.0.0.1', path=None, bound=None, secure=None):
    """An upstream at which `serve` is a coroutine function of a connection, or of a connection and a
    request, or else the bytes that answer every request. `bound` is a socket to listen on, `secure` an
    ssl.SSLContext."""
    async def answer(wire):
        while True:
            message = await wire.message()
            server.seen.append(message)
            if isinstance(serve, bytes):
                await wire.send(serve)
            else:
                await serve(wire, message)
    whole = callable(serve) and serve.__code__.co_argcount == 1
    server = Server(serve if whole else answer)
    if path is not None:
        listening = await asyncio.start_unix_server(server.accept, path, limit=LIMIT)
        server.url, server.authority = f'unix:{path}', 'localhost'
    else:
        where = {'sock': bound} if bound is not None else {'host': host, 'port': 0}
        listening = await asyncio.start_server(server.accept, **where, limit=LIMIT, ssl=secure)
        port = listening.sockets[0].getsockname()[1]
        server.authority = f'[{host}]:{port}' if ':' in host else f'{host}:{port}'
        server.url, server.port = f'http{"s" if secure else ""}://{server.authority}', port
    try:
        yield server
    finally:
        listening.close()
        await server.stop()
    for wrong in server.wrong:
        raise wrong


@contextlib.asynccontextmanager
async def front(*servers, listen='127.0.0.1:0', api='127.0.0.1:0', threads=1, grace='5s',
                top='', gate='limit: 10', route='', more=''):
    """A gateway for /functions/{function} to these servers, which are urls or have one. What is
    given goes into the config where it says, `more` at the upstream. With one thread there is one
    pool of connections, so that tests can tell which is used."""
    urls = ', '.join(f'"{getattr(server, "url", server)}"' for server in servers)
    config = f'''
listen: {listen}
api: {api}
threads: {threads}
grace: {grace}
{top}
upstreams: {{ functions: {{ url: [{urls}]{', ' if more else ''}{more} }} }}
gates:
  functions: {{ {gate} }}
routes:
  - match: /functions/{{function}}
    key: "{{function}}"
    tenant: header:X-Tenant
    flow: header:X-Flow
    priority: header:X-Priority
    gate: functions
    upstream: functions
    {route}
'''
    async with weir(config) as gateway:
        yield gateway
