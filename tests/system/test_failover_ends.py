"""Where a fail-over ends: who pays, what the client hears if nothing helps, and what is kept meanwhile."""
import asyncio
import json
import pathlib
import time

import pytest
from raw import ask, connect, reply, request, run, upstream
from test_failover import failing
from test_lanes import lanes, nobody
from storm_raw import INSTRUMENTED
from test_llm import JSON, chat, completion, llm, post, refusal
from weir import until


def holding(body=b'second'):
    """A server whose requests stay until the event is set."""
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply(body))
    return go, serve


# ---- who pays

@run
async def test_a_fail_over_takes_once_from_the_tenants_rate():
    gate = 'limit: 10, tenants: { acme: { rate: { rate: 1/h, burst: 4 } } }'
    with nobody() as dead:
        for first_url in (None, dead):
            async with upstream(failing('500 Oh')) as failed, upstream(reply(b'second')) as second:
                first = first_url or failed
                async with lanes(first, second, gate=gate, route='tenant: header:X-Tenant') as gateway:
                    for count in range(6):
                        wait = ['Weir-Timeout: 10ms'] if count >= 4 else []
                        said = await ask(gateway.port, request('/functions/f', 'X-Tenant: acme', *wait))
                        assert said.status == (200 if count < 4 else 429), count
                    assert len(second.seen) == 4


@run
async def test_a_client_that_leaves_while_it_waits_for_another_lane_has_made_a_request():
    go, hold = holding(completion())
    async with upstream(refusal('500 Oh')) as first, upstream(hold) as second, \
            llm(first, second, gate='limit: 1', route='retries: 0') as gateway:
        holder = asyncio.create_task(ask(gateway.port, post(chat(), 'X-Tenant: other'), 'POST'))
        await until(lambda: second.seen, 'the second lane is full')
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(), 'X-Tenant: gone'))
            await gateway.until('gpt-4o', 'llm', waiting=1)
            wire.reset()
        await gateway.until('gpt-4o', 'llm', waiting=0)

        async def booked():
            _, said = await gateway.ask_api('/usage?tenant=gone')
            return [row['requests'] for row in said['usage']]
        assert await until(booked, 'it is booked') == [1]
        go.set()
        await holder


# ---- what the client hears

@run
async def test_where_the_other_lane_and_the_line_are_full_the_first_lanes_answer_comes():
    fail, go = asyncio.Event(), asyncio.Event()

    async def fails(wire, _):
        await fail.wait()
        await wire.send(failing('500 Oh'))

    async def holds(wire, _):
        await go.wait()
        await wire.send(reply(b'second'))
    async with upstream(fails) as first, upstream(holds) as second, \
            lanes(first, second, gate='limit: 1, line: { max: 1 }') as gateway:
        early = asyncio.create_task(ask(gateway.port, request()))
        await until(lambda: first.seen, 'the first lane is full')
        holder = asyncio.create_task(ask(gateway.port, request()))
        await until(lambda: second.seen, 'so is the second')
        waiting = asyncio.create_task(ask(gateway.port, request()))
        await gateway.until('f', waiting=1)
        fail.set()
        assert (await early).body == b'not here'
        go.set()
        assert (await holder).body == (await waiting).body == b'second'


@pytest.mark.parametrize('fields', [(5, 60, 5), (60, 5, 5), (5, None, 5), (None, 7, 7), (None, None, None)])
@run
async def test_if_all_lanes_fail_the_smallest_retry_after_comes(fields):
    *each, expected = fields
    texts = [() if seconds is None else (f'Retry-After: {seconds}',) for seconds in each]
    async with upstream(failing('503 Busy', *texts[0])) as first, upstream(failing('503 Over', *texts[1])) as second, \
            lanes(first, second) as gateway:
        said = await ask(gateway.port, request())
        assert 'Over' in said.start and len(first.seen) == len(second.seen) == 1
        got = said.one('retry-after')
        assert got == (None if expected is None else str(expected)) or int(got) == expected - 1
    async with upstream(refusal('429 Slow', *texts[0])) as first, upstream(refusal('429 Slow', *texts[1])) as second, \
            llm(first, second, gate='limit: 8', route='retries: 0') as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        got = said.one('retry-after')
        assert said.status == 429
        assert got == (None if expected is None else str(expected)) or int(got) == expected - 1


@run
async def test_a_pause_that_was_stated_is_told_in_full_also_where_the_limit_is_fixed():
    async with upstream(refusal('429 Slow', 'retry-after: 3600')) as server, \
            llm(server, gate='limit: 8, line: { timeout: 50ms }', route='retries: 0') as gateway:
        await ask(gateway.port, post(chat()), 'POST')
        said = await ask(gateway.port, post(chat()), 'POST')
        assert b'urn:weir:' in said.body and 3000 < int(said.one('retry-after')) <= 3600
        assert len(server.seen) == 1


