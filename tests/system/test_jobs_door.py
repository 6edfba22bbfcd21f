"""Submitting jobs to queues that are full, many at once, and by clients that go away at each step; see docs/guides/jobs.md."""
import asyncio
import contextlib
import json
import os
import re

import pytest
from jobs import KIB, QUEUES, chunked, fill, jobs, post, with_jobs
from raw import ask, connect, request, run
from weir import until, until_still

# ---- the door

def line_of(call, queue):
    [line] = [line for line in call.gateway.path.read_text().splitlines(True) if line.startswith(f'  {queue}:')]
    return line


@with_jobs
async def test_a_full_queue_rejects_and_keeps_connections_of_short_bodies(call):
    await fill(call, 'small')
    async with connect(call.gateway.api_port) as wire:
        for body in (b'', b'x', b'x' * 65536):
            await wire.send(post('/submit/c?queue=small', body))
            reply = await wire.message('POST')
            assert (reply.status, json.loads(reply.body)['type']) == (429, 'urn:weir:queue-full')
            assert int(reply.one('retry-after')) >= 1 and 'small' in json.loads(reply.body)['detail']
        await wire.send(post('/submit/ok?queue=keep', b'x'))
        assert (await wire.message('POST')).status == 202
        await wire.send(request('/submit/c?queue=small', 'Content-Length: 70000', method='POST', body=b'x'))
        reply = await wire.message('POST')
        assert (reply.status, reply.one('connection')) == (429, 'close')
        await wire.ended()
    await call('POST', '/cancel/a')
    await call.submit('/c?queue=small', b'x')


@pytest.mark.parametrize('queue', ['small', 'patient'])
def test_what_is_there_already_needs_no_room(queue):
    @run
    async def test():
        async with jobs() as call:
            await call.submit(f'/a?queue={queue}', b'x' * 70000)
            keyed = await call.submit(f'?queue={queue}', b'x', Idempotency_Key='K')
            reply = await call('POST', f'/submit/a?queue={queue}', b'x' * 70000)
            assert (reply.status, reply.headers['Location'], reply.json['state']) == (200, '/status/a', 'queued')
            assert (await call.submit(f'?queue={queue}', b'x', status=200, Idempotency_Key='K'))['id'] == keyed['id']
            for body in (b'', b'x', b'y' * 70000):
                assert (await call('POST', f'/submit/a?queue={queue}', body)).kind == 'job-conflict'
            # What is new does, with a name or without.
            for path, headers in (('/new', {}), ('', {}), ('', {'Idempotency_Key': 'L'})):
                reply = await call('POST', f'/submit{path}?queue={queue}', b'x', Weir_Timeout='20ms', **headers)
                assert (reply.status, reply.kind) == (429, 'queue-full')
            # What is over needs none either.
            await call('POST', '/cancel/a')
            await call.submit(f'/b?queue={queue}', b'x')
            assert (await call.queue(queue))['waiting'] == 2
            reply = await call('POST', f'/submit/a?queue={queue}', b'x' * 70000)
            assert (reply.status, reply.json['state']) == (200, 'cancelled')
            await until(lambda: len(call.bodies()) <= 1, 'what was compared is gone')
            # Its body is wanted, however it asks.
            async with connect(call.gateway.api_port) as wire:
                await wire.send(request(f'/submit/b?queue={queue}', 'Content-Length: 1', 'Expect: 100-continue', method='POST'))
                assert (await wire.head()).status == 100
                await wire.send(b'x')
                assert (await wire.message('POST')).status == 200
    test()


