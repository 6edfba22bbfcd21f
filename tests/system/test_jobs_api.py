"""The HTTP interface of durable jobs, docs/guides/jobs.md: submitting, waiting, ends, lists and dead letters."""
import asyncio
import contextlib
import hashlib
import json
import os
import re
import sqlite3
import urllib.parse

import aiohttp
from jobs import KIB, QUEUES, chunked, post, with_jobs
from raw import ask, connect, request, run
from weir import until, until_still, weir

MOMENT = r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z'


# ---- submitting

@with_jobs
async def test_a_job_is_accepted_done_and_told_of(call):
    reply = await call('POST', '/submit/one?queue=echo', b'hello', Content_Type='text/x-greeting')
    assert (reply.status, reply.headers['Location']) == (202, '/status/one')
    accepted = reply.json
    assert re.fullmatch(MOMENT, accepted.pop('created'))
    assert accepted == {'id': 'one', 'queue': 'echo', 'priority': 'normal', 'state': 'queued', 'attempts': 0,
                        'attempts_max': 5, 'body_bytes': 5}
    done = await call.get('/status/one?wait=30')
    for name in ('created', 'started', 'ended'):
        assert re.fullmatch(MOMENT, done.pop(name))
    assert done == {'id': 'one', 'queue': 'echo', 'priority': 'normal', 'state': 'done', 'attempts': 1,
                    'attempts_max': 5, 'body_bytes': 5, 'result': {'bytes': 5}}
    result = await call('GET', '/result/one')
    assert (result.status, result.body) == (200, b'hello')
    assert result.headers['Content-Type'] == 'application/octet-stream'
    assert (result.headers['Content-Length'], result.headers['X-Content-Type-Options']) == ('5', 'nosniff')
    log = await call('GET', '/log/one')
    assert (log.status, log.body, log.headers['Content-Type']) == (200, b'', 'text/plain; charset=utf-8')


@with_jobs
async def test_the_same_again_is_the_same_job_and_another_body_is_a_conflict(call):
    await call.submit('/a?queue=keep', b'body')
    again = await call('POST', '/submit/a?queue=keep&priority=high', b'body')
    assert (again.status, again.headers['Location']) == (200, '/status/a')
    assert (again.json['state'], again.json['priority'], again.json['position']) == ('queued', 'normal', 1)
    for body in (b'', b'bodY', b'body!', b'x' * 100 * KIB):
        conflict = await call('POST', '/submit/a?queue=keep', body)
        assert (conflict.status, conflict.kind) == (409, 'job-conflict')
    await call.submit('/long?queue=keep', b'x' * 100 * KIB)
    await call.submit('/long?queue=keep', b'x' * 100 * KIB, status=200)
    await call.submit('/long?queue=keep', b'x' * 100 * KIB + b'y', status=409)
    await until(lambda: len(call.bodies()) == 1, 'the files that nobody refers to are gone')
    assert (await call.queue('keep'))['waiting'] == 2
    await call('POST', '/cancel/a')
    assert (await call.submit('/a?queue=keep', b'body', status=200))['state'] == 'cancelled'
    await call.submit('/a?queue=keep', b'other', status=409)


@with_jobs
async def test_ids_are_made_for_those_who_name_none(call):
    ids = [(await call.submit('?queue=keep'))['id'] for _ in range(50)]
    assert all(re.fullmatch('j-[0-9a-f]{32}', job) for job in ids)
    assert sorted(ids, key=lambda job: job[:14]) == ids and len(set(ids)) == 50
    reply = await call('POST', '/submit?queue=keep', b'x')
    assert reply.headers['Location'] == '/status/' + reply.json['id']


