"""Who holds permits at a key: requests, flows and callers of the API in one list, and how an administrator
ends one."""
import asyncio
import contextlib
import json
import os
import random

import aiohttp
from raw import connect, request, run
from test_events import reader
from test_flows import agents as fleet_of
from weir import PATIENCE, until, weir

CONFIG = '''
api: 127.0.0.1:0
threads: 2
gates:
  agents: { limit: 5, line: { timeout: 30s } }
  one: { limit: 1, line: { timeout: 30s } }
'''


class Api:
    def __init__(self, gateway, session):
        self.gateway = gateway
        self.session = session

    async def call(self, path, method='POST', token=None, **wish):
        headers = {'Authorization': f'Bearer {token}'} if token else {}
        async with self.session.request(method, f'{self.gateway.api}/gates/{path}', headers=headers,
                                        json=wish if method == 'POST' else None) as reply:
            return reply.status, await reply.json(content_type=None)

    async def acquire(self, place, **wish):
        status, said = await self.call(f'{place}/acquire', **wish)
        assert status == 200, said
        return said

    async def holders(self, place, query='', **more):
        status, said = await self.call(f'{place}/holders{query}', 'GET', **more)
        assert status == 200, said
        return said

    async def end(self, place, handle, **more):
        status, said = await self.call(f'{place}/holders/{handle}/end', **more)
        return status, said.get('state', said.get('type'))


@contextlib.asynccontextmanager
async def api_of(config=CONFIG):
    async with weir(config) as gateway, aiohttp.ClientSession() as session:
        yield Api(gateway, session)


@run
async def test_a_holder_is_listed_with_all_that_helps_to_find_it_but_its_permit():
    async with api_of() as api:
        said = await api.acquire('agents/a', flow='f', tenant='acme', priority='high', cost=7, lease_ms=60_000)
        await api.acquire('agents/a')
        listed = await api.holders('agents/a')
        assert said['permit'] not in json.dumps(listed)
        assert (listed['gate'], listed['key'], listed['active'], listed['limit'], listed['next']) == \
            ('agents', 'a', 2, 5, None)
        first, second = listed['holders']
        assert {name: first[name] for name in ('kind', 'name', 'flow', 'tenant', 'from', 'priority', 'cost')} == \
            {'kind': 'permit', 'name': '', 'flow': 'f', 'tenant': 'acme', 'from': '127.0.0.1', 'priority': 'high',
             'cost': 7}
        assert 0 <= first['held_ms'] < 30_000 and 30_000 < first['lease_left_ms'] <= 60_000
        assert second['lease_left_ms'] > 500_000 and first['handle'] != second['handle']


@run
async def test_a_connection_has_no_lease_and_who_waits_holds_nothing():
    async with api_of() as api, connect(api.gateway.api_port) as wire:
        body = '{"hold": true, "flow": "f"}'
        await wire.send(request('/gates/one/a/acquire', f'Content-Length: {len(body)}', method='POST'), body)
        assert (await wire.head()).status == 200
        waiter = asyncio.create_task(api.call('one/a/acquire', flow='g'))
        await api.gateway.until('a', 'one', waiting=1)
        [holder] = (await api.holders('one/a'))['holders']
        assert (holder['flow'], holder['lease_left_ms']) == ('f', None)
        assert await api.end('one/a', holder['handle']) == (200, 'ended')
        await asyncio.wait_for(wire.reader.read(), PATIENCE)  # until the end of the connection
        assert (await waiter)[0] == 200
        assert await api.end('one/a', holder['handle']) == (409, 'urn:weir:not-held')


@run
async def test_a_page_ends_where_the_next_one_begins():
    async with api_of(CONFIG.replace('limit: 5', 'limit: none')) as api:
        flows = [f'flow-{number}' for number in range(25)]
        for flow in flows:
            await api.acquire('agents/a', flow=flow)
        seen, query = [], '?limit=10'
        while query is not None:
            page = await api.holders('agents/a', query)
            assert len(page['holders']) <= 10
            seen += [holder['flow'] for holder in page['holders']]
            query = None if page['next'] is None else f'?limit=10&after={page["next"]}'
        assert seen == flows
        assert len((await api.holders('agents/a', '?limit=25'))['holders']) == 25
        for query in ('?limit=0', '?limit=1001', '?limit=x', '?after=x', '?after=1', '?after=1-zz', '?what=1',
                      '?limit=1&limit=2'):
            assert (await api.call(f'agents/a/holders{query}', 'GET'))[0] == 400
        assert (await api.call('agents/nobody/holders', 'GET'))[0] == 404
        for handle, status in (('x', 400), ('1', 400), ('1-0', 400), ('1-00000000', 409), ('0-00000000', 409),
                               ('ffffffffffffffff-00000000', 409), ('10000000000000000-00000000', 400)):
            assert (await api.end('agents/a', handle))[0] == status
        assert (await api.call('agents/a/others/1-00000000/end'))[0] == 404