@pytest.mark.parametrize('queue', ['small', 'patient'])
def test_a_batch_that_is_there_already_needs_no_room(queue):
    @run
    async def test():
        async with jobs() as call:
            lines = [{'id': 'other', 'queue': 'keep', 'body': 1}, {'id': 'a', 'queue': queue, 'body': 2}, {'queue': queue, 'body': 3}]
            first = await call.lines(*lines, Idempotency_Key='K')
            assert await call.lines(*lines, status=200, Idempotency_Key='K') == first
            said = await call.lines(lines[0], {**lines[1], 'body': 4}, status=409)
            assert said['type'] == 'urn:weir:job-conflict' and ' a ' in said['detail']
            # One new line among them is one that there is no room for.
            said = await call.lines(*lines[:2], {'id': 'new', 'queue': queue}, status=429, Weir_Timeout='20ms')
            assert said['type'] == 'urn:weir:queue-full'
            said = await call.lines(lines[0], {'queue': queue}, status=429, Weir_Timeout='20ms')
            assert said['type'] == 'urn:weir:queue-full'
            assert ((await call.queue('keep'))['waiting'], (await call.queue(queue))['waiting']) == (1, 2)
            for job in first['jobs'][1:]:
                await call('POST', f"/cancel/{job['id']}")
            await fill(call, queue, ('x', 'y'))  # so no place was lost
    test()


@with_jobs
async def test_a_patient_queue_leaves_the_body_unread_until_there_is_room(call):
    await fill(call, 'patient')
    async with connect(call.gateway.api_port) as wire:
        await wire.send(request('/submit/c?queue=patient', 'Content-Length: 5', 'Expect: 100-continue', method='POST'))
        await until_still(call.gateway.process.pid)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(wire.reader.readexactly(1), 0.05)
        await call('POST', '/cancel/a')
        assert (await wire.head()).status == 100
        await wire.send(b'hello')
        assert (await wire.message('POST')).status == 202
    assert (await call.get('/status/c'))['body_bytes'] == 5


@with_jobs
async def test_at_a_patient_queue_time_may_be_over(call):
    await fill(call, 'patient')
    for timeout in ('0s', '50ms'):
        reply = await call('POST', '/submit/c?queue=patient', b'x' * 10, Weir_Timeout=timeout)
        assert (reply.status, reply.kind) == (429, 'queue-full')
        assert 'Retry-After' in reply.headers
    waiting = [asyncio.create_task(call('POST', f'/submit/w{i}?queue=patient', b'x' * i * 40000)) for i in range(3)]
    await until_still(call.gateway.process.pid)
    for job in ('a', 'b', 'w0'):
        await call('POST', '/cancel/' + job)
        await until_still(call.gateway.process.pid)
    assert [(await reply).status for reply in waiting] == [202] * 3


@with_jobs
async def test_whoever_waits_at_the_door_may_go_away(call):
    await fill(call, 'patient')
    wires = []
    for i in range(10):
        async with connect(call.gateway.api_port) as wire:
            await wire.send(post(f'/submit/gone{i}?queue=patient', b'x' * 100))
            wires.append(wire)
            await until_still(call.gateway.process.pid)
            if i % 2:
                wire.reset()
    await until_still(call.gateway.process.pid)
    await call('POST', '/cancel/a')
    await call('POST', '/cancel/b')
    await call.submit('/c?queue=patient', b'x')
    await call.submit('/d?queue=patient', b'x')
    assert (await call('GET', '/status/gone0')).status == 404
    assert (await call.queue('patient'))['waiting'] == 2


@with_jobs
async def test_a_pushy_queue_drops_its_oldest_to_the_dead_letters(call):
    await fill(call, 'pushy')
    await call.submit('/c?queue=pushy', b'x')
    await call.until_state('a', 'failed')
    [dead] = (await call.get('/dlq'))['jobs']
    assert dead['id'] == 'a' and dead['error']
    assert await call.state('b') == await call.state('c') == 'queued'


@with_jobs
async def test_what_is_redriven_comes_back_though_the_queue_is_full(call):
    """It was accepted long ago; but nothing new is, until there are fewer than the queue may hold."""
    for job in 'abcde':
        await call.submit(f'/{job}?queue=pushy', b'x')
    for job in 'abc':
        await call.until_state(job, 'failed')
    line = line_of(call, 'pushy')
    await call.gateway.reload((line, line.replace('drop_oldest', 'reject')))
    assert (await call('POST', '/dlq/redrive?queue=pushy')).json == {'redriven': 3}
    assert ((await call.queue('pushy'))['waiting'], (await call.queue('pushy'))['dead']) == (5, 0)
    for job in 'abcd':
        assert (await call('POST', '/submit/f?queue=pushy', b'x')).kind == 'queue-full'
        await call('POST', f'/cancel/{job}')
    await call.submit('/f?queue=pushy', b'x')
    # Where the oldest are dropped, the next submission drops those that are beyond the bound.
    for job in 'ef':
        await call('POST', f'/cancel/{job}')
    await call.gateway.reload((line.replace('drop_oldest', 'reject'), line))
    for job in 'ghij':
        await call.submit(f'/{job}?queue=pushy', b'x')
    for job in 'gh':
        await call.until_state(job, 'failed')
    assert (await call('POST', '/dlq/g/redrive')).json == {'redriven': 1}
    assert (await call.queue('pushy'))['waiting'] == 3
    await call.submit('/k?queue=pushy', b'x')
    await call.until_state('g', 'failed')
    await call.until_state('i', 'failed')
    assert [await call.state(job) for job in 'hjk'] == ['failed', 'queued', 'queued']


