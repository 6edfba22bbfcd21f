"""Slow bodies: what a client may hold that does not send what it has announced, and for how long. Others are
served meanwhile."""
import asyncio
import contextlib
import json

import pytest
from raw import ask, connect, front, open_wire, reply, request, run, upstream
from test_llm import CHAT, JSON, chat, completion, llm
from weir import PATIENCE, until, until_still

KIB = 1024

# The largest body that Weir reads as a whole before its request stands in line, and more than that.
BUFFER = 16 * KIB
BEYOND = b'x' * (BUFFER + 4 * KIB)

# A window of 400 ms, and a rate that a few bytes do not reach.
QUICK = '{ address: 127.0.0.1:0, body_rate: 8KiB, timeouts: { stall: 400ms } }'

# A longer window for clients that must be able to keep the rate on a busy machine.
CALM = '{ address: 127.0.0.1:0, body_rate: 8KiB, timeouts: { stall: 3s } }'

# A rate that counts within 5 s, and pauses of a minute.
PATIENT = '{ address: 127.0.0.1:0, body_rate: 8KiB, timeouts: { stall: 60s } }'


def post(length, *fields, target='/functions/f', body=b''):
    return request(target, f'Content-Length: {length}', *fields, method='POST', body=body)


def chunk(body):
    return b'%x\r\n%s\r\n' % (len(body), body)


async def swallow(wire, message):
    """An upstream that reads all of a body, which the message has, and thanks for it."""
    await wire.send(reply(b'%d' % len(message.body)))


async def status_of(gateway, text):
    return (await ask(gateway.port, text)).status


def problem_of(message):
    assert message.one('content-type') == 'application/problem+json'
    return json.loads(message.body)


async def trickle(wire, byte=b'x'):
    """Sends a byte at a time, until the other side has had enough."""
    with contextlib.suppress(ConnectionError):
        while not wire.writer.is_closing():
            await wire.send(byte)
            await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def trickling(gateway, count, start, byte=b'x'):
    """So many clients that say `start` and then trickle; their connections."""
    async with contextlib.AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(connect(gateway.port)) for _ in range(count)]
        for wire in wires:
            await wire.send(start)
        tasks = [asyncio.create_task(trickle(wire, byte)) for wire in wires]
        try:
            yield wires
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


# ---- before the line

@run
@pytest.mark.parametrize('start', [post(1000), post(16 * KIB, body=b'x' * 4 * KIB),
                                   request('/functions/f', 'Transfer-Encoding: chunked', method='POST', body=b'3e8\r\n')],
                         ids=['length', 'long', 'chunked'])
async def test_bodies_that_do_not_come_hold_no_permit(start):
    async with upstream(swallow) as server, front(server, gate='limit: 10') as gateway:
        async with trickling(gateway, 10, start):
            for _ in range(20):
                assert await status_of(gateway, post(5, body=b'hello')) == 200
            counts = await gateway.counts('f')
            assert (counts['active'], counts['waiting']) == (0, 0)
    assert len(server.seen) == 20


@run
async def test_a_body_that_comes_slowly_but_whole_is_passed_on():
    async with upstream(swallow) as server, front(server, listen=PATIENT, gate='limit: 1') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(10))
            for i in range(10):
                await wire.send(b'%d' % i)
                assert await status_of(gateway, request('/functions/f')) == 200
            message = await wire.message()
            assert (message.status, message.body) == (200, b'10')
            await wire.send(request())  # and the connection goes on
            assert (await wire.message()).status == 200
    [whole] = [message.body for message in server.seen if message.start.startswith('POST')]
    assert whole == b'0123456789'


