"""Where something ends: descriptors, connections, the grace, a reader's time, an upstream's last words."""
import asyncio
import contextlib
import fcntl
import itertools
import pathlib
import signal
import socket
import struct
import termios
import time

import pytest
from raw import ask, connect, front, open_narrow_wire, open_wire, reply, request, run, upstream
from storm_raw import INSTRUMENTED, descriptors, memory
from weir import PATIENCE, sleeps, until, until_still, weir

SLACK = 8 << 20 if INSTRUMENTED else 1 << 20  # of what memory may grow by where nothing is kept


@contextlib.asynccontextmanager
async def stopped(process):
    """What happens meanwhile, the program sees all at once."""
    process.send_signal(signal.SIGSTOP)
    await until(lambda: pathlib.Path(f'/proc/{process.pid}/stat').read_text().rsplit(')', 1)[1].split()[0] == 'T',
                'it stands still')
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


class Crowd:
    """Clients that ask at once, each on a connection of its own, and stay when they have been answered."""

    def __init__(self, port, text, count):
        self.came = 0
        self.answered = []
        self.tasks = [asyncio.create_task(self._ask(port, text)) for _ in range(count)]

    async def _ask(self, port, text):
        wire = await open_wire(port)
        await wire.send(text)
        self.came += 1
        self.answered.append((wire, await wire.message()))

    def statuses(self):
        return {message.status for _, message in self.answered}

    async def until_answered(self, count):
        await until(lambda: len(self.answered) >= count, f'{count} are answered')

    def leave(self):
        """Those who have been answered go."""
        for wire, _ in self.answered:
            wire.close()


# ---- as many as may be

@run
async def test_more_connections_than_may_be_wait_until_one_is_idle():
    listen = '{ address: "127.0.0.1:0", max_connections: 2 }'
    door = asyncio.Event()
    inside = []
    most = []

    async def serve(wire, message):
        inside.append(message)
        most.append(len(inside))
        await door.wait()
        inside.pop()
        await wire.send(reply())
    async with upstream(serve) as server, front(server, listen=listen, threads=8) as gateway:
        async with stopped(gateway.process):  # all threads find somebody at their door at once
            clients = Crowd(gateway.port, request(), 40)
            await until(lambda: clients.came == 40, 'they are there')
        await until(lambda: len(inside) == 2, 'two are served')
        await until_still(gateway.process.pid)
        door.set()
        await clients.until_answered(40)
        assert max(most) == 2
        assert clients.statuses() == {200}
        clients.leave()


# ---- the grace

@run
async def test_what_is_under_way_when_the_grace_is_over_is_cut_off_on_both_sides():
    upstreams_ended = []

    async def serve(wire):
        head = await wire.head()
        if head.target.endswith('half'):
            await wire.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello')
        await wire.ended()
        upstreams_ended.append(head.target)
    async with upstream(serve) as server, front(server, threads=2, grace='500ms') as gateway:
        async with contextlib.AsyncExitStack() as stack:
            silent, half, sends, holds = [await stack.enter_async_context(connect(port)) for port in (
                gateway.port, gateway.port, gateway.port, gateway.api_port)]
            await silent.send(request('/functions/silent'))
            await half.send(request('/functions/half'))
            assert (await half.head()).status == 200
            assert await half.exactly(5) == b'hello'
            await sends.send(request('/functions/sends', 'Content-Length: 20000', method='POST'), b'x' * 10_000)
            await holds.send(request('/gates/functions/held/acquire', 'Content-Length: 14', method='POST'),
                             b'{"hold": true}')
            assert (await holds.head()).status == 200
            for key in ('silent', 'half', 'sends', 'held'):
                await gateway.until(key, active=1)
            began = time.monotonic()
            gateway.terminate()
            for wire in (silent, half, sends):
                with contextlib.suppress(ConnectionError):
                    assert await wire.rest() == b''
            assert time.monotonic() - began >= 0.5
            await holds.ended()
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0
            await until(lambda: len(upstreams_ended) == 3, 'the upstream is told of each')


# ---- readers

KEYS = 2000


async def make_keys(gateway):
    """Keys of long names, so that a list of them has some 2 MB."""
    async with connect(gateway.port) as wire:
        for start in range(0, KEYS, 500):
            await wire.send(b''.join(request(f'/functions/{"k" * 200}{start + i}') for i in range(500)))
            for _ in range(500):
                assert (await wire.message()).status == 200


