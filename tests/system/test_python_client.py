"""clients/python against the real server: reference 004's list, for threads and for asyncio, and the ways in which
callers end."""
import asyncio
import concurrent.futures
import contextlib
import functools
import gc
import json
import os
import pathlib
import sys
import threading
import time

import pytest
from raw import run
from weir import PATIENCE, until, weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLIENT = ROOT / 'clients' / 'python'
sys.path.insert(0, str(CLIENT))
import weir_client  # noqa: E402
from weir_client import (AsyncGate, Gate, WeirNotHeld, WeirRefused, WeirTimeout,  # noqa: E402
                         WeirUnreachable)

CONFIG = '''
api: 127.0.0.1:0
threads: 2
grace: 2s
gates:
  agents: { limit: 3, line: { timeout: 30s }, lease: 10m, events: a2a }
  quick: { limit: 1, line: { timeout: 30s }, lease: 150ms }
  narrow: { limit: 1, line: { timeout: 30s, max: 1 }, lease: 10m }
  free: { limit: none }
'''


class Server:
    """A gateway in a loop of its own, so that one serves all tests of this file."""

    def __init__(self, config):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.scope = weir(config)
        self.gateway = self.do(self.scope.__aenter__())
        self.api = self.gateway.api

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(60)

    async def until(self, key, gate='agents', **counts):
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(
            self.gateway.until(key, gate, **counts), self.loop))

    def stop(self):
        try:
            self.do(self.scope.__aexit__(None, None, None))
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join()
            self.loop.close()


@pytest.fixture(scope='module')
def server():
    server = Server(CONFIG)
    yield server
    server.stop()


class InThreads:
    """A Gate with the face of an AsyncGate: each call is made in a thread."""

    def __init__(self, *args, **more):
        self.gate = Gate(*args, **more)
        self.pool = concurrent.futures.ThreadPoolExecutor(64)

    def __getattr__(self, name):
        call = getattr(self.gate, name)
        return lambda *args, **more: asyncio.get_running_loop().run_in_executor(
            self.pool, functools.partial(call, *args, **more))

    @contextlib.asynccontextmanager
    async def in_scope(self, scope):
        loop = asyncio.get_running_loop()
        value = await loop.run_in_executor(self.pool, scope.__enter__)
        try:
            yield value
        finally:
            await loop.run_in_executor(self.pool, scope.__exit__, None, None, None)

    def permit(self, *args, **more):
        return self.in_scope(self.gate.permit(*args, **more))

    @contextlib.asynccontextmanager
    async def events(self, *types):
        async def each():
            while True:
                yield await asyncio.get_running_loop().run_in_executor(self.pool, next, lines)
        async with self.in_scope(self.gate.events(*types)) as lines:
            yield each()


@pytest.fixture(params=[InThreads, AsyncGate], ids=['threads', 'asyncio'])
def kind(request):
    return request.param


@pytest.fixture
def key(request):
    """Of its own for each test, since the server is everybody's."""
    return request.node.name


def with_gate(test):
    """Runs a test with a gate of one kind; afterwards nobody is at its key."""
    def wrapper(server, kind, key):
        @run
        async def body():
            gate = kind(server.api)
            await test(server, gate, key)
            gc.collect()
            await server.until(key, active=0, waiting=0, reserved=0)
            await gate.close()
        body()
    wrapper.__name__ = test.__name__
    return wrapper


class Inside:
    """A task that takes a permit, tells, and stays until it is let go."""

    def __init__(self, gate, key, **wish):
        self.permit = None
        self.door = asyncio.Event()
        self.entered = asyncio.Event()
        self.task = asyncio.create_task(self._stay(gate, key, wish))

    async def _stay(self, gate, key, wish):
        async with gate.permit(key, **wish) as permit:
            self.permit = permit
            self.entered.set()
            await self.door.wait()

    async def leave(self):
        self.door.set()
        await self.task


async def enter(gate, key, **wish):
    inside = Inside(gate, key, **wish)
    await asyncio.wait_for(inside.entered.wait(), PATIENCE)
    return inside


async def leave(*insides):
    for inside in insides:
        await inside.leave()


# ---- reference 004's list

