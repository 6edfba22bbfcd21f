"""The clients of the storm: what they do, in turn and at random, and what they may get for it."""
import asyncio
import collections
import contextlib
import json
import random
import socket
import struct
import time

from storm_raw import Malformed, parse_head, read_chunks
from storm_upstream import LARGE, fill

KEYS = [f'k{i}' for i in range(10)]
TENANTS = ['whale'] * 6 + ['pike', 'perch', 'trout', 'roach']  # one has more than its share of the lines
PATIENCE = 90  # for one answer; only to end what hangs
BODY_WINDOW = 4.5  # seconds, a little less than Weir waits for a body at the least: docs/internals/proxy.md

# What the upstream shall do with a request, how often, and which answers that may have besides those of
# the gate. None is a reply that breaks off.
FATES = {
    'quick': (40, {200}), 'slow': (20, {200}), 'chunks': (10, {200}), 'until_close': (3, {200}),
    'large': (1, {200}), 'early': (2, {200, 502}), 'hang': (1, {504}),
    'reset_first': (2, {502}), 'close_first': (2, {502}), 'reset_head': (2, {502}),
    'close_head': (2, {502}), 'reset_body': (2, {None}), 'close_body': (2, {None}),
    'close_chunk': (2, {None}),
}
PROBLEMS = {
    429: {'urn:weir:line-timeout', 'urn:weir:line-full', 'urn:weir:displaced'},
    502: {'urn:weir:upstream-unreachable'},
    504: {'urn:weir:upstream-timeout'},
}


