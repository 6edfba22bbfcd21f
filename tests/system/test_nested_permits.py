"""Permits of the API that nest: a flow that holds one at a key does not wait there for itself. And
permits whose holder is gone, which come back by a lease that nobody has to configure."""
import asyncio
import json
import random

from raw import connect, request
from test_permits import with_agents_of
from weir import PATIENCE

CONFIG = '''
api: 127.0.0.1:0
threads: 2
gates:
  agents: { limit: 1, line: { timeout: 30s } }
  kept: { limit: 1, line: { timeout: 30s }, lease: none, keys: { k: { lease: 5m } } }
  shallow: { limit: 1, line: { timeout: 30s }, depth: 2 }
'''

with_nest = with_agents_of(CONFIG)


async def ids(agents, count, key='a', gate='agents', **wish):
    return [(await agents.acquire(key, gate, **{'flow': 'f', **wish}))['permit'] for _ in range(count)]


@with_nest
async def test_agents_of_one_flow_that_call_each_other_at_limit_one_end_well(agents):
    outer = await agents.acquire('a', flow='f')
    middle = await agents.acquire('b', flow='f')
    inner = await agents.acquire('a', flow='f', timeout_ms=0)
    assert (inner['active'], inner['waited_ms'], inner['permit'] == outer['permit']) == (1, 0, False)
    other = agents.later('a', flow='other')
    await agents.until('a', active=1, waiting=1)
    for key, permit in (('a', inner), ('b', middle)):
        assert (await agents.call('release', key, permit=permit['permit']))[0] == 200
    await agents.until('b', active=0)
    await agents.until('a', active=1, waiting=1)
    assert (await agents.call('release', 'a', permit=inner['permit']))[0] == 409
    assert (await agents.call('release', 'a', permit=outer['permit']))[0] == 200
    assert (await other)[0] == 200


@with_nest
async def test_a_place_that_is_shared_is_given_back_with_the_last_permit_in_any_order(agents):
    for order in ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)):
        permits = await ids(agents, 3)
        other = agents.later('a', flow='other')
        await agents.until('a', active=1, waiting=1)
        for number in order:
            assert not other.done()
            assert (await agents.call('renew', 'a', permit=permits[number]))[0] == 200
            assert (await agents.call('release', 'a', permit=permits[number]))[0] == 200
        assert (await other)[0] == 200
        assert (await agents.call('release', 'a', flow='f'))[0] == 409
        assert (await agents.call('release', 'a', flow='other'))[0] == 200


@with_nest
async def test_what_the_work_of_all_has_cost_is_charged_once(agents):
    permits = await ids(agents, 2, cost=7)
    assert (await agents.gateway.counts('a', 'agents'))['reserved'] == 7
    assert (await agents.call('release', 'a', permit=permits[0], cost=5, outcome='success'))[0] == 200
    assert (await agents.call('release', 'a', permit=permits[1], cost=6))[0] == 200
    await agents.until('a', active=0, reserved=0)


@with_nest
async def test_a_flow_nests_as_deep_as_the_gate_allows_and_no_deeper(agents):
    permits = await ids(agents, 2, gate='shallow')
    status, said = await agents.call('acquire', 'a', 'shallow', flow='f')
    assert (status, said['type'], said['active'], said['flow']) == (508, 'urn:weir:too-deep', 1, 'f')
    assert 'circle' in said['detail']
    assert (await agents.call('release', 'a', 'shallow', permit=permits[0]))[0] == 200
    assert len(await ids(agents, 1, gate='shallow')) == 1
    await ids(agents, 5)  # the default
    assert (await agents.call('acquire', 'a', flow='f'))[0] == 508


@with_nest
async def test_only_permits_of_one_key_flow_and_tenant_share(agents):
    await agents.acquire('a', flow='f', tenant='t')
    for key, wish in (('a', {'flow': 'f'}), ('a', {'flow': 'f', 'tenant': 'u'}), ('a', {'flow': 'g', 'tenant': 't'}),
                      ('a', {'tenant': 't'})):
        assert (await agents.call('acquire', key, timeout_ms=0, **wish))[0] == 429
    assert (await agents.call('acquire', 'a', flow='f', tenant='t', timeout_ms=0))[0] == 200
    assert (await agents.call('acquire', 'b', flow='f', timeout_ms=0))[0] == 200


