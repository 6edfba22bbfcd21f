"""What the gateway answers for itself, with every field, and what it makes of deadlines."""
import asyncio
import contextlib
import json
import re
import time

import aiohttp
import pytest
from raw import ask, connect, front, reply, request, run, upstream
from weir import PATIENCE, until

ALWAYS = {'type', 'title', 'status', 'detail'}
TICKET = {'gate', 'key', 'flow', 'tenant', 'active', 'waiting', 'limit', 'waited_ms', 'timeout_ms'}


def read(message, kind, status, more=frozenset()):
    """The problem that the message is, with exactly the fields that it has to have."""
    assert message.status == status
    assert message.one('content-type') == 'application/problem+json'
    problem = json.loads(message.body)
    assert problem['type'] == f'urn:weir:{kind}'
    assert problem['status'] == status
    assert problem['title']
    assert len(problem['detail'].split()) > 3
    assert problem.pop('request_id', None) == message.one('x-request-id')
    assert set(problem) == ALWAYS | more
    after = message.one('retry-after')
    assert (after is not None) == (status in (429, 503))
    assert after is None or (after.isascii() and after.isdigit() and 1 <= int(after) <= 300)
    return problem


def read_ticket(message, kind, status=429, **expected):
    problem = read(message, kind, status, TICKET)
    assert re.fullmatch(r'[A-Z].{20,}\.', problem['detail'])  # a sentence, with what to do
    for name in ('active', 'waiting', 'waited_ms'):
        assert isinstance(problem[name], int), name
    assert {name: problem[name] for name in expected} == expected
    return problem


class Slow:
    """Requests for .../hold stay until `go` is set; the others take `pause_s` each."""

    def __init__(self, pause_s=0):
        self.go = asyncio.Event()
        self.pause_s = pause_s
        self.came = []

    async def serve(self, wire, message):
        self.came.append(message.target)
        if '/hold' in message.target:
            await self.go.wait()
        elif self.pause_s:
            await asyncio.sleep(self.pause_s)
        await wire.send(reply())


@contextlib.asynccontextmanager
async def busy(gate, pause_s=0, key='f', **more):
    """A gateway whose key has one permit, which is taken: the gateway and its upstream."""
    slow = Slow(pause_s)
    async with upstream(slow.serve) as server, front(server, gate=f'limit: 1, {gate}', **more) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request(f'/functions/{key}/hold'))
            await gateway.until(key, active=1)
            yield gateway, slow
            slow.go.set()
            assert (await wire.message()).status == 200


# ---- who waited, and for how long

@run
async def test_a_timeout_in_line_tells_everything():
    async with busy('line: { timeout: 150ms }') as (gateway, slow):
        message = await ask(gateway.port, request('/functions/f', 'X-Tenant: acme', 'X-Flow: flow-7'))
        problem = read_ticket(message, 'line-timeout', gate='functions', key='f', flow='flow-7',
                              tenant='acme', active=1, waiting=0, limit=1, timeout_ms=150)
        assert 150 <= problem['waited_ms'] < 5000
        assert message.one('connection') == 'keep-alive'
        assert slow.came == ['/functions/f/hold']


@run
async def test_nobody_in_particular_has_empty_names():
    async with busy('line: { timeout: 20ms }') as (gateway, _):
        read_ticket(await ask(gateway.port, request()), 'line-timeout', flow='', tenant='')


@run
async def test_names_of_any_bytes_make_valid_answers():
    async with busy('line: { timeout: 20ms }', key='%22%C3%A9%5B%7F') as (gateway, _):
        for tenant in ('"\\/', '\xc3\xa9', '\xe9', '\xff\xfe', 'x' * 255):
            message = await ask(gateway.port, request('/functions/%22%C3%A9%5B%7F', f'X-Tenant: {tenant}',
                                                      f'X-Flow: {tenant}'))
            problem = read_ticket(message, 'line-timeout', key='"\xe9[\x7f')
            if tenant.isascii():
                assert problem['tenant'] == problem['flow'] == tenant
        problem = read_ticket(await ask(gateway.port, request(
            '/functions/%22%C3%A9%5B%7F', 'X-Tenant: \xc3\xa9')), 'line-timeout', tenant='\xe9')