def test_whoever_stops_reading_or_sending_costs_little_and_is_cut_off():
    @contextlib.asynccontextmanager
    async def who_stops(gateway):
        api = await open_narrow_wire(gateway.api_port)
        await api.send(request('/gates/functions') * 30)
        proxy = await open_narrow_wire(gateway.port)
        await proxy.send(request('/functions/large'))
        body = await open_wire(gateway.port)
        await body.send(request('/functions/body', 'Content-Length: 20000', method='POST'), b'x' * 10_000)
        call = await open_wire(gateway.api_port)
        await call.send(request('/gates/functions/f/acquire', 'Content-Length: 10', method='POST'), b'{"flo')
        try:
            yield body, call
        finally:
            for wire in (api, proxy, body, call):
                wire.abort()

    async def serve(wire):
        while True:
            head = await wire.head()
            if head.target.endswith('large'):
                await wire.send(reply(b'x' * 20_000_000))
            elif head.target.endswith('body'):
                await asyncio.Event().wait()
            else:
                await wire.send(reply())

    async def test():
        address = '{ address: 127.0.0.1:0, timeouts: { stall: 5s } }'
        async with upstream(serve) as server, front(server, listen=address, api=address) as gateway:
            pid = gateway.process.pid
            await make_keys(gateway)
            await ask(gateway.api_port, request('/gates/functions'))  # what one of them takes
            await until_still(pid)
            memory_before, before = memory(pid), descriptors(pid)
            began = time.monotonic()
            async with who_stops(gateway) as (body, call):
                await gateway.until('large', active=1)
                await gateway.until('body', active=1)
                await until_still(pid)
                assert descriptors(pid) >= before + 6  # these four, and two to the upstream
                assert memory(pid) - memory_before < SLACK
                message = await asyncio.wait_for(body.reader.readuntil(b'\r\n\r\n'), 60)
                assert message.startswith(b'HTTP/1.1 408 ')
                assert 4.9 < time.monotonic() - began
                await gateway.until('body', active=0)
                await gateway.until('large', active=0)
                assert (await call.message()).status == 408
                await until(lambda: descriptors(pid) <= before + 1, 'all of them are closed')  # but for `body`
                assert memory(pid) - memory_before < SLACK
    asyncio.run(asyncio.wait_for(test(), 120))


# ---- interim replies

HINTS = b'HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n'


@run
async def test_interim_replies_may_come_in_pieces():
    whole = HINTS + HINTS + reply(b'done')
    cuts = [[1] * len(whole), [len(HINTS) - 1, 2, len(HINTS) - 3, 5], [len(HINTS) + 9], [len(HINTS) * 2 - 2]]

    async def serve(wire, message):
        at = 0
        for size in cuts[int(message.target[-1])]:
            await wire.send(whole[at:at + size])
            at += size
            await until_still(pid[0]) if size > 1 else await asyncio.sleep(0)
        await wire.send(whole[at:])
    pid = []
    async with upstream(serve) as server, front(server) as gateway:
        pid.append(gateway.process.pid)
        async with connect(gateway.port) as wire:
            for index in range(len(cuts)):
                await wire.send(request(f'/functions/{index}'))
                for _ in range(2):
                    hints = await wire.message()
                    assert (hints.status, hints.fields) == (103, [('link', '</style.css>; rel=preload')])
                message = await wire.message()
                assert (message.status, message.body) == (200, b'done')
        assert server.connections == 1


