"""Jobs that a route does, docs/guides/jobs.md: the body as a request through the gateway's own gates, the reply as the result."""
import asyncio
import contextlib

import aiohttp
from jobs import Caller
from raw import reply, run, upstream
from weir import until, until_still, weir

ROUTES = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
data: ./data
upstreams: {{ u: {{ url: "{url}" }} }}
gates: {{ g: {{ limit: 1, line: {{ timeout: 60s }} }} }}
routes: [ {{ match: /work, gate: g, key: all, upstream: u, tenant: "header:X-Tenant", priority: "header:X-Priority" }} ]
queues:
  work: {{ route: /work/it, workers: 4, backoff: {{ first: 1ms, max: 10ms }}, {more} }}
'''


class Worker:
    """An upstream: what `answer` makes of a request is the reply; those who hold wait for `gate`."""

    def __init__(self, answer):
        self.answer = answer
        self.seen = []
        self.inside = 0
        self.most = 0
        self.gate = asyncio.Event()

    async def serve(self, wire, message):
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.seen.append(message)
        try:
            await wire.send(await self.answer(self, message))
        finally:
            self.inside -= 1


@contextlib.asynccontextmanager
async def working(answer, more='attempts: 3'):
    worker = Worker(answer)

    async def serve(wire, message):
        await worker.serve(wire, message)
    async with upstream(serve) as server:
        async with weir(ROUTES.format(url=server.url, more=more)) as gateway:
            async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
                yield Caller(gateway, session), worker
                worker.gate.set()


async def louder(worker, message):
    return reply(message.body.upper(), 'Content-Type: text/x-loud')


async def held(worker, message):
    await worker.gate.wait()
    return reply()


@run
async def test_a_job_goes_through_the_gates_as_a_request():
    async with working(louder) as (call, worker):
        await call.submit('/order-1?queue=work&tenant=acme&priority=high', b'hello', Content_Type='text/plain')
        status = await call.get('/status/order-1?wait=30')
        assert status['state'] == 'done'
        assert status['result'] == {'bytes': 5, 'type': 'text/x-loud', 'status': 200}
        result = await call('GET', '/result/order-1')
        assert (result.body, result.headers['Content-Type']) == (b'HELLO', 'text/x-loud')
        [message] = worker.seen
        assert message.start == 'POST /work/it HTTP/1.1'
        assert message.one('X-Request-Id') == message.one('Idempotency-Key') == 'order-1'
        assert message.one('X-Tenant') == 'acme'
        assert message.one('X-Priority') == 'high'
        assert message.one('Content-Type') == 'text/plain'
        gates = await call.get('/gates/g/all')
        assert (gates['active'], gates['waiting']) == (0, 0)


@run
async def test_a_reply_that_is_cut_is_no_result_however_it_would_have_ended():
    """One that ends with the connection does not say itself whether it is whole."""
    heads = [b'HTTP/1.1 200 OK\r\n\r\n', b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n']
    seen = 0

    async def serve(wire, message):
        nonlocal seen
        seen += 1
        if seen > len(heads):
            await wire.send(reply(b'whole'))
            return
        await wire.send(heads[seen - 1], b'a part')
        await until_still(gateway.process.pid)  # it has gone on before the end comes
        wire.reset()
    async with upstream(serve) as server, weir(ROUTES.format(url=server.url, more='attempts: 3')) as gateway, \
            aiohttp.ClientSession() as session:
        call = Caller(gateway, session)
        await call.submit('/a?queue=work', b'x')
        status = await call.get('/status/a?wait=30')
        assert (status['state'], status['attempts']) == ('done', 3)
        assert (await call('GET', '/result/a')).body == b'whole'


@run
async def test_a_long_body_and_a_long_result_are_passed_on_whole():
    async with working(louder) as (call, worker):
        body = bytes(range(97, 123)) * 100_000
        await call.submit('/long?queue=work', body)
        status = await call.get('/status/long?wait=60')
        assert (status['state'], status['result']['bytes']) == ('done', len(body))
        assert (await call('GET', '/result/long')).body == body.upper()
        assert worker.seen[0].body == body


@run
async def test_jobs_wait_in_the_gate_s_line_with_everybody_else():
    async with working(held) as (call, worker):
        for i in range(3):
            await call.submit(f'/job-{i}?queue=work&tenant=t{i}', b'x')
            await until(lambda: worker.inside == 1, 'the first is inside')

        async def both_wait():
            gate = await call.get('/gates/g/all')
            return (gate['active'], gate['waiting']) == (1, 2)
        await until(both_wait, 'one is inside and two wait')
        line = await call.get('/gates/g/all/line')
        assert {ticket['tenant'] for ticket in line['line']} == {'t1', 't2'}
        worker.gate.set()
        for i in range(3):
            assert (await call.get(f'/status/job-{i}?wait=30'))['state'] == 'done'
        assert worker.most == 1


@run
async def test_a_job_that_is_refused_comes_again_not_before_it_may():
    async def second_time(worker, message):
        return reply(b'', 'Retry-After: 1', status='503 Busy') if len(worker.seen) == 1 else reply(b'now')

    async with working(second_time) as (call, worker):
        began = asyncio.get_running_loop().time()
        await call.submit('/again?queue=work')
        status = await call.get('/status/again?wait=30')
        assert (status['state'], status['attempts']) == ('done', 2)
        assert asyncio.get_running_loop().time() - began >= 1


@run
async def test_a_job_that_is_refused_for_good_is_a_dead_letter_at_once():
    async def never(worker, message):
        return reply(b'nonsense', status='422 No')

    async with working(never) as (call, worker):
        await call.submit('/bad?queue=work')
        status = await call.get('/status/bad?wait=30')
        assert (status['state'], status['attempts']) == ('failed', 1)
        assert status['error'] == 'the route replied 422 (Unprocessable Content): nonsense'
        assert len(worker.seen) == 1


@run
async def test_a_job_that_fails_too_often_is_a_dead_letter_and_can_be_redriven():
    async def later(worker, message):
        return reply(b'', status='500 Oh') if len(worker.seen) <= 3 else reply(b'ok')

    async with working(later) as (call, worker):
        await call.submit('/late?queue=work')
        status = await call.get('/status/late?wait=30')
        assert (status['state'], status['attempts']) == ('failed', 3)
        assert (await call('POST', '/dlq/late/redrive')).json == {'redriven': 1}
        assert (await call.get('/status/late?wait=30'))['state'] == 'done'


@run
async def test_a_job_that_takes_too_long_is_ended_and_gives_its_permit_back():
    async with working(held, more='timeout: 200ms, attempts: 1') as (call, worker):
        await call.submit('/slow?queue=work')
        status = await call.get('/status/slow?wait=30')
        assert status['state'] == 'failed'
        assert status['error'] == 'the route did not answer within the timeout of 0.2 s'
        assert (await call.get('/gates/g/all'))['active'] == 0


@run
async def test_a_running_job_is_cancelled_and_gives_its_permit_back():
    async with working(held) as (call, worker):
        await call.submit('/gone?queue=work')
        await until(lambda: worker.inside == 1, 'the upstream has it')
        assert (await call('POST', '/cancel/gone')).status == 200
        await call.until_state('gone', 'cancelled')
        assert (await call.get('/gates/g/all'))['active'] == 0


SWAPPED = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
data: ./data
upstreams: {{ right: {{ url: "{right}" }}, wrong: {{ url: "{wrong}" }} }}
gates: {{ g: {{ limit: 8 }} }}
routes:
  - {{ match: /north, gate: g, key: all, upstream: right }}
  - {{ match: /south, gate: g, key: all, upstream: wrong }}
queues: {{ work: {{ route: /north/it, workers: 8, attempts: 1, line: {{ max: 10000 }} }} }}
'''