@run
async def test_a_full_line_tells_everything_at_once():
    async with busy('line: { timeout: 20s, max: 1 }') as (gateway, _):
        async with connect(gateway.port) as wire:
            await wire.send(request())
            await gateway.until('f', waiting=1)
            message = await ask(gateway.port, request('/functions/f', 'X-Tenant: acme', 'X-Flow: flow-7'))
            problem = read_ticket(message, 'line-full', gate='functions', key='f', flow='flow-7',
                                  tenant='acme', active=1, waiting=1, limit=1, timeout_ms=20000)
            assert problem['waited_ms'] < 1000


@run
async def test_a_tenant_may_fill_only_its_part_of_the_line():
    async with busy('line: { timeout: 20s, by_tenant: 1 }') as (gateway, slow):
        tasks = []
        for count, tenant in enumerate(('a', 'b'), 1):
            tasks.append(asyncio.create_task(
                ask(gateway.port, request('/functions/f', f'X-Tenant: {tenant}'))))
            await gateway.until('f', waiting=count)
        read_ticket(await ask(gateway.port, request('/functions/f', 'X-Tenant: a')), 'line-full',
                    tenant='a', waiting=2)
        slow.go.set()
        assert {(await task).status for task in tasks} == {200}


@run
async def test_whoever_has_too_much_of_a_full_line_is_displaced():
    async with busy('line: { timeout: 20s, max: 3 }') as (gateway, slow):
        tasks = []
        for count in (1, 2, 3):
            tasks.append(asyncio.create_task(
                ask(gateway.port, request('/functions/f', 'X-Tenant: much', f'X-Flow: {count}'))))
            await gateway.until('f', waiting=count)
        other = asyncio.create_task(ask(gateway.port, request('/functions/f', 'X-Tenant: little')))
        problem = read_ticket(await tasks.pop(), 'displaced', tenant='much', flow='3', gate='functions',
                              key='f', active=1, waiting=3, limit=1, timeout_ms=20000)
        assert problem['waited_ms'] < 20000
        slow.go.set()
        assert (await other).status == 200
        assert {(await task).status for task in tasks} == {200}


@run
async def test_the_config_chooses_503_for_all_three():
    line = 'line: { timeout: 20s, max: 2, status: 503 }'
    async with busy(line) as (gateway, slow):
        late = request('/functions/f', 'X-Tenant: much', 'Weir-Timeout: 20ms')
        read_ticket(await ask(gateway.port, late), 'line-timeout', 503)
        tasks = []
        for count in (1, 2):
            tasks.append(asyncio.create_task(ask(gateway.port, request('/functions/f', 'X-Tenant: much'))))
            await gateway.until('f', waiting=count)
        read_ticket(await ask(gateway.port, late), 'line-full', 503)
        other = asyncio.create_task(ask(gateway.port, request('/functions/f', 'X-Tenant: little')))
        read_ticket(await tasks.pop(), 'displaced', 503)
        slow.go.set()
        assert {(await task).status for task in (*tasks, other)} == {200}


@run
async def test_a_key_may_have_a_status_and_a_timeout_of_its_own():
    gate = 'line: { timeout: 60ms }, keys: { g: { line: { status: 503, timeout: 30ms } } }'
    async with busy(gate) as (gateway, _):
        read_ticket(await ask(gateway.port, request()), 'line-timeout', 429, key='f', timeout_ms=60)
    async with busy(gate, key='g') as (gateway, _):
        read_ticket(await ask(gateway.port, request('/functions/g')), 'line-timeout', 503, key='g',
                    timeout_ms=30)


@run
async def test_a_limit_of_none_lets_everybody_in_and_counts_them():
    slow = Slow()
    async with upstream(slow.serve) as server, front(server, gate='limit: none') as gateway:
        tasks = [asyncio.create_task(ask(gateway.port, request('/functions/f/hold'))) for _ in range(50)]
        await gateway.until('f', active=50, waiting=0, limit=None)
        slow.go.set()
        assert {(await task).status for task in tasks} == {200}
        await gateway.until('f', active=0)


@run
async def test_a_line_without_a_timeout_has_none_to_tell():
    async with busy('line: { timeout: none, max: 1 }') as (gateway, _):
        async with connect(gateway.port) as wire:
            await wire.send(request())
            await gateway.until('f', waiting=1)
            read_ticket(await ask(gateway.port, request()), 'line-full', timeout_ms=None)


# ---- when to come again

async def drain(gateway, slow, count):
    """So many start from the line, one after the other: all of them stand in it before the first does."""
    async with connect(gateway.port) as wire:
        await wire.send(request('/functions/f/hold'))
        await gateway.until('f', active=1)
        tasks = [asyncio.create_task(ask(gateway.port, request())) for _ in range(count)]
        await gateway.until('f', waiting=count)
        slow.go.set()
        assert (await wire.message()).status == 200
        assert {(await task).status for task in tasks} == {200}
        slow.go.clear()


