"""All addresses of an upstream's name: which request goes to which, and what becomes of one that fails."""
import asyncio
import contextlib
import os
import resource
import socket
import ssl

from dns import dns
from raw import ask, connect, front, reply, request, run, upstream
from secure import town
from test_dns import at, deaf
from test_metrics import Metrics, fetch
from weir import until

FOUR = ['127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4']


def bind(host, port):
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((host, port))
    return bound


@contextlib.asynccontextmanager
async def servers(hosts, serve=None, **more):
    """A server at each of these addresses, all with one port; `serve` is how one replies, by its address."""
    async with contextlib.AsyncExitStack() as stack:
        port, found = 0, []
        for host in hosts:
            bound = bind(host, port)
            port = bound.getsockname()[1]
            how = serve(host) if serve else reply(host.encode())
            found.append(await stack.enter_async_context(upstream(how, bound=bound, **more)))
        yield found


async def look(gateway):
    return Metrics(await fetch(gateway))


def seen(found):
    return [len(server.seen) for server in found]


@run
async def test_requests_are_spread_over_all_addresses():
    async with servers(FOUR) as found, dns(a_test=FOUR) as names:
        async with front(at('a.test', found[0]), top=names.config) as gateway, connect(gateway.port) as wire:
            for _ in range(400):
                await wire.send(request('/functions/f'))
                assert (await wire.message()).status == 200
            assert seen(found) == [100] * 4
            assert [server.connections for server in found] == [1] * 4


@run
async def test_a_lack_of_descriptors_is_no_failure_of_the_addresses():
    two = FOUR[:2]
    async with servers(two, lambda host: reply(b'', 'Connection: close')) as found, dns(a_test=two) as names, \
            front(at('a.test', found[0]), top=names.config, more='health: { failures: 1 }') as gateway, \
            connect(gateway.port) as wire:
        async def status():
            await wire.send(request('/functions/f'))
            return (await wire.message()).status
        assert await status() == 200
        limits = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        for _ in range(3):
            taken = {int(fd) for fd in os.listdir(f'/proc/{gateway.process.pid}/fd')}
            lowest = min(set(range(len(taken) + 1)) - taken)
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (lowest, limits[1]))
            assert await status() == 503
            resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, limits)
        metrics = await look(gateway)
        for host in two:
            where = {'upstream': 'functions', 'address': f'{host}:{found[0].port}'}
            assert metrics.get('weir_upstream_address_failures_total', **where) == 0
        for _ in range(4):
            assert await status() == 200


@run
async def test_the_address_with_fewest_connections_in_use_is_next():
    gates = {host: asyncio.Event() for host in FOUR[:2]}

    def serve(host):
        async def slow(wire, message):
            await gates[host].wait()
            await wire.send(reply(host.encode()))
        return slow
    async with servers(FOUR[:2], serve) as found, dns(a_test=FOUR[:2]) as names:
        async with front(at('a.test', found[0]), top=names.config) as gateway:
            tasks = [asyncio.create_task(ask(gateway.port, request('/functions/f'))) for _ in range(6)]
            await until(lambda: seen(found) == [3, 3], 'half of them are at each')
            gates[FOUR[1]].set()  # its three leave
            await until(lambda: sum(task.done() for task in tasks) == 3, 'three are done')
            gates[FOUR[1]].clear()
            tasks += [asyncio.create_task(ask(gateway.port, request('/functions/f'))) for _ in range(3)]
            await until(lambda: seen(found) == [3, 6], 'the next three go to the one that is free')
            for gate in gates.values():
                gate.set()
            assert [(await task).status for task in tasks] == [200] * 9


@run
async def test_an_address_that_refuses_is_passed_over_and_used_again_when_it_is_back():
    async with servers(FOUR[:1]) as found, dns(a_test=FOUR[:2]) as names:
        async with front(at('a.test', found[0]), top=names.config, more='health: { pause: 200ms }',
                         ) as gateway:
            for _ in range(20):
                assert (await ask(gateway.port, request('/functions/f', method='POST'))).status == 200
            where = {'upstream': 'functions', 'address': f'127.0.0.2:{found[0].port}'}

            async def is_down():
                metrics = await look(gateway)
                assert metrics.get('weir_upstream_failures_total', upstream='functions') == 0
                return metrics.get('weir_upstream_address_down', **where)
            assert await is_down() in (0, 1)
            metrics = await look(gateway)
            assert 1 <= metrics.get('weir_upstream_address_failures_total', **where) <= 5
            async with upstream(bound=bind('127.0.0.2', found[0].port)) as second:
                async def back():
                    await ask(gateway.port, request('/functions/f'))
                    return len(second.seen) >= 3
                await until(back, 'it is used again')
                assert await is_down() == 0


