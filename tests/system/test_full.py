"""As many connections or descriptors as there may be: who makes room, who stays, and who is served all the same."""
import asyncio
import contextlib
import resource
import socket
import time

from raw import Wire, ask, connect, front, open_wire, reply, request, run, upstream
from storm_raw import descriptors
from test_edges import Crowd, stopped
from weir import until, until_still, weir


def limited(count):
    """The address of a listener with so many connections."""
    return f'{{ address: "127.0.0.1:0", max_connections: {count} }}'


async def say(wire, text=request()):
    """The status of a reply on a kept connection."""
    await wire.send(text)
    return (await wire.message()).status


@contextlib.asynccontextmanager
async def wires(*ports):
    """A connection to each port, the first one the oldest."""
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(connect(port)) for port in ports]


@contextlib.asynccontextmanager
async def held():
    """An upstream that answers nothing before its `door` is open."""
    door = asyncio.Event()

    async def serve(wire, message):
        if message.target.endswith('held'):
            await door.wait()
        await wire.send(reply())
    async with upstream(serve) as server:
        server.door = door
        try:
            yield server
        finally:
            door.set()


class Throng(Crowd):
    """A crowd whose requests are there as soon as its connections are."""

    async def _ask(self, port, text):
        raw = socket.create_connection(('127.0.0.1', port))
        raw.sendall(text)
        raw.setblocking(False)
        self.came += 1
        wire = Wire(*await asyncio.open_connection(sock=raw))
        self.answered.append((wire, await wire.message()))


# ---- max_connections

@run
async def test_at_max_connections_the_longest_idle_connection_is_closed_for_a_newcomer():
    async with upstream() as server, front(server, listen=limited(3)) as gateway:
        async with wires(*[gateway.port] * 3) as (first, second, third):
            for wire in (first, second, third, first):  # so the second has been idle for longest
                assert await say(wire) == 200
            async with connect(gateway.port) as newcomer:
                assert await say(newcomer) == 200
                await second.ended()
                for wire in (third, first, newcomer):
                    assert await say(wire) == 200
        await until(lambda: 'max_connections reached' in gateway.complaints(), 'it warns')
        errors = gateway.complaints()
        assert errors.count('max_connections reached (3 open)') == 1
        assert 'Raise max_connections' in errors


@run
async def test_a_connection_that_sends_nothing_makes_room_after_a_second():
    async with upstream() as server, front(server, listen=limited(2)) as gateway:
        began = time.monotonic()
        async with wires(*[gateway.port] * 2) as (silent, other):
            await until_still(gateway.process.pid)
            async with connect(gateway.port) as newcomer:
                assert await say(newcomer) == 200
                assert time.monotonic() - began >= 1  # what a new client sends may be on its way
                await silent.ended()
                assert await say(other) == 200


@run
async def test_a_connection_that_has_never_asked_goes_before_one_that_has():
    async with upstream() as server, front(server, listen=limited(2)) as gateway:
        async with connect(gateway.port) as kept:
            assert await say(kept) == 200  # idle for longer than the next one is there
            async with connect(gateway.port) as silent:
                await asyncio.sleep(1.5)  # none is closed in its first second: for both that is over
                async with connect(gateway.port) as newcomer:
                    assert await say(newcomer) == 200
                    await silent.ended()
                    assert [await say(kept), await say(newcomer)] == [200, 200]


@run
async def test_a_connection_that_was_busy_a_moment_ago_is_not_closed_for_a_newcomer():
    async with upstream() as server, front(server, listen=limited(1)) as gateway:
        async with connect(gateway.port) as kept:
            assert await say(kept) == 200
            began = time.monotonic()
            async with connect(gateway.port) as newcomer:
                assert await say(newcomer) == 200
                assert time.monotonic() - began >= 0.9  # a second, but for what it took to say 200
                await kept.ended()


@run
async def test_a_connection_with_a_request_under_way_is_not_closed_for_a_newcomer():
    async with held() as server, front(server, listen=limited(2)) as gateway:
        async with wires(*[gateway.port] * 2) as busy:
            for wire in busy:
                await wire.send(request('/functions/held'))
            await gateway.until('held', active=2)
            clients = Throng(gateway.port, request('/functions/other'), 3)
            await until(lambda: clients.came == 3, 'the newcomers are there')
            await until_still(gateway.process.pid)
            assert clients.answered == []
            server.door.set()
            for wire in busy:
                assert (await wire.message()).status == 200
            await clients.until_answered(3)  # one after the other, each in the place of an idle one
            assert clients.statuses() == {200}
            clients.leave()


@run
async def test_an_idle_connection_on_another_thread_makes_room():
    async with upstream() as server, front(server, listen=limited(1), threads=4) as gateway:
        before = await open_wire(gateway.port)
        assert await say(before) == 200
        for _ in range(10):  # the kernel deals them out to the threads; each has its second
            wire = await open_wire(gateway.port)
            assert await asyncio.wait_for(say(wire), 20) == 200
            await before.ended()
            before = wire
        before.close()