@with_gate
async def test_permits_within_the_limit_are_given_at_once(server, gate, key):
    insides = []
    for active in (1, 2, 3):
        insides.append(await enter(gate, key, flow=f'flow-{active}', tenant='t', priority='high', cost=2))
        permit = insides[-1].permit
        assert (permit.active, permit.waiting, permit.limit) == (active, 0, 3)
        assert (permit.key, permit.agent, permit.flow) == (key, key, f'flow-{active}')
        assert permit.waited < 5 and permit.lease is None and not permit.lost
    counts = await gate.counts(key)
    assert (counts['active'], counts['waiting'], counts['limit'], counts['reserved']) == (3, 0, 3, 6)
    await leave(*insides)
    assert (await gate.counts(key))['active'] == 0  # given back when the block has ended, not soon after


@with_gate
async def test_who_may_wait_for_months_waits(server, gate, key):
    insides = [await enter(gate, key) for _ in range(3)]
    fourth = Inside(gate, key, timeout=2 ** 32 / 1000 - weir_client._common.PATIENCE + 0.001)
    await server.until(key, active=3, waiting=1)
    with pytest.raises(WeirTimeout):
        await gate.acquire(key, timeout=0.1)  # who has more patience waits for longer
    await insides.pop().leave()
    await asyncio.wait_for(fourth.entered.wait(), PATIENCE)
    await leave(fourth, *insides)


@with_gate
async def test_the_fourth_flow_waits_and_goes_when_one_has_ended(server, gate, key):
    insides = [await enter(gate, key) for _ in range(3)]
    fourth = Inside(gate, key, flow='fourth')
    await server.until(key, active=3, waiting=1)
    fifth = Inside(gate, key, flow='fifth')
    await server.until(key, active=3, waiting=2)
    line = await gate.line(key)
    assert [entry['flow'] for entry in line] == ['fourth', 'fifth']
    await insides.pop().leave()
    await asyncio.wait_for(fourth.entered.wait(), PATIENCE)
    assert not fifth.entered.is_set()
    assert fourth.permit.waited > 0
    await fourth.leave()
    await asyncio.wait_for(fifth.entered.wait(), PATIENCE)
    await leave(fifth, *insides)
    assert await gate.line(key) == []


@with_gate
async def test_whoever_waits_too_long_is_told_agent_flow_count_and_what_to_do(server, gate, key):
    insides = [await enter(gate, key) for _ in range(3)]
    for hold in (True, False):
        with pytest.raises(WeirTimeout) as caught:
            await gate.acquire(key, flow='late', tenant='t', timeout=0.05, hold=hold)
        error = caught.value
        assert (error.status, error.type) == (429, 'urn:weir:line-timeout')
        assert (error.agent, error.key, error.flow, error.tenant) == (key, key, 'late', 't')
        assert (error.gate, error.active, error.waiting, error.limit) == ('agents', 3, 0, 3)
        assert 0.05 <= error.timeout < 5 and error.waited >= 0.05
        assert 'Try again' in error.detail
        for word in (key, 'late', '3 active', 'Try again'):
            assert word in str(error)
    with pytest.raises(WeirTimeout) as caught:
        await gate.acquire(key, timeout=0)  # only if it need not wait
    assert caught.value.waited < 5
    await leave(*insides)


@with_gate
async def test_a_throttle_and_a_timeout_are_events_also_in_the_words_of_agents(server, gate, key):
    inside = [await enter(gate, key) for _ in range(3)]
    types = ['gate.throttle', 'a2a.concurrency.throttle', 'gate.timeout', 'a2a.concurrency.timeout']
    async with gate.events(*types) as events:
        with pytest.raises(WeirTimeout):
            await gate.acquire(key, flow='fourth', timeout=0.03)
        seen = []
        while len(seen) < 4:
            event = await asyncio.wait_for(events.__anext__(), PATIENCE)
            if 'fourth' in (event.get('flow'), event.get('flowId')) and \
                    key in (event.get('key'), event.get('agentId')):
                seen.append(event)
    assert [event['type'] for event in seen] == types
    assert (seen[0]['active'], seen[0]['waiting'], seen[0]['limit']) == (3, 0, 3)
    assert abs(seen[1].pop('timestamp') - time.time() * 1000) < 1_000_000
    assert seen[1] == {'type': types[1], 'agentId': key, 'flowId': 'fourth', 'activeCount': 3,
                       'queuedCount': 0, 'maxConcurrentFlows': 3}
    assert seen[3]['queueTimeoutMs'] == 30
    with pytest.raises(WeirRefused, match='There is no event type called'):
        async with gate.events('nope'):
            pass
    await leave(*inside)