@run
async def test_an_address_that_breaks_off_is_left_alone_while_others_go_on():
    def serve(host):
        async def broken(wire):
            await wire.head()
            wire.reset()
        return broken if host == '127.0.0.2' else reply(b'ok')
    async with servers(FOUR[:2], serve) as found, dns(a_test=FOUR[:2]) as names:
        async with front(at('a.test', found[0]), top=names.config, more='health: { pause: 1h }') as gateway:
            statuses = [(await ask(gateway.port, request('/functions/f', method='POST'))).status for _ in range(40)]
            assert statuses.count(502) == 3  # as many as health allows in a row
            assert statuses[-30:] == [200] * 30
            metrics = await look(gateway)
            where = {'upstream': 'functions', 'address': f'127.0.0.2:{found[0].port}'}
            assert metrics.get('weir_upstream_address_down', **where) == 1
            assert metrics.get('weir_upstream_address_failures_total', **where) == 3


@run
async def test_a_changed_answer_drops_none_in_flight():
    finish = asyncio.Event()

    def serve(host):
        async def slow(wire, message):
            await finish.wait()
            await wire.send(reply(host.encode()))
        return slow if host == '127.0.0.1' else reply(host.encode())
    async with servers(FOUR[:2], serve) as found, dns(a_test=FOUR[:1]) as names:
        names.ttl = 1
        async with front(at('a.test', found[0]), top=names.config, gate='limit: 1000') as gateway:
            tasks = [asyncio.create_task(ask(gateway.port, request('/functions/f'))) for _ in range(5)]
            await until(lambda: seen(found) == [5, 0], 'all are there')
            names.zone['a.test'] = FOUR[1:2]

            async def moved():
                task = asyncio.create_task(ask(gateway.port, request('/functions/f')))
                done, _ = await asyncio.wait([task], timeout=0.2)
                if not done:
                    tasks.append(task)
                return done and (await task).body == b'127.0.0.2'
            await until(moved, 'new requests go to the new address')
            metrics = await look(gateway)
            addresses = {dict(labels)['address'] for name, labels in metrics.samples
                         if name == 'weir_upstream_address_down'}
            assert addresses == {f'127.0.0.1:{found[0].port}', f'127.0.0.2:{found[0].port}'}
            finish.set()
            replies = [await task for task in tasks]
            assert {(each.status, each.body) for each in replies} == {(200, b'127.0.0.1')}
            await until(lambda: found[0].ended == found[0].connections, 'its connections are closed')

            async def forgotten():
                metrics = await look(gateway)
                return metrics.get('weir_upstream_address_down', upstream='functions',
                                   address=f'127.0.0.1:{found[0].port}') is None
            await until(forgotten, 'its series has ended')


@run
async def test_ipv6_is_used_only_while_no_ipv4_address_can_be():
    with socket.socket(socket.AF_INET6) as bound:
        bound.bind(('::1', 0))
        port = bound.getsockname()[1]
        async with upstream(reply(b'six'), bound=bound) as six, dns(a_test=['127.0.0.2', '::1']) as names:
            async with front(f'http://a.test:{port}', top=names.config,
                             more='keepalive: 0, health: { pause: 100ms }') as gateway:
                for _ in range(5):
                    assert (await ask(gateway.port, request('/functions/f'))).body == b'six'
                async with upstream(reply(b'four'), bound=bind('127.0.0.2', port)):
                    async def four():
                        return (await ask(gateway.port, request('/functions/f'))).body == b'four'
                    await until(four, 'IPv4 is back')
                    count = len(six.seen)
                    for _ in range(10):
                        assert await four()
                    assert len(six.seen) == count


@run
async def test_one_address_whose_handshake_fails_costs_no_request():
    with town() as place:
        good = place.context('api.test')
        bad = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # without a certificate
        async with contextlib.AsyncExitStack() as stack:
            first = bind('127.0.0.1', 0)
            port = first.getsockname()[1]
            server = await stack.enter_async_context(upstream(bound=first, secure=good))
            await stack.enter_async_context(upstream(bound=bind('127.0.0.2', port), secure=bad))
            names = await stack.enter_async_context(dns(api_test=['127.0.0.2', '127.0.0.1']))
            async with front(f'https://api.test:{port}', top=names.config, more=place.ca()) as gateway:
                for _ in range(8):
                    assert (await ask(gateway.port, request('/functions/f', method='POST'))).status == 200
                assert len(server.seen) == 8


@run
async def test_an_address_that_swallows_everything_costs_one_request_its_part_of_the_time():
    first = bind('127.0.0.1', 0)
    raw, fillers = deaf(first.getsockname()[1])
    async with dns(a_test=['127.0.0.2', '127.0.0.1']) as names, upstream(bound=first) as server:
        more = 'timeouts: { connect: 3s }, keepalive: 0, health: { pause: 1h, pause_max: 1h }'
        async with front(at('a.test', server), top=names.config, more=more) as gateway:
            took = []
            for _ in range(10):
                before = asyncio.get_running_loop().time()
                assert (await ask(gateway.port, request('/functions/f'))).status == 200
                took.append(asyncio.get_running_loop().time() - before)
            assert sum(each > 1.4 for each in took) == 1, took
    for each in (raw, *fillers):
        each.close()
