"""Names of upstreams, asked of a DNS server of the test's own while the gateway runs."""
import asyncio
import os
import socket

from dns import A, SERVFAIL, dns
from raw import ask, connect, front, reply, request, run, upstream
from secure import town
from test_tls import problem_of
from weir import until, until_still, weir

TTL_S = 1  # the shortest that is believed


def at(name, server):
    return f'http://{name}:{server.port}'


def deaf(port=0, host='127.0.0.2'):
    """A socket to which connections are not accepted, once its backlog is full, and not refused either."""
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    raw = socket.socket(family)
    raw.bind((host, port))
    raw.listen(0)
    fillers = []
    for _ in range(4):
        filler = socket.socket(family)
        filler.setblocking(False)
        filler.connect_ex(raw.getsockname())
        fillers.append(filler)
    return raw, fillers


async def status_of(gateway):
    return (await ask(gateway.port, request('/functions/f'))).status


@run
async def test_a_name_is_asked_for_once_and_believed_for_its_time():
    async with dns(a_test=['127.0.0.1']) as names, upstream() as server:
        async with front(at('a.test', server), top=names.config, more='keepalive: 0') as gateway:
            for _ in range(20):
                assert await status_of(gateway) == 200
            assert names.asked == ['a.test']
            assert server.connections == 20
            assert server.seen[0].one('host') == f'a.test:{server.port}'
            await gateway.reload()  # by then the log is written
            assert gateway.complaints() == ''


@run
async def test_addresses_and_this_machine_are_not_asked_for():
    async with dns() as names, upstream() as server:
        urls = (server, at('localhost', server), at('a.localhost', server))
        async with front(*urls, top=names.config) as gateway:
            for _ in range(6):
                assert await status_of(gateway) == 200
        assert names.asked == []


@run
async def test_what_stands_in_hosts_is_found(tmp_path):
    hosts = tmp_path / 'hosts'
    hosts.write_text('127.0.0.1 own.test alias\n')
    async with dns() as names, upstream() as server:
        for name in ('own.test', 'alias'):
            config = f'''listen: 127.0.0.1:0
{names.config}
upstreams: {{ u: {{ url: "{at(name, server)}" }} }}
routes: [{{ match: /, key: a, upstream: u }}]
'''
            async with weir(config, env={**os.environ, 'CARES_HOSTS': str(hosts)}) as gateway:
                assert (await ask(gateway.port, request('/x'))).status == 200


@run
async def test_a_change_of_address_is_followed_also_by_kept_connections():
    async with dns(a_test=['127.0.0.1']) as names, upstream(reply(b'old')) as old:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(('127.0.0.2', old.port))
        names.ttl = TTL_S
        async with upstream(reply(b'new'), bound=bound), front(at('a.test', old), top=names.config) as gateway:
            assert (await ask(gateway.port, request('/functions/f'))).body == b'old'
            names.zone['a.test'] = ['127.0.0.2']

            async def moved():
                return (await ask(gateway.port, request('/functions/f'))).body == b'new'
            await until(moved, 'the new address is used')
            assert old.connections == 1
            await until(lambda: old.ended == 1, 'the connection to the old one is closed')
            assert len(names.asked) <= 4


@run
async def test_a_dns_server_that_is_down_or_fails_does_not_take_away_what_is_known():
    async with dns(a_test=['127.0.0.1']) as names, upstream() as server:
        names.ttl = TTL_S
        async with front(at('a.test', server), top=names.config, more='keepalive: 0') as gateway:
            assert await status_of(gateway) == 200
            names.failure = SERVFAIL
            count = len(names.asked)

            async def asked_again():
                assert await status_of(gateway) == 200
                return len(names.asked) > count
            await until(asked_again, 'it is asked again, in vain')
            names.silent = True
            count = len(names.asked)
            await until(asked_again, 'it is asked again, and silent')
            names.stop()
            for _ in range(30):
                assert await status_of(gateway) == 200
                await asyncio.sleep(0.05)


@run
async def test_a_name_that_does_not_exist_is_told_and_may_come_later():
    async with dns() as names, upstream() as server:
        async with front(at('a.test', server), top=names.config, more='health: { failures: 0 }') as gateway:
            said = problem_of(await ask(gateway.port, request('/functions/f')))
            assert 'has no address' in said
            await until(lambda: 'upstream functions: a.test is not found, and will be asked for again: '
                        in gateway.complaints(), 'it is said at the start')
            names.zone['a.test'] = ['127.0.0.1']

            async def comes():
                return await status_of(gateway) == 200
            await until(comes, 'it has come')
            assert gateway.complaints().count('\n') == 1