@with_jobs
async def test_an_idempotency_key_makes_the_same_job_of_the_same_key(call):
    first = await call.submit('?queue=keep', b'a', Idempotency_Key='K')
    assert re.fullmatch('k-[0-9a-f]{40}', first['id'])
    assert (await call.submit('?queue=keep', b'a', status=200, Idempotency_Key='K'))['id'] == first['id']
    await call.submit('?queue=keep', b'b', status=409, Idempotency_Key='K')
    others = [await call.submit('?queue=keep', b'a', Idempotency_Key='k'),
              await call.submit('?queue=keep&tenant=t', b'a', Idempotency_Key='K'),
              await call.submit('?queue=keep&tenant=u', b'a', Idempotency_Key='K'),
              await call.submit('?queue=keep', b'a', Idempotency_Key='"K"'),
              await call.submit('?queue=keep', b'a', Idempotency_Key='x' * 255)]
    assert len({job['id'] for job in [first, *others]}) == 6
    # An id does the same, so there is no other key beside it.
    for key in ('K', 'Named', 'named2', 'x' * 255, '"K"', '"named', '"'):
        assert '/submit' in (await call.submit('/named?queue=keep', b'a', status=400, Idempotency_Key=key))['detail']
    assert (await call('GET', '/status/named')).status == 404
    for key, status in (('named', 202), ('"named"', 200)):
        assert (await call.submit('/named?queue=keep', b'a', status=status, Idempotency_Key=key))['id'] == 'named'
    for fields in (['Idempotency-Key: '], ['Idempotency-Key: ' + 'x' * 256], ['Idempotency-Key: a', 'Idempotency-Key: a']):
        reply = await ask(call.gateway.api_port, post('/submit?queue=keep', b'a', *fields), 'POST')
        assert reply.status == 400, fields


GOOD_QUERIES = {
    'priority=high': {'priority': 'high'}, 'priority=normal': {'priority': 'normal'}, 'priority=low': {'priority': 'low'},
    'tenant=acme': {'tenant': 'acme'}, 'key=k': {'key': 'k'}, 'attempts=1': {'attempts_max': 1},
    'attempts=1000': {'attempts_max': 1000}, 'timeout=1ms': {}, 'timeout=30s': {}, 'cost=90s': {}, 'delay=0s': {},
    'run_at=2096-02-29T12:00:00Z': {'due': '2096-02-29T12:00:00.000Z'},
    'run_at=2096-02-29T12:00:00.5%2B01:00': {'due': '2096-02-29T11:00:00.500Z'},
    'run_at=3981830400123': {'due': '2096-03-06T00:00:00.123Z'},
    'tenant=%C3%A9%20%26%3D%2B': {'tenant': 'é &=+'}, 'tenant=a+b': {'tenant': 'a b'},
}


@with_jobs
async def test_everything_that_a_query_may_say_counts(call):
    for query, expected in GOOD_QUERIES.items():
        job = await call.submit(f'?queue=keep&{query}', b'x')
        told = await call.get('/status/' + job['id'])
        for document in (job, told):
            assert {name: document.get(name) for name in expected} == expected, query
    job = await call.submit('?queue=keep&delay=2h', b'x')
    told = await call.get('/status/' + job['id'])
    assert told['due'] == job['due'] > job['created'] and 'position' not in told
    assert (await call.queue('keep'))['delayed'] == 4
    assert (await call.submit('', b'x'))['queue'] == 'echo'  # the first one


BAD_QUERIES = ['priority=urgent', 'priority=', 'priority=High', 'delay=5', 'delay=-1s', 'delay=', 'delay=5s&delay=5s',
               'run_at=tomorrow', 'run_at=1767225600', 'run_at=', 'run_at=2026-02-30T00:00:00Z', 'attempts=0', 'attempts=1001',
               'attempts=x', 'attempts=', 'timeout=0s', 'timeout=5', 'cost=0s', 'cost=1', 'key=', 'tenant=', 'queue=',
               'key=' + 'x' * 256, 'tenant=' + 'x' * 256, 'nothing=1', 'id=x', 'Queue=keep', 'delay=5s&run_at=3981830400123',
               'run_at=3981830400123&delay=5s', 'priority=%zz', 'priority=%', 'tenant=a%00b', 'key=%0A',
               'queue=%7F']


@with_jobs
async def test_what_a_query_may_not_say_is_refused_and_named(call):
    for query in BAD_QUERIES:
        reply = await call('POST', '/submit?' + query, b'x')
        assert (reply.status, reply.kind) == (400, 'bad-request'), query
        assert query.split('=')[0] in reply.json['detail'] or 'query' in reply.json['detail'], (query, reply)
    assert (await call('POST', '/submit?queue=none', b'x')).kind == 'not-found'
    assert 'called none' in (await call('POST', '/submit?queue=none', b'x')).json['detail']
    assert (await call('POST', '/submit?queue=keep&key=' + 'x' * 4000, b'x')).status == 414
    for field in ('Weir-Timeout: soon', 'Content-Type: text/' + 'x' * 100):
        reply = await ask(call.gateway.api_port, post('/submit?queue=keep', b'x', field), 'POST')
        assert reply.status == 400, field
    assert (await call.get('/jobs'))['jobs'] == []