@with_gate
async def test_agents_do_not_wait_for_each_other(server, gate, key):
    insides = [await enter(gate, key + '-other') for _ in range(3)]
    async with gate.permit(key, timeout=0) as permit:
        assert permit.active == 1
    await leave(*insides)


def test_an_unlimited_agent_is_counted_all_the_same(server, kind, key):
    @run
    async def test():
        gate = kind(server.api, 'free')
        insides = [await enter(gate, key, timeout=0) for _ in range(20)]
        assert {inside.permit.limit for inside in insides} == {None}
        assert insides[-1].permit.active == 20
        assert (await gate.counts(key))['active'] == 20
        await leave(*insides)
        await gate.close()
    test()


@with_gate
async def test_of_fifty_at_once_never_more_than_the_limit_are_inside(server, gate, key):
    inside = most = 0
    full = asyncio.Event()

    async def work(number):
        nonlocal inside, most
        async with gate.permit(key, flow=f'{number}', hold=number % 2 == 0):
            inside += 1
            most = max(most, inside)
            if inside == 3:
                full.set()
            await full.wait()  # until as many as may be are inside, once
            await asyncio.sleep(0.001)
            inside -= 1
    await asyncio.gather(*(work(number) for number in range(50)))
    assert most == 3


# ---- giving back

@with_gate
async def test_an_exception_inside_gives_back(server, gate, key):
    for hold in (True, False):
        with pytest.raises(ZeroDivisionError):
            async with gate.permit(key, hold=hold):
                1 // 0
        assert (await gate.counts(key))['active'] == 0


@with_gate
async def test_a_permit_is_given_back_once_by_itself_or_by_its_flow(server, gate, key):
    permit = await gate.acquire(key, flow='f')
    assert permit.lease == 600
    assert await gate.renew(permit, lease=5) == 5
    assert await gate.renew(key, 'f') == 600
    await gate.release(permit)
    for again in (lambda: gate.release(permit), lambda: gate.release(key, 'f'),
                  lambda: gate.renew(permit)):
        with pytest.raises(WeirNotHeld) as caught:
            await again()
        assert (caught.value.status, caught.value.type) == (409, 'urn:weir:not-held')
        assert caught.value.key == key
    await gate.acquire(key, flow='f')
    await gate.release(key, 'f')
    with pytest.raises(ValueError):
        await gate.release(key)


def test_a_lease_that_ran_out_is_told_by_release_but_not_by_the_block(server, kind, key):
    @run
    async def test():
        gate = kind(server.api, 'quick')
        permit = await gate.acquire(key, renew=False)
        assert permit.lease == 0.15 and not permit.lost
        await server.until(key, 'quick', active=0)
        with pytest.raises(WeirNotHeld):
            await gate.release(permit)
        async with gate.permit(key, hold=False, renew=False):
            await server.until(key, 'quick', active=0)
        async with gate.permit(key, lease=0.1) as permit:
            await until(lambda: permit.lost, 'the permit is lost')
        await gate.close()
    test()


@with_gate
async def test_how_it_went_and_what_it_cost_goes_back_with_it(server, gate, key):
    async with gate.permit(key, cost=100) as permit:
        await server.until(key, reserved=100)
        permit.outcome, permit.cost = 'success', 7
    permit = await gate.acquire(key)
    with pytest.raises(WeirRefused) as caught:
        await gate.release(permit, outcome='fine')
    assert caught.value.status == 400 and 'outcome' in caught.value.detail
    await gate.release(permit, outcome='soft_loss', cost=0)


@with_gate
async def test_a_permit_that_is_forgotten_with_its_connection_is_given_back(server, gate, key):
    if isinstance(gate, AsyncGate):
        return  # the loop keeps what is open; the end of its task gives back
    permit = await gate.acquire(key, hold=True)
    await server.until(key, active=1)
    del permit
    gc.collect()
    await server.until(key, active=0)



@with_gate
async def test_a_connection_that_held_a_permit_is_closed_when_it_is_given_back(server, gate, key):
    def open_files():
        return len(os.listdir('/proc/self/fd'))
    permits = [await gate.acquire(key, hold=True) for _ in range(3)]
    before = open_files()
    for permit in permits:
        await gate.release(permit)  # all by one new connection, which is kept
    await until(lambda: open_files() <= before - 2, 'the three are closed')
    assert permits[0].id


