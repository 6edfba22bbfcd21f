"""Reference 004's gate over HTTP: permits for callers in any language."""
import asyncio
import json
import os
import signal
import sys

import aiohttp
from raw import connect, request, run
from weir import PATIENCE, until, weir

CONFIG = '''
api: 127.0.0.1:0
threads: 2
gates:
  agents: { limit: 3, line: { timeout: 30s }, lease: 10m, keys: { short: { lease: 1m } } }
  quick: { limit: 1, line: { timeout: 30s }, lease: 200ms }
  narrow: { limit: 1, line: { timeout: 30s, max: 2 } }
  free: { limit: none }
  paced: { limit: none, tokens: { rate: 20/s, burst: 10 }, line: { timeout: 30s }, lease: 10m }
  hasty: { limit: 1, line: { timeout: 50ms } }
tenants: { humble: { priority: low } }
'''


class Agents:
    """The calls of the API, as a caller makes them."""

    def __init__(self, gateway, session):
        self.gateway = gateway
        self.session = session

    async def call(self, what, key='b', gate='agents', **wish):
        url = f'{self.gateway.api}/gates/{gate}/{key}/{what}'
        async with self.session.post(url, json=wish) as reply:
            return reply.status, await reply.json(content_type=None)

    async def acquire(self, key='b', gate='agents', **wish):
        status, said = await self.call('acquire', key, gate, **wish)
        assert status == 200, said
        return said

    def later(self, key='b', gate='agents', **wish):
        return asyncio.create_task(self.call('acquire', key, gate, **wish))

    async def until(self, key='b', gate='agents', **counts):
        await self.gateway.until(key, gate, **counts)


def with_agents_of(config):
    """Runs tests with a gateway of that config and a session of many connections."""
    def decorate(test):
        @run
        async def wrapper():
            async with weir(config) as gateway:
                connector = aiohttp.TCPConnector(limit=0)
                async with aiohttp.ClientSession(connector=connector) as session:
                    await test(Agents(gateway, session))
        wrapper.__name__ = test.__name__
        return wrapper
    return decorate


with_agents = with_agents_of(CONFIG)


@with_agents
async def test_permits_within_the_limit_are_given_at_once(agents):
    for active in (1, 2, 3):
        said = await agents.acquire(flow=f'flow-{active}')
        assert said['flow'] == f'flow-{active}'
        assert (said['active'], said['waiting'], said['limit']) == (active, 0, 3)
        assert said['lease_ms'] == 600_000
        assert said['waited_ms'] < 5000
        assert len(said['permit']) == 32
    await agents.until(active=3, waiting=0)


@with_agents
async def test_the_fourth_flow_waits_and_goes_when_one_has_ended(agents):
    permits = [await agents.acquire(flow=f'{i}') for i in range(3)]
    fourth = agents.later(flow='fourth')
    fifth = None
    await agents.until(active=3, waiting=1)
    fifth = agents.later(flow='fifth')
    await agents.until(active=3, waiting=2)
    assert (await agents.call('release', permit=permits[1]['permit']))[0] == 200
    status, said = await fourth
    assert (status, said['flow'], said['active'], said['waiting']) == (200, 'fourth', 3, 1)
    assert not fifth.done()
    assert (await agents.call('release', flow='fourth'))[0] == 200
    assert (await fifth)[1]['flow'] == 'fifth'


@with_agents
async def test_whoever_waits_too_long_is_told_agent_flow_count_and_what_to_do(agents):
    for i in range(3):
        await agents.acquire(flow=f'{i}', tenant='t')
    status, said = await agents.call('acquire', flow='late', tenant='t', timeout_ms=50)
    assert (status, said['type']) == (429, 'urn:weir:line-timeout')
    assert (said['gate'], said['key'], said['flow'], said['tenant']) == ('agents', 'b', 'late', 't')
    assert (said['active'], said['waiting'], said['limit']) == (3, 0, 3)
    assert said['timeout_ms'] == 50 and said['waited_ms'] >= 50
    assert 'Try again' in said['detail']
    status, said = await agents.call('acquire', timeout_ms=0)  # only if it need not wait
    assert (status, said['type'], said['timeout_ms']) == (429, 'urn:weir:line-timeout', 0)
    assert 'no room now' in said['detail'] and 'longer timeout' in said['detail']