@with_jobs
async def test_a_tenant_that_submits_too_fast_is_told_when_to_come_back(call):
    for i in range(2):
        await call.submit(f'/{i}?queue=slow', b'x')
    reply = await call('POST', '/submit/2?queue=slow', b'x')
    assert (reply.status, reply.kind) == (429, 'rate')
    assert 1 <= int(reply.headers['Retry-After']) <= 3600
    await call.submit('/3?queue=slow&tenant=other', b'x')


@with_jobs
async def test_too_many_dead_letters_block_their_queue(call):
    await call.submit('/a?queue=dying', b'x')
    await call.until_state('a', 'failed')
    reply = await call('POST', '/submit/b?queue=dying', b'x')
    assert (reply.status, reply.kind) == (503, 'queue-blocked') and 'Retry-After' in reply.headers
    assert (await call.queue('dying'))['wrong'] == 'the limit of dead letters is reached'
    # What is there already is the same job even so.
    assert (await call.submit('/a?queue=dying', b'x', status=200))['state'] == 'failed'
    assert (await call.lines({'id': 'a', 'queue': 'dying', 'body': 'x'}, status=200))['jobs'] == [{'id': 'a', 'state': 'failed'}]
    await call.submit('/a?queue=dying', b'y', status=409)
    assert (await call.get('/capacity'))['accepting'] is True and 'wrong' not in await call.queue('keep')
    await call.submit('/c?queue=keep', b'x')
    assert (await call('DELETE', '/dlq/a')).status == 200
    assert 'wrong' not in await call.queue('dying')
    await call.submit('/b?queue=dying', b'x')


@with_jobs
async def test_a_queue_that_is_taken_out_during_a_submission_is_not_there(call):
    for length, sent in ((10, 5), (69999, 66000)):
        line = line_of(call, 'small')
        async with connect(call.gateway.api_port) as wire:
            await wire.send(request('/submit/gone?queue=small', f'Content-Length: {length}', method='POST', body=b'x' * sent))
            await until_still(call.gateway.process.pid)
            await call.gateway.reload((line, ''))
            await wire.send(b'x' * (length - sent))
            reply = await wire.message('POST')
            assert (reply.status, json.loads(reply.body)['type']) == (404, 'urn:weir:not-found')
            assert 'no queue called small' in json.loads(reply.body)['detail']
            assert (await call.queue('small'))['wrong'] == 'the queue is no longer in the config'
        await until(lambda: call.bodies() == [], 'its file is gone')
        await call.gateway.reload(('  keep:', line + '  keep:'))
        for job in ('a', 'b'):  # so there is room
            await call.submit(f'/{job}{length}?queue=small', b'x')
        for job in ('a', 'b'):
            await call('POST', f'/cancel/{job}{length}')