@run
async def test_retry_after_is_what_the_line_takes_to_drain():
    gate = 'line: { timeout: 20s, max: 30 }'
    slow = Slow(0.1)
    async with upstream(slow.serve) as server, front(server, gate=f'limit: 1, {gate}') as gateway:
        began = time.monotonic()
        await drain(gateway, slow, 9)
        took = time.monotonic() - began
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(31):
                wire = await stack.enter_async_context(connect(gateway.port))
                await wire.send(request('/functions/f/hold'))
            await gateway.until('f', active=1, waiting=30)
            message = await ask(gateway.port, request())
            read_ticket(message, 'line-full', waiting=30)
            # 30 in line, and each takes as long as the eight from one start to the next took in the mean.
            assert 30 * 0.1 <= int(message.one('retry-after')) <= 31 * took / 8 + 1
        slow.go.set()


@run
async def test_retry_after_is_what_binds_while_no_drain_has_been_measured():
    """Nothing has left the line yet: a refill of the bucket, the end of a lease, else the line's own timeout."""
    for rule, least, most in (('limit: none, rate: { rate: 3/m, burst: 1 }, line: { timeout: 50ms }', 15, 20),
                              ('limit: 1, lease: 100s, line: { timeout: 50ms }', 95, 100),
                              ('limit: 1, lease: none, line: { timeout: 1500ms }', 2, 2)):
        async with upstream() as server, front(server, gate=rule) as gateway:
            async with aiohttp.ClientSession() as session, \
                    session.post(f'{gateway.api}/gates/functions/f/acquire', json={'flow': 'a'}) as permit:
                assert permit.status == 200
            refused = await ask(gateway.port, request('/functions/f'))
            assert least <= int(refused.one('retry-after')) <= most, rule
            assert refused.one('x-should-retry') == ('false' if most > 60 else None)


@run
async def test_too_late_is_said_at_once_but_not_before_eight_have_left_the_line():
    slow = Slow(0.05)
    gate = 'limit: 1, line: { timeout: 20s }, early_reject: true'
    async with upstream(slow.serve) as server, front(server, gate=gate) as gateway:
        late = request('/functions/f', 'Weir-Timeout: 20ms', 'X-Tenant: acme')
        # How long it takes from one start to the next is known of 7, then of 8.
        for count, kind in ((8, 'line-timeout'), (2, 'too-late')):
            await drain(gateway, slow, count)
            async with connect(gateway.port) as wire:
                await wire.send(request('/functions/f/hold'))
                await gateway.until('f', active=1)
                message = await ask(gateway.port, late)
                problem = read_ticket(message, kind, gate='functions', key='f', tenant='acme', active=1,
                                      waiting=0, limit=1, timeout_ms=20)
                if kind == 'too-late':
                    assert int(message.one('retry-after')) >= 1
                else:
                    assert problem['waited_ms'] >= 20
                # Whoever has the time is let in line.
                patient = asyncio.create_task(ask(gateway.port, request('/functions/f', 'Weir-Timeout: 10s')))
                await gateway.until('f', waiting=1)
                slow.go.set()
                assert (await patient).status == 200
                assert (await wire.message()).status == 200
                slow.go.clear()


# ---- deadlines

@run
async def test_a_client_may_shorten_its_time_in_line_but_not_lengthen_it():
    async with busy('line: { timeout: 200ms }') as (gateway, slow):
        for asked, timeout_ms in (('20ms', 20), ('1m30s', 200), ('201ms', 200), ('7d', 200)):
            message = await ask(gateway.port, request('/functions/f', f'Weir-Timeout: {asked}'))
            problem = read_ticket(message, 'line-timeout', timeout_ms=timeout_ms)
            assert timeout_ms <= problem['waited_ms']
        assert slow.came == ['/functions/f/hold']


@run
async def test_no_time_at_all_is_refused_at_once():
    async with busy('line: { timeout: 20s }') as (gateway, slow):
        problem = read_ticket(await ask(gateway.port, request('/functions/f', 'Weir-Timeout: 0s')),
                              'line-timeout', timeout_ms=0)
        assert problem['waited_ms'] < 1000
        assert slow.came == ['/functions/f/hold']