@with_agents
async def test_agents_do_not_wait_for_each_other(agents):
    for i in range(3):
        await agents.acquire('a')
    said = await agents.acquire('b')
    assert (said['active'], said['waited_ms'] < 5000) == (1, True)


@with_agents
async def test_an_unlimited_agent_is_counted_all_the_same(agents):
    for i in range(1, 20):
        said = await agents.acquire('x', 'free')
        assert (said['active'], said['limit'], said['lease_ms']) == (i, None, 600_000)


@with_agents
async def test_a_key_may_have_a_lease_of_its_own(agents):
    assert (await agents.acquire())['lease_ms'] == 600_000
    assert (await agents.acquire('short'))['lease_ms'] == 60_000
    assert (await agents.acquire('short', lease_ms=61_000))['lease_ms'] == 60_000


@with_agents
async def test_a_caller_gets_no_more_time_and_no_higher_priority_than_it_may_have(agents):
    await agents.acquire('k', 'hasty')
    status, said = await agents.call('acquire', 'k', 'hasty', timeout_ms=60_000)
    assert (status, said['type'], said['timeout_ms']) == (429, 'urn:weir:line-timeout', 50)
    for _ in range(3):
        await agents.acquire()
    waits = agents.later(tenant='humble', priority='high')
    await agents.until(waiting=1)
    _, said = await agents.gateway.ask_api('/gates/agents/b/line')
    assert [(entry['tenant'], entry['priority']) for entry in said['line']] == [('humble', 'low')]
    waits.cancel()
    await agents.until(waiting=0)


@with_agents
async def test_what_is_not_held_cannot_be_released_or_renewed(agents):
    permit = (await agents.acquire(flow='f'))['permit']
    for what, wish in (('release', {'permit': '0' * 32}), ('release', {'permit': 'x'}),
                       ('release', {'flow': 'other'}), ('renew', {'permit': '0' * 32})):
        status, said = await agents.call(what, **wish)
        assert (status, said['type']) == (409, 'urn:weir:not-held'), wish
    assert (await agents.call('release', 'other', permit=permit))[0] == 409  # another key's
    assert (await agents.call('release', gate='free', permit=permit))[0] == 409
    assert (await agents.call('release', permit=permit))[0] == 200
    assert (await agents.call('release', permit=permit))[0] == 409
    await agents.until(active=0)


@with_agents
async def test_of_many_releases_at_once_one_is_the_first(agents):
    for _ in range(20):
        permit = (await agents.acquire())['permit']
        replies = await asyncio.gather(*(agents.call('release', permit=permit) for _ in range(8)))
        assert sorted(status for status, _ in replies) == [200] + [409] * 7
    await agents.until(active=0, reserved=0)


@with_agents
async def test_a_flow_with_several_permits_gives_the_oldest_back_first(agents):
    permits = [(await agents.acquire(flow='f'))['permit'] for _ in range(3)]
    assert (await agents.call('release', flow='f'))[0] == 200
    assert (await agents.call('release', permit=permits[0]))[0] == 409
    assert (await agents.call('release', permit=permits[1]))[0] == 200
    assert (await agents.call('release', flow='f'))[0] == 200
    assert (await agents.call('release', flow='f'))[0] == 409


@with_agents
async def test_a_permit_whose_lease_is_over_comes_back_by_itself(agents):
    permit = (await agents.acquire('k', 'quick', flow='lost'))['permit']
    status, said = await agents.later('k', 'quick', flow='next')  # waits for the lease
    assert (status, said['flow']) == (200, 'next')
    assert (await agents.call('release', 'k', 'quick', permit=permit))[0] == 409
    assert (await agents.call('renew', 'k', 'quick', flow='lost'))[0] == 409
    await agents.until('k', 'quick', active=0)
    counts = await agents.gateway.counts('k', 'quick')
    assert counts['ended']['lapsed'] == 2