@with_jobs
async def test_ids_are_what_a_path_may_carry(call):
    for job in ('x', '0', 'x' * 128, 'A.b_c-9'):
        assert (await call.submit(f'/{job}?queue=keep'))['id'] == job
        assert (await call.get(f'/status/{job}'))['id'] == job
    for job in ('x' * 129, '-x', '.x', '_x', 'a%20b', 'a%2Fb', '%C3%A9', 'a%00', ''):
        reply = await call('POST', f'/submit/{job}?queue=keep', b'x')
        assert (reply.status, reply.kind) == (400, 'bad-request'), job
        for method, path in (('GET', 'status'), ('GET', 'result'), ('GET', 'log'), ('POST', 'cancel'), ('DELETE', 'dlq')):
            reply = await call(method, f'/{path}/{job}')
            assert (reply.status, reply.kind) == (404, 'not-found'), (path, job)
    await call.submit('/redrive?queue=keep')
    assert (await call('POST', '/dlq/redrive/redrive')).kind == 'not-dead'
    assert (await call('DELETE', '/dlq/redrive')).kind == 'not-dead'


@with_jobs
async def test_names_may_have_255_bytes(call):
    tenant, key = 'é' * 127 + 'x', '"' * 255
    query = urllib.parse.urlencode({'queue': 'keep', 'tenant': tenant, 'key': key})
    await call.submit(f'/{"i" * 128}?{query}', b'x')
    told = await call.get('/status/' + 'i' * 128)
    assert (told['tenant'], told['key']) == (tenant, key)
    [listed] = (await call.get('/jobs?tenant=' + urllib.parse.quote(tenant)))['jobs']
    assert listed['tenant'] == tenant


# ---- bodies