@with_jobs
async def test_whoever_waits_at_the_door_of_a_queue_that_is_taken_out_is_told(call):
    await fill(call, 'patient')
    waiting = asyncio.create_task(call('POST', '/submit/c?queue=patient', b'x', Weir_Timeout='300s'))
    many = asyncio.create_task(call.lines({'queue': 'keep'}, {'queue': 'patient'}, status=404, Weir_Timeout='300s'))
    await until_still(call.gateway.process.pid)
    line = line_of(call, 'patient')
    await call.gateway.reload((line, ''))
    reply = await waiting
    assert (reply.status, reply.kind) == (404, 'not-found') and 'called patient' in reply.json['detail']
    assert 'called patient' in (await many)['detail']
    # One that has passed a door which is not there any more when it has passed the last.
    await call.gateway.reload(('  broken:', line + '  broken:'))
    many = asyncio.create_task(call.lines({'queue': 'keep'}, {'queue': 'patient'}, status=404, Weir_Timeout='300s'))
    await until_still(call.gateway.process.pid)
    line = line_of(call, 'keep')
    await call.gateway.reload((line, ''))
    await call('POST', '/cancel/a')
    assert 'called keep' in (await many)['detail']
    await call.submit('/d?queue=patient', b'x')  # so its places were given back
    await call.gateway.reload(('  broken:', line + '  broken:'))
    assert (await call.queue('keep'))['waiting'] == 0


@run
async def test_two_batches_at_one_door_do_not_wait_for_each_other():
    """Each is of two tenants, and fills the queue: half of each inside would be the end of both."""
    async with jobs('api: 127.0.0.1:0\ndata: ./data\nqueues: { q: { line: { max: 4, full: wait } } }\n') as call:
        await fill(call, 'q', 'abcd')
        lines = [{'tenant': tenant, 'priority': priority} for tenant in 'st' for priority in ('high', 'low')]
        batches = []
        for _ in range(2):
            batches.append(asyncio.create_task(call.lines(*lines, Weir_Timeout='60s')))
            await until_still(call.gateway.process.pid)
        for job in 'abcd':
            await call('POST', f'/cancel/{job}')
            await until_still(call.gateway.process.pid)
        done, [waits] = await asyncio.wait(batches, timeout=20, return_when=asyncio.FIRST_COMPLETED)
        for job in done.pop().result()['jobs']:
            await call('POST', f"/cancel/{job['id']}")
        assert len((await waits)['jobs']) == 4


@pytest.mark.parametrize('priority, passed', [('high', 3), ('low', 9)])
def test_a_batch_that_needs_several_places_is_not_passed_for_ever(priority, passed):
    """Others wait who would take each that becomes free; once it has let as many pass as its weight says, they are kept."""
    @run
    async def test():
        async with jobs('api: 127.0.0.1:0\ndata: ./data\nqueues: { q: { line: { max: 4, full: wait } } }\n') as call:
            async def free_place():
                [job] = (await call.get('/jobs?state=queued&limit=1'))['jobs']
                await call('POST', f"/cancel/{job['id']}")
                await until_still(call.gateway.process.pid)

            def accepted():
                return sum(single.done() for single in singles)

            async def enter(*lines):
                batch = asyncio.create_task(call.lines(*lines, Weir_Timeout='60s'))
                await until_still(call.gateway.process.pid)
                return batch

            await fill(call, 'q', 'abcd')
            singles = [asyncio.create_task(call.submit('', b'x', Weir_Timeout='60s')) for _ in range(30)]
            await until_still(call.gateway.process.pid)
            batch = await enter(*[{'priority': priority}] * 3)
            while not batch.done() and accepted() < 20:
                await free_place()
            assert batch.done() and passed <= accepted() <= passed + 2
            # What is kept for one that goes away is for others.
            batch = await enter(*[{'priority': priority}] * 3)
            while (await call.queue('q'))['waiting'] == 4 and accepted() < 30:
                await free_place()
            before = accepted()
            assert before < 30 and not batch.done()
            batch.cancel()
            await until(lambda: accepted() > before, 'another has the place')
            for single in singles:
                single.cancel()
            await asyncio.gather(*singles, return_exceptions=True)
    test()


# ---- clients that go away

@pytest.mark.parametrize('way', ['close', 'reset'])
def test_a_client_that_goes_away_with_its_body_half_sent_leaves_nothing(way):
    @run
    async def test():
        async with jobs() as call:
            for announced, sent in ((10, 5), (66000, 65536), (69999, 69998), (69999, 1)):
                async with connect(call.gateway.api_port) as wire:
                    await wire.send(request('/submit/gone?queue=small', f'Content-Length: {announced}', method='POST',
                                            body=b'x' * sent))
                    await until_still(call.gateway.process.pid)
                    if way == 'reset':
                        wire.reset()
                await until_still(call.gateway.process.pid)
                assert (await call('GET', '/status/gone')).status == 404
                await until(lambda: call.bodies() == [], 'its file is gone')
                for job in ('a', 'b'):  # so there is room
                    await call.submit(f'/{job}{announced}{sent}?queue=small', b'x')
                for job in ('a', 'b'):
                    await call('POST', f'/cancel/{job}{announced}{sent}')
    test()