@with_agents
async def test_a_permit_that_is_renewed_stays(agents):
    renewed, other = [(await agents.acquire(lease_ms=1000))['permit'] for _ in range(2)]
    while (await agents.gateway.counts('b', 'agents'))['active'] == 2:  # until the other one has lapsed
        status, said = await agents.call('renew', permit=renewed)
        assert (status, said['lease_ms']) == (200, 1000)
        await asyncio.sleep(0.02)
    assert (await agents.call('release', permit=other))[0] == 409
    assert (await agents.call('release', permit=renewed))[0] == 200
    # A lease may also be made shorter.
    permit = (await agents.acquire())['permit']
    status, said = await agents.call('renew', permit=permit, lease_ms=100)
    assert (status, said['lease_ms']) == (200, 100)
    await agents.until(active=0)
    assert (await agents.call('release', permit=permit))[0] == 409


@with_agents
async def test_whoever_closes_the_connection_while_it_waits_leaves_the_line(agents):
    for i in range(3):
        await agents.acquire()
    waiting = [agents.later() for _ in range(5)]
    await agents.until(waiting=5)
    for task in waiting[:3]:
        task.cancel()
    await agents.until(waiting=2, active=3)


@with_agents
async def test_a_permit_that_is_held_ends_with_its_connection(agents):
    url = f'{agents.gateway.api}/gates/agents/b/acquire'
    async with agents.session.post(url, json={'hold': True, 'flow': 'held'}) as reply:
        said = json.loads(await reply.content.readline())
        assert (reply.status, said['flow'], said['lease_ms']) == (200, 'held', None)
        await agents.until(active=1)
        reply.close()
    await agents.until(active=0)
    # And when it is given back before, closing changes nothing.
    async with agents.session.post(url, json={'hold': True}) as reply:
        said = json.loads(await reply.content.readline())
        assert (await agents.call('release', permit=said['permit']))[0] == 200
        other = await agents.acquire()
        reply.close()
    await agents.until(active=1)
    assert (await agents.call('release', permit=other['permit']))[0] == 200


@with_agents
async def test_a_connection_ends_with_the_lease_of_the_permit_that_it_holds(agents):
    body = '{"hold": true, "lease_ms": 100}'
    async with connect(agents.gateway.api_port) as wire:
        await wire.send(request('/gates/agents/b/acquire', f'Content-Length: {len(body)}', method='POST'), body)
        assert (await wire.head()).status == 200
        said = json.loads((await asyncio.wait_for(wire.reader.read(), PATIENCE)).split(b'\r\n')[1])
    assert said['lease_ms'] == 100
    assert (await agents.call('release', permit=said['permit']))[0] == 409
    counts = await agents.gateway.counts('b', 'agents')
    assert (counts['active'], counts['ended']['lapsed']) == (0, 1)


@with_agents
async def test_a_connection_that_ends_when_its_lease_does_leaves_nothing_behind(agents):
    url = f'{agents.gateway.api}/gates/free/b/acquire'

    async def hold(number):
        async with agents.session.post(url, json={'hold': True, 'lease_ms': 20}) as reply:
            await reply.content.readline()
            await asyncio.sleep(0.015 + number % 100 / 10_000)  # before, after, and in that moment
            reply.close()
    for _ in range(3):
        await asyncio.gather(*(hold(number) for number in range(100)))
    await agents.until('b', 'free', active=0, entered=300)