class Wish:
    """One request, and what is known of it."""
    serial = 0

    def __init__(self, rng, fate=None, **more):
        Wish.serial += 1
        self.id = f'r{Wish.serial}'
        self.began = None  # when a slow sender sent the head
        self.key = rng.choice(KEYS)
        self.fate = fate or rng.choices(list(FATES), [often for often, _ in FATES.values()])[0]
        self.length = rng.choice([1, 20, 300, 5000, 40_000])
        self.method = more.get('method', 'GET')
        self.body = fill(self.id, more.get('body', 0))
        self.chunked = more.get('chunked', False)
        self.version = more.get('version', '1.1')
        self.fields = ['Host: localhost', f'X-Tenant: {rng.choice(TENANTS)}', *more.get('fields', [])]
        self.timeout = any(field.startswith('Weir-Timeout') for field in self.fields)

    def head(self):
        fields = list(self.fields)
        if self.chunked:
            fields.append('Transfer-Encoding: chunked')
        elif self.body or self.method == 'POST':
            fields.append(f'Content-Length: {len(self.body)}')
        query = (f'id={self.id}&fate={self.fate}&length={self.length}&body={len(self.body)}'
                 f'&sent={time.monotonic():.6f}')
        line = f'{self.method} /functions/{self.key}?{query} HTTP/{self.version}'
        return '\r\n'.join([line, *fields, '', '']).encode()

    def pieces(self, count):
        """The body in about so many pieces, framed."""
        size = max(1, -(-len(self.body) // count))
        pieces = [self.body[i:i + size] for i in range(0, len(self.body), size)]
        if self.chunked:
            pieces = [b'%x\r\n%s\r\n' % (len(piece), piece) for piece in pieces] + [b'0\r\n\r\n']
        return pieces

    def bytes(self):
        return self.head() + b''.join(self.pieces(3))

    def answer(self):
        """The body of its reply if all goes well."""
        if self.method == 'HEAD':
            return b''
        return LARGE if self.fate == 'large' else fill(self.id, self.length)


class Wrong(Exception):
    """An answer that should not have come, or none that should have."""


class Wire:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    async def send(self, data):
        self.writer.write(data)
        await asyncio.wait_for(self.writer.drain(), PATIENCE)

    def hang_up(self, how):
        sock = self.writer.get_extra_info('socket')
        if how == 'rst':
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            self.writer.transport.abort()
        elif not self.writer.transport.is_closing():
            with contextlib.suppress(OSError):
                self.writer.write_eof()

    async def ended(self):
        """Waits until the gateway has closed as well."""
        with contextlib.suppress(ConnectionError):
            while await asyncio.wait_for(self.reader.read(1 << 16), PATIENCE):
                pass


class Storm:
    """All of them together."""

    def __init__(self, port, seed):
        self.port = port
        self.seed = seed
        self.stopping = False
        self.counts = collections.Counter()
        self.wrong = []
        self.left = set()  # ids of those who did not wait for their answer
        self.acts = {name[3:]: getattr(self, name) for name in dir(self) if name.startswith('do_')}
        self.often = {'keep': 30, 'close': 8, 'old': 4, 'post': 8, 'chunked': 8, 'slow_sender': 4,
                      'pipeline': 6, 'impatient': 10, 'hang_in_head': 6, 'hang_after_head': 12,
                      'hang_in_body': 4, 'hang_in_reply': 4, 'slow_reader': 1, 'silent': 2,
                      'odd': 4}
        assert self.acts.keys() == self.often.keys()

    # ---- running

    async def client(self, index):
        rng = random.Random(self.seed * 100_003 + index)
        await asyncio.sleep(rng.uniform(0, 1))
        while not self.stopping:
            name = rng.choices(list(self.often), list(self.often.values()))[0]
            try:
                await self.acts[name](rng)
                self.counts[f'did {name}'] += 1
            except Exception as error:  # noqa: every kind of it is wrong here, and told
                self.wrong.append(f'{name}: {type(error).__name__}: {error}')
            await asyncio.sleep(rng.expovariate(1 / 0.6))

    @contextlib.asynccontextmanager
    async def wire(self, buffer=None, limit=1 << 16):
        sock = socket.socket()
        sock.setblocking(False)
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.wait_for(
            asyncio.get_running_loop().sock_connect(sock, ('127.0.0.1', self.port)), PATIENCE)
        reader, writer = await asyncio.open_connection(sock=sock, limit=limit)
        try:
            yield Wire(reader, writer)
        finally:
            writer.transport.abort()

    # ---- answers

    async def answer(self, wire, wish):
        """The answer to a wish; whether the connection goes on."""
        try:
            head = await asyncio.wait_for(wire.reader.readuntil(b'\r\n\r\n'), PATIENCE)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.TimeoutError) as error:
            raise Wrong(f'{wish.id} ({wish.fate}) got no answer: {error!r}') from error
        status, fields = parse_head(head)
        broken = False
        try:
            body = await asyncio.wait_for(self.body(wire, wish, status, fields), PATIENCE)
        except (asyncio.IncompleteReadError, ConnectionError):
            broken = True
        if broken:
            if None not in FATES[wish.fate][1] or status != 200:
                raise Wrong(f'{wish.id} ({wish.fate}) got {status} that breaks off')
            self.counts['answer: breaks off'] += 1
            return False
        self.judge(wish, status, fields, body)
        return fields.get(b'connection') == b'keep-alive'

    async def body(self, wire, wish, status, fields):
        if wish.method == 'HEAD':
            return b''
        if b'transfer-encoding' in fields:
            return await read_chunks(wire.reader)
        if b'content-length' in fields:
            return await wire.reader.readexactly(int(fields[b'content-length']))
        if fields.get(b'connection') != b'close' or status != 200:
            raise Malformed('a body without an end')
        return await wire.reader.read()

    def judge(self, wish, status, fields, body):
        """Whether the complete answer is one that may come."""
        def check(holds, why):
            if not holds:
                raise Wrong(f'{wish.id} ({wish.fate}, {wish.method}) got {status}: {why}: {body[:300]!r}')
        if status == 200:
            check(200 in FATES[wish.fate][1], 'not its fate')
            check(fields.get(b'x-id') == wish.id.encode(), f'the answer of {fields.get(b"x-id")}')
            check(body == wish.answer(), f'{len(body)} bytes, not {len(wish.answer())}')
            self.counts['answer: 200'] += 1
            return
        if status == 408 and wish.began is not None and time.monotonic() - wish.began >= BODY_WINDOW:
            self.counts['answer: 408 (slow machine)'] += 1  # this client had no processor for so long
            return
        check(status in PROBLEMS, 'unexpected')
        check(fields.get(b'content-type') == b'application/problem+json', 'no problem')
        if status == 502:
            check(502 in FATES[wish.fate][1], 'not its fate')
        if wish.method == 'HEAD':
            self.counts[f'answer: {status}'] += 1
            return
        problem = json.loads(body)
        check(problem['status'] == status and problem['type'] in PROBLEMS[status], 'another problem')
        check(status != 429 or problem['key'] == wish.key, 'another key')
        late = status == 504 and wish.fate != 'hang' and not wish.timeout
        self.counts[f'answer: {status} {problem["type"][9:]}' + (' (slow machine)' if late else '')] += 1

    async def stay(self, wire, wish):
        """A client that waits for the one answer, and finds nothing behind it."""
        await wire.send(wish.bytes())
        goes_on = await self.answer(wire, wish)
        if not goes_on:
            with contextlib.suppress(ConnectionError):
                more = await asyncio.wait_for(wire.reader.read(100), PATIENCE)
                if more:
                    raise Wrong(f'{wish.id}: more than one answer: {more!r}')
        return goes_on

    # ---- what they do

    async def do_keep(self, rng):
        async with self.wire() as wire:
            for _ in range(rng.randrange(1, 6)):
                if self.stopping or not await self.stay(wire, Wish(rng)):
                    break
                self.counts['kept alive'] += 1
                await asyncio.sleep(rng.uniform(0, 0.3))

    async def do_close(self, rng):
        async with self.wire() as wire:
            if await self.stay(wire, Wish(rng, fields=['Connection: close'])):
                raise Wrong('a connection that should close goes on')

    async def do_old(self, rng):
        wish = Wish(rng, rng.choice(['quick', 'slow', 'until_close', 'reset_first']), version='1.0')
        async with self.wire() as wire:
            await self.stay(wire, wish)

    async def do_odd(self, rng):
        wish = Wish(rng, rng.choice(['quick', 'slow']), method=rng.choice(['HEAD', 'DELETE', 'OPTIONS', 'PATCH']))
        async with self.wire() as wire:
            await self.stay(wire, wish)

    async def do_post(self, rng):
        async with self.wire() as wire:
            for _ in range(2):
                size = rng.choice([0, 1, 1000, 30_000])
                if not await self.stay(wire, Wish(rng, method='POST', body=size)):
                    break

    async def do_chunked(self, rng):
        size = rng.choice([0, 1, 1000, 30_000])
        async with self.wire() as wire:
            await self.stay(wire, Wish(rng, method=rng.choice(['POST', 'PUT']), body=size, chunked=True))

    async def do_slow_sender(self, rng):
        wish = Wish(rng, method='POST', body=rng.choice([100, 20_000]), chunked=rng.random() < 0.5)
        async with self.wire() as wire:
            answered = asyncio.create_task(self.answer(wire, wish))
            with contextlib.suppress(ConnectionError):
                wish.began = time.monotonic()
                await wire.send(wish.head())
                for piece in wish.pieces(rng.randrange(2, 8)):
                    await asyncio.sleep(rng.uniform(0, 0.06))
                    if answered.done():
                        self.counts['answered before all was sent'] += 1
                        break
                    await wire.send(piece)
            await answered

    async def do_pipeline(self, rng):
        wishes = [Wish(rng) for _ in range(rng.randrange(2, 7))]
        async with self.wire() as wire:
            await wire.send(b''.join(wish.bytes() for wish in wishes))
            for wish in wishes:
                if not await self.answer(wire, wish):
                    break
                self.counts['answered in a row'] += 1

    async def do_impatient(self, rng):
        timeout = rng.choice([20, 50, 200])
        async with self.wire() as wire:
            await self.stay(wire, Wish(rng, fields=[f'Weir-Timeout: {timeout}ms']))

    async def hang_up(self, rng, wire, name):
        how = rng.choice(['fin', 'rst'])
        wire.hang_up(how)
        self.counts[f'hung up {name}, {how}'] += 1
        if how == 'fin':
            await wire.ended()

    async def do_hang_in_head(self, rng):
        async with self.wire() as wire:
            data = Wish(rng).head()
            await wire.send(data[:rng.randrange(1, len(data) - 3)])
            await asyncio.sleep(rng.uniform(0, 0.2))
            await self.hang_up(rng, wire, 'in the head')

    async def do_hang_after_head(self, rng):
        wish = Wish(rng, rng.choice(['slow', 'slow', 'hang', 'quick']))
        self.left.add(wish.id)
        async with self.wire() as wire:
            await wire.send(wish.bytes())
            await asyncio.sleep(rng.choice([0, rng.uniform(0, 0.05), rng.uniform(0, 0.8)]))
            await self.hang_up(rng, wire, 'after the head')

    async def do_hang_in_body(self, rng):
        wish = Wish(rng, 'slow', method='POST', body=20_000, chunked=rng.random() < 0.5)
        self.left.add(wish.id)
        async with self.wire() as wire:
            await wire.send(wish.head() + wish.pieces(4)[0][:rng.randrange(5000)])
            await asyncio.sleep(rng.uniform(0, 0.5))
            await self.hang_up(rng, wire, 'in the body')

    async def do_hang_in_reply(self, rng):
        wish = Wish(rng, rng.choice(['large', 'chunks', 'chunks']))
        wish.length = 40_000
        async with self.wire(limit=1 << 14) as wire:
            await wire.send(wish.bytes())
            status, _ = parse_head(await asyncio.wait_for(wire.reader.readuntil(b'\r\n\r\n'), PATIENCE))
            if status == 200:
                await asyncio.wait_for(wire.reader.read(rng.randrange(1, 5000)), PATIENCE)
                await self.hang_up(rng, wire, 'in the reply')

    async def do_slow_reader(self, rng):
        wish = Wish(rng, 'large')
        async with self.wire(buffer=8192, limit=1 << 13) as wire:
            await wire.send(wish.bytes())
            status, fields = parse_head(await asyncio.wait_for(wire.reader.readuntil(b'\r\n\r\n'), PATIENCE))
            if status != 200:
                self.judge(wish, status, fields, await self.body(wire, wish, status, fields))
                return
            for _ in range(rng.randrange(5, 30)):
                await asyncio.sleep(0.03)
                await asyncio.wait_for(wire.reader.read(4096), PATIENCE)
            self.counts['read slowly'] += 1

    async def do_silent(self, rng):
        """Half a head, and then nothing for a while."""
        until = time.monotonic() + rng.choice([1, 3, 60])
        async with self.wire() as wire:
            await wire.send(Wish(rng).head()[:rng.randrange(1, 60)])
            closed = asyncio.create_task(wire.reader.read())
            try:
                while not self.stopping and time.monotonic() < until and not closed.done():
                    await asyncio.wait([closed], timeout=0.5)
                if closed.done():
                    self.counts['silent, and cut off'] += 1
                else:
                    self.counts['silent, and gone'] += 1
            finally:
                closed.cancel()
                await asyncio.wait([closed])