@run
async def test_a_request_that_waits_in_the_socket_is_not_lost_to_a_newcomer():
    async with upstream() as server, front(server, listen=limited(2)) as gateway:
        async with wires(*[gateway.port] * 2) as (older, younger):
            assert [await say(older), await say(younger)] == [200, 200]
            async with stopped(gateway.process):  # it sees the newcomer and the request at once
                newcomer = await open_wire(gateway.port)
                await newcomer.send(request())
                await older.send(request())
            assert (await newcomer.message()).status == 200
            assert (await older.message()).status == 200
            await younger.ended()
            newcomer.close()


@run
async def test_without_idle_connections_the_slowest_head_makes_room():
    async with upstream() as server, front(server, listen=limited(2)) as gateway:
        began = time.monotonic()
        async with wires(*[gateway.port] * 2) as (slow, slower):
            for wire in (slow, slower):
                await wire.send(b'GET /functions/f HTTP/1.1\r\n')
                await until_still(gateway.process.pid)
            async with connect(gateway.port) as newcomer:
                assert await say(newcomer) == 200
                assert time.monotonic() - began >= 1  # a head has a second to come in
                await slow.ended()
                await slower.send(b'Host: localhost\r\n\r\n')
                assert (await slower.message()).status == 200


# ---- descriptors

LIMIT = 400  # of descriptors, of which a half is the reserve


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


def two_listeners(server, more='limit: 10', threads=2):
    return weir(f'''
listen: [127.0.0.1:0, 127.0.0.1:0]
api: 127.0.0.1:0
threads: {threads}
upstreams: {{ functions: {{ url: "{server.url}" }} }}
gates: {{ functions: {{ {more} }} }}
routes: [ {{ match: "/functions/{{function}}", key: "{{function}}", gate: functions, upstream: functions }} ]
''', preexec_fn=few_descriptors)


def ports(gateway):
    return [int(address.rsplit(':', 1)[1]) for address in gateway.addresses['listening']]


async def is_healthy(gateway):
    return (await asyncio.wait_for(ask(gateway.api_port, request('/healthz')), 20)).status == 200


@run
async def test_the_api_answers_while_two_listeners_are_flooded():
    async with held() as server, two_listeners(server) as gateway:
        pid = gateway.process.pid
        crowds = [Throng(port, request('/functions/held'), LIMIT) for port in ports(gateway)]
        await gateway.until('held', active=10)
        await until(lambda: gateway.complaints(), 'it warns')
        await until(lambda: all(crowd.came == LIMIT for crowd in crowds), 'all have come')
        await until_still(pid)
        used = descriptors(pid)
        assert LIMIT / 2 - 20 < used < LIMIT / 2 + 40
        for _ in range(30):
            assert await is_healthy(gateway)
        errors = gateway.complaints()
        assert errors.count('out of file descriptors') == 1
        assert f'of {LIMIT} in use; the last {LIMIT // 2} are kept' in errors
        assert 'ulimit -n' in errors
        server.door.set()

        def all_have_been_in():
            for crowd in crowds:
                crowd.leave()
            return all(len(crowd.answered) == LIMIT for crowd in crowds)
        await until(all_have_been_in, 'all have been in')
        assert set().union(*(crowd.statuses() for crowd in crowds)) == {200}
        await until(lambda: descriptors(pid) < LIMIT / 4, 'descriptors come back')


@run
async def test_idle_connections_of_one_listener_make_room_for_clients_of_another():
    async with upstream() as server, two_listeners(server, threads=1) as gateway:
        idle_port, port = ports(gateway)
        idle = Throng(idle_port, request(), LIMIT)
        await idle.until_answered(LIMIT)
        for _ in range(20):
            assert (await asyncio.wait_for(ask(port, request()), 20)).status == 200
        assert await is_healthy(gateway)
        assert descriptors(gateway.process.pid) < LIMIT / 2 + 20
        idle.leave()


@run
async def test_a_flood_of_the_api_leaves_descriptors_for_traffic():
    async with upstream() as server, two_listeners(server) as gateway:
        clients = Throng(gateway.api_port, request('/healthz'), LIMIT)
        await clients.until_answered(LIMIT)  # idle ones make room
        assert descriptors(gateway.process.pid) < LIMIT * 3 / 4
        for port in ports(gateway):
            assert (await asyncio.wait_for(ask(port, request()), 20)).status == 200
        clients.leave()


@run
async def test_upstreams_leave_descriptors_for_the_api():
    async with held() as server, two_listeners(server, more='limit: 1000', threads=1) as gateway:
        pid = gateway.process.pid
        listening = ports(gateway)
        # Nobody is idle, and each client in it wants a connection to the upstream.
        async with stopped(gateway.process):
            crowd = Throng(listening[0], request('/functions/held'), LIMIT)
            await until(lambda: crowd.came == LIMIT, 'all have come')
        await until(lambda: gateway.complaints(), 'it warns')
        await until_still(pid)
        assert descriptors(pid) < LIMIT
        assert crowd.statuses() <= {503}
        assert await is_healthy(gateway)
        server.door.set()

        def all_have_been_in():
            crowd.leave()
            return len(crowd.answered) == LIMIT
        await until(all_have_been_in, 'all have been in')
        assert crowd.statuses() <= {200, 503}