async def open_hold(agents, wire, key='a', **wish):
    body = json.dumps({'hold': True, 'flow': 'f', **wish})
    await wire.send(request(f'/gates/agents/{key}/acquire', f'Content-Length: {len(body)}', method='POST'), body)
    head = await wire.head()
    assert head.status == 200
    return json.loads((await wire.reader.readuntil(b'}\n')).split(b'\r\n')[-1])


@with_nest
async def test_connections_share_a_place_too_and_the_last_one_gives_it_back(agents):
    async with connect(agents.gateway.api_port) as outer, connect(agents.gateway.api_port) as inner:
        await open_hold(agents, outer)
        await open_hold(agents, inner)
        other = agents.later('a', flow='other')
        await agents.until('a', active=1, waiting=1)
        outer.close()
        assert (await agents.call('renew', 'a', flow='f'))[1] == {'lease_ms': None}
        assert not other.done()
        inner.close()
        assert (await other)[0] == 200


@with_nest
async def test_a_connection_ends_with_the_lease_of_its_own_permit_while_the_place_stays(agents):
    async with connect(agents.gateway.api_port) as outer, connect(agents.gateway.api_port) as inner:
        await open_hold(agents, outer)
        await open_hold(agents, inner, lease_ms=100)
        await asyncio.wait_for(inner.reader.read(), PATIENCE)  # until the end of the connection
        assert (await agents.gateway.counts('a', 'agents'))['active'] == 1
        outer.close()
        await agents.until('a', active=0)


@with_nest
async def test_a_shared_place_comes_back_when_the_last_lease_is_over(agents):
    first = await agents.acquire('a', flow='f', lease_ms=50)
    second = await agents.acquire('a', flow='f')
    other = agents.later('a', flow='other')
    await agents.until('a', active=1, waiting=1)
    await asyncio.sleep(0.1)  # longer than the first lease: time itself is what is tested
    assert (await agents.gateway.counts('a', 'agents'))['active'] == 1 and not other.done()
    assert (await agents.call('renew', 'a', permit=second['permit'], lease_ms=50))[0] == 200
    assert (await other)[0] == 200
    for permit in (first, second):
        assert (await agents.call('renew', 'a', permit=permit['permit']))[0] == 409
    assert (await agents.gateway.counts('a', 'agents'))['ended']['lapsed'] == 1


@with_nest
async def test_a_nested_permit_whose_holder_is_gone_does_not_keep_the_place(agents):
    outer = await agents.acquire('a', flow='f')
    lost = await agents.acquire('a', flow='f', lease_ms=50)
    await asyncio.sleep(0.1)  # longer than the lease: time itself is what is tested
    assert (await agents.call('release', 'a', permit=lost['permit']))[0] == 409
    assert (await agents.call('release', 'a', permit=outer['permit']))[0] == 200
    await agents.until('a', active=0)


@with_nest
async def test_a_permit_that_no_connection_holds_has_a_lease_of_ten_minutes(agents):
    assert (await agents.acquire('a'))['lease_ms'] == 600_000
    assert (await agents.acquire('b', lease_ms=3_600_000))['lease_ms'] == 3_600_000
    assert (await agents.acquire('a', 'kept'))['lease_ms'] is None
    assert (await agents.acquire('k', 'kept'))['lease_ms'] == 300_000
    permit = (await agents.acquire('c'))['permit']
    assert (await agents.call('renew', 'c', permit=permit))[1] == {'lease_ms': 600_000}
    async with connect(agents.gateway.api_port) as wire:
        assert (await open_hold(agents, wire, key='d'))['lease_ms'] is None


@with_nest
async def test_flows_that_nest_on_many_connections_leave_nothing_behind(agents):
    chance = random.Random(7)
    inside = {}

    async def work(flow, depth, by_id):
        status, said = await agents.call('acquire', 'a', flow=flow)
        assert status == 200, said
        inside[flow] = inside.get(flow, 0) + 1
        assert sum(count > 0 for count in inside.values()) == 1
        if depth > 0:
            await asyncio.gather(*(work(flow, 0, by_id) for _ in range(chance.randrange(3))))
        inside[flow] -= 1
        name = {'permit': said['permit']} if by_id else {'flow': flow}
        assert (await agents.call('release', 'a', **name))[0] == 200
    await asyncio.gather(*(work(f'flow-{number}', 1, number % 2 == 0) for number in range(60)))
    await agents.until('a', active=0, waiting=0, reserved=0)