@run
async def test_no_job_takes_a_route_that_leads_elsewhere_since_a_reload():
    """Where the queue's route leads is called something else by every reload, and its old name leads to the wrong
    place."""
    async with upstream(reply()) as right, upstream(reply(status='404 Lost')) as wrong:
        async with weir(SWAPPED.format(right=right.url, wrong=wrong.url)) as gateway:
            async with aiohttp.ClientSession() as session:
                call = Caller(gateway, session)
                for i in range(30):
                    await call.lines(*({'id': f'job-{i}-{k}', 'body': ''} for k in range(20)))
                    await gateway.reload(('/north', '/middle'), ('/south', '/north'), ('/middle', '/south'))

                async def all_over():
                    queue = await call.queue('work')
                    return queue['waiting'] + queue['delayed'] + queue['running'] == 0
                await until(all_over, 'all jobs are over')
                assert (await call.get('/dlq'))['jobs'] == []
                assert (len(right.seen), wrong.seen) == (600, [])


@run
async def test_no_job_of_a_route_spends_an_attempt_because_weir_is_told_to_end(tmp_path):
    """Also if its request is on the way just then, and has not been read."""
    async with upstream(reply()) as server:
        config = ROUTES.format(url=server.url, more='attempts: 1').replace('workers: 4', 'workers: 50')
        for i in range(15):
            async with weir(config, cwd=tmp_path) as gateway, aiohttp.ClientSession() as session:
                await Caller(gateway, session).lines(*({'id': f'job-{i}-{k}', 'body': ''} for k in range(50)))
        async with weir(config, cwd=tmp_path) as gateway, aiohttp.ClientSession() as session:
            call = Caller(gateway, session)

            async def all_over():
                queue = await call.queue('work')
                return queue['waiting'] + queue['delayed'] + queue['running'] == 0
            await until(all_over, 'all jobs are over')
            found = (await call.get('/jobs?limit=1000'))['jobs']
            assert len(found) == 750
            assert [job for job in found if (job['state'], job['attempts']) != ('done', 1)] == []
