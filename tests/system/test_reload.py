"""A new config is taken up while requests wait and pass: nobody is dropped."""
import asyncio
import contextlib
import json
import signal

import aiohttp
from raw import ask as ask_raw
from raw import connect, request
from test_functions import ask, run
from test_permits import Agents
from weir import PATIENCE, Upstream, functions, until, weir


def test_a_higher_limit_lets_those_in_line_go_at_once():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client):
            tasks = [asyncio.create_task(ask(client, f'/functions/f?hold&id={i}'))
                     for i in range(3)]
            await gateway.until('f', active=1, waiting=2)
            await gateway.reload(('limit: 1', 'limit: 3'))
            await until(lambda: len(upstream.inside) == 3, 'all are inside')
            assert (await gateway.counts('f'))['limit'] == 3
            for i in range(3):
                upstream.open(str(i))
            assert [status for status, _, _ in await asyncio.gather(*tasks)] == [200] * 3
    run(test())


def test_a_lower_limit_keeps_who_is_inside_and_admits_nobody_until_they_have_left():
    async def test():
        async with functions(limit=2) as (gateway, upstream, client):
            tasks = [asyncio.create_task(ask(client, f'/functions/f?hold&id={name}'))
                     for name in 'ab']
            await until(lambda: len(upstream.inside) == 2, 'two are inside')
            await gateway.reload(('limit: 2', 'limit: 1'))
            tasks.append(asyncio.create_task(ask(client, '/functions/f?hold&id=c')))
            await gateway.until('f', active=2, waiting=1, limit=1)
            upstream.open('a')
            await gateway.until('f', active=1, waiting=1)
            upstream.open('b')
            await until(lambda: upstream.inside == ['c'], 'c is inside')
            upstream.open('c')
            assert [status for status, _, _ in await asyncio.gather(*tasks)] == [200] * 3
    run(test())


def test_a_key_of_its_own_comes_and_goes():
    async def test():
        own = 'limit: 1\n    keys: { f: { limit: 2 } }'
        async with functions(limit=1) as (gateway, upstream, client):
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await gateway.until('f', active=1, limit=1)
            await gateway.reload(('limit: 1', own))
            await gateway.until('f', active=1, limit=2)
            await gateway.reload((own, 'limit: 1'))
            await gateway.until('f', active=1, limit=1)
            upstream.open('a')
            assert (await first)[0] == 200
    run(test())


def test_what_is_under_way_ends_where_it_began_and_new_requests_go_elsewhere():
    async def test():
        other = Upstream()
        async with functions(limit=2) as (gateway, upstream, client), other.serve() as port:
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            url = gateway.path.read_text().split('url: "')[1].split('"')[0]
            await gateway.reload((url, f'http://127.0.0.1:{port}'))
            assert (await ask(client, '/functions/f?id=b'))[0] == 200
            assert (upstream.came, other.came) == (['a'], ['b'])
            upstream.open('a')
            assert (await first)[0] == 200
    run(test())


def test_a_gate_that_is_taken_out_drains():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client):
            tasks = [asyncio.create_task(ask(client, f'/functions/f?hold&id={name}'))
                     for name in 'ab']
            await gateway.until('f', active=1, waiting=1)
            await gateway.reload(('gates:\n  functions:', 'gates:\n  others:'),
                                 ('gate: functions', 'gate: others'))
            _, said = await gateway.ask_api('/gates')
            assert {gate['gate']: gate['draining'] for gate in said['gates']} == {
                'functions': True, 'others': False}
            assert (await ask(client, '/functions/f?id=c'))[0] == 200  # through the new one
            upstream.open('a')
            upstream.open('b')
            assert [status for status, _, _ in await asyncio.gather(*tasks)] == [200] * 2
            _, said = await gateway.ask_api('/gates')
            assert [gate['gate'] for gate in said['gates']] == ['others']
    run(test())


def test_whose_word_is_taken_changes_on_connections_that_stay():
    async def test():
        async with functions(limit=1, top='trusted: [127.0.0.0/8]') as (gateway, upstream, _):
            async with connect(gateway.port) as wire:
                async def tenant():
                    await wire.send(request('/functions/f?hold&id=a', 'X-Tenant: acme', 'Weir-Timeout: 20ms'))
                    return json.loads((await wire.message()).body)['tenant']
                held = asyncio.create_task(ask_raw(gateway.port, request('/functions/f?hold&id=b')))
                await gateway.until('f', active=1)
                assert await tenant() == 'acme'
                await gateway.reload(('127.0.0.0/8', '10.0.0.0/8'))
                assert await tenant() == ''
                await gateway.reload(('10.0.0.0/8', '127.0.0.0/8'))
                assert await tenant() == 'acme'
                upstream.open('b')
                await held
    run(test())