def check_cut(said, piece):
    """That these are interim replies, of which the last may be cut off, and nothing else."""
    assert said == (piece * (len(said) // len(piece) + 1))[:len(said)]


async def read_interim(wire, whole):
    """Reads interim replies, all of them these bytes, until they end: with an answer, or with the connection. Then of
    the last there may be a part, which nothing may follow: it would be read as more of it. Returns how many came."""
    first = b''
    for count in itertools.count():
        try:
            first = await asyncio.wait_for(wire.reader.readuntil(b'\r\n'), PATIENCE)
            if first.startswith(b'HTTP/1.1 502 '):
                return count
            assert first + await wire.exactly(len(whole) - len(first)) == whole
        except asyncio.IncompleteReadError as cut:
            assert whole.startswith(cut.partial) or whole.startswith(first + cut.partial)
            return count
        except ConnectionError:
            return count


LONG_HINTS = b'HTTP/1.1 103 Early Hints\r\n' + b'Link: %s\r\n' % (b'l' * 600) * 45 + b'\r\n'


@run
async def test_a_flood_of_interim_replies_that_nobody_reads_is_bounded():
    sent = 0

    async def serve(wire):
        nonlocal sent
        await wire.head()
        while sent < 200_000_000:
            await wire.send(LONG_HINTS)
            sent += len(LONG_HINTS)
    async with upstream(serve) as server, front(server) as gateway:
        before = memory(gateway.process.pid)
        wire = await open_narrow_wire(gateway.port)
        await wire.send(request())
        await until(lambda: server.ended == 1, 'the upstream is cut off')
        await gateway.until('f', active=0)
        assert sent < 100_000_000
        assert memory(gateway.process.pid) - before < SLACK
        await read_interim(wire, LONG_HINTS)
        wire.close()


NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST = 4, 20, 1  # see sock_diag(7)
ALL_STATES = NO_COOKIE = 0xffffffff


def queued(here, there):
    """What the kernel has for the connection between these ports of ours: not yet acknowledged, and not yet read. It
    is asked for this one, since a list of all is long while other tests go on."""
    one = struct.pack('!HH', here, there) + socket.inet_aton('127.0.0.1').ljust(16, b'\0') * 2 \
        + struct.pack('=III', 0, NO_COOKIE, NO_COOKIE)
    asked = struct.pack('=BBBBI', socket.AF_INET, socket.IPPROTO_TCP, 0, 0, ALL_STATES) + one
    head = struct.pack('=IHHII', 16 + len(asked), SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as link:
        link.send(head + asked)
        said = link.recv(4096)
    if struct.unpack_from('=H', said, 4)[0] != SOCK_DIAG_BY_FAMILY:
        return [0, 0]  # it is gone
    unread, unacknowledged = struct.unpack_from('=II', said, len(head) + 4 + len(one) + 4)
    return [unacknowledged, unread]


async def stands_still(gateway, wire, sent):
    """Waits until all that was sent is on its way to the client, or has come. Or else, whether it stays."""
    port = wire.writer.get_extra_info('sockname')[1]
    asleep = 0
    while sent > queued(gateway.port, port)[0] + queued(port, gateway.port)[1] + len(wire.reader._buffer):
        asleep = asleep + 1 if sleeps(gateway.process.pid) else 0
        if asleep == 5:
            return True
        await asyncio.sleep(0.005)
    return False


@run
async def test_an_interim_reply_that_is_cut_is_not_followed_by_an_answer():
    sent = 0

    async def serve(upstream_wire):
        nonlocal sent
        await upstream_wire.head()
        while not await stands_still(gateway, wire, sent):
            await upstream_wire.send(LONG_HINTS)
            sent += len(LONG_HINTS)
        # The gateway has a part of the last one. Now the upstream ends without a reply.
    async with upstream(serve) as server, front(server) as gateway:
        wire = await open_narrow_wire(gateway.port)
        await wire.send(request())
        await until(lambda: server.ended == 1, 'it has ended')
        await gateway.until('f', active=0)
        assert await read_interim(wire, LONG_HINTS) < sent // len(LONG_HINTS)  # at least one was cut
        wire.close()


def unread(wire):
    """How many bytes have come that the kernel still has."""
    return struct.unpack('i', fcntl.ioctl(wire.writer.get_extra_info('socket').fileno(), termios.FIONREAD, bytes(4)))[0]


@run
async def test_a_client_that_does_not_read_interim_replies_is_not_told_that_its_body_is_late(tmp_path):
    length = 10_000_000
    hints = b'HTTP/1.1 103 Early Hints\r\nLink: %s\r\n\r\n' % (b'l' * 4000)

    async def serve(upstream_wire):
        upstream_wire.writer.transport.pause_reading()  # so Weir does not wait for more of the body
        sent = 0
        while sent == unread(wire):
            await upstream_wire.send(hints)
            sent += len(hints)
            await until_still(gateway.process.pid)
        await asyncio.Event().wait()
    listen = f'{{ address: "unix:{tmp_path}/weir.sock", timeouts: {{ stall: 1s }} }}'
    async with upstream(serve) as server, front(server, listen=listen) as gateway:
        async with connect(f'unix:{tmp_path}/weir.sock') as wire:
            wire.writer.transport.pause_reading()  # a Unix socket takes each of these replies whole, or not at all
            wire.writer.write(request('/functions/f', f'Content-Length: {length}', method='POST', body=b'x' * length))
            await gateway.until('f', active=1)
            await gateway.until('f', active=0)
            wire.writer.transport.resume_reading()
            said = b''
            with contextlib.suppress(ConnectionError):
                while some := await asyncio.wait_for(wire.reader.read(1 << 16), PATIENCE):
                    said += some
            check_cut(said, hints)


PROCESSING = b'HTTP/1.1 102 Processing\r\n\r\n'


@contextlib.asynccontextmanager
async def piled_up(gateway, wire, text):
    """Has this come to the gateway all at once, so that it never has to wait for more of it. It comes through a Unix
    socket, which holds what is sent for whoever reads it."""
    wire.writer.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    async with stopped(gateway.process):
        wire.writer.write(text)
        await until(lambda: wire.writer.transport.get_write_buffer_size() == 0, 'the kernel has all of it')
        yield


@run
async def test_others_have_their_turn_between_interim_replies(tmp_path):
    """Of a client of 1.0, to which none of them passes, so that no reader holds them up."""
    order = []

    async def serve(wire, _):
        async with piled_up(gateway, wire, PROCESSING * 11_000 + reply()):
            await call.send(request('/healthz'))

    async def read(wire, name):
        assert (await wire.message()).status == 200
        order.append(name)
    async with upstream(serve, path=tmp_path / 'flood') as server, front(server, threads=1) as gateway:
        async with connect(gateway.port) as wire, connect(gateway.api_port) as call:
            await call.send(request('/healthz'))
            await read(call, 'before')
            await wire.send(request(version='1.0'))
            await asyncio.gather(read(wire, 'reply'), read(call, 'call'))
            assert order == ['before', 'call', 'reply']


@run
@pytest.mark.parametrize('route, first_byte', [('deadline: 1s', '1m'), ('', '1s')])
async def test_interim_replies_are_not_what_is_waited_for(tmp_path, route, first_byte):
    async def serve(wire, _):
        async with piled_up(gateway, wire, PROCESSING * 11_000):
            pass
        while True:
            await wire.send(PROCESSING)
            await asyncio.sleep(0.01)
    more = f'timeouts: {{ first_byte: {first_byte}, idle: 10m }}'
    async with upstream(serve, path=tmp_path / 'flood') as server:
        async with front(server, route=route, more=more, threads=1) as gateway:
            assert (await ask(gateway.port, request(version='1.0'))).status == 504
            await gateway.until('f', active=0)


# ---- the last words

@run
async def test_what_follows_a_request_that_closes_does_not_cost_the_reply_of_it():
    """Closing a connection on which something has come that nobody has read would reset it."""
    body = b'y' * 300_000
    go = asyncio.Event()

    async def serve(wire, message):
        await go.wait()
        if message.target.endswith('until-close'):
            await wire.send(b'HTTP/1.1 200 OK\r\n\r\n', body)
            raise ConnectionError
        await wire.send(reply(body))
    async with upstream(serve) as server, front(server) as gateway:
        for index, text in enumerate((request('/functions/until-close'),
                                      request('/functions/f', 'Connection: close'))):
            go.clear()
            wire = await open_narrow_wire(gateway.port)
            await wire.send(text)
            await until(lambda: len(server.seen) == index + 1, 'it has come')
            await wire.send(request('/functions/next') * 10)
            go.set()
            await until_still(gateway.process.pid)  # all of the reply has gone as far as it goes
            message = await wire.head()
            assert (message.status, message.one('connection')) == (200, 'close')
            assert await wire.rest() == body
            assert len(server.seen) == index + 1
            wire.close()


@run
async def test_what_follows_a_request_that_is_refused_does_not_cost_the_answer():
    async with upstream() as server, front(server, route='max_body: 1KB') as gateway:
        for text in (b'nonsense\r\n\r\n', request('/functions/f', 'Content-Length: 5000000', method='POST'),
                     request('/nowhere', 'Connection: close')):
            for port in (gateway.port, gateway.api_port):
                wire = await open_wire(port)
                wire.writer.write(text + request() * 20_000)
                await until_still(gateway.process.pid)
                message = await wire.message()
                assert message.status in (400, 404, 405, 413)
                assert message.one('connection') == 'close'
                assert await wire.rest() == b''
                wire.close()
        assert server.seen == []


SWITCH = (b'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n'
          b'Sec-WebSocket-Accept: x\r\n\r\n')
UPGRADE = request('/functions/f', 'Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
                  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==')


@run
@pytest.mark.parametrize('size', [16, 300_000])
async def test_the_last_words_of_a_websocket_arrive_although_their_side_has_closed(size):
    words = b'w' * size
    go, said = asyncio.Event(), asyncio.Event()
    heard = []

    async def serve(wire, message):
        await wire.send(SWITCH)
        await go.wait()
        if message.target.endswith('client'):
            heard.append(await wire.rest())
        else:
            await wire.send(words)
            wire.close()
            await wire.writer.wait_closed()
            said.set()
    async with upstream(serve) as server, front(server, route='websocket: true') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(UPGRADE.replace(b'/f ', b'/client '))
            assert (await wire.head()).status == 101
            async with stopped(gateway.process):
                await wire.send(words)
                wire.close()
                await asyncio.wait_for(wire.writer.wait_closed(), PATIENCE)
            await until_still(gateway.process.pid)
            go.set()
            await until(lambda: heard, 'the upstream has heard it')
            assert heard == [words]
            await gateway.until('client', active=0)
        go.clear()
        wire = await open_narrow_wire(gateway.port)
        await wire.send(UPGRADE.replace(b'/f ', b'/server '))
        assert (await wire.head()).status == 101
        async with stopped(gateway.process):
            go.set()
            await asyncio.wait_for(said.wait(), PATIENCE)
        await until_still(gateway.process.pid)
        assert await wire.rest() == words
        wire.close()
        await gateway.until('server', active=0)
