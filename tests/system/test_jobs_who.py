"""Who may submit jobs, look at them and deal with dead letters: tokens, tenants and API keys; see docs/guides/jobs.md."""
import asyncio
import json
import os

import pytest
from jobs import QUEUES, jobs, post
from raw import connect, run
from weir import until, until_still

# ---- who may do what

TOKENS = '''
api_tokens:
  reader: { token: "${WEIR_TEST_READER}", scopes: [read] }
  submitter: { token: "${WEIR_TEST_SUBMITTER}", scopes: [submit] }
  admin: { token: "${WEIR_TEST_ADMIN}", scopes: [read, submit, admin] }
  acme: { token: "${WEIR_TEST_ACME}", scopes: [read, submit, admin], tenant: acme }
  acme-submit: { token: "${WEIR_TEST_ACME_SUBMIT}", scopes: [submit], tenant: acme }
'''


@pytest.fixture
def tokens(monkeypatch):
    names = ('READER', 'SUBMITTER', 'ADMIN', 'ACME', 'ACME_SUBMIT')
    secrets = {name.lower(): f'a-long-secret-of-{name}' for name in names}
    for name, secret in secrets.items():
        monkeypatch.setenv('WEIR_TEST_' + name.upper(), secret)
    return secrets


async def make_key(call, tenant):
    process = await asyncio.create_subprocess_exec(
        os.environ['WEIR_PROGRAM'], 'keys', 'add', '--tenant', tenant, '--data', str(call.folder / 'data'),
        stdout=asyncio.subprocess.PIPE)
    key = (await process.communicate())[0].decode().strip()

    async def known():
        return (await call.with_token(key)('GET', '/capacity')).status == 200
    await until(known, 'the key is taken up')
    return key


async def expect_confined(own, other, admin):
    """`own` speaks for acme alone: what is told of `mine` is not told of `theirs`."""
    await own.submit('/mine?queue=broken', b'x')
    assert (await own.get('/status/mine?wait=60'))['tenant'] == 'acme'
    await own.submit('/named?queue=keep&tenant=acme', b'x')
    reply = await own('POST', '/submit/x?queue=keep&tenant=other', b'x')
    assert (reply.status, reply.kind) == (403, 'forbidden')
    assert (await own.lines({'tenant': 'acme', 'queue': 'keep'}, {'tenant': 'other'}, status=403))['type'] == 'urn:weir:forbidden'
    await other.submit('/theirs?queue=keep', b'x', status=202)
    for method, path in (('GET', '/status'), ('GET', '/result'), ('GET', '/log'), ('POST', '/cancel'), ('GET', '/status?wait=300')):
        path, _, query = path.partition('?')
        reply = await own(method, f'{path}/theirs?{query}')
        assert (reply.status, reply.kind) == (404, 'not-found'), path
    assert await other.state('theirs') == 'queued'
    await own.submit('/theirs?queue=keep', b'x', status=409)  # not even with the same body
    await own.lines({'id': 'theirs', 'queue': 'keep', 'body': 'x'}, status=409)
    assert {job['tenant'] for job in (await own.get('/jobs'))['jobs']} == {'acme'}
    assert [job['id'] for job in (await own.get('/dlq'))['jobs']] == ['mine']
    assert {job['tenant'] for job in (await own.get('/jobs?tenant=acme'))['jobs']} == {'acme'}
    for path in ('/jobs?tenant=other', '/dlq?tenant=other', '/jobs?tenant='):
        assert (await own('GET', path)).kind == 'forbidden', path
    await own('POST', '/cancel/named')
    assert (await own.get('/status/named'))['state'] == 'cancelled'
    await admin('DELETE', '/dlq/mine')
    assert (await own('GET', '/result/mine')).kind == 'job-gone'
    assert (await other('GET', '/status/mine')).status == 404


def test_a_token_with_a_tenant_sees_only_its_own_jobs(tokens):
    @run
    async def test():
        async with jobs(QUEUES + TOKENS) as call:
            admin = call.with_token(tokens['admin'])
            other = call.with_token(await make_key(call, 'other'))
            await expect_confined(call.with_token(tokens['acme']), other, admin)
            await admin.submit('/dead?queue=broken&tenant=other', b'x')
            await admin.get('/status/dead?wait=60')
            acme = call.with_token(tokens['acme'])
            for method, path in (('POST', '/dlq/dead/redrive'), ('DELETE', '/dlq/dead')):
                assert (await acme(method, path)).kind == 'not-found'
            assert (await acme('POST', '/dlq/redrive')).json == {'redriven': 0}
            assert (await acme('POST', '/dlq/redrive?tenant=other')).kind == 'forbidden'
            assert await admin.state('dead') == 'failed'
    test()