HOLDER = '''
import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
import weir_client
def tell():
    print('inside', flush=True)
    time.sleep(60)
api, key, kind, gate, hold = *sys.argv[2:6], sys.argv[6] == 'True'
if kind == 'threads':
    with weir_client.Gate(api, gate).permit(key, hold=hold):
        tell()
else:
    async def main():
        async with weir_client.AsyncGate(api, gate).permit(key, hold=hold):
            tell()
    asyncio.run(main())
'''


@contextlib.asynccontextmanager
async def to_be_killed(server, kind, key, gate='agents', hold=True):
    """A process that takes a permit; whoever has seen it in the state that it wants ends it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, '-c', HOLDER, str(CLIENT), server.api, key, 'threads' if kind is InThreads else 'asyncio',
        gate, str(hold), stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def test_a_process_that_is_killed_gives_back(server, kind, key):
    @run
    async def test():
        async with to_be_killed(server, kind, key) as process:
            assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b'inside\n'
            await server.until(key, active=1)
        await server.until(key, active=0)
        async with to_be_killed(server, kind, key, 'quick', hold=False) as process:  # by its lease
            assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b'inside\n'
        await server.until(key, 'quick', active=0, entered=1)
        gate = kind(server.api)
        insides = [await enter(gate, key) for _ in range(3)]
        async with to_be_killed(server, kind, key):
            await server.until(key, active=3, waiting=1)
        await server.until(key, active=3, waiting=0)
        await leave(*insides)
        await gate.close()
    test()


# ---- cancellation

def with_tasks(test):
    def wrapper(server, key):
        @run
        async def body():
            gate = AsyncGate(server.api)
            await test(server, gate, key)
            await server.until(key, active=0, waiting=0, reserved=0)
            await gate.close()
        body()
    wrapper.__name__ = test.__name__
    return wrapper


@with_tasks
async def test_a_task_that_is_cancelled_while_it_waits_leaves_the_line(server, gate, key):
    insides = [await enter(gate, key) for _ in range(3)]
    for hold in (True, False):
        waiting = [asyncio.create_task(gate.acquire(key, hold=hold)) for _ in range(5)]
        await server.until(key, waiting=5)
        began = time.monotonic()
        for task in waiting:
            task.cancel()
        assert all(isinstance(end, asyncio.CancelledError)
                   for end in await asyncio.gather(*waiting, return_exceptions=True))
        await server.until(key, active=3, waiting=0)
        assert time.monotonic() - began < weir_client._common.ABANDON  # it did not come to that
    await leave(*insides)


@with_tasks
async def test_a_task_that_is_cancelled_inside_gives_back(server, gate, key):
    for hold in (True, False):
        inside = await enter(gate, key, hold=hold)
        inside.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await inside.task
        assert (await gate.counts(key))['active'] == 0
        inside = await enter(gate, key, hold=hold)
        await gate.close()  # so that giving back begins with a new connection
        inside.task.cancel()
        await asyncio.sleep(0)
        inside.task.cancel()  # also while it gives back
        with pytest.raises(asyncio.CancelledError):
            await inside.task
        await server.until(key, active=0)


@with_tasks
async def test_a_cancellation_at_any_moment_leaves_nothing_behind(server, gate, key):
    for number in range(60):
        task = asyncio.create_task(gate.acquire(key, hold=number % 2 == 0))
        await asyncio.sleep(number % 30 * 0.0001)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await gate.release(await task)
    await server.until(key, active=0, waiting=0)


# ---- functions

def test_a_function_that_is_limited_has_a_permit_while_it_runs(server, key):
    gate = Gate(server.api)

    @gate.limited(key, flow='f', timeout=5)
    def plain(number):
        """Says so."""
        return number, gate.counts(key)['active']

    @gate.limited(lambda name: name)
    async def by_argument(name):
        return gate.counts(name)['active']
    assert plain(4) == (4, 1) and plain.__doc__ == 'Says so.'
    assert asyncio.run(by_argument(key)) == 1
    assert asyncio.run(by_argument(key)) == 1  # in another loop
    assert gate.counts(key)['active'] == 0
    assert asyncio.run(AsyncGate(server.api).limited(key)(by_argument)(key)) == 2
    for decorate in (gate.limited(key), AsyncGate(server.api).limited(key)):
        with pytest.raises(TypeError):
            @decorate
            def generator():
                yield
    with pytest.raises(TypeError):
        AsyncGate(server.api).limited(key)(plain)
    gate.close()


# ---- what is refused

@with_gate
async def test_a_key_that_nobody_used_has_no_counts_and_a_gate_that_is_not_there_is_an_error(
        server, gate, key):
    counts = await gate.counts('never-used')
    assert (counts['active'], counts['waiting'], counts['limit']) == (0, 0, None)
    assert await gate.line('never-used') == []
    nowhere = type(gate)(server.api, 'nowhere')
    for ask in (lambda: nowhere.counts(key), lambda: nowhere.line(key), lambda: nowhere.acquire(key),
                lambda: nowhere.acquire(key, hold=True)):
        with pytest.raises(WeirRefused) as caught:
            await ask()
        assert (caught.value.status, caught.value.type) == (404, 'urn:weir:not-found')
    await nowhere.close()


@with_gate
async def test_a_full_line_and_a_bad_wish_are_refused(server, gate, key):
    narrow = type(gate)(server.api, 'narrow')
    async with narrow.permit(key):
        waiting = asyncio.ensure_future(narrow.acquire(key))
        await server.until(key, 'narrow', waiting=1)
        with pytest.raises(WeirRefused) as caught:
            await narrow.acquire(key)
        assert caught.value.type == 'urn:weir:line-full'
        assert not isinstance(caught.value, WeirTimeout)
    await narrow.release(await waiting)
    with pytest.raises(WeirRefused) as caught:
        await gate.acquire(key, flow='f', priority='urgent')
    assert (caught.value.status, caught.value.key, caught.value.flow) == (400, key, 'f')
    assert 'priority' in str(caught.value)
    await narrow.close()


@with_gate
async def test_keys_may_have_any_characters(server, gate, key):
    for odd in ('a/b', '..', '.', 'ü ?#%2f', 'k' * 255):
        async with gate.permit(odd, flow='"ü\n', timeout=0) as permit:
            assert permit.flow == '"ü\n'
            assert (await gate.counts(odd))['key'] == odd
    for bad in ('', 'k' * 256):
        with pytest.raises(WeirRefused):
            await gate.acquire(bad)


def test_an_address_or_a_token_that_cannot_be_is_refused():
    for make in (Gate, AsyncGate):
        for api in ('ftp://localhost', 'http://', 'unix:', ':7070', 'http://h:x'):
            with pytest.raises(ValueError):
                make(api)
        for token in ('a\r\nb', 'ü'):
            with pytest.raises(ValueError):
                make(token=token)


def test_a_token_speaks_for_its_tenant(monkeypatch, kind):
    monkeypatch.setenv('WEIR_ACME', 'a-secret-of-acme')
    config = CONFIG + '''
api_tokens:
  acme: { token: "${WEIR_ACME}", scopes: [work], tenant: acme }
'''

    @run
    async def test():
        async with weir(config) as gateway:
            gate = kind(gateway.api, token=os.environ['WEIR_ACME'])
            async with gate.permit('b', tenant='acme') as permit:
                assert permit.active == 1
            for token, tenant, status in ((os.environ['WEIR_ACME'], 'other', 403), (None, None, 401),
                                          ('wrong', None, 401)):
                other = kind(gateway.api, token=token)
                with pytest.raises(WeirRefused) as caught:
                    await other.acquire('b', tenant=tenant)
                assert caught.value.status == status and caught.value.detail
                await other.close()
            await gate.close()
    test()


# ---- connections

@contextlib.asynccontextmanager
async def pretender(*scripts):
    """A server that answers its Nth connection by the Nth script: each reply for one request; at its end it closes."""
    came = []

    async def serve(reader, writer):
        script = scripts[len(came)] if len(came) < len(scripts) else ()
        came.append(0)
        number = len(came) - 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            for reply in script:
                head = await reader.readuntil(b'\r\n\r\n')
                for line in head.lower().split(b'\r\n'):
                    if line.startswith(b'content-length:'):
                        await reader.readexactly(int(line.split(b':')[1]))
                came[number] += 1
                writer.write(reply)
                await writer.drain()
        writer.close()
    listener = await asyncio.start_server(serve, '127.0.0.1', 0)
    try:
        yield f'http://127.0.0.1:{listener.sockets[0].getsockname()[1]}', came
    finally:
        listener.close()


def reply_of(document, status=200):
    text = json.dumps(document).encode()
    return b'HTTP/1.1 %d X\r\ncontent-length: %d\r\n\r\n%s' % (status, len(text), text)


COUNTS = reply_of({'active': 0})


def test_a_kept_connection_is_used_again_and_if_it_is_dead_there_is_a_new_one(kind):
    @run
    async def test():
        async with pretender([COUNTS, COUNTS, b''], [COUNTS]) as (api, came):
            gate = kind(api)
            for _ in range(2):
                assert await gate.counts('k') == {'active': 0}
            assert came == [2]
            assert await gate.counts('k') == {'active': 0}  # the first takes it, and dies without a word
            assert came == [3, 1]
            await gate.close()
    test()


def test_a_connection_is_made_again_once_and_not_after_a_beginning_of_a_reply(kind):
    @run
    async def test():
        for first, second, expected in (([COUNTS, b''], [b''], [2, 1]), ([b''], [COUNTS], [1]),
                                        ([COUNTS, COUNTS[:9]], [COUNTS], [2])):
            async with pretender(first, second, [COUNTS]) as (api, came):
                gate = kind(api)
                if first[0]:
                    await gate.counts('k')
                with pytest.raises(WeirUnreachable):
                    await gate.counts('k')
                assert came == expected
                await gate.close()
    test()


def test_when_to_come_back_is_told(kind):
    @run
    async def test():
        refusal = reply_of({'type': 'urn:weir:line-full', 'detail': 'later'}, 429)
        with_time = refusal.replace(b'\r\n', b'\r\nRetry-After: 7\r\n', 1)
        async with pretender([with_time, refusal]) as (api, _):
            gate = kind(api)
            for expected in (7.0, None):
                with pytest.raises(WeirRefused) as caught:
                    await gate.acquire('k', flow='f')
                error = caught.value
                assert (error.retry_after, error.detail, str(error)) == (expected, 'later', 'later')
                assert (error.key, error.flow, error.active, error.limit) == ('k', 'f', None, None)
            await gate.close()
    test()


def test_what_is_no_weir_is_told_so(kind):
    @run
    async def test():
        strange = (reply_of('text'), b'SSH-2.0-x\r\n\r\n', b'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno',
                   b'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n\r\n')
        async with pretender(*([text] for text in strange)) as (api, _):
            gate = kind(api)
            for _ in strange:
                with pytest.raises(WeirUnreachable):
                    await gate.acquire('k', hold=True)
        async with pretender([b'HTTP/1.1 502 Bad Gateway\r\ncontent-length: 4\r\n\r\noops']) as (api, _):
            with pytest.raises(WeirRefused) as caught:
                await kind(api).acquire('k')
            assert (caught.value.status, caught.value.key) == (502, 'k')
        with pytest.raises(WeirUnreachable) as caught:
            await kind(api).acquire('k')  # nobody listens any more
        assert api in str(caught.value)
    test()


def test_a_server_that_does_not_answer_is_given_up_and_a_late_one_is_not_asked_twice(kind, monkeypatch):
    monkeypatch.setattr(weir_client._common, 'PATIENCE', 0.2)

    @run
    async def test():
        silent = asyncio.Event()

        async def serve(reader, writer):
            await silent.wait()
            writer.close()
        listener = await asyncio.start_server(serve, '127.0.0.1', 0)
        gate = kind(f'http://127.0.0.1:{listener.sockets[0].getsockname()[1]}')
        for wait in (lambda: gate.acquire('k', timeout=0.1), lambda: gate.counts('k'),
                     lambda: gate.events().__aenter__()):
            with pytest.raises(WeirUnreachable):
                await asyncio.wait_for(wait(), PATIENCE)
        silent.set()
        listener.close()
    test()


def test_a_permit_is_lost_with_its_server(kind):
    @run
    async def test():
        async with weir(CONFIG) as gateway:
            gate = kind(gateway.api)
            inside = await enter(gate, 'b')
            assert not inside.permit.lost
            gateway.process.terminate()
            await asyncio.wait_for(gateway.process.wait(), PATIENCE)
            await until(lambda: inside.permit.lost, 'the permit is lost')
            await inside.leave()  # which does not raise
    test()
