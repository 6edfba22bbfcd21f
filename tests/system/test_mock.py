"""`weir mock`, the emulated upstream, over real HTTP."""
import asyncio
import contextlib
import json
import os
import re
import resource
import socket
import struct
import subprocess
import tempfile
import time

import aiohttp
import pytest
from raw import open_narrow_wire
from weir import PATIENCE, PROGRAM


def run(test):
    asyncio.run(asyncio.wait_for(test, 3 * PATIENCE))


class Mock:
    def __init__(self, process, address):
        self.process = process
        self.address = address
        self.url = f'http://{address}'
        self.last_line = None

    @property
    def port(self):
        return int(self.address.rsplit(':', 1)[1])

    async def connect(self):
        """A connection that is spoken to in bytes."""
        return await asyncio.open_connection('127.0.0.1', self.port, limit=1 << 24)

    async def say(self, text):
        """Everything that is said to those bytes, until the connection ends."""
        reader, writer = await self.connect()
        writer.write(text)
        reply = await reader.read()
        writer.close()
        return reply

    async def stats(self):
        async with aiohttp.ClientSession() as session:
            async with session.get(self.url + '/mock/stats') as reply:
                assert reply.status == 200
                return await reply.json()

    async def until_stats(self, **wanted):
        """Waits until the counts are these, and returns all of them."""
        deadline = time.monotonic() + PATIENCE
        while True:
            stats = await self.stats()
            if wanted.items() <= stats.items():
                return stats
            assert time.monotonic() < deadline, f'wanted {wanted}, have {stats}'
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def mock(*flags, listen='127.0.0.1:0', **more):
    """Runs a mock; at the end it must say what it counted, and exit 0."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM, 'mock', '--listen', listen, *flags, stdout=asyncio.subprocess.PIPE, **more)
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
        result = Mock(process, re.fullmatch(r'weir mock: listening on (.+)\n', line)[1])
        yield result
        process.terminate()
        rest = await asyncio.wait_for(process.stdout.read(), PATIENCE)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        assert rest.count(b'\n') == 1
        result.last_line = json.loads(rest)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@contextlib.asynccontextmanager
async def mock_and_client(*flags):
    async with mock(*flags) as server:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(server.url, connector=connector) as client:
            yield server, client


async def status_of(client, path='/f'):
    async with client.get(path) as reply:
        await reply.read()
        return reply.status


def request(path, version='1.1', fields=''):
    return f'GET {path} HTTP/{version}\r\nHost: a\r\n{fields}\r\n'.encode()


LAST = 'Connection: close\r\n'

# Of a reply that stays under way until it is read: no buffers on the way hold so much.
ENDLESS = '--bytes=20000000'


async def stay_inside(server):
    """A request that is inside until its reply is read by finish()."""
    wire = await open_narrow_wire(server.port)
    await wire.send(request('/'))
    return wire


async def finish(wire):
    reply = await wire.message()
    wire.close()
    return reply.status, len(reply.body)


# ---- replies

def test_the_default_reply_tells_what_was_asked():
    async def test():
        async with mock_and_client() as (server, client):
            async with client.post('/functions/f?x=1', data=b'hello') as reply:
                assert reply.status == 200
                assert reply.content_type == 'application/json'
                assert await reply.text() == (
                    '{"n":1,"method":"POST","path":"/functions/f?x=1","active":1}\n')
            assert b'"path":"/\\"\\\\"' in await server.say(request('/"\\', fields=LAST))
            assert b'"path":"*"' in await server.say(
                b'OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
            assert b'"path":"/"' in await server.say(request('http://a', fields=LAST))
            # The longest path that the parser lets through, all of it to be escaped.
            longest = '/' + '"' * (8192 - len('GET / HTTP/1.1\r\n'))
            assert longest.replace('"', '\\"').encode() in await server.say(
                request(longest, fields=LAST))
            assert b' 400 ' in await server.say(request(longest + 'x'))
            assert (await server.stats())['served'] == 5
    run(test())


@pytest.mark.parametrize('size', [0, 1, 65536, 65537, 5_000_000])
def test_a_body_has_the_size_that_was_asked_for(size):
    async def test():
        async with mock_and_client(f'--bytes={size}') as (server, client):
            async with client.get('/') as reply:
                assert await reply.read() == b'x' * size
            async with client.head('/') as reply:
                assert int(reply.headers['Content-Length']) == size
            assert await status_of(client) == 200  # after HEAD, on the same connection
            assert (await server.stats())['connections'] == 1
    run(test())


@pytest.mark.parametrize('flags', [[], ['--bytes=5'], ['--chunks=3'], ['--fail=100']])
def test_the_reply_to_head_is_a_head(flags):
    async def test():
        async with mock(*flags) as server:
            head = b'HEAD / HTTP/1.1\r\nHost: a\r\n'
            reply = await server.say(head + b'\r\n' + head + LAST.encode() + b'\r\n')
            assert re.fullmatch(rb'(HTTP/1\.1 \d+ [\w ]+\r\n([\w-]+: [^\r\n]+\r\n)+\r\n){2}', reply)
            stats = await server.stats()
            assert stats['served'] + stats['failed'] == 2
    run(test())


def test_a_slow_reader_gets_everything():
    async def test():
        async with mock(ENDLESS) as server:
            wire = await stay_inside(server)
            await server.until_stats(active=1)
            assert await finish(wire) == (200, 20000000)
            await server.until_stats(active=0, served=1, gone=0)
    run(test())


def test_latency_is_waited_for_at_least():
    async def test():
        async with mock_and_client('--latency', '80ms') as (_, client):
            start = time.monotonic()
            assert await status_of(client) == 200
            assert time.monotonic() - start >= 0.08
    run(test())


def test_jitter_goes_both_ways_and_stays_within():
    async def test():
        async with mock_and_client('--latency=1200ms', '--jitter=1s') as (_, client):
            async def measure():
                start = time.monotonic()
                assert await status_of(client) == 200
                return time.monotonic() - start
            took = await asyncio.gather(*(measure() for _ in range(30)))
            assert min(took) >= 0.2
            assert min(took) < 1.2  # some 260 ms are to be expected
            assert max(took) > 1.2
    run(test())


def test_events_come_one_each_interval():
    async def test():
        event = b'data: {"n":1,"part":1}\n\n'
        async with mock_and_client('--chunks', '4', '--interval', '20s') as (server, client):
            async with client.get('/') as reply:  # the first does not wait for the others
                assert await reply.content.readexactly(len(event)) == event
                assert (await server.stats())['active'] == 1
        async with mock_and_client('--chunks', '4', '--interval', '50ms') as (server, client):
            start = time.monotonic()
            async with client.get('/') as reply:
                assert reply.content_type == 'text/event-stream'
                assert reply.headers['Transfer-Encoding'] == 'chunked'
                assert await reply.content.readexactly(len(event)) == event
                rest = await reply.read()
            assert time.monotonic() - start >= 0.15
            assert rest == b''.join(b'data: {"n":1,"part":%d}\n\n' % i for i in (2, 3, 4))
            async with client.head('/') as reply:
                assert await reply.read() == b''
            assert await server.until_stats(active=0, served=2, connections=1)
    run(test())


def test_events_without_an_interval_and_for_http_1_0():
    async def test():
        async with mock('--chunks', '300') as server:
            events = b''.join(b'data: {"n":1,"part":%d}\n\n' % i for i in range(1, 301))
            reply = await server.say(request('/', '1.0', 'Connection: keep-alive\r\n'))
            head, body = reply.split(b'\r\n\r\n', 1)
            assert b'chunked' not in head
            assert b'Connection: close' in head
            assert body == events
    run(test())


# ---- limits

def test_more_than_the_concurrency_are_refused_at_once():
    async def test():
        async with mock_and_client('--concurrency', '2', ENDLESS) as (server, client):
            inside = [await stay_inside(server) for _ in range(2)]
            await server.until_stats(active=2)
            assert await status_of(client) == 429
            assert (await server.stats())['active'] == 2  # it did not wait for any of them
            for wire in inside:
                assert await finish(wire) == (200, 20000000)
            await server.until_stats(active=0)
            assert await status_of(client) == 200
            stats = await server.stats()
            assert (stats['most'], stats['served'], stats['refused']) == (2, 3, 1)
    run(test())


def test_the_rate_is_kept_and_retry_after_is_true():
    async def test():
        async with mock_and_client('--rate', '2/s') as (server, client):
            # In one packet, so that no time passes between them.
            reply = await server.say(request('/') * 2 + request('/', fields=LAST))
            assert re.findall(rb'HTTP/1.1 (\d+)', reply) == [b'200', b'200', b'429']
            assert re.findall(rb'Retry-After: (\d+)', reply) == [b'1']
            await asyncio.sleep(1)  # what the reply told to do
            assert await status_of(client) == 200
            assert (await server.stats())['refused'] == 1
        async with mock_and_client('--rate', '2/m') as (_, client):
            assert [await status_of(client) for _ in range(2)] == [200, 200]
            async with client.get('/') as reply:
                assert reply.status == 429
                assert 25 <= int(reply.headers['Retry-After']) <= 30
    run(test())


# ---- trouble

def test_all_fail():
    async def test():
        async with mock_and_client('--fail', '100') as (server, client):
            assert [await status_of(client) for _ in range(3)] == [503] * 3
            stats = await server.stats()
            assert (stats['failed'], stats['served'], stats['connections']) == (3, 0, 1)
    run(test())


def test_all_are_reset():
    async def test():
        async with mock('--reset', '100', '--latency=1ms') as server:
            reader, writer = await server.connect()
            writer.write(request('/'))
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
            await server.until_stats(reset=1, active=0, gone=0)
    run(test())


def test_all_hang_until_the_client_goes_away():
    async def test():
        async with mock('--hang', '100') as server:
            _, writer = await server.connect()
            writer.write(request('/'))
            await server.until_stats(active=1, most=1)
            writer.close()
            await server.until_stats(active=0, gone=1, served=0)
    run(test())


def test_the_same_seed_means_the_same_fates():
    async def fates(*flags):
        async with mock_and_client('--fail', '12.5', *flags) as (_, client):
            return [await status_of(client) for _ in range(200)]

    async def test():
        first = await fates()
        assert 8 <= first.count(503) <= 45  # 25 are to be expected; outside is one in a million
        assert first.count(200) + first.count(503) == 200
        assert await fates('--seed', '1') == first
        assert await fates('--seed', '2') != first
    run(test())


@pytest.mark.parametrize('flags', [['--latency=20s'], ['--chunks=2', '--interval=20s']])
def test_who_goes_away_inside_is_counted_and_nothing_is_left(flags):
    async def test():
        async with mock(*flags) as server:
            _, writer = await server.connect()
            writer.write(request('/'))
            await server.until_stats(active=1)
            writer.close()
            await server.until_stats(active=0, gone=1, served=0)
    run(test())


def test_who_goes_away_while_a_reply_is_written_is_counted():
    async def test():
        async with mock(ENDLESS) as server:
            wire = await stay_inside(server)
            await server.until_stats(active=1)
            wire.abort()
            await server.until_stats(active=0, gone=1, served=0)
    run(test())


# ---- requests

def test_requests_in_one_packet_are_answered_in_their_order():
    async def test():
        for flags in [], ['--latency', '5ms']:
            async with mock(*flags) as server:
                many = b''.join(request(f'/{i}') for i in range(200)) + request('/end', fields=LAST)
                reply = await server.say(many)
                paths = re.findall(rb'"path":"/(\w+)"', reply)
                assert paths == [b'%d' % i for i in range(200)] + [b'end']
                assert (await server.stats())['most'] == 1
    run(test())


def test_bodies_of_every_framing_are_thrown_away():
    async def test():
        async with mock() as server:
            chunked = (b'POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n'
                       b'5\r\nhello\r\n3;x=y\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n')
            length = b'POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello'
            last = request('/3', fields=LAST)
            reply = await server.say(chunked + length + last)
            assert re.findall(rb'"path":"/(\d)"', reply) == [b'1', b'2', b'3']
            # Three requests that arrive a byte at a time.
            reader, writer = await server.connect()
            for byte in chunked + length + last:
                writer.write(bytes([byte]))
                await asyncio.sleep(0)
            reply = await reader.read()
            assert re.findall(rb'"path":"/(\d)"', reply) == [b'1', b'2', b'3']
            writer.close()
    run(test())


def memory_of(process):
    with open(f'/proc/{process.pid}/status', encoding='ascii') as lines:
        return int(re.search(r'VmRSS:\s+(\d+) kB', lines.read())[1]) * 1024


def test_a_large_body_takes_no_memory():
    async def test():
        async def body():
            for _ in range(64):
                yield bytes(1 << 20)
        async with mock_and_client() as (server, client):
            assert await status_of(client) == 200
            before = memory_of(server.process)
            async with client.post('/', data=body()) as reply:
                assert reply.status == 200
            async with client.post('/', data=bytes(64 << 20)) as reply:
                assert reply.status == 200
            assert memory_of(server.process) - before < 8 << 20
    run(test())


def test_who_asks_whether_to_send_a_body_is_told():
    async def test():
        async with mock('--latency', '10ms') as server:
            reader, writer = await server.connect()
            writer.write(b'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n'
                         b'Expect: 100-continue\r\n\r\n')
            assert await reader.readuntil(b'\r\n\r\n') == b'HTTP/1.1 100 Continue\r\n\r\n'
            assert (await server.stats())['active'] == 0  # not inside before it is complete
            writer.write(b'hello')
            assert (await reader.readline()) == b'HTTP/1.1 200 OK\r\n'
            writer.close()
    run(test())


def test_http_1_0_ends_its_connection_unless_asked_not_to():
    async def test():
        async with mock() as server:
            reply = await server.say(request('/', '1.0'))
            assert b'Connection: close\r\n' in reply
            kept = 'Connection: keep-alive\r\n'
            reply = await server.say(request('/', '1.0', kept) + request('/', '1.0'))
            assert reply.count(b'HTTP/1.1 200 OK') == 2
            assert reply.count(b'Connection: keep-alive\r\n') == 1
    run(test())


@pytest.mark.parametrize('text', [
    b'NONSENSE\r\n\r\n',
    b'GET / HTTP/1.1\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
    b'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n',
    b'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nHost: b\r\n\r\n',
    b'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade, close\r\n'
    b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\r\n',
])
def test_what_is_malformed_is_answered_400_whatever_follows(text):
    async def test():
        async with mock() as server:
            for more in b'', bytes(1 << 20):
                reply = await server.say(text + more)
                assert reply.startswith(b'HTTP/1.1 400 Bad Request\r\n')
                assert b'Connection: close\r\n' in reply
            await server.until_stats(active=0, served=0, gone=0)
            assert b' 501 ' in await server.say(b'CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n')
    run(test())


# ---- WebSockets

def test_a_websocket_says_everything_back():
    async def test():
        async with mock_and_client('--latency', '1ms') as (server, client):
            async with client.ws_connect('/socket', max_msg_size=0, autoping=False) as ws:
                await server.until_stats(active=1)
                for text in 'hello', '', 'x' * 125, 'y' * 126, 'z' * 65535, 'ü' * 65536:
                    await ws.send_str(text)
                    assert await ws.receive_str(timeout=PATIENCE) == text
                for size in 65536, 3_000_001:
                    data = os.urandom(size)
                    await ws.send_bytes(data)
                    assert await ws.receive_bytes(timeout=PATIENCE) == data
                await ws.ping(b'here?')
                pong = await ws.receive(timeout=PATIENCE)
                assert (pong.type, pong.data) == (aiohttp.WSMsgType.PONG, b'here?')
                await ws.pong(b'not asked for')
                await ws.send_str('after')
                assert await ws.receive_str(timeout=PATIENCE) == 'after'
                await ws.close(code=4321)
                assert ws.close_code == 4321
            await server.until_stats(active=0, served=1, gone=0)
    run(test())


UPGRADE = (b'GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
           b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')


def frame(first, payload, mask=b'\x12\x34\x56\x78'):
    masked = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
    return bytes([first, 0x80 | len(payload)]) + mask + masked


def test_frames_may_come_with_the_handshake_and_in_fragments():
    async def test():
        async with mock() as server:
            reply = await server.say(UPGRADE + frame(0x01, b'one') + frame(0x89, b'p') +
                                     frame(0x80, b'two') + frame(0x88, struct.pack('>H', 1000)))
            head, frames = reply.split(b'\r\n\r\n', 1)
            assert head.startswith(b'HTTP/1.1 101 Switching Protocols\r\n')
            # The key and its answer are those of RFC 6455, section 1.3.
            assert b'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=' in head
            assert frames == b'\x01\x03one' b'\x8a\x01p' b'\x80\x03two' b'\x88\x02\x03\xe8'
            await server.until_stats(served=1, gone=0, active=0)
    run(test())


@pytest.mark.parametrize('wrong', [
    b'\x81\x02hi',           # not masked
    frame(0xc1, b'hi'),      # a bit of an extension
    frame(0x83, b'hi'),      # an opcode that does not exist
    frame(0x09, b'hi'),      # a control frame in fragments
    b'\x89\xfe\x00\x7e',     # a control frame that is too long
])
def test_a_frame_that_is_forbidden_ends_the_websocket(wrong):
    async def test():
        async with mock() as server:
            reply = await server.say(UPGRADE + frame(0x82, b'good') + wrong)
            assert reply.split(b'\r\n\r\n', 1)[1] == b'\x82\x04good' b'\x88\x02\x03\xea'
    run(test())


def test_a_websocket_whose_client_vanishes_is_gone():
    async def test():
        async with mock() as server:
            reader, writer = await server.connect()
            writer.write(UPGRADE)
            await reader.readuntil(b'\r\n\r\n')
            await server.until_stats(active=1)
            writer.close()
            await server.until_stats(active=0, gone=1, served=0)
    run(test())


def test_a_websocket_that_is_not_read_is_not_read_either():
    """A client that only sends is held up, rather than its frames being kept."""
    async def test():
        async with mock() as server:
            reader, writer = await server.connect()
            reader._transport.pause_reading()
            writer.write(UPGRADE)
            before = memory_of(server.process)
            block = b'\x82\xff' + struct.pack('>Q', 1 << 30) + b'\0\0\0\0' + bytes(1 << 20)
            writer.write(block)
            sent = 1
            # Sends until nothing more is taken for a while; sockets hold some megabytes.
            with contextlib.suppress(asyncio.TimeoutError):
                for sent in range(200):
                    writer.write(bytes(1 << 20))
                    await asyncio.wait_for(writer.drain(), 0.5)
            assert sent < 150
            assert memory_of(server.process) - before < 8 << 20
            writer.transport.abort()
            await server.until_stats(active=0, gone=1)
    run(test())


# ---- counts, and the end

def test_counts_are_not_counted_and_can_be_zeroed():
    async def test():
        async with mock_and_client('--concurrency=1', '--rate=1/m', ENDLESS) as (server, client):
            inside = await stay_inside(server)
            await server.until_stats(active=1)
            assert await status_of(client) == 429
            names = ['active', 'most', 'served', 'refused', 'failed', 'reset', 'gone',
                     'connections']
            stats = await server.stats()
            assert list(stats) == names
            assert list(stats.values()) == [1, 1, 0, 1, 0, 0, 0, 2]
            async with client.delete('/mock/stats') as reply:
                assert reply.status == 204
            assert list((await server.stats()).values()) == [1, 1, 0, 0, 0, 0, 0, 0]
            async with client.head('/mock/stats') as reply:
                assert reply.status == 200
            async with client.put('/mock/stats') as reply:
                assert reply.status == 405
                assert reply.headers['Allow'] == 'GET, HEAD, DELETE'
            assert await finish(inside) == (200, 20000000)
            expected = await server.until_stats(active=0)
            assert list(expected.values()) == [0, 1, 1, 0, 0, 0, 0, 0]
        assert server.last_line == expected
    run(test())


def test_zeroed_counts_begin_with_those_that_are_inside():
    async def test():
        async with mock('--hang=100') as server:
            writers = [(await server.connect())[1] for _ in range(3)]
            for writer in writers:
                writer.write(request('/'))
            await server.until_stats(active=3, most=3)
            for writer in writers[1:]:
                writer.close()
            await server.until_stats(active=1, most=3, gone=2)
            reply = await server.say(b'DELETE /mock/stats HTTP/1.1\r\nHost: a\r\n'
                                     b'Connection: close\r\n\r\n')
            assert reply == b'HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n'
            await server.until_stats(active=1, most=1, gone=0)
            writers[0].close()
            await server.until_stats(active=0, most=1, gone=1)
    run(test())


def test_it_ends_at_once_whatever_is_inside():
    async def test():
        async with mock('--hang=50', '--latency=30s') as server:
            writers = []
            for _ in range(10):
                _, writer = await server.connect()
                writer.write(request('/'))
                writers.append(writer)
            await server.until_stats(active=10)
            start = time.monotonic()
        assert time.monotonic() - start < 5
        assert (server.last_line['active'], server.last_line['gone']) == (10, 0)
        for writer in writers:
            writer.close()
    run(test())


def descriptors_of(process):
    return len(os.listdir(f'/proc/{process.pid}/fd'))


def test_without_descriptors_it_goes_on_and_accepts_again_later():
    async def test():
        limit = 40

        def few():
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
        async with mock(preexec_fn=few) as server:
            at_first = descriptors_of(server.process)
            pairs = [await server.connect() for _ in range(2 * limit)]
            for _, writer in pairs:
                writer.write(request('/'))
            served = limit - at_first
            for reader, _ in pairs[:served]:
                assert await reader.readline() == b'HTTP/1.1 200 OK\r\n'
            assert descriptors_of(server.process) == limit
            for _, writer in pairs[:served]:
                writer.close()
            for reader, _ in pairs[served:2 * served]:
                assert await reader.readline() == b'HTTP/1.1 200 OK\r\n'
            for _, writer in pairs:
                writer.close()
            # Those that were never accepted come now, and are served or gone; none stays.
            deadline = time.monotonic() + PATIENCE
            while descriptors_of(server.process) != at_first:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.005)
    run(test())


def test_it_listens_on_a_unix_socket_and_removes_it():
    async def test():
        with tempfile.TemporaryDirectory() as folder:
            path = f'{folder}/socket'
            async with mock(listen=f'unix:{path}') as server:
                assert server.address == f'unix:{path}'
                connector = aiohttp.UnixConnector(path)
                async with aiohttp.ClientSession(connector=connector) as client:
                    assert await status_of(client, 'http://mock/f') == 200
            assert not os.path.exists(path)
    run(test())


# ---- the command line

def call(*arguments):
    return subprocess.run([PROGRAM, 'mock', *arguments], text=True, capture_output=True,
                          timeout=PATIENCE, check=False)


FLAGS = ['--listen', '--latency', '--jitter', '--concurrency', '--rate', '--fail', '--reset',
         '--hang', '--bytes', '--chunks', '--interval', '--seed', '--llm', '--key', '--at', '--tokens',
         '--requests', '--input-tokens', '--output-tokens', '--quota', '--burst', '--charge', '--slots', '--full',
         '--fail-status', '--headers', '--retry-after', '--first-token', '--first-spread', '--pace',
         '--output', '--output-spread', '--output-max', '--input-noise', '--chunk', '--tools']


def test_help_lists_every_flag():
    done = call('--help')
    assert done.returncode == 0
    assert re.findall(r'^  (--[\w-]+)', done.stdout, flags=re.M) == [*FLAGS, '--help']


@pytest.mark.parametrize('flag, value', [
    ('--listen', '127.0.0.1'), ('--listen', '127.0.0.1:65536'), ('--listen', 'unix:'),
    ('--latency', '5'), ('--latency', '5x'), ('--latency', '-1s'), ('--latency', ''),
    ('--jitter', '1.5s'), ('--interval', 'soon'),
    ('--concurrency', '0'), ('--concurrency', '1000000001'), ('--concurrency', 'many'),
    ('--rate', '0/s'), ('--rate', '10'), ('--rate', '10/x'),
    ('--fail', '101'), ('--fail', '100.0001'), ('--fail', '1.23456'), ('--fail', '-1'),
    ('--reset', '.5'), ('--reset', '5.'), ('--hang', '1e1'), ('--hang', '5%'),
    ('--bytes', '1KB'), ('--bytes', '1099511627777'),
    ('--chunks', '0'), ('--chunks', '1000000001'), ('--seed', '18446744073709551616'),
])
def test_a_bad_value_is_named_with_what_is_expected(flag, value):
    for arguments in [flag, value], [f'{flag}={value}']:
        done = call(*arguments)
        assert done.returncode == 2
        assert done.stdout == ''
        assert done.stderr.startswith(f'weir mock: {flag} {value}: expected ')
        assert done.stderr.count('\n') == 1


@pytest.mark.parametrize('arguments, complaint', [
    (['--speed', '9'], 'there is no flag --speed (did you mean --seed?);'),
    (['fast'], 'fast is one word too many;'),
    (['--latency'], '--latency: expected a duration'),
    (['--fail=50', '--reset=50', '--hang=0.0001'], 'at most 100 percent together'),
    (['--bytes=1', '--chunks=1'], '--bytes and --chunks: expected one of them'),
    (['--interval=1s'], '--interval: expected together with --chunks'),
])
def test_flags_that_are_wrong_are_explained(arguments, complaint):
    done = call(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count('\n') == 1


def test_an_address_that_is_taken_is_an_error():
    with socket.create_server(('127.0.0.1', 0)) as taken:
        done = call('--listen', f'127.0.0.1:{taken.getsockname()[1]}')
        assert done.returncode == 1
        assert 'in use' in done.stderr
