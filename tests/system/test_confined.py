"""What a token of one tenant is told of a gateway that many share: of its own flows and jobs, and of nobody else's."""
import asyncio
import json

import pytest
from jobs import jobs
from raw import ask, reply, request, run, upstream
from test_llm import JSON, chat, completion, llm, post
from test_metrics import Metrics, check_with_promtool
from weir import PATIENCE, until, until_still

CONFIG = '''
api: 127.0.0.1:0
threads: 2
data: ./data
gates:
  agents: { limit: 1, line: { timeout: 30s }, events: a2a }
queues:
  keep: {}
  broken: { run: ["sh", "-c", "exit 3"], attempts: 1, keep: 1h }
'''
TOKENS = '''
api_tokens:
  any: { token: "${WEIR_TEST_ANY}", scopes: [read, submit, work, admin] }
  acme: { token: "${WEIR_TEST_ACME}", scopes: [read, submit, work], tenant: acme }
'''


@pytest.fixture(autouse=True)
def tokens(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_ANY', 'a-secret-of-anybody')
    monkeypatch.setenv('WEIR_TEST_ACME', 'a-secret-of-acme')


def confined(test):
    """Runs a test with two callers: one that may speak for anybody, and one of acme."""
    @run
    async def wrapper():
        async with jobs(CONFIG + TOKENS) as call:
            await test(call.with_token('a-secret-of-anybody'), call.with_token('a-secret-of-acme'))
    wrapper.__name__ = test.__name__
    return wrapper


async def acquire(call, **wish):
    wish = {name: value for name, value in wish.items() if value is not None}
    return await call('POST', '/gates/agents/b/acquire', json.dumps(wish))


async def wait_in_line(call, waiting, **wish):
    """Somebody more in line, who is there when this returns."""
    task = asyncio.create_task(acquire(call, **wish))

    async def waits():
        return (await call.get('/gates/agents/b'))['waiting'] == waiting
    await until(waits, 'it waits')
    return task


async def release(call, flow):
    async def released():
        return (await call('POST', '/gates/agents/b/release', json.dumps({'flow': flow}))).status == 200
    await until(released, f'{flow} is released')


@confined
async def test_the_line_shows_a_tenant_its_own_places_and_how_many_there_are(anybody, acme):
    flows = ('other-1', 'acme-1', 'other-2', 'nobody-1', 'acme-2')
    await acquire(anybody, flow='first', tenant='other')
    waits = [await wait_in_line(anybody, number, flow=flow, tenant=None if flow == 'nobody-1' else flow[:-2])
             for number, flow in enumerate(flows, 1)]
    everything = await anybody.get('/gates/agents/b/line')
    own = await acme.get('/gates/agents/b/line')
    assert sorted(each['flow'] for each in everything['line']) == sorted(flows)
    assert [each['position'] for each in everything['line']] == [1, 2, 3, 4, 5]
    assert (own['active'], own['waiting'], own['limit']) == (1, 5, 1)
    for line in (everything['line'], own['line']):
        for each in line:
            del each['waited_ms'], each['timeout_in_ms'], each['start_in_ms']
    assert own['line'] == [each for each in everything['line'] if each['tenant'] == 'acme']
    assert len(own['line']) == 2 and own['line'][1]['position'] > 2
    for flow in ('first', *(each['flow'] for each in everything['line'])):
        await release(anybody, flow)
    await asyncio.gather(*waits)


async def read_events(call, last):
    """All events up to the one of that flow or id, and the moment of each left out."""
    events = []
    headers = {'Authorization': f'Bearer {call.token}'}
    async with call.session.get(call.gateway.api + '/events', headers=headers) as reply:
        assert reply.status == 200
        yield events
        while not events or last not in events[-1].values():
            events.append(json.loads(await asyncio.wait_for(reply.content.readline(), PATIENCE)))


@confined
async def test_events_tell_a_tenant_of_its_own_flows_and_jobs_and_of_lanes(anybody, acme):
    readers = [read_events(call, 'the-last') for call in (anybody, acme)]
    everything, own = [await anext(each) for each in readers]
    waits = []
    await acquire(anybody, flow='first', tenant='other')
    for number, (flow, tenant) in enumerate((('o-1', 'other'), ('a-1', 'acme'), ('n-1', None)), 1):
        waits.append(await wait_in_line(anybody, number, flow=flow, tenant=tenant))
    assert (await acquire(anybody, flow='o-2', tenant='other', timeout_ms=1)).status == 429
    assert (await acquire(acme, flow='a-2', timeout_ms=1)).status == 429
    await anybody.gateway.reload(('limit: 1', 'limit: 4'))  # lanes are everybody's, and so is what becomes of them
    await asyncio.gather(*waits)
    for job, tenant in (('job-o', 'other'), ('job-a', 'acme'), ('the-last', 'acme')):
        await anybody.submit(f'/{job}?queue=broken&tenant={tenant}', b'x')
        await anybody.get(f'/status/{job}?wait=60')
    for each in readers:
        with pytest.raises(StopAsyncIteration):
            await anext(each)
    a2a = [each['flowId'] for each in own if 'flowId' in each]
    assert a2a == ['a-1', 'a-2', 'a-2']
    assert [each for each in own if 'flowId' in each] == [each for each in everything if each.get('flowId') in a2a]
    told = [each for each in everything if 'flowId' not in each]
    assert {each.get('tenant') for each in told} == {'other', 'acme', '', None}
    assert {each['type'] for each in told if 'tenant' not in each} == {'gate.limit'}
    assert [each for each in own if 'flowId' not in each] == [each for each in told
                                                             if each.get('tenant', 'acme') == 'acme']


@confined
async def test_whom_a_caller_speaks_for_outlives_the_config_that_says_so(anybody, acme):
    await anybody.gateway.reload(('limit: 1', 'limit: 2'))  # what it has started with stays
    await acme.submit('/mine?queue=keep', b'x')
    status = asyncio.create_task(acme('GET', '/status/mine?wait=60'))
    reader = read_events(acme, 'a-1')
    events = await anext(reader)
    await until_still(acme.gateway.process.pid)
    await anybody.gateway.reload(('limit: 2', 'limit: 3'))
    assert (await anybody('POST', '/cancel/mine')).status == 200
    assert (await status).json['state'] == 'cancelled'
    for flow in '123':
        assert (await acquire(anybody, flow=flow, tenant='other')).status == 200
    for flow, tenant in (('o-1', 'other'), ('a-1', 'acme')):
        assert (await acquire(anybody, flow=flow, tenant=tenant, timeout_ms=1)).status == 429
    with pytest.raises(StopAsyncIteration):
        await anext(reader)
    assert {each.get('tenant') for each in events} <= {'acme', None} and 'a-1' in events[-1].values()


@run
async def test_metrics_of_models_tell_a_tenant_of_its_own_and_of_lanes():
    async def serve(wire, _):
        await wire.send(reply(completion(), JSON))
    async with upstream(serve) as server, llm(server, top=TOKENS) as gateway:
        for tenant in ('acme', 'other', 'other'):
            assert (await ask(gateway.port, post(chat(), f'X-Tenant: {tenant}'))).status == 200
        seen = {}
        for token in ('any', 'acme'):
            secret = 'a-secret-of-anybody' if token == 'any' else 'a-secret-of-acme'
            body = (await ask(gateway.api_port, request('/metrics', f'Authorization: Bearer {secret}'))).body
            check_with_promtool(body)
            seen[token] = Metrics(body)
    families = ('llm_queue_wait_seconds_count', 'weir_llm_tokens_total', 'llm_cc_cwnd', 'weir_gate_entered_total')
    for name in families:
        everything = seen['any'].all(name)
        assert everything, name
        assert seen['acme'].all(name) == {labels: number for labels, number in everything.items()
                                          if dict(labels).get('tenant', '_all') in ('acme', '_all')}, name
    assert {dict(labels)['tenant'] for labels in seen['any'].all('weir_llm_tokens_total')} == {'acme', 'other'}