@run
@pytest.mark.parametrize('fields', [
    ['Weir-Timeout: 10'], ['Weir-Timeout: 1.5s'], ['Weir-Timeout: -1s'], ['Weir-Timeout:'],
    ['Weir-Timeout: 1x'], ['Weir-Timeout: 1s, 2s'], ['Weir-Timeout: none'], ['Weir-Timeout: "1s"'],
    ['Weir-Timeout: 99999999999999999999s'], ['Weir-Timeout: 1s', 'Weir-Timeout: 1s']])
async def test_a_timeout_that_cannot_be_read_is_a_bad_request(fields):
    async with upstream() as server, front(server) as gateway:
        problem = read(await ask(gateway.port, request('/functions/f', *fields)), 'bad-request', 400)
        assert 'Weir-Timeout' in problem['detail']
        assert server.seen == []


@run
async def test_the_upstream_does_not_see_the_clients_timeout():
    async with upstream() as server, front(server) as gateway:
        assert (await ask(gateway.port, request('/functions/f', 'Weir-Timeout: 10s'))).status == 200
        assert server.seen[0].one('weir-timeout') is None


@run
@pytest.mark.parametrize('route, fields', [('deadline: 1s', []), ('', ['Weir-Timeout: 1s']),
                                           ('deadline: 1s', ['Weir-Timeout: 1m'])])
async def test_a_deadline_ends_with_the_first_byte(route, fields):
    over = asyncio.Event()

    async def serve(wire, message):
        if message.target.endswith('slow'):
            await wire.ended()
        else:  # the head in time, the body when the deadline is over
            await wire.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n')
            await over.wait()
            await wire.send('ok')
    async with upstream(serve) as server, front(server, route=route) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', *fields))
            assert (await wire.head()).status == 200
            # This one comes later, and so its deadline does.
            read(await ask(gateway.port, request('/functions/f/slow', *fields)), 'upstream-timeout', 504)
            over.set()
            assert await wire.exactly(2) == b'ok'
        await gateway.until('f', active=0)


@run
async def test_a_deadline_that_passes_in_line_is_a_timeout_there():
    route = '''
  - { match: /late, key: f, deadline: 100ms, gate: functions, upstream: functions }'''
    async with busy('line: { timeout: 20s }', route=route) as (gateway, slow):
        problem = read_ticket(await ask(gateway.port, request('/late')), 'line-timeout', timeout_ms=100)
        assert problem['waited_ms'] >= 100
        assert slow.came == ['/functions/f/hold']


@run
async def test_time_in_line_counts_against_the_deadline():
    slow = Slow()
    gate = 'limit: 1, line: { timeout: 20s }'
    ended = []

    async def read_end(wire, name):
        read(await wire.message(), 'upstream-timeout', 504)
        ended.append(name)
    async with upstream(slow.serve) as server, front(server, gate=gate) as gateway:
        async with contextlib.AsyncExitStack() as stack:
            first, second, third = [await stack.enter_async_context(connect(gateway.port)) for _ in range(3)]
            await first.send(request('/functions/f/hold'))
            await gateway.until('f', active=1)
            start = asyncio.get_running_loop().time()
            await second.send(request('/functions/f/hold', 'Weir-Timeout: 2s'))
            await gateway.until('f', waiting=1)

            async def has_waited():
                _, said = await gateway.ask_api('/gates/functions/f/line')
                return said['line'][0]['waited_ms'] >= 200
            await until(has_waited, 'the second one has waited')
            await third.send(request('/functions/g/hold', 'Weir-Timeout: 2s'))
            await gateway.until('g', active=1)
            first.reset()  # now it is the second one's turn
            # Whose time began before the third one's did, although it started after it.
            await asyncio.gather(read_end(second, 'second'), read_end(third, 'third'))
            assert ended == ['second', 'third']
            assert 2 <= asyncio.get_running_loop().time() - start
        await gateway.until('f', active=0)


@run
async def test_a_clients_deadline_does_not_count_against_the_server():
    async def serve(wire, message):
        if message.target.endswith('slow'):
            await wire.ended()
        await wire.send(reply())
    async with upstream(serve) as a, upstream(serve) as b:
        async with front(a, b, more='health: { failures: 1, pause: 1m }') as gateway:
            for _ in range(4):
                message = await ask(gateway.port, request('/functions/f/slow', 'Weir-Timeout: 20ms'))
                read(message, 'upstream-timeout', 504)
            before = len(a.seen), len(b.seen)
            for _ in range(4):
                assert (await ask(gateway.port, request())).status == 200
            assert len(a.seen) > before[0] and len(b.seen) > before[1]