CALLER = '''
import json, socket, sys
port, gate, wish = int(sys.argv[1]), sys.argv[2], sys.argv[3].encode()
wire = socket.create_connection(('127.0.0.1', port))
wire.sendall(b'POST /gates/%s/b/acquire HTTP/1.1\\r\\nHost: localhost\\r\\nContent-Length: %d\\r\\n\\r\\n'
             % (gate.encode(), len(wish)) + wish)
print('sent', flush=True)
wire.recv(65536)
print('got', flush=True)
wire.recv(65536)
'''


@with_agents
async def test_a_caller_that_is_killed_in_any_state_gives_back_what_it_had(agents):
    port = agents.gateway.api_port

    async def caller(gate, wish):
        process = await asyncio.create_subprocess_exec(
            sys.executable, '-c', CALLER, str(port), gate, json.dumps(wish),
            stdout=asyncio.subprocess.PIPE)
        assert await process.stdout.readline() == b'sent\n'
        return process

    async def kill(process):
        process.send_signal(signal.SIGKILL)
        await process.wait()
    holder = await caller('agents', {'hold': True})
    assert await holder.stdout.readline() == b'got\n'
    await agents.until(active=1)
    await kill(holder)                                   # holding
    await agents.until(active=0)
    for _ in range(3):
        await agents.acquire()
    waiter = await caller('agents', {})
    await agents.until(waiting=1)
    await kill(waiter)                                   # waiting
    await agents.until(waiting=0, active=3)
    leased = await caller('quick', {})
    assert await leased.stdout.readline() == b'got\n'
    await kill(leased)                                   # with a lease
    await agents.until('b', 'quick', active=0, entered=1)


@with_agents
async def test_the_line_tells_who_waits_why_and_until_when(agents):
    for i in range(3):
        await agents.acquire()
    tasks = []
    for i, tenant in enumerate(('x', 'x', 'y')):
        tasks.append(agents.later(flow=f'flow-{i}', tenant=tenant, priority='normal'))
        await agents.until(waiting=i + 1)
    status, said = await agents.gateway.ask_api('/gates/agents/b/line')
    assert (status, said['active'], said['waiting'], said['limit']) == (200, 3, 3, 3)
    line = said['line']
    assert [entry['position'] for entry in line] == [1, 2, 3]
    assert {entry['flow'] for entry in line} == {'flow-0', 'flow-1', 'flow-2'}
    assert line[0]['flow'] == 'flow-0' and line[0]['binding'] == 'limit'
    assert {entry['binding'] for entry in line[1:]} == {'turn'}
    assert line[0]['tenant'] == 'x' and line[0]['priority'] == 'normal'
    assert all(0 < entry['timeout_in_ms'] <= 30000 for entry in line)
    assert [entry['ahead'] for entry in line] == sorted(entry['ahead'] for entry in line)
    for task in tasks:
        task.cancel()
    await agents.until(waiting=0)
    assert (await agents.gateway.ask_api('/gates/agents/b/line'))[1]['line'] == []


@with_agents
async def test_priorities_take_turns_by_their_weights_and_the_line_tells_so_before(agents):
    for flow in ('one', 'two', 'three'):
        await agents.acquire(flow=flow)
    waits = {}
    for priority in ('low', 'normal', 'high'):
        for i in range(8):
            waits[f'{priority}-{i}'] = agents.later(flow=f'{priority}-{i}', priority=priority)
            await agents.until(waiting=len(waits))
    _, said = await agents.gateway.ask_api('/gates/agents/b/line')
    line = [entry['flow'] for entry in said['line']]
    assert [entry['ahead'] for entry in said['line']] == list(range(24))
    first = [flow.split('-')[0] for flow in line[:8]]
    assert [first.count(priority) for priority in ('high', 'normal', 'low')] == [4, 3, 1]
    for released, goes in zip(['one', 'two', 'three', *line], line):
        assert (await agents.call('release', flow=released))[0] == 200
        assert (await asyncio.wait_for(waits.pop(goes), PATIENCE))[0] == 200
        assert not any(call.done() for call in waits.values())