@run
@pytest.mark.parametrize('length', [2 * KIB, 2 * KIB + 1, BUFFER - 1, BUFFER, BUFFER + 1, 3 * BUFFER])
@pytest.mark.parametrize('chunked', [False, True])
async def test_bodies_around_the_size_of_the_buffer_arrive_as_they_are(length, chunked):
    body = bytes(i % 251 for i in range(length))
    async with upstream(swallow) as server, front(server, gate='limit: 1') as gateway:
        async with connect(gateway.port) as wire:
            if chunked:
                await wire.send(request('/functions/f', 'Transfer-Encoding: chunked', method='POST'))
                await wire.send(chunk(body[:100]))
                await wire.send(chunk(body[100:]), b'0\r\n\r\n')
            else:
                await wire.send(post(length))
                await wire.send(body[:length // 2])
                await wire.send(body[length // 2:])
            assert (await wire.message()).body == b'%d' % length
    assert server.seen[0].body == body


@run
async def test_a_fault_in_the_start_of_a_body_is_answered_before_the_line():
    async with upstream(swallow) as server, front(server, gate='limit: 1') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', 'Transfer-Encoding: chunked', method='POST'))
            await wire.send(b'hello\r\n')
            assert (await wire.message()).status == 400
    assert server.connections == 0


@run
async def test_a_pause_before_the_line_ends_with_a_408_that_says_why():
    async with upstream(swallow) as server, front(server, listen=QUICK) as gateway:
        message = await ask(gateway.port, post(10, body=b'hello'))
        assert (message.status, message.one('connection')) == (408, 'close')
        problem = problem_of(message)
        assert problem['type'] == 'urn:weir:request-timeout'
        assert 'within 400ms (timeouts.stall of the listener)' in problem['detail']
    assert server.connections == 0


@run
async def test_the_total_time_ends_a_body_that_always_goes_on():
    listen = '{ address: 127.0.0.1:0, timeouts: { body: 500ms } }'
    async with upstream(swallow) as server, front(server, listen=listen) as gateway:
        async with trickling(gateway, 1, post(10_000)) as [wire]:
            message = await wire.message()
            assert message.status == 408
            assert 'longer than 500ms (timeouts.body of the listener)' in problem_of(message)['detail']
    assert server.connections == 0


@run
async def test_the_deadline_counts_while_the_start_of_a_body_is_read():
    async with upstream(swallow) as server, front(server) as gateway:
        async with trickling(gateway, 1, post(10_000, 'Weir-Timeout: 300ms')) as [wire]:
            message = await wire.message()
            assert message.status == 408
            assert 'deadline' in problem_of(message)['detail']
    assert server.connections == 0


@run
async def test_a_client_that_leaves_before_the_line_leaves_nothing():
    async with upstream(swallow) as server, front(server, gate='limit: 1') as gateway:
        for _ in range(20):
            wire = await open_wire(gateway.port)
            await wire.send(post(1000, body=b'x' * 10))
            wire.reset()
        assert await status_of(gateway, post(5, body=b'hello')) == 200
        await gateway.until('f', active=0, waiting=0)
    assert len(server.seen) == 1


@run
async def test_a_drain_ends_a_request_whose_body_is_not_there():
    async with upstream(swallow) as server, front(server, grace='200ms') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(1000, body=b'x' * 10))
            await ask(gateway.api_port, request('/gates'))
            gateway.terminate()
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                assert (await wire.message()).status == 503
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0
    assert server.connections == 0


# ---- while a permit is held

@run
async def test_a_trickle_behind_a_full_buffer_is_cut_off_and_gives_the_permit_back():
    async with upstream(swallow) as server, front(server, listen=QUICK, gate='limit: 1') as gateway:
        async with trickling(gateway, 1, post(10_000_000, body=BEYOND)) as [wire]:
            await gateway.until('f', active=1)
            message = await wire.message()
            assert (message.status, message.one('connection')) == (408, 'close')
            problem = problem_of(message)
            assert problem['type'] == 'urn:weir:request-timeout'
            assert 'slowly than 8KiB a second (body_rate of the listener), over 400ms' in problem['detail']
            await gateway.until('f', active=0)
            await until(lambda: server.ended == 1, 'the connection to the upstream is closed')
        assert await status_of(gateway, post(5, body=b'hello')) == 200


@run
async def test_chunks_of_one_byte_are_a_trickle_too():
    start = request('/functions/f', 'Transfer-Encoding: chunked', method='POST', body=chunk(BEYOND))
    async with upstream(swallow) as server, front(server, listen=QUICK) as gateway:
        async with trickling(gateway, 1, start, byte=chunk(b'x')) as [wire]:
            assert (await wire.message()).status == 408
            await gateway.until('f', active=0)
    assert not server.seen


@run
async def test_ten_slow_bodies_do_not_starve_a_key_however_often_they_come_back():
    """As many attackers as there are permits, each with a full buffer, again and again. The line is fair: who
    has been cut off stands behind those who wait."""
    async with upstream(swallow) as server, front(
            server, listen=QUICK, gate='limit: 10, line: { timeout: 30s }', threads=2) as gateway:
        cut_off = 0
        over = False

        async def attack():
            nonlocal cut_off
            while not over:
                async with trickling(gateway, 1, post(10_000_000, body=BEYOND)) as [wire]:
                    assert (await wire.message()).status == 408
                    cut_off += 1
        attackers = [asyncio.create_task(attack()) for _ in range(10)]
        try:
            await gateway.until('f', active=10)
            for i in range(10):
                assert await status_of(gateway, post(5, body=b'hello')) == 200, i
            await until(lambda: cut_off >= 20, 'each of them has come back')
            assert await status_of(gateway, post(5, body=b'hello')) == 200
        finally:
            over = True
            await asyncio.gather(*attackers)
        await gateway.until('f', active=0, waiting=0)
    assert sum(message.body == b'hello' for message in server.seen) == 11


@run
async def test_a_body_at_the_rate_may_take_far_longer_than_the_window():
    async with upstream(swallow) as server, front(server, listen=CALM) as gateway:
        async with connect(gateway.port) as wire:
            pieces = 80
            await wire.send(post(len(BEYOND) + pieces * 4 * KIB), BEYOND)
            for _ in range(pieces):  # ten times the rate; all of it takes longer than the window
                await asyncio.sleep(0.05)
                await wire.send(b'x' * 4 * KIB)
            assert (await wire.message()).body == b'%d' % (len(BEYOND) + pieces * 4 * KIB)
    assert len(server.seen) == 1


@run
async def test_an_upstream_that_does_not_read_costs_the_client_nothing():
    go = asyncio.Event()

    async def serve(wire):
        await wire.head()
        wire.writer.transport.pause_reading()
        await go.wait()
        wire.writer.transport.resume_reading()
        await wire.exactly(size)
        await wire.send(reply(b'thanks'))
        await wire.ended()
    size = 16 * KIB * KIB
    async with upstream(serve) as server, front(server, listen=CALM) as gateway:
        async with connect(gateway.port) as wire:
            sending = asyncio.create_task(wire.send(post(size), b'x' * size))
            await gateway.until('f', active=1)
            await until_still(gateway.process.pid)  # nothing can go on
            assert await status_of(gateway, post(10)) == 408  # so another's window has passed
            assert not sending.done()
            assert (await gateway.counts('f'))['active'] == 1
            go.set()
            await sending
            assert (await wire.message()).body == b'thanks'
    assert server.connections == 1


@run
async def test_a_slow_body_behind_the_beginning_of_a_reply_ends_the_connection():
    async def serve(wire):
        await wire.head()
        await wire.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n', chunk(b'early'))
        await wire.ended()
    async with upstream(serve) as server, front(server, listen=QUICK) as gateway:
        async with trickling(gateway, 1, post(10_000_000, body=BEYOND)) as [wire]:
            assert (await wire.head()).status == 200
            with contextlib.suppress(ConnectionError):
                assert b'0\r\n\r\n' not in await wire.rest()
            await gateway.until('f', active=0)
    assert server.connections == 1


@run
async def test_without_a_rate_a_body_is_passed_on_from_its_first_byte():
    listen = '{ address: 127.0.0.1:0, body_rate: none }'

    async def serve(wire):
        await wire.head()
        for _ in range(3):
            await wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n' if not heard else b'',
                            await wire.exactly(1))
            heard.append(1)
        await wire.ended()
    heard = []
    async with upstream(serve) as server, front(server, listen=listen) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(3))
            await gateway.until('f', active=1)
            await wire.send(b'a')
            assert (await wire.head()).status == 200
            assert await wire.exactly(1) == b'a'
            for byte in (b'b', b'c'):  # each is the answer to the one before
                await wire.send(byte)
                assert await wire.exactly(1) == byte
    assert server.connections == 1


# ---- clients that wait for a 100

@run
async def test_a_client_that_waits_for_a_100_is_told_by_weir_if_the_upstream_does_not():
    async with upstream(swallow) as server, front(server, listen=PATIENT) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(len(BEYOND), 'Expect: 100-continue'))
            assert (await wire.message()).start == 'HTTP/1.1 100 Continue'
            await wire.send(BEYOND)
            assert (await wire.message()).body == b'%d' % len(BEYOND)
    assert len(server.seen) == 1