def test_a_bad_file_changes_nothing():
    async def test():
        async with functions(limit=1) as (gateway, _, client):
            config = gateway.path.read_text()
            gateway.path.write_text(config.replace('limit: 1', 'limt: 1'))
            gateway.process.send_signal(signal.SIGHUP)
            await until(lambda: 'everything goes on as before' in gateway.complaints(), 'a refusal')
            assert 'weir.yaml:' in gateway.complaints() and 'limit' in gateway.complaints()
            assert (await ask(client, '/functions/f?id=a'))[0] == 200
            await gateway.until('f', limit=1)
            gateway.path.write_text(config)
            await gateway.reload()  # the first line on stdout is of this one
    run(test())


def test_what_needs_a_restart_is_not_taken_up_and_the_rest_is():
    async def test():
        async with functions(limit=1) as (gateway, _, client):
            await gateway.reload(('threads: 2', 'threads: 1'), ('limit: 1', 'limit: 5'))
            assert (await ask(client, '/functions/f?id=a'))[0] == 200
            await gateway.until('f', limit=5)
            assert 'a change of threads needs a restart' in gateway.complaints()
    run(test())


def test_reloads_during_traffic_lose_nothing():
    async def test():
        async with functions(limit=4) as (gateway, upstream, client):
            stop = asyncio.Event()
            statuses = []

            async def keep_asking(name):
                while not stop.is_set():
                    statuses.append((await ask(client, f'/functions/f?id={name}'))[0])
            tasks = [asyncio.create_task(keep_asking(i)) for i in range(16)]
            for _ in range(10):
                await gateway.reload(('limit: 4', 'limit: 2'))
                await gateway.reload(('limit: 2', 'limit: 4'))
            stop.set()
            await asyncio.gather(*tasks)
            assert set(statuses) == {200}
            assert upstream.most <= 4
            await gateway.until('f', active=0, waiting=0, reserved=0)
    run(test())


def test_when_the_grace_is_over_who_is_in_line_is_told_so():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client):
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            second = asyncio.create_task(ask(client, '/functions/f?id=b'))
            await gateway.until('f', waiting=1)
            await gateway.reload(('grace: 5s', 'grace: 100ms'))
            gateway.terminate()
            status, headers, problem = await second
            assert (status, problem['type']) == (503, 'urn:weir:draining')
            assert (problem['gate'], problem['key'], problem['limit']) == ('functions', 'f', 1)
            assert headers['Connection'] == 'close'
            await asyncio.gather(first, return_exceptions=True)
            assert isinstance(first.exception(), aiohttp.ClientError)
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0
            assert upstream.came == ['a']
    run(test())


def test_the_api_reloads_as_well_and_says_what_is_wrong():
    async def test():
        async with functions(limit=1) as (gateway, _, client), aiohttp.ClientSession() as operator:
            async def reload():
                async with operator.post(gateway.api + '/reload') as reply:
                    return reply.status, await reply.json(content_type=None)
            config = gateway.path.read_text()
            assert (await ask(client, '/functions/f?id=a'))[0] == 200
            gateway.path.write_text(config.replace('limit: 1', 'limit: 7'))
            assert await reload() == (200, {'gates': 1, 'routes': 1, 'upstreams': 1, 'needs_restart': None, 'overrides': []})
            assert (await gateway.counts('f'))['limit'] == 7
            gateway.path.write_text(config.replace('limit: 1', 'limt: 1'))
            status, problem = await reload()
            assert (status, problem['type']) == (422, 'urn:weir:bad-config')
            assert 'weir.yaml:' in problem['detail'] and 'limt' in problem['detail']
            assert (await gateway.counts('f'))['limit'] == 7
            gateway.path.write_text(config)
            replies = await asyncio.gather(*(reload() for _ in range(20)))
            assert {status for status, _ in replies} == {200}
            assert (await gateway.counts('f'))['limit'] == 1
            gateway.path.write_text(config.replace('threads: 2', 'threads: 3'))
            assert (await reload())[1]['needs_restart'] == 'threads'
            gateway.path.write_text(config + 'protocol: 127.0.0.1:0\n')
            assert (await reload())[1]['needs_restart'] == 'protocol'
    run(test())


def test_a_server_that_drains_says_so_instead_of_reloading():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client), aiohttp.ClientSession() as operator:
            held = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            gateway.terminate()

            async def drains():
                async with operator.get(gateway.api + '/readyz') as reply:
                    return reply.status == 503
            await until(drains, 'it drains')
            async with operator.post(gateway.api + '/reload') as reply:
                problem = await reply.json(content_type=None)
                assert (reply.status, problem['type']) == (503, 'urn:weir:draining')
            upstream.open('a')
            assert (await held)[0] == 200
    run(test())