@run
async def test_a_permit_that_is_ended_is_told_as_a_lease_that_is_over_and_others_stay():
    async with api_of() as api, reader(api.gateway) as follower:
        first = await api.acquire('agents/a', flow='f', tenant='acme')
        nested = await api.acquire('agents/a', flow='f', tenant='acme')
        other = await api.acquire('agents/a', flow='g')
        listed = (await api.holders('agents/a'))['holders']
        assert [holder['flow'] for holder in listed] == ['f', 'g']  # what nests holds one place
        assert await api.end('agents/a', listed[0]['handle']) == (200, 'ended')
        event = await follower.until('lease.expired')
        assert (event['flow'], event['tenant']) == ('f', 'acme')
        for permit in (first, nested):
            for what in ('renew', 'release'):
                assert (await api.call(f'agents/a/{what}', permit=permit['permit']))[0] == 409
        assert (await api.call('agents/a/release', permit=other['permit']))[0] == 200


@run
async def test_requests_and_flows_of_routes_are_listed_and_ended_too():
    async with fleet_of(limit=3, threads=2) as (gateway, fleet):
        api = Api(gateway, fleet.session)
        plain = fleet.task('a?hold=door')
        busy = fleet.task('a?hold=door', 'busy')
        assert (await fleet.ask('a', 'idle'))[0] == 200
        await until(lambda: fleet.count('a') == 2, 'both are inside')
        holders = {holder['flow']: holder for holder in (await api.holders('functions/a'))['holders']}
        assert {flow: holder['kind'] for flow, holder in holders.items()} == \
            {'': 'request', 'busy': 'flow', 'idle': 'flow'}
        assert (holders['']['from'], holders['busy']['from']) == ('127.0.0.1', '')
        assert await api.end('functions/a', holders['idle']['handle']) == (200, 'ended')
        assert await api.end('functions/a', holders['busy']['handle']) == (200, 'ending')
        assert (await gateway.counts('a', 'functions'))['active'] == 2
        assert await api.end('functions/a', holders['']['handle']) == (200, 'ended')
        status, said = await plain
        assert (status, said['type']) == (503, 'urn:weir:permit-ended')
        fleet.open('door')
        assert (await busy)[0] == 200
        await gateway.until('a', active=0)


@run
async def test_a_tenants_token_sees_its_own_holders_and_only_an_administrator_ends_one():
    secrets = {'WEIR_ALL': 'a-secret-of-all-of-them', 'WEIR_ACME': 'a-secret-of-acme', 'WEIR_BOSS': 'a-secret-of-the-boss',
               'WEIR_OWN': 'a-secret-of-acmes-boss'}
    os.environ.update(secrets)
    try:
        async with api_of(CONFIG + '''
api_tokens:
  all: { token: "${WEIR_ALL}", scopes: [read, work] }
  acme: { token: "${WEIR_ACME}", scopes: [read, work], tenant: acme }
  boss: { token: "${WEIR_BOSS}", scopes: [admin] }
  own: { token: "${WEIR_OWN}", scopes: [admin], tenant: acme }
''') as api:
            every, acme, boss, own = secrets.values()
            await api.acquire('agents/a', token=every, tenant='acme', flow='f')
            await api.acquire('agents/a', token=every, tenant='other', flow='g')
            listed = (await api.holders('agents/a', token=every))['holders']
            assert [holder['tenant'] for holder in listed] == ['acme', 'other']
            page = await api.holders('agents/a', '?limit=1', token=acme)
            assert ([holder['flow'] for holder in page['holders']], page['next']) == (['f'], None)
            assert (await api.call('agents/a/holders', 'GET', token=boss))[0] == 403
            ours, theirs = (holder['handle'] for holder in listed)
            for token in (every, acme):
                assert (await api.end('agents/a', ours, token=token))[0] == 403
            assert (await api.end('agents/a', theirs, token=own))[0] == 409
            assert (await api.end('agents/a', ours, token=own))[0] == 200
            assert (await api.end('agents/a', theirs, token=boss))[0] == 200
            assert (await api.holders('agents/a', token=every))['holders'] == []
    finally:
        for name in secrets:
            del os.environ[name]


@run
async def test_holders_that_come_and_go_while_they_are_listed_and_ended_leave_nothing_behind():
    async with api_of(CONFIG.replace('limit: 5', 'limit: none')) as api:
        chance = random.Random(3)

        async def hold(number):
            wish = {'lease_ms': 1 + chance.randrange(60_000)} if number % 3 == 0 else {}
            said = await api.acquire('agents/a', flow=f'flow-{number // 4}', **wish)
            await asyncio.sleep(chance.random() / 50)
            await api.call('agents/a/release', permit=said['permit'])

        async def end():
            for _ in range(30):
                for holder in (await api.holders('agents/a'))['holders']:
                    if holder['flow'] != 'stays' and chance.random() < 0.3:
                        await api.end('agents/a', holder['handle'])
        await api.acquire('agents/a', flow='stays')
        await asyncio.gather(end(), *(hold(number) for number in range(300)), return_exceptions=False)
        await api.gateway.until('a', 'agents', active=1, waiting=0)