@run
async def test_a_name_that_is_gone_is_gone_also_for_kept_connections():
    for keepalive in (0, 8):
        async with dns(a_test=['127.0.0.1']) as names, upstream() as server:
            names.ttl = TTL_S
            more = f'keepalive: {keepalive}, health: {{ failures: 0 }}'
            async with front(at('a.test', server), top=names.config, more=more) as gateway:
                assert await status_of(gateway) == 200
                del names.zone['a.test']

                async def gone():
                    return await status_of(gateway) == 502
                await until(gone, 'it is gone')
                assert 'has no address' in problem_of(await ask(gateway.port, request('/functions/f')))
                await until(lambda: server.ended == server.connections, 'no connection to it is left')
                names.zone['a.test'] = ['127.0.0.1']

                async def back():
                    return await status_of(gateway) == 200
                await until(back, 'it is back')


@run
async def test_of_two_addresses_one_may_refuse():
    async with dns() as names, upstream() as server:
        for addresses in (['127.0.0.2', '127.0.0.1'], ['127.0.0.1', '127.0.0.2'], ['::1', '127.0.0.1'],
                          ['127.0.0.2', '127.0.0.3', '127.0.0.4', '::1', '127.0.0.1']):
            names.zone['a.test'] = addresses
            async with front(at('a.test', server), top=names.config, more='keepalive: 0') as gateway:
                for _ in range(5):
                    assert await status_of(gateway) == 200


@run
async def test_of_two_addresses_one_may_swallow_everything():
    bound = socket.socket()
    bound.bind(('127.0.0.1', 0))
    raw, fillers = deaf(bound.getsockname()[1])
    async with dns(a_test=['127.0.0.2', '127.0.0.1']) as names, upstream(bound=bound) as server:
        more = 'timeouts: { connect: 2s }, keepalive: 0'  # half of it for each
        async with front(at('a.test', server), top=names.config, more=more) as gateway:
            before = asyncio.get_running_loop().time()
            assert await status_of(gateway) == 200
            assert asyncio.get_running_loop().time() - before > 0.9
            took = []
            for _ in range(5):
                before = asyncio.get_running_loop().time()
                assert await status_of(gateway) == 200
                took.append(asyncio.get_running_loop().time() - before)
            assert min(took) < 0.9  # the one that works is tried first
    for each in (raw, *fillers):
        each.close()


@run
async def test_addresses_that_come_later_are_tried_when_those_that_came_first_refuse():
    """IPv6 is answered first and leads nowhere, as it does on a machine without IPv6."""
    async with dns(a_test=['127.0.0.1', '::1']) as names, upstream() as server:
        names.held, names.holding = [], {A}
        async with front(at('a.test', server), top=names.config) as gateway:
            task = asyncio.create_task(ask(gateway.port, request('/functions/f', method='POST')))
            await until(lambda: names.held, 'it is asked for')
            await gateway.until('f', active=1)
            await until_still(gateway.process.pid)
            names.release()
            assert (await task).status == 200


@run
async def test_addresses_that_come_later_have_their_part_of_the_time():
    bound = socket.socket()
    bound.bind(('127.0.0.1', 0))
    raw, fillers = deaf(bound.getsockname()[1], '::1')
    async with dns(a_test=['127.0.0.1', '::1']) as names, upstream(bound=bound) as server:
        names.held, names.holding = [], {A}
        more = 'timeouts: { connect: 2s }'
        async with front(at('a.test', server), top=names.config, more=more) as gateway:
            task = asyncio.create_task(ask(gateway.port, request('/functions/f')))
            await until(lambda: names.held, 'it is asked for')
            await gateway.until('f', active=1)
            await until_still(gateway.process.pid)  # it connects to what has come
            names.release()
            assert (await task).status == 200
    for each in (raw, *fillers):
        each.close()


@run
async def test_when_all_addresses_swallow_everything_the_time_is_kept():
    raw, fillers = deaf()
    async with dns(a_test=['127.0.0.2', '127.0.0.2']) as names:
        url = f'http://a.test:{raw.getsockname()[1]}'
        async with front(url, top=names.config, more='timeouts: { connect: 600ms }') as gateway:
            before = asyncio.get_running_loop().time()
            said = problem_of(await ask(gateway.port, request('/functions/f')))
            assert 'did not accept a connection within its connect timeout' in said
            assert 0.6 <= asyncio.get_running_loop().time() - before < 20
    for each in (raw, *fillers):
        each.close()


@run
async def test_all_addresses_that_refuse_are_one_failure():
    async with dns(a_test=['127.0.0.2', '127.0.0.3', '::1']) as names, upstream() as server:
        async with front(at('a.test', server), top=names.config) as gateway:
            assert await status_of(gateway) == 502