@run
async def test_retry_after_is_heard_where_permits_belong_to_flows():
    async with upstream(failing('429 Slow', 'retry-after: 20')) as server, \
            lanes(server, gate='limit: 8, line: { timeout: 50ms }', route='permit: flow') as gateway, \
            connect(gateway.port) as wire:
        for _ in range(2):
            await wire.send(request('/functions/f', 'X-Flow: a'))
            assert (await wire.message()).status == 429
        lane, = (await gateway.counts('f'))['lanes']
        assert 15_000 <= lane['paused_ms'] <= 20_000
        await wire.send(request('/functions/f', 'X-Flow: b'))
        said = await wire.message()
        assert b'urn:weir:line-timeout' in said.body and 15 <= int(said.one('retry-after')) <= 20
        assert len(server.seen) == 2


@run
async def test_a_failure_in_chunks_leads_a_client_of_http_1_0_to_the_other_lane():
    chunks = b'HTTP/1.1 500 Oh\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nbad\r\n0\r\n\r\n'
    async with upstream(chunks) as first, upstream(reply(b'second')) as second, lanes(first, second) as gateway:
        said = await ask(gateway.port, request(version='1.0'))
        assert (said.status, said.body) == (200, b'second')
    async with upstream(chunks) as first, upstream(reply(completion(), JSON)) as second, llm(first, second) as gateway:
        text = post(chat()).replace(b'HTTP/1.1', b'HTTP/1.0', 1)
        assert (await ask(gateway.port, text, 'POST')).status == 200


# ---- breakers

@run
async def test_the_breaker_of_several_lanes_can_be_turned_off():
    async with upstream(failing('500 Oh')) as first, upstream(reply(b'second')) as second, \
            lanes(first, second, gate='limit: 10, breaker: { failures: 0 }') as gateway:
        for _ in range(10):
            assert (await ask(gateway.port, request())).body == b'second'
        assert len(first.seen) == len(second.seen) == 10


@run
async def test_while_no_server_of_any_lane_can_be_reached_requests_fail_at_once():
    with nobody() as first, nobody() as second:
        more = 'health: { pause: 300ms, pause_max: 2s }'
        gate = 'limit: 10, line: { timeout: 20s }, breaker: { failures: 3, pause: 300ms, pause_max: 2s }'
        async with lanes(first, second, gate=gate, more=more) as gateway:
            async def one():
                before = time.monotonic()
                said = await ask(gateway.port, request())
                assert said.status == 502, said.body
                assert 'Connection refused' in json.loads(said.body)['detail']
                return time.monotonic() - before
            took = [await one() for _ in range(40)]
            took += await asyncio.gather(*(one() for _ in range(40)))
            assert sum(each > 0.5 for each in took) == 0, took
            second.bound.listen()  # it is there again

            async def serve():
                loop = asyncio.get_running_loop()
                second.bound.setblocking(False)
                while True:
                    other, _ = await loop.sock_accept(second.bound)
                    await loop.sock_recv(other, 65536)
                    await loop.sock_sendall(other, reply(b'back').replace(b'\r\n\r\n', b'\r\nConnection: close\r\n\r\n', 1))
                    other.close()
            server = asyncio.create_task(serve())

            async def back():
                return (await ask(gateway.port, request())).body == b'back'
            await until(back, 'the lane is found open again')
            server.cancel()


@run
async def test_so_do_requests_for_servers_to_which_no_connection_even_begins(tmp_path):
    servers = [f'unix:{tmp_path}/{name}' for name in ('a', 'b')]  # which fail in connect()
    gate = 'limit: 10, line: { timeout: 20s }, breaker: { failures: 3, pause: 300ms, pause_max: 2s }'
    async with lanes(*servers, gate=gate, more='health: { pause: 300ms, pause_max: 2s }') as gateway:
        for _ in range(40):
            before = time.monotonic()
            assert (await ask(gateway.port, request())).status == 502
            assert time.monotonic() - before < 0.5


@run
async def test_servers_that_fail_without_being_down_leave_requests_in_line():
    async with upstream(failing('500 Oh')) as first, upstream(failing('500 Oh')) as second, \
            lanes(first, second, gate='limit: 10, line: { timeout: 30s }, breaker: { failures: 3, pause: 200ms }') as gateway:
        for _ in range(8):
            assert (await ask(gateway.port, request())).status == 500


# ---- what is kept

@run
async def test_a_body_is_let_go_once_the_reply_goes_to_the_client():
    """Each request has a body of nearly 64 KiB, and its reply never ends while the others come."""
    go = asyncio.Event()
    body = b'x' * 60_000

    async def serve(wire, _):
        await wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na')
        await go.wait()
        await wire.send(b'b')

    def resident():
        text = pathlib.Path(f'/proc/{gateway.process.pid}/status').read_text()
        return int(text.split('VmRSS:')[1].split()[0])
    async with upstream(serve) as first, upstream(serve) as second, \
            lanes(first, second, gate='limit: 1000') as gateway:
        wires, before = [], None
        try:
            for count in range(160):
                wires.append(connect(gateway.port))
                wire = await wires[-1].__aenter__()
                await wire.send(request('/functions/f', f'Content-Length: {len(body)}', method='PUT', body=body))
                head = await wire.head()
                assert head.status == 200
                before = resident() if count == 9 else before
            assert INSTRUMENTED or resident() - before < 5000  # of 150 bodies, 9,000
        finally:
            go.set()
            for wire in wires:
                await wire.__aexit__(None, None, None)