def test_a_server_that_drains_gives_no_permits_and_takes_them_back():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client), aiohttp.ClientSession() as session:
            agents = Agents(gateway, session)
            held = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            permit = (await agents.acquire('g', 'functions'))['permit']
            waits = agents.later('f', 'functions', flow='waits')
            await agents.until('f', 'functions', waiting=1)
            gateway.terminate()
            status, problem = await asyncio.wait_for(waits, PATIENCE)
            assert (status, problem['type']) == (503, 'urn:weir:draining')
            assert (problem['key'], problem['flow'], problem['active']) == ('f', 'waits', 1)
            for key in 'fh':  # whether there is room or not
                async def refused():  # by the other thread a moment later, perhaps
                    status, said = await agents.call('acquire', key, 'functions', timeout_ms=0)
                    return (status, said.get('type')) == (503, 'urn:weir:draining')
                await until(refused, 'no permits are given')
            assert (await agents.call('release', 'g', 'functions', permit=permit))[0] == 200
            assert (await gateway.counts('f', 'functions'))['waiting'] == 0
            upstream.open('a')
            assert (await held)[0] == 200
    run(test())


# ---- while tickets wait

WAITING = '''
api: 127.0.0.1:0
threads: 2
gates:
  agents: { limit: 1, line: { timeout: 60s, max: 10, status: 429 }, lease: 10m, tenants: { } }
'''


@contextlib.asynccontextmanager
async def waiting(*tenants):
    """Agents, with a permit that tenant a holds, and the calls of others that wait behind it, in that order."""
    async with weir(WAITING) as gateway, aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        agents = Agents(gateway, session)
        await agents.acquire(tenant='a', flow='first')
        calls = []
        for tenant in tenants:
            calls.append(agents.later(tenant=tenant, flow=f'{len(calls)}'))
            await agents.until(waiting=len(calls))
        try:
            yield agents, calls
        finally:
            for call in calls:
                call.cancel()


async def line_of(agents):
    _, said = await agents.gateway.ask_api('/gates/agents/b/line')
    return [(entry['flow'], entry['binding'], entry['timeout_in_ms']) for entry in said['line']]


def test_those_in_line_keep_their_places_and_their_time_when_the_line_gets_shorter():
    async def test():
        async with waiting('a', 'b', 'c') as (agents, calls):
            before = await line_of(agents)
            await agents.gateway.reload(('timeout: 60s, max: 10, status: 429', 'timeout: 300ms, max: 2, status: 503'))
            status, said = await agents.call('acquire', flow='late', tenant='a')
            assert (status, said['type'], said['waiting']) == (503, 'urn:weir:line-full', 3)
            line = await line_of(agents)
            assert [flow for flow, _, _ in line] == [flow for flow, _, _ in before]
            assert all(left > 300 for _, _, left in line)
            for flow, (following, _, _) in zip(('first', *(flow for flow, _, _ in line)), line):
                assert (await agents.call('release', flow=flow))[0] == 200
                assert (await calls[int(following)])[0] == 200
            status, said = await agents.call('acquire', flow='later')  # there is room in line now, but less time
            assert (status, said['type'], said['timeout_ms']) == (503, 'urn:weir:line-timeout', 300)
            await agents.until(active=1, waiting=0)
    run(test())


def test_tenants_in_line_follow_the_limits_that_they_get_and_lose():
    async def test():
        async with waiting('a', 'a', 'b') as (agents, calls):
            await agents.gateway.reload(('limit: 1,', 'limit: 3,'), ('{ }', '{ a: { limit: 1 } }'))
            assert (await calls[2])[0] == 200  # a has its one permit, and holds up nobody
            await agents.until(active=2, waiting=2)
            assert [binding for _, binding, _ in await line_of(agents)][0] == 'tenant_limit'
            assert not calls[0].done()
            assert (await agents.call('release', flow='first'))[0] == 200
            assert (await calls[0])[0] == 200
            await agents.until(active=2, waiting=1)
            await agents.gateway.reload(('{ a: { limit: 1 } }', '{ }'))
            assert (await calls[1])[0] == 200
            await agents.until(active=3, waiting=0)
    run(test())


def test_tenants_in_line_are_weighed_as_the_new_config_says():
    async def test():
        async with waiting(*'aaaabbbb') as (agents, calls):
            await agents.gateway.reload(('{ }', '{ b: { weight: 3 } }'))
            flow, order = 'first', ''
            while calls:
                assert (await agents.call('release', flow=flow))[0] == 200
                [done], _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                calls.remove(done)
                flow = done.result()[1]['flow']
                order += 'aaaabbbb'[int(flow)]
            assert order == 'bbbbaaaa'  # which would be in turn without it
    run(test())