@with_agents
async def test_what_costs_more_than_there_is_waits_for_it_as_long_as_the_line_tells(agents):
    await agents.acquire('k', 'paced', cost=10)
    waits = agents.later('k', 'paced', cost=10)  # half a second until so much has come
    await agents.until('k', 'paced', waiting=1)
    _, said = await agents.gateway.ask_api('/gates/paced/k/line')
    [entry] = said['line']
    assert (entry['cost'], entry['binding'], entry['ahead']) == (10, 'bucket', 0)
    assert 0 < entry['start_in_ms'] <= 500
    status, said = await waits
    assert status == 200
    assert entry['waited_ms'] + entry['start_in_ms'] - 2 <= said['waited_ms']
    status, said = await agents.call('acquire', 'k', 'paced', cost=10, timeout_ms=0)
    assert (status, said['type']) == (429, 'urn:weir:line-timeout')


@with_agents
async def test_a_full_line_and_bad_wishes_are_refused(agents):
    permit = (await agents.acquire('k', 'narrow'))['permit']
    tasks = [agents.later('k', 'narrow') for _ in range(2)]
    await agents.until('k', 'narrow', waiting=2)
    status, said = await agents.call('acquire', 'k', 'narrow')
    assert (status, said['type']) == (429, 'urn:weir:line-full')
    for _ in range(2):
        assert (await agents.call('release', 'k', 'narrow', permit=permit))[0] == 200
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        [(status, said)] = [task.result() for task in done]
        assert status == 200
        permit = said['permit']
    for wish, word in (({'flw': 'x'}, 'flw'), ({'flow': 1}, 'flow'), ({'flow': ''}, 'flow'),
                       ({'flow': 'x' * 256}, 'flow'), ({'priority': 'urgent'}, 'priority'),
                       ({'timeout_ms': -1}, 'timeout_ms'), ({'timeout_ms': 1.5}, 'timeout_ms'),
                       ({'lease_ms': 0}, 'lease_ms'), ({'cost': 1 << 40}, 'cost'),
                       ({'hold': 'yes'}, 'hold'), ({'permit': 'x'}, 'permit')):
        status, said = await agents.call('acquire', **wish)
        assert (status, said['type']) == (400, 'urn:weir:bad-request'), wish
        assert word in said['detail']
    for text in ('[]', '{', '{"flow":"a","flow":"b"}', 'nonsense', '"x"'):
        url = f'{agents.gateway.api}/gates/agents/b/acquire'
        async with agents.session.post(url, data=text) as reply:
            assert reply.status == 400, text
    assert (await agents.call('release'))[0] == 400
    assert (await agents.call('release', permit='a', flow='b'))[0] == 400
    assert (await agents.call('acquire', gate='nowhere'))[0] == 404
    for key in ('', 'k' * 256, 'k' * 3000):
        for what, wish in (('acquire', {}), *((what, wish) for what in ('release', 'renew')
                                              for wish in ({'flow': 'f'}, {'permit': '0' * 32}))):
            status, said = await agents.call(what, key, **wish)
            assert (status, said['type']) == (400, 'urn:weir:bad-request') and '1 to 255 bytes' in said['detail']
    await agents.until('b', active=0)


@with_agents
async def test_bodies_may_come_in_chunks_or_not_at_all(agents):
    url = f'{agents.gateway.api}/gates/agents/b/acquire'

    async def chunks():
        for piece in (b'{"fl', b'ow":"in ', b'pieces"}'):
            yield piece
    async with agents.session.post(url, data=chunks()) as reply:
        assert (reply.status, (await reply.json())['flow']) == (200, 'in pieces')
    async with agents.session.post(url) as reply:
        assert (reply.status, (await reply.json())['flow']) == (200, '')
    async with agents.session.post(url, data=b' ' * 70000) as reply:
        assert reply.status == 413