@run
async def test_a_dns_server_that_is_slow_holds_nobody_else_up():
    async with dns(slow_test=['127.0.0.1']) as names, upstream() as server:
        names.held = []
        top = f'''{names.config}
upstreams: {{ slow: {{ url: "{at('slow.test', server)}" }}, fast: {{ url: "{server.url}" }} }}
routes: [{{ match: /slow, key: a, upstream: slow }}, {{ match: /fast, key: a, upstream: fast }}]'''
        async with weir(f'listen: 127.0.0.1:0\nthreads: 1\n{top}') as gateway:
            waiting = [asyncio.create_task(ask(gateway.port, request('/slow'))) for _ in range(20)]
            await until(lambda: names.held, 'it is asked for')
            for _ in range(50):
                assert (await ask(gateway.port, request('/fast'))).status == 200
            assert not any(task.done() for task in waiting)
            names.release()
            assert [(await task).status for task in waiting] == [200] * 20
            assert set(names.asked) == {'slow.test'}  # perhaps once more, if it took that long


@run
async def test_waiting_for_the_dns_counts_as_connecting():
    async with dns() as names, upstream() as server:
        names.silent = True
        more = 'timeouts: { connect: 400ms }'
        async with front(at('a.test', server), top=names.config, more=more, gate='limit: 1') as gateway:
            before = asyncio.get_running_loop().time()
            said = problem_of(await ask(gateway.port, request('/functions/f')))
            assert 'did not say within the connect timeout' in said
            assert 0.4 <= asyncio.get_running_loop().time() - before < 20
            await gateway.until('f', active=0, waiting=0)


@run
async def test_a_client_that_goes_while_its_upstream_is_looked_for_leaves_nothing():
    async with dns() as names, upstream() as server:
        names.silent = True
        async with front(at('a.test', server), top=names.config, gate='limit: 1') as gateway:
            async with connect(gateway.port) as wire:
                await wire.send(request('/functions/f'))
                await gateway.until('f', active=1)
                wire.reset()
            await gateway.until('f', active=0, waiting=0)


@run
async def test_another_server_is_taken_when_a_name_cannot_be_found():
    async with dns() as names, upstream() as server:
        async with front(at('a.test', server), server, top=names.config) as gateway:
            for _ in range(6):
                assert (await ask(gateway.port, request('/functions/f', method='POST'))).status == 200


@run
async def test_a_reload_asks_other_servers_and_keeps_what_is_known():
    async with dns(a_test=['127.0.0.1']) as first, dns() as second, upstream() as server:
        async with front(at('a.test', server), top=first.config, more='keepalive: 0') as gateway:
            assert await status_of(gateway) == 200
            second.silent = True
            await gateway.reload((first.config, second.config))
            assert await status_of(gateway) == 200  # the answer is still good
            await gateway.reload(('http://a.test', 'http://b.test'))
            task = asyncio.create_task(ask(gateway.port, request('/functions/f')))
            await until(lambda: 'b.test' in second.asked, 'the other server is asked')
            second.zone['b.test'] = ['127.0.0.1']
            second.silent = False
            assert (await task).status == 200  # c-ares has asked again
            assert 'b.test' not in first.asked


@run
async def test_a_name_that_cannot_be_found_is_no_reason_not_to_reload():
    async with dns() as names, upstream() as server, front(server, top=names.config) as gateway:
        await gateway.reload(('upstreams: {', 'upstreams: { first: { url: "http://no.such.test:1" },'))
        await until(lambda: 'upstream first: no.such.test is not found' in gateway.complaints(), 'it is said')
        assert await status_of(gateway) == 200


@run
async def test_a_drain_does_not_wait_for_the_dns():
    async with dns() as names:
        names.silent = True
        many = ', '.join(f'u{i}: {{ url: "http://u{i}.test" }}' for i in range(50))
        config = f'''listen: 127.0.0.1:0
{names.config}
upstreams: {{ {many} }}
routes: [{{ match: /, key: a, upstream: u0 }}]
'''
        async with weir(config) as gateway:
            await until(lambda: len(set(names.asked)) == 8, 'a few are asked for at a time')
            gateway.terminate()
            await asyncio.wait_for(gateway.process.wait(), 5)


@run
async def test_a_name_with_tls_is_told_to_the_server():
    with town() as place:
        context = place.context('api.test')
        async with dns(api_test=['127.0.0.2', '127.0.0.1']) as names, upstream(secure=context) as server:
            url = f'https://api.test:{server.port}'
            async with front(url, top=names.config, more=place.ca()) as gateway:
                for _ in range(3):
                    assert await status_of(gateway) == 200
                assert context.called == ['api.test']
                assert server.connections == 1


@run
async def test_an_answer_that_does_not_fit_into_a_packet_is_asked_for_by_tcp():
    async with dns(a_test=['127.0.0.1']) as names, upstream() as server:
        names.truncate = True
        async with front(at('a.test', server), top=names.config) as gateway:
            assert await status_of(gateway) == 200
        assert names.asked == ['a.test', 'a.test']