# ---- what has nothing to do with a line

@run
async def test_each_other_answer_has_its_type_and_status():
    async def serve(wire, message):
        if message.target.endswith('slow'):
            await wire.ended()
        raise ConnectionError
    async with upstream(serve) as server, front(server, route='max_body: 10B') as gateway:
        for text, kind, status in (
                (request('/functions/f/slow', 'Weir-Timeout: 50ms'), 'upstream-timeout', 504),
                (request('/functions/f'), 'upstream-unreachable', 502),
                (request('/nowhere'), 'no-route', 404),
                (request('/functions'), 'no-route', 404),
                (request('/functions/..'), 'bad-request', 400),
                (b'nonsense\r\n\r\n', 'bad-request', 400),
                (request('/functions/f', 'Expect: 200-ok', 'Content-Length: 1', method='POST'),
                 'bad-request', 417),
                (request('/functions/' + 'x' * 300), 'bad-request', 400),
                (request('/' + 'x' * 10_000), 'bad-request', 414),
                (request('/functions/f', 'X-Long: ' + 'x' * 100_000), 'bad-request', 431),
                (request(host='evil.com'), 'forbidden', 403)):
            message = await ask(gateway.port, text)
            problem = read(message, kind, status)
            assert message.one('retry-after') is None
            assert ('Upstream `functions` ' in problem['detail']) == kind.startswith('upstream-')


@run
async def test_a_body_is_refused_beyond_its_limit_and_not_at_it():
    async with upstream() as server, front(server, route='max_body: 10B') as gateway:
        for size, status in ((9, 200), (10, 200), (11, 413)):
            message = await ask(gateway.port, request('/functions/f', f'Content-Length: {size}',
                                                      method='POST', body=b'x' * size))
            assert message.status == status
            chunks = b'1\r\nx\r\n' * size + b'0\r\n\r\n'
            message = await ask(gateway.port, request('/functions/f', 'Transfer-Encoding: chunked',
                                                      method='POST', body=chunks))
            assert message.status == status
            if status == 413:
                assert 'max_body' in read(message, 'body-too-large', 413)['detail']
                assert message.one('connection') == 'close'
        assert len(server.seen) == 4
        await gateway.until('f', active=0)


# ---- going away

@run
async def test_while_draining_who_is_in_line_is_served_and_connections_are_closed():
    async with busy('line: { timeout: 20s }') as (gateway, slow):
        async with connect(gateway.port) as idle, connect(gateway.port) as waits:
            await idle.send(request('/nowhere'))
            assert (await idle.message()).one('connection') == 'keep-alive'
            await waits.send(request())
            await gateway.until('f', waiting=1)
            gateway.terminate()
            assert await idle.rest() == b''
            slow.go.set()
            message = await waits.message()
            assert (message.status, message.one('connection')) == (200, 'close')
            assert await waits.rest() == b''


@run
async def test_while_draining_a_refusal_is_the_last_word_of_its_connection():
    async with busy('line: { timeout: 2s }') as (gateway, _):  # it drains long before
        async with connect(gateway.port) as wire:
            await wire.send(request() * 2)
            await gateway.until('f', waiting=1)
            gateway.terminate()
            message = await wire.message()
            read_ticket(message, 'line-timeout')
            assert message.one('connection') == 'close'
            with contextlib.suppress(ConnectionError):
                assert await wire.rest() == b''


@run
async def test_who_is_still_in_line_when_the_grace_is_over_is_told_so():
    slow = Slow()
    gate = 'limit: 1, line: { timeout: 20s }'
    async with upstream(slow.serve) as server, front(server, gate=gate, grace='200ms') as gateway:
        async with connect(gateway.port) as first, connect(gateway.port) as second:
            await first.send(request('/functions/f/hold'))
            await gateway.until('f', active=1)
            await second.send(request('/functions/f', 'X-Tenant: acme', 'X-Flow: flow-7'))
            await gateway.until('f', waiting=1)
            gateway.terminate()
            message = await second.message()
            problem = read_ticket(message, 'draining', 503, gate='functions', key='f', flow='flow-7',
                                  tenant='acme', limit=1, timeout_ms=20000)
            assert problem['waited_ms'] >= 200
            assert message.one('connection') == 'close'
            await first.ended()
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0
        assert slow.came == ['/functions/f/hold']
