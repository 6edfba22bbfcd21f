"""Permits that belong to a flow: who holds one is not waited for by itself, and nobody keeps one for
ever. Agents are what an upstream's handlers play here; they call each other through the gateway."""
import asyncio
import collections
import contextlib
import itertools
import random

import aiohttp
import pytest
from aiohttp import web
from raw import Wire, ask, connect, open_wire, request, run, upstream
from test_answers import read, read_ticket
from test_events import reader
from weir import PATIENCE, until, weir

both = pytest.mark.parametrize('threads', [1, 2])


class Fleet:
    """Agents that ask the next one on the way, through the gateway, before they answer."""

    def __init__(self):
        self.url = None
        self.session = None
        self.came = []
        self.headers = []
        self.inside = collections.defaultdict(collections.Counter)  # agent: flow: requests
        self.most = collections.Counter()  # agent: flows inside at once
        self._doors = {}

    def open(self, name):
        self._doors.setdefault(name, asyncio.Event()).set()

    async def _wait_at(self, name, message):
        """Until the door opens or the gateway hangs up, of which handlers are not told."""
        door = self._doors.setdefault(name, asyncio.Event())
        while not door.is_set() and message.transport is not None:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(door.wait(), 0.05)

    def count(self, agent):
        """Requests that are inside."""
        return sum(self.inside[agent].values())

    async def handle(self, message):
        agent = message.match_info['agent']
        flow = message.headers.get('X-Flow', f'none {id(message)}')
        flows = self.inside[agent]
        self.came.append(f'{agent} {flow}')
        self.headers.append(dict(message.headers))
        flows[flow] += 1
        self.most[agent] = max(self.most[agent], sum(count > 0 for count in flows.values()))
        try:
            if 'hold' in message.query:
                await self._wait_at(message.query['hold'], message)
            if 'reset' in message.query:
                message.transport.abort()
            if 'status' in message.query:
                return web.Response(status=int(message.query['status']))
            way = [name for name in message.query.get('way', '').split(',') if name]
            if not way:
                return web.json_response({'agent': agent})
            status, said = await self.ask(f'{way[0]}?way={",".join(way[1:])}', flow)
            return web.json_response(said, status=status)
        finally:
            flows[flow] -= 1

    async def ask(self, path, flow=None, **more):
        headers = {**({'X-Flow': flow} if flow else {}),
                   **{name.replace('_', '-'): value for name, value in more.items()}}
        async with self.session.get(f'{self.url}/agents/{path}', headers=headers) as reply:
            return reply.status, await reply.json(content_type=None)

    def task(self, path, flow=None, **more):
        return asyncio.create_task(self.ask(path, flow, **more))

    @contextlib.asynccontextmanager
    async def serve(self):
        app = web.Application()
        app.router.add_get('/agents/{agent}', self.handle)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, '127.0.0.1', 0, backlog=1024)
        await site.start()
        try:
            yield site._server.sockets[0].getsockname()[1]
        finally:
            for door in self._doors.values():
                door.set()
            await runner.cleanup()


def config_of(port, limit=1, line='timeout: 20s', gate='', route='', threads=2, grace='5s', probe=3):
    return f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: {threads}
grace: {grace}
upstreams: {{ fleet: {{ url: "http://127.0.0.1:{port}" }} }}
gates: {{ functions: {{ limit: {limit}, line: {{ {line} }} {gate} }} }}
routes:
  - match: /agents/{{agent}}
    key: "{{agent}}"
    tenant: header:X-Tenant
    flow: header:X-Flow
    permit: flow
    gate: functions
    upstream: fleet
    {route}
  - {{ match: "/probe/{{agent}}", key: "{{agent}}", flow: header:X-Flow, permit: flow,
      depth: {probe}, gate: functions, upstream: fleet }}
