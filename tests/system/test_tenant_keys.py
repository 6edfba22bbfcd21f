"""Where routes put the tenant into the key, a token of one tenant sees and uses the keys of that tenant alone."""
import asyncio
import json

import pytest
from test_functions import run
from test_metrics import check_with_promtool
from weir import PATIENCE, Upstream, weir

CONFIG = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
upstreams: {{ u: {{ url: "http://127.0.0.1:{port}" }} }}
gates:
  own: {{ limit: 3 }}
  parts: {{ limit: 3 }}
  functions: {{ limit: 3 }}
routes:
  - {{ match: /own/, key: "{{tenant}}", tenant: header:X-Tenant, gate: own, upstream: u }}
  - {{ match: "/parts/{{function}}", key: "{{tenant}}/{{function}}", tenant: header:X-Tenant, gate: parts, upstream: u }}
  - {{ match: "/functions/{{function}}", key: "{{function}}", tenant: header:X-Tenant, gate: functions, upstream: u }}
api_tokens:
  any: {{ token: "${{WEIR_TEST_ANY}}", scopes: [read, work] }}
  acme: {{ token: "${{WEIR_TEST_ACME}}", scopes: [read, work], tenant: acme }}
'''
PATHS = ('/own/x', '/parts/f', '/functions/f')


@pytest.fixture(autouse=True)
def tokens(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_ANY', 'a-secret-of-anybody')
    monkeypatch.setenv('WEIR_TEST_ACME', 'a-secret-of-acme')


class Caller:
    def __init__(self, gateway, token):
        self.gateway = gateway
        self.headers = {'Authorization': f'Bearer {token}'}

    async def __call__(self, method, path, **wish):
        async with self.gateway._session.request(method, self.gateway.api + path, headers=self.headers,
                                                 data=json.dumps(wish) if wish else None) as reply:
            return reply.status, await reply.text()

    async def get(self, path):
        status, text = await self('GET', path)
        assert status == 200, text
        return json.loads(text)

    async def keys(self, gate):
        return {key['key'] for key in (await self.get(f'/gates/{gate}'))['keys']}


def shared(test):
    """Runs a test with a gateway that two tenants have used, and callers of any tenant and of acme."""
    def wrapper():
        async def body():
            upstream = Upstream()
            async with upstream.serve() as port, weir(CONFIG.format(port=port)) as gateway:
                for tenant in ('acme', 'rival-corp'):
                    for path in PATHS:
                        async with gateway._session.get(gateway.url + path, headers={'X-Tenant': tenant}) as reply:
                            assert reply.status == 200
                await test(gateway, Caller(gateway, 'a-secret-of-anybody'), Caller(gateway, 'a-secret-of-acme'))
        run(body())
    wrapper.__name__ = test.__name__
    return wrapper


@shared
async def test_lists_and_sums_tell_of_own_keys(_, anybody, acme):
    assert await anybody.keys('own') == {'acme', 'rival-corp'}
    assert await anybody.keys('parts') == {'acme/f', 'rival-corp/f'}
    assert await acme.keys('own') == {'acme'}
    assert await acme.keys('parts') == {'acme/f'}
    assert await acme.keys('functions') == await anybody.keys('functions') == {'f'}
    sums = {gate['gate']: gate['keys'] for gate in (await acme.get('/gates'))['gates']}
    assert sums == {'own': 1, 'parts': 1, 'functions': 1}
    sums = {gate['gate']: gate['keys'] for gate in (await anybody.get('/gates'))['gates']}
    assert sums == {'own': 2, 'parts': 2, 'functions': 1}


@shared
async def test_a_key_of_another_tenant_is_answered_like_one_that_nobody_uses(_, anybody, acme):
    for ending in ('', '/line'):
        for key in ('own/rival-corp', 'parts/rival-corp%2Ff'):
            assert (await anybody('GET', f'/gates/{key}{ending}'))[0] == 200
            status, hidden = await acme('GET', f'/gates/{key}{ending}')
            assert status == 404
            unused = await acme('GET', f'/gates/{key.replace("rival-corp", "unused")}{ending}')
            assert unused == (404, hidden.replace('rival-corp', 'unused'))
        for key in ('own/acme', 'parts/acme%2Ff', 'functions/f'):
            assert (await acme('GET', f'/gates/{key}{ending}'))[0] == 200


@shared
async def test_permits_at_keys_of_other_tenants_are_forbidden(_, anybody, acme):
    for key in ('own/rival-corp', 'own/new-corp', 'parts/rival-corp%2Ff'):
        status, problem = await acme('POST', f'/gates/{key}/acquire', flow='x')
        assert (status, json.loads(problem)['type']) == (403, 'urn:weir:forbidden')
        assert "own tenant" in json.loads(problem)['detail']
    assert (await anybody.get('/gates/own/rival-corp'))['active'] == 0
    assert 'new-corp' not in await anybody.keys('own')
    for key in ('own/acme', 'parts/acme%2Fother', 'functions/f'):
        status, permit = await acme('POST', f'/gates/{key}/acquire', flow='x')
        assert status == 200, permit
        assert (await acme('POST', f'/gates/{key}/release', flow='x'))[0] == 200
    # Permits of others are not held for the token, wherever they are.
    assert (await anybody('POST', '/gates/own/rival-corp/acquire', flow='y'))[0] == 200
    for call in ('release', 'renew'):
        assert (await acme('POST', f'/gates/own/rival-corp/{call}', flow='y'))[0] == 409
    assert (await anybody('POST', '/gates/own/rival-corp/release', flow='y'))[0] == 200


@shared
async def test_metrics_name_no_key_of_another_tenant(_, anybody, acme):
    _, everything = await anybody('GET', '/metrics')
    status, own = await acme('GET', '/metrics')
    assert status == 200
    check_with_promtool(own.encode())
    assert everything.count('rival-corp') > 20
    assert 'rival-corp' not in own
    for line in ('weir_gate_entered_total{gate="own",key="acme"} 1', 'weir_gate_limit{gate="own",key="acme"} 3',
                 'weir_gate_entered_total{gate="parts",key="acme/f"} 1',
                 'weir_gate_entered_total{gate="functions",key="f"} 2'):
        assert line in own.splitlines() and line in everything.splitlines()


@shared
async def test_events_tell_of_the_lanes_of_own_keys(gateway, anybody, acme):
    async def read(caller, count):
        lines = []
        async with gateway._session.get(gateway.api + '/events?type=gate.limit', headers=caller.headers) as reply:
            assert reply.status == 200
            yield
            while len(lines) < count:
                lines.append(json.loads(await asyncio.wait_for(reply.content.readline(), PATIENCE)))
        assert {(each['gate'], each['key']) for each in lines} == expected[caller]
    shared_key = ('functions', 'f')
    acme_keys = {shared_key, ('own', 'acme'), ('parts', 'acme/f')}
    expected = {acme: acme_keys, anybody: acme_keys | {('own', 'rival-corp'), ('parts', 'rival-corp/f')}}
    readers = [read(caller, len(expected[caller])) for caller in (anybody, acme)]
    for reader in readers:
        await anext(reader)
    await gateway.reload(('limit: 3', 'limit: 4'))
    for reader in readers:
        with pytest.raises(StopAsyncIteration):
            await anext(reader)