@run
async def test_a_client_that_is_told_to_send_and_does_not_is_cut_off():
    async with upstream(swallow) as server, front(server, listen=QUICK, gate='limit: 1') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(10, 'Expect: 100-continue'))
            assert (await wire.message()).start == 'HTTP/1.1 100 Continue'
            assert (await wire.message()).status == 408
            await gateway.until('f', active=0)
    assert not server.seen


# ---- large buffers, of which a loop has 256

LARGE_BUFFERS = 256
LARGE = json.dumps(chat(text='x' * 200_000)).encode()


def announce(length, sent):
    """A chat completion that is not all there."""
    return request(CHAT, JSON, f'Content-Length: {length}', method='POST', body=LARGE[:sent])


@contextlib.asynccontextmanager
async def unfinished(gateway, count, start, port=None):
    """So many connections on which `start` has been said, and read as far as it will be."""
    async with contextlib.AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(connect(port or gateway.port)) for _ in range(count)]
        for wire in wires:
            await wire.send(start)
        await until_still(gateway.process.pid)
        yield wires


async def keys_of(gateway):
    _, said = await gateway.ask_api('/gates/llm')
    return sorted(key['key'] for key in said['keys'])


async def ask_large(gateway):
    message = await ask(gateway.port, request(CHAT, JSON, f'Content-Length: {len(LARGE)}', method='POST', body=LARGE))
    assert message.status == 200