@pytest.mark.parametrize('with_tokens', [True, False])
def test_an_api_key_submits_as_its_tenant_and_sees_only_its_own_jobs(tokens, with_tokens):
    @run
    async def test():
        async with jobs(QUEUES + (TOKENS if with_tokens else '')) as call:
            admin = call.with_token(tokens['admin'] if with_tokens else None)
            acme, other = [call.with_token(await make_key(call, tenant)) for tenant in ('acme', 'other')]
            await expect_confined(acme, other, admin)
            for method, path in (('POST', '/dlq/mine/redrive'), ('DELETE', '/dlq/mine'), ('POST', '/dlq/redrive'), ('GET', '/gates')):
                assert (await acme(method, path)).kind == 'forbidden', path
            wrong = call.with_token('weir_' + '0' * 12 + '_' + '0' * 64)
            for method, path in (('POST', '/submit/x'), ('GET', '/status/mine'), ('GET', '/jobs')):
                assert (await wrong(method, path)).status == 401, path
    test()


@run
async def test_a_job_stays_its_tenants_when_the_client_goes_away_and_others_call():
    async def chat(caller, wanted):
        while wanted:
            await asyncio.gather(*(caller('GET', '/status/none') for _ in range(8)))

    async with jobs(QUEUES.replace('max: 20000', 'max: 100000')) as call:
        acme, wanted = await make_key(call, 'acme'), [True]
        other = call.with_token(await make_key(call, 'other'))
        chats = [asyncio.create_task(chat(other, wanted)) for _ in range(4)]
        for turn in range(12):  # while it is being recorded, if it is timed well
            lines = [json.dumps({'id': f'{turn}-{i}', 'tenant': 'acme', 'queue': 'keep'}) for i in range(2000)]
            async with connect(call.gateway.api_port) as wire:
                await wire.send(post('/submit', '\n'.join(lines).encode(), f'Authorization: Bearer {acme}',
                                     'Content-Type: application/x-ndjson'))
                await asyncio.sleep(0.006 * turn)
                wire.reset()
        wanted.clear()
        await asyncio.gather(*chats)
        await until_still(call.gateway.process.pid)
        seen, after = set(), 0
        while after is not None:
            page = await call.get(f'/jobs?limit=1000&after={after}')
            seen |= {job.get('tenant') for job in page['jobs']}
            after = page.get('next')
        assert seen == {'acme'}


def test_scopes_are_asked_for(tokens):
    calls = {('POST', '/submit/x?queue=keep'): {'submitter', 'admin', 'acme', 'acme_submit'},
             ('GET', '/status/a'): {'reader', 'submitter', 'admin'},
             ('GET', '/result/a'): {'reader', 'submitter', 'admin'},
             ('GET', '/log/a'): {'reader', 'submitter', 'admin'},
             ('POST', '/cancel/a'): {'submitter', 'admin'},
             ('GET', '/jobs'): {'reader', 'admin', 'acme', 'acme_submit'},
             ('GET', '/dlq'): {'reader', 'admin', 'acme', 'acme_submit'},
             ('GET', '/capacity'): {'reader', 'submitter', 'admin', 'acme', 'acme_submit'},
             ('POST', '/dlq/a/redrive'): {'admin'}, ('POST', '/dlq/redrive'): {'admin', 'acme'}, ('DELETE', '/dlq/a'): {'admin'}}

    @run
    async def test():
        async with jobs(QUEUES + TOKENS) as call:
            await call.with_token(tokens['admin']).submit('/a?queue=keep', b'x')
            for (method, path), allowed in calls.items():
                assert (await call(method, path)).status == 401, path
                for name, token in tokens.items():
                    body = name.encode() if 'submit' in path else None
                    reply = await call.with_token(token)(method, path.replace('/x', '/x' + name.replace('_', '')), body)
                    assert (reply.status not in (403, 404)) == (name in allowed), (method, path, name, reply)
    test()


@run
async def test_a_stranger_may_not_speak_for_a_tenant():
    async with jobs(QUEUES + 'trusted: []\n') as call:
        assert (await call('POST', '/submit/x?queue=keep&tenant=acme', b'x')).kind == 'forbidden'
        await call.submit('/x?queue=keep', b'x')


@run
async def test_a_jobs_priority_is_at_most_its_tenants():
    async with jobs(QUEUES + 'tenants: { default: { priority: normal }, little: { priority: low } }\n') as call:
        await call.submit('/a?queue=keep&priority=high', b'x')
        await call.submit('/b?queue=keep&priority=high&tenant=little', b'x')
        await call.lines({'id': 'c', 'queue': 'keep', 'priority': 'high'},
                         {'id': 'd', 'queue': 'keep', 'priority': 'high', 'tenant': 'little'})
        found = [(await call.get(f'/status/{name}'))['priority'] for name in 'abcd']
        assert found == ['normal', 'low', 'normal', 'low']