@with_jobs
async def test_a_client_that_goes_away_after_its_body_may_have_a_job(call):
    for i in range(100):
        async with connect(call.gateway.api_port) as wire:
            body = b'x' * (100 * KIB if i % 10 == 0 else 1000)
            await wire.send(post(f'/submit/gone{i}?queue=keep', body))
            if i % 2:
                wire.reset()
    await until_still(call.gateway.process.pid)
    accepted = {job['id'] for job in (await call.get('/jobs?limit=1000'))['jobs']}
    long = [job for job in accepted if int(job.removeprefix('gone')) % 10 == 0]
    await until(lambda: len(call.bodies()) == len(long), 'there is a file for each long body')
    for job in accepted:
        assert (await call('POST', f'/cancel/{job}')).status == 200
    assert (await call.queue('keep'))['waiting'] == 0


@with_jobs
async def test_a_client_may_go_away_while_it_waits_or_reads(call):
    with call.gate() as (body, _):
        await call.submit('/held?queue=held', body)
        for text in (request('/status/held?wait=300'), request('/result/held?wait=300'),
                     post('/submit/again?queue=held', body, 'Prefer: wait=300')):
            async with connect(call.gateway.api_port) as wire:
                await wire.send(text)
                await until_still(call.gateway.process.pid)
    for job in ('held', 'again'):
        assert (await call.get(f'/status/{job}?wait=60'))['state'] == 'done'
    await call.submit('/long', b'x' * (20 << 20))
    await call.get('/status/long?wait=60')
    for _ in range(5):
        async with connect(call.gateway.api_port) as wire:
            await wire.send(request('/result/long'))
            await wire.exactly(1000)
            wire.reset()
    assert len((await call('GET', '/result/long')).body) == 20 << 20
    pid = call.gateway.process.pid
    await until(lambda: not any('/bodies/' in os.readlink(f'/proc/{pid}/fd/{fd}') for fd in os.listdir(f'/proc/{pid}/fd')
                                if os.path.lexists(f'/proc/{pid}/fd/{fd}')), 'no file stays open')


@with_jobs
async def test_whoever_waits_for_room_when_the_server_ends_is_told_so(call):
    await fill(call, 'patient')
    with call.gate() as (body, _):
        await call.submit('/held?queue=held', body)
        await call.until_state('held', 'running')
        waiting = [asyncio.create_task(call('POST', '/submit/w?queue=patient', b'x' * 100)),
                   asyncio.create_task(call('POST', '/submit?queue=patient', b'x' * 100 * KIB)),
                   asyncio.create_task(call('POST', '/submit', b'{"queue": "keep"}\n{"queue": "patient"}',
                                            Content_Type='application/x-ndjson'))]
        await until_still(call.gateway.process.pid)
        assert not any(task.done() for task in waiting)
        call.gateway.terminate()
        for task in waiting:
            reply = await task
            assert (reply.status, reply.kind) == (503, 'draining') and 'next server' in reply.json['detail']
    assert await asyncio.wait_for(call.gateway.process.wait(), 60) == 0