@run
@pytest.mark.parametrize('sent', [20, 16 * KIB, 60 * KIB])
async def test_a_length_that_is_only_announced_takes_no_large_buffer(sent):
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        async with unfinished(gateway, LARGE_BUFFERS, announce(900_000, sent)):
            await ask_large(gateway)
            assert await keys_of(gateway) == ['gpt-4o']  # it has been read
    assert server.seen[0].body == LARGE


@run
async def test_large_buffers_of_slow_bodies_are_free_within_seconds():
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        async with unfinished(gateway, LARGE_BUFFERS, announce(900_000, 70_000)) as wires:
            await asyncio.gather(*(ask_large(gateway) for _ in range(5)))
            assert await keys_of(gateway) == ['gpt-4o']
            message = await wires[0].message()
            assert message.status == 408
            assert 'body_rate' in problem_of(message)['detail']
    assert [message.body == LARGE for message in server.seen] == [True] * 5


@run
async def test_who_finds_no_large_buffer_has_a_file():
    listen = '{ address: 127.0.0.1:0, body_rate: none }'
    async with upstream(reply(completion(), JSON)) as server, llm(server, listen=listen) as gateway:
        async with unfinished(gateway, LARGE_BUFFERS, announce(900_000, 70_000)):
            await asyncio.gather(*(ask_large(gateway) for _ in range(3)))
            assert await keys_of(gateway) == ['gpt-4o']  # it has been read
    assert [message.body == LARGE for message in server.seen] == [True] * 3


@run
async def test_a_body_too_long_for_memory_takes_no_permit_before_it_is_there():
    async with upstream(reply(completion(), JSON)) as server, llm(server, gate='limit: 1', route='default_key: gpt-4o') as gateway:
        async with unfinished(gateway, 1, announce(2_000_000, 20)):
            await ask_large(gateway)
            assert (await gateway.counts('gpt-4o', 'llm'))['active'] == 0
    assert len(server.seen) == 1


# ---- the API

async def ask_api_slowly(gateway, target):
    """Begins a request to the API with the start of a body, and trickles on; returns the problem that answers it."""
    async with connect(gateway.api_port) as wire:
        await wire.send(request(target, 'Content-Length: 100000', method='POST', body=b'x' * 1000))
        task = asyncio.create_task(trickle(wire))
        try:
            message = await wire.message()
            assert (message.status, message.one('connection')) == (408, 'close')
            return problem_of(message)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@run
async def test_a_job_that_is_handed_in_too_slowly_is_refused_and_leaves_no_trace():
    async with upstream(swallow) as server, front(server, api=QUICK, top='queues: { q: {} }') as gateway:
        problem = await ask_api_slowly(gateway, '/submit/a?queue=q')
        assert problem['type'] == 'urn:weir:request-timeout'
        assert 'body_rate' in problem['detail']
        assert (await ask(gateway.api_port, request('/jobs/a'))).status == 404
        said = await ask(gateway.api_port, request('/submit/a?queue=q', 'Content-Length: 1', method='POST', body=b'x'))
        assert said.status == 202


@run
async def test_a_document_for_the_api_has_a_total_time():
    api = '{ address: 127.0.0.1:0, timeouts: { body: 500ms } }'
    async with upstream(swallow) as server, front(server, api=api) as gateway:
        async with connect(gateway.api_port) as wire:
            await wire.send(request('/gates/functions/f/acquire', 'Content-Length: 1000', method='POST'))
            task = asyncio.create_task(trickle(wire, b' '))
            try:
                message = await wire.message()
                assert message.status == 408
                assert 'timeouts.body' in problem_of(message)['detail']
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