'''


@contextlib.asynccontextmanager
async def agents(**more):
    """A gateway before a fleet, as config_of() makes it: both."""
    fleet = Fleet()
    async with fleet.serve() as port, weir(config_of(port, **more)) as gateway:
        fleet.url = gateway.url
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as fleet.session:
            yield gateway, fleet


async def hold(gateway, fleet, agent='a', flow='holder', door='door', **more):
    """A request that stays inside until its door is opened."""
    task = fleet.task(f'{agent}?hold={door}', flow, **more)
    await until(lambda: fleet.inside[agent][flow] == 1, f'{flow} is inside')
    return task


def statuses(replies):
    return [status for status, _ in replies]


END = {'Weir_Flow': 'end'}


# ---- taking it, riding on it, giving it back

@both
@run
async def test_a_flow_keeps_its_permit_and_its_later_requests_pass_the_line(threads):
    async with agents(threads=threads) as (gateway, fleet):
        assert (await fleet.ask('a', 'one'))[0] == 200
        await gateway.until('a', active=1, waiting=0)
        inside = await hold(gateway, fleet, flow='one')  # so that it does not yield to those who wait
        others = [fleet.task('a', 'two', **END)]
        await gateway.until('a', active=1, waiting=1)
        others.append(fleet.task('a', 'three', **END))
        await gateway.until('a', active=1, waiting=2)
        for _ in range(5):
            assert (await fleet.ask('a', 'one'))[0] == 200
        assert not any(other.done() for other in others)
        assert (await fleet.ask('a', 'one', **END))[0] == 200
        fleet.open('door')
        assert statuses(await asyncio.gather(inside, *others)) == [200, 200, 200]
        assert fleet.came[-2:] == ['a two', 'a three']
        await gateway.until('a', active=0, waiting=0, reserved=0)
        assert fleet.most['a'] == 1


@both
@run
async def test_the_end_counts_when_the_last_inside_has_gone(threads):
    async with agents(threads=threads) as (gateway, fleet):
        inside = [await hold(gateway, fleet, flow='one', door='first', **END)]
        inside.append(fleet.task('a?hold=second', 'one'))
        await until(lambda: fleet.count('a') == 2, 'both are inside')
        other = fleet.task('a', 'two', **END)
        await gateway.until('a', active=1, waiting=1)
        fleet.open('first')
        assert (await inside[0])[0] == 200
        assert (await fleet.ask('a', 'one'))[0] == 200  # somebody is still inside
        assert not other.done()
        fleet.open('second')
        assert statuses(await asyncio.gather(inside[1], other)) == [200, 200]
        await gateway.until('a', active=0)


@run
async def test_after_the_end_the_same_name_stands_in_line_like_any_other():
    async with agents() as (gateway, fleet):
        first = await hold(gateway, fleet, flow='one', door='first', **END)
        other = fleet.task('a?hold=door', 'two', **END)
        await gateway.until('a', waiting=1)
        fleet.open('first')
        assert (await first)[0] == 200
        again = fleet.task('a', 'one', **END)
        await gateway.until('a', active=1, waiting=1)
        fleet.open('door')
        assert statuses(await asyncio.gather(other, again)) == [200, 200]
        assert fleet.came == ['a one', 'a two', 'a one']


@run
async def test_a_request_without_a_flow_has_a_permit_of_its_own():
    async with agents() as (gateway, fleet):
        assert (await fleet.ask('a'))[0] == 200
        await gateway.until('a', active=0)


@run
async def test_the_upstream_sees_the_flow_and_not_what_is_said_to_the_gateway():
    async with agents() as (gateway, fleet):
        assert (await fleet.ask('a', 'one', **END))[0] == 200
        headers = {name.lower(): value for name, value in fleet.headers[0].items()}
        assert headers['x-flow'] == 'one' and 'weir-flow' not in headers


@pytest.mark.parametrize('fields', [['Weir-Flow: begin'], ['Weir-Flow:'], ['Weir-Flow: end'] * 2])
@run
async def test_another_word_than_end_is_a_bad_request(fields):
    async with agents() as (gateway, _), connect(gateway.port) as wire:
        await wire.send(request('/agents/a', 'X-Flow: one', *fields))
        read(await wire.message(), 'bad-request', 400)
        await gateway.until('a', active=0)


@both
@run
async def test_an_idle_flow_gives_its_permit_back_and_a_busy_one_does_not(threads):
    async with agents(route='flow_idle: 300ms', threads=threads) as (gateway, fleet):
        assert (await fleet.ask('a', 'one'))[0] == 200
        busy = await hold(gateway, fleet, flow='one')
        other = fleet.task('a', 'two')
        await gateway.until('a', active=1, waiting=1)
        await asyncio.sleep(0.6)  # twice as long as idle: time itself is what is tested
        assert not other.done()
        fleet.open('door')
        assert (await busy)[0] == 200
        assert (await other)[0] == 200  # once one has been idle
        assert fleet.most['a'] == 1
        await gateway.until('a', active=0)


async def release(gateway, fleet, flow, key='a'):
    async with fleet.session.post(f'{gateway.api}/gates/functions/{key}/release', json={'flow': flow}) as reply:
        return reply.status


@both
@run
async def test_flows_at_rest_yield_to_one_that_waits_the_longest_first(threads):
    async with agents(limit=3, threads=threads) as (gateway, fleet):
        for flow in ('one', 'two', 'three'):
            assert (await fleet.ask('a', flow))[0] == 200
            await asyncio.sleep(0.02)  # the order of their ends, as loops tell the time
        assert (await fleet.ask('b', 'one'))[0] == 200
        assert (await fleet.ask('a', 'four'))[0] == 200  # waits for a second of rest, not for flow_idle
        await gateway.until('a', active=3, waiting=0)
        assert [await release(gateway, fleet, flow) for flow in ('one', 'two')] == [409, 200]
        assert await release(gateway, fleet, 'one', 'b') == 200  # nothing has waited there


@both
@run
async def test_only_a_flow_without_a_request_inside_yields_and_also_to_a_caller_of_the_api(threads):
    async with agents(limit=2, threads=threads) as (gateway, fleet):
        busy = await hold(gateway, fleet, flow='busy')
        assert (await fleet.ask('a', 'one'))[0] == 200
        await asyncio.sleep(1.2)  # longer than a rest: time itself is what is tested
        url = f'{gateway.api}/gates/functions/a/acquire'
        async with fleet.session.post(url, json={}) as reply:  # finds a flow at rest
            assert (reply.status, (await reply.json())['waited_ms'] < 1000) == (200, True)
        async with fleet.session.post(url, json={'timeout_ms': 1500}) as reply:
            assert reply.status == 429
        assert await release(gateway, fleet, 'one') == 409
        fleet.open('door')
        assert (await busy)[0] == 200
        assert await release(gateway, fleet, 'busy') == 200


@both
@run
async def test_the_lease_ends_a_flow_that_never_rests_but_not_from_under_who_is_inside(threads):
    async with agents(gate=', lease: 300ms', threads=threads) as (gateway, fleet):
        async def never_rest():
            while not other.done():
                assert (await fleet.ask('a', 'one'))[0] == 200
        assert (await fleet.ask('a', 'one'))[0] == 200
        other = fleet.task('a', 'two', **END)
        await asyncio.gather(never_rest(), other)
        assert (await other)[0] == 200
        assert (await fleet.ask('a', 'one', **END))[0] == 200
        busy = await hold(gateway, fleet, flow='three')
        other = fleet.task('a', 'four', **END)
        await gateway.until('a', active=1, waiting=1)
        await asyncio.sleep(0.5)  # longer than the lease: time itself is what is tested
        assert not other.done()
        assert (await fleet.ask('a', 'three'))[0] == 200  # as if from within
        fleet.open('door')
        assert statuses(await asyncio.gather(busy, other)) == [200, 200]
        assert fleet.most['a'] == 1
        await gateway.until('a', active=0)


@run
async def test_a_key_may_have_a_lease_of_its_own():
    async with agents(gate=', lease: 1h, keys: { a: { lease: 100ms } }') as (gateway, fleet):
        assert (await fleet.ask('a', 'one'))[0] == 200
        assert (await fleet.ask('b', 'one'))[0] == 200
        await gateway.until('a', active=0)
        await gateway.until('b', active=1)


# ---- waiting together

async def wait_as(gateway, flow='two', target='/agents/a', *fields):
    wire = await open_wire(gateway.port)
    await wire.send(request(target, f'X-Flow: {flow}', *fields))
    return wire


async def until_riders(gateway, flow='two'):
    """Waits until the flow has as many riders as the probe's route allows, which one more is told
    there. It counts as a rider itself for a moment."""
    async def is_deep():
        text = request('/probe/a', f'X-Flow: {flow}', 'Weir-Timeout: 0s')
        return (await ask(gateway.port, text)).status == 508
    await until(is_deep, f'{flow} has its riders')


@both
@run
async def test_all_requests_of_a_flow_wait_with_one_ticket_and_go_in_together(threads):
    async with agents(route='depth: 1000', probe=200, threads=threads) as (gateway, fleet):
        holder = await hold(gateway, fleet, **END)
        riders = [fleet.task('a?hold=all', 'many') for _ in range(200)]
        await until_riders(gateway, 'many')
        other = fleet.task('a', 'other', **END)
        await gateway.until('a', active=1, waiting=2)
        fleet.open('door')
        assert (await holder)[0] == 200
        await until(lambda: fleet.inside['a']['many'] == 200, 'all are inside')
        await gateway.until('a', active=1, waiting=1)
        fleet.open('all')
        assert set(statuses(await asyncio.gather(*riders))) == {200}
        assert not other.done()
        assert (await fleet.ask('a', 'many', **END))[0] == 200
        assert (await other)[0] == 200
        assert fleet.most['a'] == 1
        await gateway.until('a', active=0, waiting=0, reserved=0)


@both
@run
async def test_riders_may_hang_up_in_every_order_and_whoever_stays_goes_in(threads):
    async with agents(threads=threads, route='flow_idle: 1ms') as (gateway, fleet):
        for number, order in enumerate(itertools.permutations(range(3))):
            for gone in (2, 3):
                door = f'door {number} {gone}'
                holder = await hold(gateway, fleet, door=door, **END)
                riders = []
                for _ in range(3):
                    riders.append(await wait_as(gateway))
                await until_riders(gateway)
                for rider in order[:gone]:
                    riders[rider].close() if rider % 2 else riders[rider].reset()
                if gone == 3:
                    await gateway.until('a', active=1, waiting=0)
                fleet.open(door)
                assert (await holder)[0] == 200
                if gone == 2:
                    assert (await riders[order[2]].message()).status == 200
                await gateway.until('a', active=0, waiting=0)
                for rider in riders:
                    rider.close()


@both
@run
async def test_one_riders_time_is_over_and_the_others_keep_the_flows_place(threads):
    async with agents(threads=threads) as (gateway, fleet):
        holder = await hold(gateway, fleet, **END)
        first = await wait_as(gateway, 'two', '/agents/a', 'Weir-Timeout: 800ms', 'X-Tenant: acme')
        await gateway.until('a', waiting=1)
        between = fleet.task('a', 'between', **END)
        await gateway.until('a', waiting=2)
        second = await wait_as(gateway, 'two', '/agents/a', 'Weir-Flow: end')
        third = await wait_as(gateway, 'two', '/agents/a', 'Weir-Timeout: 900ms')
        problem = read_ticket(await first.message(), 'line-timeout', gate='functions', key='a',
                              flow='two', tenant='acme', active=1, limit=1, timeout_ms=800)
        assert 800 <= problem['waited_ms'] < 5000
        read_ticket(await third.message(), 'line-timeout', timeout_ms=900, flow='two', tenant='')
        await gateway.until('a', active=1, waiting=2)
        fleet.open('door')
        assert (await holder)[0] == 200
        assert (await second.message()).status == 200
        assert (await between)[0] == 200
        assert fleet.came == ['a holder', 'a two', 'a between']
        assert (await gateway.counts('a'))['waiting'] == 0
        for wire in (first, second, third):
            wire.close()


@both
@run
async def test_when_the_lines_time_is_over_all_are_refused_each_in_its_turn(threads):
    async with agents(line='timeout: 1s', threads=threads) as (gateway, fleet):
        holder = await hold(gateway, fleet, **END)
        riders = []
        for _ in range(4):
            riders.append(await wait_as(gateway))
            await asyncio.sleep(0.05)  # so that each has a deadline of its own
        for rider in riders:
            problem = read_ticket(await rider.message(), 'line-timeout', flow='two',
                                  timeout_ms=1000)
            assert 1000 <= problem['waited_ms'] < 5000
            rider.close()
        await gateway.until('a', active=1, waiting=0)
        assert (await gateway.counts('a'))['ended']['timeout'] == 1
        fleet.open('door')
        assert (await holder)[0] == 200


@both
@run
async def test_riders_whose_time_is_over_when_their_tickets_is_are_refused_once(threads):
    async with agents(line='timeout: 100ms', threads=threads) as (gateway, fleet):
        holder = await hold(gateway, fleet, **END)
        for wave in range(5):
            replies = await asyncio.gather(*(fleet.ask('a', f'{wave} {i % 60}') for i in range(180)))
            assert {said['type'] for _, said in replies} == {'urn:weir:line-timeout'}
        await gateway.until('a', active=1, waiting=0)
        fleet.open('door')
        assert (await holder)[0] == 200


@run
async def test_who_has_no_time_at_all_rides_but_does_not_wait():
    async with agents() as (gateway, fleet):
        assert (await fleet.ask('a', 'one', Weir_Timeout='0s'))[0] in (200, 504)
        status, problem = await fleet.ask('a', 'two', Weir_Timeout='0s')
        assert (status, problem['type'], problem['timeout_ms']) == (429, 'urn:weir:line-timeout', 0)
        await gateway.until('a', active=1, waiting=0)


@run
async def test_a_full_line_refuses_a_flow_and_a_place_that_is_lost_is_lost_for_all_of_it():
    async with agents(line='timeout: 20s, max: 2', probe=2) as (gateway, fleet):
        holder = await hold(gateway, fleet, **END)
        many = [fleet.task('a', 'b', X_Tenant='many'), fleet.task('a', 'b', X_Tenant='many')]
        await gateway.until('a', waiting=1)
        many.append(fleet.task('a', 'c', X_Tenant='many'))
        await gateway.until('a', waiting=2)
        many.append(fleet.task('a', 'c', X_Tenant='many'))
        await until_riders(gateway, 'c')
        status, problem = await fleet.ask('a', 'd', X_Tenant='many')
        assert (status, problem['type'], problem['flow']) == (429, 'urn:weir:line-full', 'd')
        few = fleet.task('a', 'few', X_Tenant='few', **END)
        for displaced in many[2:]:
            status, problem = await displaced
            assert (status, problem['type']) == (429, 'urn:weir:displaced')
            assert (problem['flow'], problem['tenant']) == ('c', 'many')
        fleet.open('door')
        assert (await holder)[0] == 200
        assert statuses(await asyncio.gather(*many[:2])) == [200, 200]
        assert (await fleet.ask('a', 'b', **END))[0] == 200
        assert (await few)[0] == 200
        await gateway.until('a', active=0)


@run
async def test_the_line_shows_a_flow_once():
    async with agents() as (gateway, fleet):
        holder = await hold(gateway, fleet, **END)
        riders = [fleet.task('a', 'two', **END) for _ in range(3)]
        await gateway.until('a', waiting=1)
        _, said = await gateway.ask_api('/gates/functions/a/line')
        assert [place['flow'] for place in said['line']] == ['two']
        fleet.open('door')
        assert statuses(await asyncio.gather(holder, *riders)) == [200] * 4


@run
async def test_events_tell_of_a_flow_once_with_its_names():
    async with agents(line='timeout: 500ms') as (gateway, fleet), reader(gateway) as follower:
        holder = await hold(gateway, fleet, **END)
        first = fleet.task('a', 'two', X_Tenant='acme')
        event = await follower.until('gate.throttle')
        assert (event['flow'], event['tenant'], event['key']) == ('two', 'acme', 'a')
        second = fleet.task('a', 'two', Weir_Timeout='1ms')
        assert statuses(await asyncio.gather(first, second)) == [429, 429]
        event = await follower.next()
        assert (event['type'], event['flow'], event['tenant']) == ('gate.timeout', 'two', 'acme')
        fleet.open('door')
        assert (await holder)[0] == 200
        busy = await hold(gateway, fleet, flow='three', door='other')
        last = fleet.task('a', 'four')
        assert (await follower.until('gate.throttle'))['flow'] == 'four'
        assert (await last)[0] == 429
        fleet.open('other')
        assert (await busy)[0] == 200


# ---- nested

@both
@run
async def test_a_flow_may_call_itself_as_deep_as_the_route_allows_and_no_deeper(threads):
    async with agents(threads=threads) as (gateway, fleet):
        assert (await fleet.ask('a?way=a,a,a,a', 'five deep', **END))[0] == 200
        assert (await fleet.ask('a?way=a,a,a,a,a', 'six deep', **END))[0] == 508
        await gateway.until('a', active=0)
    async with agents(route='depth: 1', threads=threads) as (gateway, fleet):
        assert (await fleet.ask('a?way=b', 'one deep', **END))[0] == 200
        assert (await fleet.ask('a?way=a', 'two deep'))[0] == 508
        await gateway.until('a', active=1)


@run
async def test_too_deep_is_told_with_everything():
    async with agents(limit=3, route='depth: 2', line='timeout: 7s') as (gateway, fleet):
        inside = [fleet.task('a?hold=door', 'one', X_Tenant='acme') for _ in range(2)]
        await until(lambda: fleet.count('a') == 2, 'two are inside')
        async with connect(gateway.port) as wire:
            await wire.send(request('/agents/a', 'X-Flow: one', 'X-Tenant: acme') * 2)
            for _ in range(2):
                message = await wire.message()
                assert message.start == 'HTTP/1.1 508 Loop Detected'
                assert message.one('retry-after') is None
                problem = read_ticket(message, 'too-deep', 508, gate='functions', key='a',
                                      flow='one', tenant='acme', active=1, waiting=0, limit=3,
                                      timeout_ms=7000)
                assert problem['waited_ms'] < 5000
                assert 'circle' in problem['detail']
        fleet.open('door')
        assert statuses(await asyncio.gather(*inside)) == [200, 200]
        assert (await fleet.ask('a', 'one', **END))[0] == 200
        await gateway.until('a', active=0)


@both
@run
async def test_riders_that_wait_count_as_well(threads):
    async with agents(route='depth: 2', threads=threads) as (gateway, fleet):
        holder = await hold(gateway, fleet, **END)
        riders = [fleet.task('a', 'two') for _ in range(3)]
        done, _ = await asyncio.wait(riders, return_when=asyncio.FIRST_COMPLETED)
        status, problem = await done.pop()
        assert (status, problem['type'], problem['waiting']) == (508, 'urn:weir:too-deep', 1)
        fleet.open('door')
        assert (await holder)[0] == 200
        assert sorted(statuses(await asyncio.gather(*riders))) == [200, 200, 508]


NAMES = [f'agent-{i}' for i in range(11)]


@both
@run
async def test_eleven_agents_that_call_each_other_in_a_ring_do_not_deadlock(threads):
    async with agents(limit=1, route='flow_idle: 50ms', threads=threads) as (gateway, fleet):
        for start in range(11):
            ring = NAMES[start:] + NAMES[:start]
            way = ','.join(ring[1:] + ring[:1])  # which closes the circle
            status, said = await fleet.ask(f'{ring[0]}?way={way}', f'flow-{start}', **END)
            assert (status, said) == (200, {'agent': ring[0]})
        assert len(fleet.came) == 11 * 12
        assert set(fleet.most.values()) == {1}
        for name in NAMES:
            await gateway.until(name, active=0, waiting=0, reserved=0)


@both
@run
async def test_every_pair_of_eleven_agents_plays_ping_pong_in_one_flow(threads):
    async with agents(limit=1, threads=threads) as (gateway, fleet):
        for ping, pong in itertools.permutations(NAMES, 2):
            status, said = await fleet.ask(f'{ping}?way={pong},{ping},{pong}', 'one')
            assert (status, said) == (200, {'agent': pong})
        for name in NAMES:
            await gateway.until(name, active=1, waiting=0)
            assert (await fleet.ask(name, 'one', **END))[0] == 200
            await gateway.until(name, active=0)
        assert set(fleet.most.values()) == {1}


@both
@run
async def test_eleven_agents_at_once_in_one_flow_do_not_deadlock(threads):
    async with agents(limit=1, route='depth: 1000\n    flow_idle: 50ms',
                      threads=threads) as (gateway, fleet):
        ways = [','.join(random.Random(i).sample(NAMES, 11)) for i in range(11)]
        replies = await asyncio.gather(*(fleet.ask(f'{NAMES[i]}?way={way}', 'one')
                                         for i, way in enumerate(ways)))
        assert set(statuses(replies)) == {200}
        assert set(fleet.most.values()) == {1}
        for name in NAMES:
            await gateway.until(name, active=0, waiting=0)


@both
@run
async def test_circles_of_several_flows_are_broken_by_the_line_and_nothing_is_left(threads):
    chance = random.Random(threads)
    async with agents(limit=2, line='timeout: 150ms', route='flow_idle: 20ms',
                      threads=threads) as (gateway, fleet):
        async def work(number):
            seen = set()
            for i in range(6):
                way = ','.join(chance.choices('abcd', k=3))
                last = END if chance.random() < 0.5 else {}
                status, said = await fleet.ask(f'{chance.choice("abcd")}?way={way}',
                                               f'flow-{number}', **last)
                assert status == 200 or said['type'] == 'urn:weir:line-timeout'
                seen.add(status)
            return seen
        seen = set().union(*await asyncio.gather(*(work(i) for i in range(16))))
        assert seen == {200, 429}
        for name in 'abcd':
            assert fleet.most[name] <= 2
            await gateway.until(name, active=0, waiting=0, reserved=0)


# ---- what goes wrong

@both
@run
async def test_whoever_hangs_up_inside_leaves_the_flow_to_the_others(threads):
    async with agents(threads=threads, route='flow_idle: 200ms') as (gateway, fleet):
        for way in (Wire.reset, Wire.close, Wire.abort):
            wire = await wait_as(gateway, 'one', '/agents/a?hold=never')
            other = await wait_as(gateway, 'one', f'/agents/a?hold={way.__name__}')
            await until(lambda: fleet.count('a') == 2, 'both are inside')
            next_one = fleet.task('a', 'two', **END)
            await gateway.until('a', active=1, waiting=1)
            way(wire)
            await until(lambda: fleet.count('a') == 1, 'the upstream has heard of it')
            assert not next_one.done()
            fleet.open(way.__name__)
            assert (await other.message()).status == 200
            other.close()
            assert (await next_one)[0] == 200  # once one has been idle
            await gateway.until('a', active=0, waiting=0)


@run
async def test_a_caller_that_is_killed_leaves_nothing_behind():
    async with agents(route='flow_idle: 10ms') as (gateway, fleet):
        for target in ('a?hold=never', 'a'):
            holder = await hold(gateway, fleet, door=target, **END) if target == 'a' else None
            process = await asyncio.create_subprocess_exec(
                'curl', '-s', '-H', 'X-Flow: two', f'{gateway.url}/agents/{target}',
                stdout=asyncio.subprocess.DEVNULL)
            await gateway.until('a', active=1, waiting=int(target == 'a'))
            process.kill()
            await process.wait()
            await gateway.until('a', active=int(target == 'a'), waiting=0)
            if holder:
                fleet.open(target)
                assert (await holder)[0] == 200
        await gateway.until('a', active=0, reserved=0)


@both
@run
async def test_a_server_that_resets_or_fails_does_not_take_the_permit_with_it(threads):
    async with agents(threads=threads) as (gateway, fleet):
        for path, status in (('a?reset', 502), ('a?status=500', 500), ('a', 200)):
            assert (await fleet.ask(path, 'one'))[0] == status
            await gateway.until('a', active=1, waiting=0)
        assert (await fleet.ask('a?reset', 'one', **END))[0] == 502
        await gateway.until('a', active=0)


@run
async def test_no_server_at_all_leaves_the_flow_its_permit_until_it_is_idle():
    async with upstream() as server:
        port = server.port
    config = config_of(port, route='flow_idle: 100ms')
    async with weir(config) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/agents/a', 'X-Flow: one'))
            read(await wire.message(), 'upstream-unreachable', 502)
        await gateway.until('a', active=0)


@both
@run
async def test_many_flows_at_random_never_exceed_the_limit_and_leave_nothing(threads):
    chance = random.Random(threads)
    async with agents(limit=3, route='flow_idle: 5ms\n    depth: 8', line='timeout: 10s',
                      threads=threads) as (gateway, fleet):
        async def work(flow):
            for _ in range(12):
                last = END if chance.random() < 0.3 else {}
                await asyncio.sleep(chance.random() * 0.01)
                task = fleet.task(chance.choice(['a', 'a?way=a', 'a?reset', 'a?status=503']),
                                  flow, **last)
                if chance.random() < 0.2:
                    await asyncio.sleep(chance.random() * 0.01)
                    task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    assert (await task)[0] in (200, 502, 503, 508)
        await asyncio.gather(*(work(f'flow-{i % 20}') for i in range(60)))
        await gateway.until('a', active=0, waiting=0, reserved=0)


# ---- from outside, and in the end

@both
@run
async def test_the_api_releases_a_flow_at_once_or_with_who_is_inside(threads):
    async with agents(threads=threads) as (gateway, fleet):
        async def release(flow):
            async with fleet.session.post(f'{gateway.api}/gates/functions/a/release',
                                          json={'flow': flow}) as reply:
                return reply.status
        assert await release('one') == 409
        assert (await fleet.ask('a', 'one'))[0] == 200
        assert await release('two') == 409
        assert await release('one') == 200
        assert (await gateway.counts('a'))['active'] == 0
        assert await release('one') == 409
        holder = await hold(gateway, fleet)
        waits = fleet.task('a', 'two', **END)
        await gateway.until('a', waiting=1)
        assert await release('two') == 409
        assert await release('holder') == 200
        await gateway.until('a', active=1, waiting=1)
        fleet.open('door')
        assert statuses(await asyncio.gather(holder, waits)) == [200, 200]
        await gateway.until('a', active=0)


@both
@run
async def test_draining_does_not_wait_for_idle_flows_and_lets_those_behind_them_in(threads):
    async with agents(threads=threads, grace='20s') as (gateway, fleet):
        for agent in 'abc':
            assert (await fleet.ask(agent, 'one'))[0] == 200
        busy = await hold(gateway, fleet, agent='d', flow='one')
        behind = [fleet.task('a', 'two'), fleet.task('d', 'two')]
        await gateway.until('a', active=1, waiting=1)
        await gateway.until('d', active=1, waiting=1)
        gateway.terminate()
        assert (await behind[0])[0] == 200
        assert not behind[1].done()
        fleet.open('door')
        assert statuses(await asyncio.gather(busy, behind[1])) == [200, 200]
        assert await asyncio.wait_for(gateway.process.wait(), 5) == 0


@run
async def test_idle_flows_alone_do_not_delay_the_end():
    async with agents(grace='20s', limit=100) as (gateway, fleet):
        replies = await asyncio.gather(*(fleet.ask('a', f'flow-{i}') for i in range(100)))
        assert set(statuses(replies)) == {200}
        await gateway.until('a', active=100)
        gateway.terminate()
        assert await asyncio.wait_for(gateway.process.wait(), 5) == 0


@both
@run
async def test_riders_that_still_wait_when_the_grace_is_over_are_told_so(threads):
    async with agents(threads=threads, grace='300ms') as (gateway, fleet):
        holder = await hold(gateway, fleet)
        riders = [await wait_as(gateway) for _ in range(3)]
        await until_riders(gateway)
        gateway.terminate()
        for rider in riders:
            read_ticket(await rider.message(), 'draining', 503, gate='functions', key='a',
                        flow='two')
            rider.close()
        with contextlib.suppress(aiohttp.ClientError):
            await holder
        assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0


@both
@run
async def test_a_reload_keeps_flows_that_hold_and_flows_that_wait(threads):
    route = 'flow_idle: 10m\n    depth: 5'
    async with agents(threads=threads, route=route) as (gateway, fleet):
        assert (await fleet.ask('b', 'idle'))[0] == 200
        holder = await hold(gateway, fleet)
        riders = [fleet.task('a?hold=riders', 'two') for _ in range(2)]
        await gateway.until('a', active=1, waiting=1)
        await gateway.reload(('depth: 5', 'depth: 4'), ('flow_idle: 10m', 'flow_idle: 100ms'))
        riders.append(fleet.task('a?hold=riders', 'two'))
        await until_riders(gateway)
        await gateway.until('a', active=1, waiting=1)
        await gateway.until('b', active=1)  # as its last request had it
        fleet.open('door')
        assert (await holder)[0] == 200  # and the new idle time is only for requests from now on
        assert (await fleet.ask('a', 'holder', **END))[0] == 200
        riders.append(fleet.task('a?hold=riders', 'two'))
        await until(lambda: fleet.count('a') == 4, 'all are inside')
        assert (await fleet.ask('a', 'two'))[0] == 508
        fleet.open('riders')
        assert statuses(await asyncio.gather(*riders)) == [200] * 4
        await gateway.until('a', active=0)  # the last that came had the short one
        assert (await fleet.ask('b', 'idle'))[0] == 200
        await gateway.until('b', active=0)


@run
async def test_a_route_may_turn_from_flows_to_requests_and_back_while_a_flow_holds_its_permit():
    async with agents(limit=2, route='flow_idle: 300ms') as (gateway, fleet):
        assert (await fleet.ask('a', 'one'))[0] == 200
        await gateway.reload(('permit: flow', 'permit: request'))
        assert (await fleet.ask('a', 'one', **END))[0] == 200  # on a permit of its own
        await gateway.until('a', active=0)  # the flow has been idle
        await gateway.reload(('permit: request', 'permit: flow'))
        assert (await fleet.ask('a', 'one'))[0] == 200
        await gateway.until('a', active=1)


@run
async def test_a_gate_that_is_taken_out_drains_its_flows():
    async with agents(route='flow_idle: 100ms') as (gateway, fleet):
        holder = await hold(gateway, fleet)
        rider = fleet.task('a', 'two')
        await gateway.until('a', active=1, waiting=1)
        await gateway.reload(('gates: { functions:', 'gates: { others:'),
                             ('gate: functions', 'gate: others'))
        assert (await fleet.ask('a', 'two', **END))[0] == 200  # another gate, another flow
        fleet.open('door')
        assert statuses(await asyncio.gather(holder, rider)) == [200, 200]

        async def gone():
            _, said = await gateway.ask_api('/gates')
            return [gate['gate'] for gate in said['gates']] == ['others']
        await until(gone, 'the gate has drained')