@run
async def test_a_server_may_end_while_everything_is_under_way():
    async with contextlib.AsyncExitStack() as stack, jobs(QUEUES + 'grace: 1s\n') as call:
        await fill(call, 'patient')
        await call.submit('/long', b'x' * (20 << 20))
        await call.get('/status/long?wait=60')
        with call.gate() as (body, _):
            await call.submit('/held?queue=held', body)
            await call.until_state('held', 'running')
            lines = b'{"queue": "keep"}\n{"queue": "patient"}'
            for text in (post('/submit/w?queue=patient', b'x' * 100), post('/submit/w?queue=patient', b'x' * 100 * KIB),
                         post('/submit', lines, 'Content-Type: application/x-ndjson'), request('/status/held?wait=300'),
                         request('/result/held?wait=300'), post('/submit/p?queue=held', body, 'Prefer: wait=300'),
                         request('/result/long'), post('/submit/half?queue=keep', b'x' * 200 * KIB)[:-1],
                         post('/submit/half?queue=keep', b'x')[:-1]):
                for _ in range(3):
                    wire = await stack.enter_async_context(connect(call.gateway.api_port))
                    await wire.send(text)
            await until_still(call.gateway.process.pid)
            call.gateway.terminate()
            assert await asyncio.wait_for(call.gateway.process.wait(), 60) == 0
        assert call.gateway.complaints() == ''


# ---- many

@with_jobs
async def test_many_jobs_go_in_one_submission(call):
    said = await call.lines({'id': 'a', 'queue': 'keep', 'tenant': 't', 'priority': 'high', 'attempts': 7, 'key': 'k',
                             'timeout': '1m', 'cost': '5s', 'run_at': '2096-01-01T00:00:00Z', 'body': 'text \u00e9\n"'},
                            '', '  ', {'id': 'b', 'queue': 'echo', 'body': {'n': [1, 2.50, None]}},
                            '{"id":"c", "body" :  [1, 2.50 ,{"x":"\\u00e9"}] }\r', {})
    assert [(job['id'], job['state']) for job in said['jobs'][:3]] == [('a', 'queued'), ('b', 'queued'), ('c', 'queued')]
    assert re.fullmatch('j-[0-9a-f]{32}', said['jobs'][3]['id']) and len(said['jobs']) == 4
    told = await call.get('/status/a')
    assert {name: told[name] for name in ('queue', 'tenant', 'priority', 'attempts_max', 'key', 'due', 'body_bytes')} == {
        'queue': 'keep', 'tenant': 't', 'priority': 'high', 'attempts_max': 7, 'key': 'k', 'due': '2096-01-01T00:00:00.000Z',
        'body_bytes': len('text \u00e9\n"'.encode())}
    await call.get('/status/c?wait=60')
    assert (await call('GET', '/result/c')).body == b'[1, 2.50 ,{"x":"\\u00e9"}]'
    assert (await call('GET', '/result/b?wait=60')).body == b'{"n": [1, 2.5, null]}'
    again = await call.lines({'id': 'b', 'queue': 'echo', 'body': {'n': [1, 2.50, None]}}, status=200)
    assert again == {'jobs': [{'id': 'b', 'state': 'done'}]}


@with_jobs
async def test_what_the_query_says_holds_for_lines_that_say_nothing_else(call):
    said = await call.lines({}, {'queue': 'slow', 'priority': 'low', 'tenant': 'u', 'delay': '1h'},
                            query='?queue=keep&priority=high&tenant=t&run_at=3981830400000')
    first, second = [await call.get('/status/' + job['id']) for job in said['jobs']]
    assert (first['queue'], first['priority'], first['tenant'], first['due'][:4]) == ('keep', 'high', 't', '2096')
    assert (second['queue'], second['priority'], second['tenant']) == ('slow', 'low', 'u') and second['due'][:4] != '2096'
    one = await call.lines({'body': 1}, {'body': 2}, query='?queue=keep', Idempotency_Key='K')
    two = await call.lines({'body': 1}, {'body': 2}, query='?queue=keep', status=200, Idempotency_Key='K')
    assert one == two and one['jobs'][0]['id'] != one['jobs'][1]['id']
    same = await call.lines({'id': 's', 'body': 1}, {'id': 's', 'body': 1}, query='?queue=keep')
    assert [job['id'] for job in same['jobs']] == ['s', 's']
    assert len((await call.get('/jobs?queue=keep'))['jobs']) == 4


BAD_LINES = {'{': 'Line 2: not a JSON object', '[]': 'not a JSON object', '{"ids":1}': 'ids is not a field', '1': 'not a JSON object',
             '{"id":"-"}': 'id must have 1 to 128', '{"attempts":0}': 'attempts must be a number', '{"delay":5}': 'delay must be a string',
             '{"id":"x","id":"x"}': 'twice', '{"delay":"1s","run_at":3981830400000}': 'together', '{} {}': 'not a JSON object',
             '{"body":"\\ud800"}x': 'not a JSON object', '{"tenant":""}': 'tenant must have 1 to 255',
             '{"tenant":"a\\u0000b"}': 'tenant must not have control', '{"key":"a\\nb"}': 'key must not have control'}