@with_agents
async def test_what_was_reserved_is_settled_with_what_it_cost(agents):
    permit = (await agents.acquire(cost=100))['permit']
    await agents.until(reserved=100)
    assert (await agents.call('release', permit=permit, outcome='success', cost=7))[0] == 200
    await agents.until(reserved=0, active=0)
    permit = (await agents.acquire())['permit']
    assert (await agents.call('release', permit=permit, outcome='fine'))[0] == 400
    assert (await agents.call('release', permit=permit, outcome='soft_loss'))[0] == 200


@with_agents
async def test_permits_outlive_a_reload_and_a_drain_takes_them_along(agents):
    permit = (await agents.acquire())['permit']
    await agents.gateway.reload(('limit: 3', 'limit: 1'))
    waiting = agents.later()
    await agents.until(active=1, waiting=1, limit=1)
    assert (await agents.call('release', permit=permit))[0] == 200
    assert (await waiting)[0] == 200  # and it is still held when the gateway ends


@with_agents
async def test_many_callers_never_hold_more_than_the_limit(agents):
    inside = most = 0

    async def work(number):
        nonlocal inside, most
        for _ in range(10):
            said = await agents.acquire('busy', flow=f'{number}')
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1
            assert (await agents.call('release', 'busy', permit=said['permit']))[0] == 200
    await asyncio.gather(*(work(i) for i in range(30)))
    assert most <= 3
    await agents.until('busy', active=0, waiting=0, reserved=0)


def with_tokens(test):
    """Runs a test with a function that calls the API with the token of that name, or with none."""
    def wrapper(monkeypatch):
        monkeypatch.setenv('WEIR_ACME', 'a-secret-of-acme')
        monkeypatch.setenv('WEIR_ANY', 'a-secret-of-anybody')
        config = CONFIG + '''
api_tokens:
  acme: { token: "${WEIR_ACME}", scopes: [work], tenant: acme }
  any: { token: "${WEIR_ANY}", scopes: [work, read] }
'''

        @run
        async def body():
            async with weir(config) as gateway, aiohttp.ClientSession() as session:
                async def call(token, what, **wish):
                    headers = {'Authorization': f'Bearer {os.environ[token]}'} if token else {}
                    async with session.post(f'{gateway.api}/gates/agents/b/{what}', json=wish, headers=headers) as reply:
                        return reply.status, await reply.json(content_type=None)
                await test(call)
        body()
    wrapper.__name__ = test.__name__
    return wrapper


@with_tokens
async def test_a_token_speaks_for_its_tenant_alone(call):
    for token, wish, status in (('WEIR_ACME', {}, 200), ('WEIR_ACME', {'tenant': 'acme'}, 200),
                                ('WEIR_ACME', {'tenant': 'other'}, 403), ('WEIR_ANY', {'tenant': 'other'}, 200),
                                (None, {}, 401)):
        assert (await call(token, 'acquire', **wish))[0] == status


@with_tokens
async def test_a_token_of_a_tenant_gives_nothing_back_that_others_hold(call):
    _, other = await call('WEIR_ANY', 'acquire', flow='f', tenant='other')
    for name in ({'flow': 'f'}, {'permit': other['permit']}):
        for what in ('release', 'renew'):
            assert (await call('WEIR_ACME', what, **name))[0] == 409
    _, own = await call('WEIR_ACME', 'acquire', flow='f')  # of the same name, and not the older one
    assert (await call('WEIR_ACME', 'renew', flow='f'))[0] == 200
    assert (await call('WEIR_ACME', 'release', flow='f'))[0] == 200
    assert (await call('WEIR_ANY', 'release', permit=own['permit']))[0] == 409
    assert (await call('WEIR_ANY', 'release', permit=other['permit']))[0] == 200


def test_who_is_not_trusted_has_no_tenant():
    @run
    async def test():
        async with weir('trusted: []\n' + CONFIG) as gateway, aiohttp.ClientSession() as session:
            url = f'{gateway.api}/gates/agents/b/acquire'
            async with session.post(url, json={'tenant': 'acme'}) as reply:
                assert reply.status == 403
            async with session.post(url, json={}) as reply:
                assert reply.status == 200
    test()