@with_jobs
async def test_bodies_of_every_length_and_framing_arrive_as_they_were(call):
    random = os.urandom(3 * 64 * KIB)
    for index, size in enumerate((0, 1, 2047, 2048, 16384, 65535, 65536, 65537, 2 * 65536, 3 * 65536 - 1)):
        body = random[:size]
        for name, text in (('length', post(f'/submit/l{index}', body)),
                           ('chunks', request(f'/submit/c{index}', 'Transfer-Encoding: chunked', method='POST',
                                              body=chunked(body, 1 + size // 3))),
                           ('small chunks', request(f'/submit/s{index}', 'Transfer-Encoding: chunked', method='POST',
                                                    body=chunked(body, 1 + size // 500)))):
            job = re.search(rb'/submit/(\w+)', text)[1].decode()
            reply = await ask(call.gateway.api_port, text, 'POST')
            assert reply.status == 202, (name, size, reply.body)
            told = await call.get(f'/status/{job}?wait=60')
            assert (told['state'], told['body_bytes'], told['result']['bytes']) == ('done', size, size), name
            result = await call('GET', f'/result/{job}')
            assert result.body == body, (name, size)


@with_jobs
async def test_a_body_may_come_byte_by_byte_and_several_in_one_packet(call):
    async with connect(call.gateway.api_port) as wire:
        text = post('/submit/bytes?queue=keep', b'0123456789') + request(
            '/submit/chunks?queue=keep', 'Transfer-Encoding: chunked', method='POST', body=chunked(b'0123456789', 3))
        for at in range(len(text)):
            await wire.send(text[at:at + 1])
        assert [(await wire.message('POST')).status for _ in range(2)] == [202, 202]
        await wire.send(b''.join(post(f'/submit/p{i}?queue=keep', b'x' * i) for i in range(20)))
        told = [json.loads((await wire.message('POST')).body) for _ in range(20)]
        assert [(job['id'], job['body_bytes']) for job in told] == [(f'p{i}', i) for i in range(20)]
    assert (await call.get('/status/chunks'))['body_bytes'] == 10


@with_jobs
async def test_a_body_that_is_too_long_is_refused_and_leaves_nothing(call):
    for body in (b'x' * 70001, b'x' * 1000000):
        reply = await call('POST', '/submit/a?queue=small', body)
        assert (reply.status, reply.kind) == (413, 'body-too-large'), reply
        assert '70000 bytes' in reply.json['detail']
    for size in (70001, 80000, 1000000):
        text = request('/submit/a?queue=small', 'Transfer-Encoding: chunked', method='POST', body=chunked(b'x' * size, 30000))
        reply = await ask(call.gateway.api_port, text, 'POST')
        assert (reply.status, json.loads(reply.body)['type']) == (413, 'urn:weir:body-too-large')
        assert '70000 bytes' in json.loads(reply.body)['detail']
    for framing in ('Content-Length: 65537', 'Transfer-Encoding: chunked'):  # and so it is where jobs are not concerned
        body = b'x' * 65537 if 'Length' in framing else chunked(b'x' * 65537, 30000)
        reply = await ask(call.gateway.api_port, request('/gates/g/k/acquire', framing, method='POST', body=body), 'POST')
        assert (reply.status, json.loads(reply.body)['type']) == (413, 'urn:weir:body-too-large')
        assert '65536 bytes' in json.loads(reply.body)['detail']
    assert (await call('GET', '/status/a')).status == 404
    await until(lambda: call.bodies() == [], 'what was written of it is gone')
    await call.submit('/a?queue=small', b'x' * 70000)
    await call.submit('/b?queue=small', b'x')
    assert len(call.bodies()) == 1  # and its places were given back


def resident_kib(pid):
    with open(f'/proc/{pid}/status', encoding='ascii') as file:
        return int(re.search(r'VmHWM:\s+(\d+)', file.read())[1])


@with_jobs
async def test_a_long_body_and_its_result_take_no_memory(call):
    megabytes, seed = 100, os.urandom(1 << 20)
    digest = hashlib.sha256()

    async def body():
        for index in range(megabytes):
            piece = seed[index:] + seed[:index]
            digest.update(piece)
            yield piece
    await call.submit('/warm?queue=echo', b'x' * 200 * KIB)
    await call.get('/status/warm?wait=60')
    pid = call.gateway.process.pid
    before = resident_kib(pid)
    assert (await call.submit('/long?queue=echo', body()))['body_bytes'] == megabytes << 20
    assert (await call.get('/status/long?wait=60'))['state'] == 'done'
    received = hashlib.sha256()
    async with call.session.get(call.gateway.api + '/result/long') as reply:
        assert (reply.status, reply.headers['Content-Length']) == (200, str(megabytes << 20))
        async for piece in reply.content.iter_chunked(1 << 16):
            received.update(piece)
    assert received.digest() == digest.digest()
    assert resident_kib(pid) - before < 8 * KIB
    await call.submit('/long?queue=echo', seed, status=409)


@with_jobs
async def test_head_tells_what_get_would(call):
    for name, body in (('short', b'x' * 10), ('long', b'x' * 100 * KIB)):
        await call.submit('/' + name, body)
        await call.get(f'/status/{name}?wait=60')
        for path in ('status', 'result', 'log'):
            get, head = await call('GET', f'/{path}/{name}'), await call('HEAD', f'/{path}/{name}')
            assert (head.status, head.body) == (200, b'')
            assert head.headers['Content-Length'] == get.headers['Content-Length'] == str(len(get.body)), path


@with_jobs
async def test_a_client_of_http_1_0_is_served(call):
    reply = await ask(call.gateway.api_port, request('/submit/old', 'Content-Length: 200000', method='POST', version='1.0',
                                                     body=b'x' * 200000), 'POST')
    assert reply.status == 202
    await call.get('/status/old?wait=60')
    reply = await ask(call.gateway.api_port, request('/result/old', version='1.0'))
    assert (reply.status, reply.body) == (200, b'x' * 200000)


# ---- waiting

@with_jobs
async def test_whoever_waits_is_told_when_the_job_ends(call):
    with call.gate() as (body, path):
        await call.submit('/held?queue=held', body)
        waiting = [asyncio.create_task(call('GET', '/status/held?wait=60')) for _ in range(10)]
        waiting.append(asyncio.create_task(call('GET', '/result/held?wait=60')))
        await call.until_state('held', 'running')
        await until_still(call.gateway.process.pid)
        assert not any(task.done() for task in waiting)
        path.touch()
        replies = [await task for task in waiting]
    assert [reply.json['state'] for reply in replies[:10]] == ['done'] * 10
    assert (replies[10].status, replies[10].body) == (200, b'let go\n')
    assert (await call('GET', '/status/held?wait=300')).json['state'] == 'done'  # at once


@with_jobs
async def test_waiting_ends_with_the_time_that_was_named(call):
    await call.submit('/a?queue=keep')
    assert (await call.get('/status/a?wait=1'))['state'] == 'queued'
    reply = await call('GET', '/result/a?wait=1')
    assert (reply.status, reply.kind) == (409, 'job-unfinished')
    assert (await call('GET', '/result/a')).kind == 'job-unfinished'
    for query in ('wait=301', 'wait=-1', 'wait=x', 'wait=', 'wait=1.5', 'wait=1&wait=1', 'wat=1'):
        for path in ('status', 'result'):
            reply = await call('GET', f'/{path}/a?{query}')
            assert (reply.status, reply.kind) == (400, 'bad-request'), (path, query)
    for method, path in (('GET', '/log/a?wait=1'), ('POST', '/cancel/a?x=1'), ('GET', '/capacity?x'),
                         ('POST', '/dlq/a/redrive?x=1'), ('DELETE', '/dlq/a?x=1'), ('POST', '/dlq/redrive?state=failed')):
        assert (await call(method, path)).status == 400, path


@with_jobs
async def test_a_submission_may_prefer_to_wait_for_its_result(call):
    for job in ('/named', ''):
        reply = await call('POST', f'/submit{job}?queue=echo', b'hello', Prefer='respond-async, wait=60')
        assert (reply.status, reply.body, reply.headers['Preference-Applied']) == (200, b'hello', 'wait')
        assert re.fullmatch(r'/status/[\w-]+', reply.headers['Location'])
    reply = await call('POST', '/submit/named?queue=echo', b'hello', Prefer='wait=60')  # which has been done
    assert (reply.status, reply.body) == (200, b'hello')
    reply = await call('POST', '/submit/bad?queue=broken', b'why', Prefer='wait=60')
    assert (reply.status, reply.json['state'], reply.headers['Location']) == (422, 'failed', '/status/bad')
    reply = await call('POST', '/submit/kept?queue=keep', b'x', Prefer='wait=1')
    assert (reply.status, reply.json['state'], reply.headers['Location']) == (202, 'queued', '/status/kept')
    reply = await ask(call.gateway.api_port, request('/submit/two?queue=echo', 'Prefer: respond-async', 'Prefer: wait=60',
                                                     'Content-Length: 5', method='POST', body=b'hello'), 'POST')
    assert (reply.status, reply.body) == (200, b'hello')  # preferences may stand in several fields
    for preference in ('wait=0', 'wait', 'wait=x', 'wait=-1', '', ',;,', 'return=minimal', 'Wait=1'):
        reply = await call('POST', f'/submit/p{len(preference)}{preference[-1:].isdigit()}?queue=keep', b'x', Prefer=preference)
        assert reply.status in (200, 202), preference
    waiting = asyncio.create_task(call('POST', '/submit/c?queue=keep', b'x', Prefer='wait=60'))
    await call.until_state('p0False', 'queued')

    async def there():
        return (await call('GET', '/status/c')).status == 200
    await until(there, 'it is on record')
    await call('POST', '/cancel/c')
    assert ((await waiting).status, (await waiting).json['state']) == (422, 'cancelled')


# ---- ends

@with_jobs
async def test_what_fails_is_told_with_its_reason_and_its_log(call):
    await call.submit('/bad?queue=broken', b'no such thing\n')
    told = await call.get('/status/bad?wait=60')
    assert (told['state'], told['attempts']) == ('failed', 1) and '3' in told['error'] and 'result' not in told
    assert (await call('GET', '/log/bad')).body == b'no such thing\n'
    reply = await call('GET', '/result/bad')
    assert (reply.status, reply.json['state']) == (422, 'failed')


@with_jobs
async def test_jobs_are_cancelled_in_every_state(call):
    await call.submit('/queued?queue=keep')
    told = (await call('POST', '/cancel/queued')).json
    assert (told['id'], told['state']) == ('queued', 'cancelled')
    assert (await call('POST', '/cancel/queued')).json['state'] == 'cancelled'  # as was asked for
    assert (await call('GET', '/result/queued')).status == 422
    with call.gate() as (body, _):
        await call.submit('/running?queue=held', body)
        await call.until_state('running', 'running')
        assert (await call('POST', '/cancel/running')).status == 200
        assert (await call.get('/status/running?wait=60'))['state'] == 'cancelled'
    await call.submit('/done', b'x')
    await call.get('/status/done?wait=60')
    reply = await call('POST', '/cancel/done')
    assert (reply.status, reply.kind) == (409, 'job-over')
    await call.submit('/bad?queue=broken')
    await call.get('/status/bad?wait=60')
    assert (await call('POST', '/cancel/bad')).kind == 'job-over'
    assert (await call('POST', '/cancel/nobody')).kind == 'not-found'
    for path in ('status', 'result', 'log'):
        assert (await call('GET', f'/{path}/nobody')).kind == 'not-found'


@with_jobs
async def test_a_running_job_tells_its_progress(call):
    with call.gate() as (body, _):
        await call.submit('/p?queue=progress', body)

        async def tells():
            return 'progress' in await call.get('/status/p')
        await until(tells, 'it tells its progress')
        told = await call.get('/status/p')
        assert (told['state'], told['progress'], told['progress_text']) == ('running', 0.25, 'a quarter')
    told = await call.get('/status/p?wait=60')
    assert told['state'] == 'done' and 'progress' not in told


# ---- lists and dead letters

@with_jobs
async def test_jobs_are_listed_by_state_queue_and_tenant_page_by_page(call):
    await call.lines(*[{'id': f'j{i}', 'queue': ('keep', 'slow')[i == 9], 'tenant': f't{i % 3}'} for i in range(10)])
    await call('POST', '/cancel/j4')
    await call.submit('/none?queue=keep')

    async def ids(query):
        return [job['id'] for job in (await call.get('/jobs' + query))['jobs']]
    assert await ids('') == [f'j{i}' for i in range(10)] + ['none']
    assert await ids('?state=cancelled') == ['j4']
    assert await ids('?state=running') == []
    assert await ids('?queue=slow') == ['j9']
    assert await ids('?queue=nowhere') == []
    assert await ids('?tenant=t1&state=queued') == ['j1', 'j7']
    assert await ids('?tenant=') == ['none']
    pages, after = [], ''
    while True:
        page = await call.get(f'/jobs?limit=3{after}')
        pages += [job['id'] for job in page['jobs']]
        if 'next' not in page:
            break
        after = '&after=' + page['next']
    assert pages == [f'j{i}' for i in range(10)] + ['none']
    for query in ('state=lost', 'state=', 'limit=0', 'limit=1001', 'limit=x', 'after=x', 'after=-1', 'queue=', 'x=1',
                  'limit=1&limit=1', 'tenant=' + 'x' * 256, 'after=18446744073709551615'):
        reply = await call('GET', '/jobs?' + query)
        assert (reply.status, reply.kind) == (400, 'bad-request'), query
    assert (await call('GET', '/dlq?state=failed')).status == 400


@with_jobs
async def test_long_lists_come_in_pieces(call):
    await call.lines(*[{'id': f'{i:03}' + 'x' * 100, 'queue': 'keep', 'tenant': '"' * 255} for i in range(500)])
    page = await call.get('/jobs?limit=500')
    assert [job['id'][:3] for job in page['jobs']] == [f'{i:03}' for i in range(500)]


@with_jobs
async def test_dead_letters_are_listed_redriven_and_removed(call):
    await call.lines(*[{'id': f'd{i}', 'queue': ('broken', 'dying')[i == 4], 'tenant': f't{i % 2}', 'body': 'x'} for i in range(5)])
    for i in range(5):
        await call.get(f'/status/d{i}?wait=60')
    dead = (await call.get('/dlq'))['jobs']
    assert [job['id'] for job in dead] == [f'd{i}' for i in range(5)] and {job['state'] for job in dead} == {'failed'}
    assert [job['id'] for job in (await call.get('/dlq?queue=dying'))['jobs']] == ['d4']
    page = await call.get('/dlq?tenant=t0&limit=2')
    assert [job['id'] for job in page['jobs']] == ['d0', 'd2']
    assert [job['id'] for job in (await call.get(f'/dlq?tenant=t0&limit=2&after={page["next"]}'))['jobs']] == ['d4']
    assert (await call.queue('broken'))['dead'] == 4
    reply = await call('POST', '/dlq/d0/redrive')
    assert (reply.status, reply.json) == (200, {'redriven': 1})
    assert (await call.get('/status/d0?wait=60'))['attempts'] == 1  # anew
    assert (await call('POST', '/dlq/redrive?queue=broken&tenant=t1')).json == {'redriven': 2}
    for job in ('d1', 'd3'):
        await call.get(f'/status/{job}?wait=60')
    reply = await call('DELETE', '/dlq/d2')
    assert (reply.status, reply.json) == (200, {'removed': 1})
    assert [job['id'] for job in (await call.get('/dlq?queue=broken'))['jobs']] == ['d0', 'd1', 'd3']
    assert (await call.get('/status/d2'))['state'] == 'failed'
    for path in ('result', 'log'):
        reply = await call('GET', f'/{path}/d2')
        assert (reply.status, reply.kind) == (410, 'job-gone')
    for method, path in (('POST', '/dlq/d2/redrive'), ('DELETE', '/dlq/d2')):
        assert (await call(method, path)).kind == 'job-gone'
    await call.submit('/d2?queue=broken', b'x', status=409)  # its id is remembered, and its tenant
    await call.submit('/d2?queue=broken&tenant=t0', b'x', status=200)
    await call.submit('/q?queue=keep')
    for method, path in (('POST', '/dlq/q/redrive'), ('DELETE', '/dlq/q')):
        reply = await call(method, path)
        assert (reply.status, reply.kind) == (409, 'not-dead')
        assert (await call(method, path.replace('/q', '/nobody'))).kind == 'not-found'
    assert (await call('POST', '/dlq/redrive?queue=keep')).json == {'redriven': 0}
    assert (await call('POST', '/dlq/redrive')).json == {'redriven': 4}


@with_jobs
async def test_a_dead_letter_that_is_redriven_keeps_its_policy(call):
    await call.submit('/a?queue=broken&tenant=t&priority=low&attempts=2&timeout=30s&key=k&cost=5s', b'why')
    times = ('started', 'ended', 'due')
    before = await call.get('/status/a?wait=60')
    assert (before['state'], before['attempts'], before['attempts_max']) == ('failed', 2, 2)
    for path in ('/dlq/a/redrive', '/dlq/redrive?queue=broken', '/dlq/redrive?tenant=t'):
        assert (await call('POST', path)).json == {'redriven': 1}
        after = await call.get('/status/a?wait=60')
        assert after['ended'] > before['ended']
        assert [{name: value for name, value in one.items() if name not in times} for one in (before, after)] == [
            {'id': 'a', 'queue': 'broken', 'tenant': 't', 'priority': 'low', 'state': 'failed', 'attempts': 2, 'attempts_max': 2,
             'created': before['created'], 'key': 'k', 'error': before['error'], 'body_bytes': 3}] * 2
        before = after


@with_jobs
async def test_capacity_tells_of_every_queue(call):
    said = await call.get('/capacity')
    assert said['accepting'] is True
    assert [queue['queue'] for queue in said['queues']] == re.findall(r'^  (\w+):', QUEUES, flags=re.M)
    with call.gate() as (body, _):
        for i in range(5):
            await call.submit(f'/h{i}?queue=held', body)
        await call.submit('/later?queue=held&delay=1h', body)

        async def runs():
            return (await call.queue('held'))['running'] == 2
        await until(runs, 'two run')
        queue = await call.queue('held')
        assert queue.pop('drain_per_second') >= 0
        assert queue == {'queue': 'held', 'workers': 2, 'running': 2, 'free': 0, 'waiting': 3, 'delayed': 1,
                         'max': queue['max'], 'dead': 0}
        assert (await call.get('/status/h4'))['position'] == 3
    for i in range(5):
        await call.get(f'/status/h{i}?wait=60')


# ---- without queues, and at the end

@run
async def test_without_queues_there_are_no_jobs():
    async with weir('api: 127.0.0.1:0\n') as gateway, aiohttp.ClientSession(gateway.api) as session:
        for method, path in (('POST', '/submit'), ('POST', '/submit/x'), ('GET', '/status/x'), ('GET', '/result/x'), ('GET', '/log/x'),
                             ('POST', '/cancel/x'), ('GET', '/jobs'), ('GET', '/capacity'), ('GET', '/dlq'),
                             ('POST', '/dlq/x/redrive'), ('POST', '/dlq/redrive'), ('DELETE', '/dlq/x')):
            async with session.request(method, path, data=b'x' if method == 'POST' else None) as reply:
                said = json.loads(await reply.text())
                assert (reply.status, said['type']) == (404, 'urn:weir:not-found')
                assert '`queues`' in said['detail'], path


async def until_draining(call):
    call.gateway.terminate()

    async def drains():
        return (await call('GET', '/readyz')).status == 503
    await until(drains, 'it drains')


@with_jobs
async def test_a_server_that_drains_accepts_nothing_and_tells_on(call):
    with call.gate() as (body, _):
        await call.submit('/held?queue=held', body)
        await call.until_state('held', 'running')
        await until_draining(call)
        reply = await call('POST', '/submit/x?queue=keep', b'x')
        assert (reply.status, reply.kind) == (503, 'draining')
        await call.lines({}, status=503)
        assert await call.state('held') == 'running'
        said = await call.get('/capacity')
        assert (said['accepting'], said['wrong']) == (False, 'the server is shutting down')


@with_jobs
async def test_whoever_waits_for_a_job_is_told_how_far_it_is_when_the_server_drains(call):
    with call.gate() as (body, _):
        await call.submit('/held?queue=held', body)
        await call.until_state('held', 'running')
        await call.submit('/queued?queue=keep')
        before = [asyncio.create_task(one) for one in (
            call('GET', '/status/held?wait=300'), call('GET', '/status/queued?wait=300'),
            call('GET', '/result/queued?wait=300'),
            call('POST', '/submit/new?queue=keep', b'x', Prefer='wait=300'))]

        async def accepted():
            return (await call.queue('keep'))['waiting'] == 2
        await until(accepted, 'all wait')
        await until_still(call.gateway.process.pid)
        await until_draining(call)
        held, queued, result, new = await asyncio.gather(*before)
        assert [(reply.status, reply.json.get('state')) for reply in (held, queued, new)] == \
            [(200, 'running'), (200, 'queued'), (202, 'queued')]
        assert (result.status, result.kind) == (409, 'job-unfinished')
        # Nor does anybody begin to wait.
        for job, state in (('held', 'running'), ('queued', 'queued')):
            reply = await asyncio.wait_for(call('GET', f'/status/{job}?wait=300'), 20)
            assert (reply.status, reply.json['state']) == (200, state)
        reply = await asyncio.wait_for(call('GET', '/result/held?wait=300'), 20)
        assert (reply.status, reply.kind) == (409, 'job-unfinished')


@with_jobs
async def test_whoever_waits_is_told_also_if_nothing_else_keeps_the_server(call):
    await call.submit('/queued?queue=keep')
    waiting = [asyncio.create_task(call('GET', '/status/queued?wait=300')) for _ in range(50)]
    await until_still(call.gateway.process.pid)
    call.gateway.terminate()
    for reply in await asyncio.gather(*waiting):
        assert (reply.status, reply.json['state']) == (200, 'queued')


@run
async def test_queues_that_only_the_record_knows_are_told_of_whatever_they_are_called(tmp_path):
    config = QUEUES.replace('./data', str(tmp_path / 'data'))
    async with weir(config) as gateway, aiohttp.ClientSession() as session:
        async with session.post(f'{gateway.api}/submit/one?queue=keep', data=b'x') as reply:
            assert reply.status == 202
    # As no config could call them: each byte takes six in JSON.
    names = [chr(number) + '\x01' * 254 for number in range(2, 32)]
    with contextlib.closing(sqlite3.connect(tmp_path / 'data' / 'jobs.db')) as database:
        columns = [column[1] for column in database.execute('pragma table_info(jobs)')]
        row = dict(zip(columns, database.execute('select * from jobs').fetchone()))
        for number, name in enumerate(names, 100):
            row.update(number=number, id=f'job-{number}'.encode(), queue=name.encode(), checksum=None)
            database.execute(f'insert into jobs values({", ".join("?" * len(row))})', list(row.values()))
        # Version 1 wrote rows without a checksum: up to this number they are valid.
        database.execute("update meta set value = 1000 where name like 'unchecked%'")
        database.commit()
    async with weir(config) as gateway:
        status, said = await gateway.ask_api('/capacity')
        assert status == 200
        assert {queue['queue'] for queue in said['queues']} >= {'keep', *names}
        assert len((await gateway.ask_api('/jobs'))[1]['jobs']) == 1 + len(names)