@with_jobs
async def test_of_many_all_are_accepted_or_none(call):
    for line, words in BAD_LINES.items():
        said = await call.lines({'id': 'first', 'queue': 'keep'}, line, {'id': 'last', 'queue': 'keep'}, status=400)
        assert words in said['detail'], (line, said)
    assert 'called none' in (await call.lines({'id': 'first'}, {'queue': 'none'}, status=404))['detail']
    assert 'no line' in (await call.lines('', ' ', status=400))['detail']
    await call.lines(status=400)
    assert '64 KiB' in (await call.lines({'id': 'first'}, {'body': 'x' * 65537}, status=413))['detail']
    await call.lines({'id': 'first'}, {'id': 'first', 'body': 1}, status=409)
    await call.submit('/taken?queue=keep', b'x')
    assert 'taken' in (await call.lines({'id': 'first', 'queue': 'keep'}, {'id': 'taken'}, status=409))['detail']
    await call.submit('/one?queue=small')
    reply = await call.lines(*[{'id': f'f{i}', 'queue': 'keep'} for i in range(5)], {'queue': 'small'}, {'queue': 'small'},
                             status=429)
    assert reply['type'] == 'urn:weir:queue-full'
    assert [job['id'] for job in (await call.get('/jobs'))['jobs']] == ['taken', 'one']
    await call('POST', '/cancel/one')
    for _ in range(2):
        await call.submit('?queue=slow')
    reply = await call.lines(*[{'queue': 'small'}] * 2, {'queue': 'slow'}, status=429)
    assert reply['type'] == 'urn:weir:rate'
    await fill(call, 'small')  # so its places were given back


@run
async def test_what_is_refused_at_a_later_door_costs_nothing_at_an_earlier_one():
    config = QUEUES.replace('  small:', '  rated: { line: { max: 100 }, tenants: { default: { rate: 3/h } } }\n  small:')
    async with jobs(config) as call:
        await fill(call, 'small')
        for lines in ([{'queue': 'rated'}] * 3 + [{'queue': 'small'}], [{'id': 'r', 'queue': 'rated'}, {'id': 's', 'queue': 'small'}]):
            for _ in range(3):
                reply = await call.lines(*lines, status=429)
                assert (reply['type'], 'small' in reply['detail']) == ('urn:weir:queue-full', True)
        assert (await call.queue('rated'))['waiting'] == 0
        await call.lines(*[{'queue': 'rated'}] * 3)
        assert (await call('POST', '/submit/x?queue=rated', b'x')).kind == 'rate'


@with_jobs
async def test_many_are_ten_thousand_lines_of_16_mib(call):
    line = json.dumps({'queue': 'keep', 'body': 'x' * 1500})
    said = await call.lines(*[line] * 10000)
    assert len({job['id'] for job in said['jobs']}) == 10000
    assert (await call.queue('keep'))['waiting'] == 10000
    assert '10,000' in (await call.lines(*['{"queue":"keep"}'] * 10001, status=413))['detail']
    reply = await call('POST', '/submit', b'\n' * ((16 << 20) + 1), Content_Type='application/x-ndjson')
    assert reply.status == 413
    text = request('/submit', 'Transfer-Encoding: chunked', 'Content-Type: application/x-ndjson; charset=utf-8', method='POST',
                   body=chunked(b'\n' * ((16 << 20) + 1), 1 << 20))
    reply = await ask(call.gateway.api_port, text, 'POST')
    assert (reply.status, json.loads(reply.body)['type']) == (413, 'urn:weir:body-too-large')
    text = request('/submit', 'Transfer-Encoding: chunked', 'Content-Type: APPLICATION/X-NDJSON', method='POST',
                   body=chunked(b'{"id":"last","queue":"keep"}' + b'\n' * (1 << 20), 1000))
    assert (await ask(call.gateway.api_port, text, 'POST')).status == 202
    assert (await call.queue('keep'))['waiting'] == 10001


@with_jobs
async def test_many_wait_for_room_together_and_may_go_away(call):
    await call.submit('/a?queue=patient')
    lines = [{'id': f'm{i}', 'queue': ('patient', 'keep')[i % 2]} for i in range(4)]
    waiting = asyncio.create_task(call.lines(*lines))
    await until_still(call.gateway.process.pid)
    assert not waiting.done()
    await call('POST', '/cancel/a')
    await waiting
    assert (await call.queue('patient'))['waiting'] == 2
    body = '\n'.join(json.dumps({**line, 'id': 'gone' + line['id']}) for line in lines).encode()
    async with connect(call.gateway.api_port) as wire:
        await wire.send(post('/submit', body, 'Content-Type: application/x-ndjson'))
        await until_still(call.gateway.process.pid)
    await until_still(call.gateway.process.pid)
    for job in ('m0', 'm2'):
        await call('POST', f'/cancel/{job}')
    await fill(call, 'patient', ('b', 'c'))
    assert (await call('GET', '/status/gonem0')).status == 404
    reply = await call.lines(*[{'queue': 'patient'}] * 2, status=429, Weir_Timeout='50ms')
    assert reply['type'] == 'urn:weir:queue-full'


@with_jobs
async def test_many_take_memory_when_they_come_and_no_more_than_there_may_be(call):
    """What is announced alone keeps nobody out: 16 of 16 MiB each would be all that there may be."""
    def half(count):
        return (b' ' * 999 + b'\n') * (count // 1000)
    head = request('/submit?queue=keep', f'Content-Length: {16 << 20}', 'Content-Type: application/x-ndjson', method='POST')
    async with contextlib.AsyncExitStack() as stack:
        wires = [await stack.enter_async_context(connect(call.gateway.api_port)) for _ in range(16)]
        for wire in wires:
            await wire.send(head)
        await until_still(call.gateway.process.pid)
        await call.lines({'queue': 'keep'})
        for wire in wires:
            await wire.send(half(9 << 20))
        await until_still(call.gateway.process.pid)
        said = await call.lines({'queue': 'keep'}, status=503)
        assert said['type'] == 'urn:weir:out-of-memory', said
        wires[0].close()
        await until_still(call.gateway.process.pid)
        await call.lines({'queue': 'keep'})
    await until_still(call.gateway.process.pid)
    assert (await call.queue('keep'))['waiting'] == 2


@run
async def test_more_than_a_queue_ever_holds_is_not_told_to_come_again():
    config = QUEUES + """
  usual: {}
  ranks: { line: { max: 100, by_priority: { high: 3 } } }
"""
    async with jobs(config) as call:
        for lines, bound in (([{'queue': 'small'}] * 3, 2),
                             ([{'queue': 'patient', 'tenant': f't{i}'} for i in range(3)], 2),
                             ([{'queue': 'small', 'priority': name} for name in ('high', 'normal', 'low')], 2),
                             ([{'queue': 'keep'}] * 5 + [{'queue': 'usual'}] * 301, 300),
                             ([{'queue': 'ranks', 'priority': 'high', 'tenant': f't{i}'} for i in range(4)], 3),
                             ([{'queue': 'ranks', 'priority': ('high', 'low')[i > 1]} for i in range(101)], 100)):
            reply = await call.lines(*lines, status=413)
            assert reply['type'] == 'urn:weir:body-too-large'
            assert f'more than {bound} of' in reply['detail'] and lines[-1]['queue'] in reply['detail']
        assert (await call.get('/jobs'))['jobs'] == []
        # As many as it holds are taken, and of a queue that drops its oldest the newest stay.
        await call.lines(*[{'queue': 'small'}] * 2, *[{'queue': 'patient'}] * 2, *[{'queue': 'usual'}] * 300,
                         *[{'queue': 'ranks', 'priority': ('high', 'low')[i > 2]} for i in range(100)])
        await call.lines(*[{'id': f'p{i}', 'queue': 'pushy'} for i in range(3)])
        await call.until_state('p0', 'failed')
        assert (await call.queue('pushy'))['waiting'] == 2
