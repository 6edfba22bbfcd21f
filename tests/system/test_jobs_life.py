"""The life of jobs in a running Weir, docs/guides/jobs.md: their order, their ends, what survives which end of the program, and
how another config is taken up. What the HTTP interface says of it is tested in test_jobs_api.py, crashes under load in
test_jobs_crash.py."""
import asyncio
import contextlib
import datetime
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

import aiohttp
from jobs import Caller
from raw import reply, run, upstream
from weir import PATIENCE, PROGRAM, until, weir


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield pathlib.Path(name)


@contextlib.asynccontextmanager
async def serving(home, queues, more='', grace='5s'):
    """A Weir whose data stay in `home` when it has ended. Commands find that folder as $HOME_OF_TEST."""
    text = f'api: 127.0.0.1:0\nthreads: 2\ngrace: {grace}\ndata: {home}/data\n{more}\nqueues:\n' + ''.join(
        f'  {name}: {{ environment: {{ HOME_OF_TEST: {home} }}, {rest} }}\n' for name, rest in queues.items())
    async with weir(text) as gateway:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Caller(gateway, session)


def shell(script, **more):
    """A queue whose command is a script; its standard input is the body."""
    return ', '.join([f'run: ["sh", "-c", {json.dumps(script)}]', *(f'{name}: {value}' for name, value in more.items())])


HELD = 'echo $$ > $HOME_OF_TEST/pid; while ! test -e $HOME_OF_TEST/go; do sleep 0.01; done; echo done'


def pid_in(home):
    """Of a HELD command, once it has written it; else 0."""
    path = home / 'pid'
    return int(path.read_text() or 0) if path.exists() else 0


async def end(call, how=signal.SIGTERM):
    """Ends the program and waits until it is gone."""
    process = call.gateway.process
    call.gateway.ending = True
    process.send_signal(how)
    return await asyncio.wait_for(process.wait(), PATIENCE)


# ---- order

@run
async def test_priorities_share_the_turns_and_within_one_the_first_comes_first():
    with folder() as home:
        script = 'cat >> $HOME_OF_TEST/order; echo >> $HOME_OF_TEST/order'
        # Without workers all stand in line before the first turn comes.
        async with serving(home, {'q': 'line: { max: 1000 }'}) as call:
            for i in range(24):
                for priority in ('low', 'normal', 'high'):
                    await call.submit(f'/{priority}-{i}?queue=q&priority={priority}', f'{priority}-{i}'.encode())
        async with serving(home, {'q': shell(script, workers=1, line='{ max: 1000 }')}) as call:
            await call.get('/status/low-23?wait=60')
        order = (home / 'order').read_text().split()
        assert len(order) == 72
        for turn in range(0, 48, 8):  # as long as all of them wait
            names = [name.split('-')[0] for name in order[turn:turn + 8]]
            assert (names.count('high'), names.count('normal'), names.count('low')) == (4, 3, 1), order
        for priority in ('low', 'normal', 'high'):
            assert [name for name in order if name.startswith(priority)] == [f'{priority}-{i}' for i in range(24)]


@run
async def test_one_job_is_not_delayed_by_many_of_another_tenant():
    with folder() as home:
        script = 'cat >> $HOME_OF_TEST/order; echo >> $HOME_OF_TEST/order'
        async with serving(home, {'q': 'line: { max: 100000 }'}) as call:
            for part in range(0, 3000, 1000):
                await call.lines(*({'id': f'many-{part + i}', 'queue': 'q', 'tenant': 'many', 'body': 'many'} for i in range(1000)))
            await call.submit('/one?queue=q&tenant=one', b'one')
        async with serving(home, {'q': shell(script, workers=1, line='{ max: 100000 }')}) as call:
            await call.get('/status/one?wait=60')
            order = (home / 'order').read_text().split()
            assert order.index('one') <= 2, order[:10]


@run
async def test_jobs_with_the_same_key_run_one_after_the_other():
    with folder() as home:
        script = ('mkdir $HOME_OF_TEST/inside || exit 9; sleep 0.02; rmdir $HOME_OF_TEST/inside')
        async with serving(home, {'q': shell(script, workers=4, per_key=1, attempts=1)}) as call:
            for i in range(8):
                await call.submit(f'/{i}?queue=q&key=same')
            states = [(await call.get(f'/status/{i}?wait=60'))['state'] for i in range(8)]
            assert states == ['done'] * 8


@run
async def test_what_a_submission_asks_for_is_what_happens_also_after_a_restart():
    with folder() as home:
        waiting = {name: 'line: { max: 100 }' for name in ('q', 'hasty', 'held')}
        async with serving(home, waiting) as call:
            await call.submit('/tries?queue=q&attempts=2', b'exit 3')
            await call.submit('/brief?queue=q&attempts=1&timeout=50ms', b'sleep 60')
            await call.submit('/long?queue=hasty&timeout=1m', b'sleep 0.4')
            delayed = await call.submit('/delayed?queue=q&delay=700ms', b'true')
            dated = await call.submit(f'/dated?queue=q&run_at={int(time.time() * 1000) + 700}', b'true')
            # A tenant is charged beforehand what its jobs are expected to cost: the third turn is not `dear`'s.
            for i in range(3):
                await call.submit(f'/dear{i}?queue=held&tenant=dear&cost=1h')
                await call.submit(f'/cheap{i}?queue=held&tenant=cheap&cost=1s')
        running = {'q': shell('. /dev/stdin', workers=9, attempts=5, backoff='{ first: 1ms, max: 2ms }'),
                   'hasty': shell('. /dev/stdin', timeout='200ms'), 'held': shell(HELD, workers=3)}
        async with serving(home, running) as call:
            told = {job: await call.get(f'/status/{job}?wait=30') for job in ('tries', 'brief', 'long', 'delayed', 'dated')}
            assert {job: (one['state'], one['attempts']) for job, one in told.items()} == {
                'tries': ('failed', 2), 'brief': ('failed', 1), 'long': ('done', 1), 'delayed': ('done', 1), 'dated': ('done', 1)}
            assert 'timeout of 0.05 s' in told['brief']['error']
            for job in (delayed, dated):
                assert told[job['id']]['started'] >= job['due'] > job['created']

            async def three_run():
                return (await call.queue('held'))['running'] == 3
            await until(three_run, 'three run')
            assert {job['id'] for job in (await call.get('/jobs?state=running'))['jobs']} == {'dear0', 'cheap0', 'cheap1'}
            (home / 'go').touch()


@run
async def test_whoever_waits_is_told_when_it_will_start_and_how_fast_the_line_is():
    with folder() as home:
        script = 'read what; case $what in hold) while ! test -e $HOME_OF_TEST/go; do sleep 0.01; done ;; *) sleep 0.05 ;; esac'
        async with serving(home, {'q': shell(script, workers=1)}) as call:
            for i in range(12):
                await call.submit(f'/{i}', b'sleep\n')
            await call.get('/status/11?wait=30')
            for i in range(4):
                await call.submit(f'/hold{i}', b'hold\n')
            await call.until_state('hold0', 'running')
            drain = (await call.queue('q'))['drain_per_second']
            assert 0 < drain < 20, drain  # one in 50 ms, or more
            begun = datetime.datetime.now(datetime.timezone.utc)
            told = [await call.get(f'/status/hold{i}') for i in range(4)]
            assert [one.get('position') for one in told] == [None, 1, 2, 3] and 'predicted_start' not in told[0]
            starts = [(datetime.datetime.fromisoformat(one['predicted_start']) - begun).total_seconds() for one in told[1:]]
            for turns, seconds in enumerate(starts, start=1):
                assert 0.5 * turns / drain < seconds < 1.5 * turns / drain + 10, (starts, drain)
            assert starts == sorted(starts)
            (home / 'go').touch()
            assert 'predicted_start' not in await call.get('/status/hold3?wait=30')


# ---- failing

@run
async def test_a_job_that_fails_is_tried_again_and_told_of_by_events_and_metrics():
    with folder() as home:
        script = 'echo again >> $HOME_OF_TEST/tries; test $(wc -l < $HOME_OF_TEST/tries) -ge 3'
        async with serving(home, {'q': shell(script, attempts=5, backoff='{ first: 10ms, max: 20ms }'),
                                  'bad': shell('exit 7', attempts=2, backoff='{ first: 10ms, max: 20ms }')}) as call:
            async with call.session.get(call.gateway.api + '/events') as stream:
                await call.submit('/a?queue=q&tenant=acme')
                assert (await call.get('/status/a?wait=30'))['attempts'] == 3
                await call.submit('/b?queue=bad')
                failed = await call.get('/status/b?wait=30')
                assert (failed['state'], failed['attempts']) == ('failed', 2)
                events = [json.loads(await asyncio.wait_for(stream.content.readline(), PATIENCE)) for _ in range(5)]
            kinds = [(event['type'], event['id'], event['attempt']) for event in events]
            assert kinds == [('job.retry', 'a', 1), ('job.retry', 'a', 2), ('job.done', 'a', 3),
                             ('job.retry', 'b', 1), ('job.failed', 'b', 2)]
            assert events[0].keys() == {'type', 'id', 'queue', 'tenant', 'attempt', 'ran_ms', 'error', 'timestamp'}
            assert (events[0]['queue'], events[0]['tenant']) == ('q', 'acme')
            assert '7' in events[4]['error'] and 'error' not in events[2]
            async with call.session.get(call.gateway.api + '/events?type=job.done') as stream:
                await call.submit('/c?queue=q')
                event = json.loads(await asyncio.wait_for(stream.content.readline(), PATIENCE))
                assert (event['type'], event['id']) == ('job.done', 'c')
            text = (await call('GET', '/metrics')).body.decode()
            assert check_metrics(text) == ''
            for line in ('weir_queue_workers{queue="q"} 1', 'weir_queue_dead{queue="bad"} 1',
                         'weir_jobs_total{queue="q",end="done"} 2', 'weir_jobs_total{queue="bad",end="failed"} 1',
                         'weir_job_retries_total{queue="q"} 2', 'weir_jobs_accepted_total{queue="q"} 2',
                         'weir_job_run_seconds_count{queue="q"} 4', 'weir_store_working 1', 'weir_job_stale_total 0'):
                assert f'\n{line}\n' in text, line


def check_metrics(text):
    done = subprocess.run(['promtool', 'check', 'metrics'], input=text, text=True, capture_output=True, check=False)
    return done.stdout + done.stderr


@run
async def test_a_job_that_kills_its_worker_is_quarantined_and_can_be_redriven():
    with folder() as home:
        script = 'test -e $HOME_OF_TEST/mended || kill -9 $$'
        async with serving(home, {'q': shell(script, attempts=100, backoff='{ first: 5ms, max: 10ms }')}) as call:
            await call.submit('/a?queue=q')
            told = await call.get('/status/a?wait=30')
            assert (told['state'], told['attempts']) == ('failed', 3)
            assert told['error'].startswith('quarantined')
            (home / 'mended').touch()
            assert (await call('POST', '/dlq/a/redrive')).json == {'redriven': 1}
            assert (await call.get('/status/a?wait=30'))['state'] == 'done'


# ---- ends of the program

@run
async def test_draining_lets_what_runs_finish_and_starts_nothing():
    with folder() as home:
        async with serving(home, {'q': shell(HELD, workers=1)}, grace='60s') as call:
            await call.submit('/a?queue=q')
            await call.submit('/b?queue=q')
            await call.until_state('a', 'running')
            call.gateway.terminate()
            async def refused():
                return (await call('POST', '/submit/c?queue=q')).status == 503
            await until(refused, 'nothing is accepted any more')
            assert not (await call.get('/capacity'))['accepting']
            (home / 'go').touch()
            assert await asyncio.wait_for(call.gateway.process.wait(), PATIENCE) == 0
        async with serving(home, {'q': 'workers: 1'}) as call:
            assert (await call.get('/status/a'))['state'] == 'done'
            assert (await call('GET', '/result/a')).body == b'done\n'
            waiting = await call.get('/status/b')
            assert (waiting['state'], waiting['attempts']) == ('queued', 0)


@run
async def test_queues_have_the_order_of_the_config_also_after_a_restart():
    queues = {'b': 'workers: 1', 'a': 'workers: 1'}
    with folder() as home:
        async with serving(home, queues) as call:
            await call.submit('/x?queue=a')
            assert await end(call) == 0
        async with serving(home, queues) as call:
            assert [queue['queue'] for queue in (await call.get('/capacity'))['queues']] == ['b', 'a']


@run
async def test_what_does_not_finish_within_the_grace_runs_again_and_has_spent_no_attempt():
    with folder() as home:
        async with serving(home, {'q': shell(HELD, workers=1)}, grace='100ms') as call:
            await call.submit('/a?queue=q')
            await until(lambda: pid_in(home), 'it runs')
            assert await end(call) == 0
        pid = pid_in(home)
        assert not pathlib.Path(f'/proc/{pid}').exists()
        (home / 'go').touch()
        # That Weir was told to end is not the job's fault.
        async with serving(home, {'q': shell(HELD, workers=1)}) as call:
            told = await call.get('/status/a?wait=30')
            assert (told['state'], told['attempts']) == ('done', 1)


@run
async def test_a_command_that_is_ended_along_with_weir_has_spent_no_attempt():
    """As by a service manager, which tells all of its processes to end."""
    with folder() as home:
        async with serving(home, {'held': shell(HELD, attempts=1)}) as call:
            await call.submit('/a')
            await until(lambda: pid_in(home), 'it runs')
            call.gateway.terminate()
            line = await asyncio.wait_for(call.gateway.process.stdout.readline(), PATIENCE)
            assert line == b'weir: draining\n'

            async def refuses():
                return not (await call.get('/capacity'))['accepting']
            await until(refuses, 'it drains')
            os.kill(pid_in(home), signal.SIGTERM)
        (home / 'go').touch()
        async with serving(home, {'held': shell(HELD, attempts=1)}) as call:
            status = await call.get('/status/a?wait=30')
            assert (status['state'], status['attempts']) == ('done', 1), status


@run
async def test_a_drain_waits_for_jobs_of_routes_and_what_it_ends_runs_again():
    door = asyncio.Event()
    inside = 0

    async def answer(wire, _):
        nonlocal inside
        inside += 1
        await door.wait()
        await wire.send(reply(b'done'))
    with folder() as home:
        async with upstream(answer) as server:
            routes = (f'listen: 127.0.0.1:0\nupstreams: {{ u: {{ url: "{server.url}" }} }}\n'
                      'routes: [ { match: /work, upstream: u, key: all } ]')
            queues = {'q': 'route: /work'}
            async with serving(home, queues, routes, grace='60s') as call:
                await call.submit('/a?queue=q')
                await until(lambda: inside == 1, 'it runs')
                call.gateway.terminate()

                async def drains():
                    return not (await call.get('/capacity'))['accepting']
                await until(drains, 'it drains')
                door.set()
                assert await asyncio.wait_for(call.gateway.process.wait(), PATIENCE) == 0
            door.clear()
            async with serving(home, queues, routes, grace='50ms') as call:
                assert await call.state('a') == 'done'
                await call.submit('/b?queue=q')
                await until(lambda: inside == 2, 'it runs')
                assert await end(call) == 0
            door.set()
            async with serving(home, queues, routes) as call:
                told = await call.get('/status/b?wait=30')
                assert (told['state'], told['attempts']) == ('done', 1)


async def run_and_kill(home, queues, work):
    """Runs a Weir, does something with it, and kills it."""
    with tempfile.TemporaryDirectory() as cwd:
        path = pathlib.Path(cwd) / 'weir.yaml'
        path.write_text(f'api: unix:{cwd}/api\ndata: {home}/data\nqueues:\n' + ''.join(
            f'  {name}: {{ environment: {{ HOME_OF_TEST: {home} }}, {rest} }}\n' for name, rest in queues.items()))
        process = await asyncio.create_subprocess_exec(PROGRAM, 'serve', str(path), stdout=asyncio.subprocess.PIPE)
        try:
            assert await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(f'{cwd}/api')) as session:
                await work(session)
        finally:
            process.kill()
            await process.wait()


@run
async def test_a_killed_weir_has_spent_an_attempt_of_what_ran_and_nothing_else():
    with folder() as home:
        async def work(session):
            for job in ('a', 'b'):
                async with session.post(f'http://localhost/submit/{job}?queue=q', data=b'x') as reply:
                    assert reply.status == 202
            await until(lambda: pid_in(home), 'it runs')
        await run_and_kill(home, {'q': shell(HELD, workers=1)}, work)
        pid = pid_in(home)
        await until(lambda: not pathlib.Path(f'/proc/{pid}').exists(), 'its command has died with it')
        (home / 'go').touch()
        async with serving(home, {'q': shell(HELD, workers=1, backoff='{ first: 10ms }')}) as call:
            told = [await call.get(f'/status/{job}?wait=30') for job in ('a', 'b')]
            assert [(job['state'], job['attempts']) for job in told] == [('done', 2), ('done', 1)]
        assert list((home / 'data/work').iterdir()) == []


@run
async def test_a_job_that_kills_weir_as_soon_as_it_runs_is_quarantined():
    with folder() as home:
        async with serving(home, {'q': 'attempts: 10'}) as call:
            await call.submit('/a?queue=q')
        path = home / 'weir.yaml'
        path.write_text(f'api: unix:{home}/api\ndata: {home}/data\n'
                        f'queues: {{ q: {{ run: ["sh", "-c", "kill -9 $(cat {home}/data/lock)"] }} }}\n')
        for _ in range(3):
            process = await asyncio.create_subprocess_exec(PROGRAM, 'serve', str(path), stdout=asyncio.subprocess.DEVNULL)
            assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGKILL
        async with serving(home, {'q': shell('true')}) as call:
            told = await call.get('/status/a?wait=30')
            assert (told['state'], told['attempts']) == ('failed', 3)
            assert told['error'].startswith('quarantined')


@run
async def test_a_folder_is_used_by_one_weir():
    with folder() as home:
        async with serving(home, {'q': 'workers: 1'}) as call:
            path = home / 'second.yaml'
            path.write_text(f'api: 127.0.0.1:0\ndata: {home}/data\nqueues: {{ q: {{}} }}\n')
            second = await asyncio.create_subprocess_exec(
                PROGRAM, 'serve', str(path), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
            _, said = await asyncio.wait_for(second.communicate(), PATIENCE)
            assert second.returncode == 1
            assert str(home).encode() in said and said.count(b'\n') == 1, said
            await call.submit('/a?queue=q')


# ---- another config

@run
async def test_without_queues_there_is_no_folder_and_with_the_first_there_is():
    with folder() as home:
        async with weir(f'api: 127.0.0.1:0\ndata: {home}/data\nthreads: 2\n') as gateway:
            async with aiohttp.ClientSession() as session:
                call = Caller(gateway, session)
                assert (await call('POST', '/submit/a', b'')).status == 404
                assert not (home / 'data').exists()
                await gateway.reload(('threads: 2\n', 'threads: 2\nqueues: { q: { run: ["cat"] } }\n'))
                await call.submit('/a?queue=q', b'hello')
                assert (await call.get('/status/a?wait=30'))['state'] == 'done'
                await gateway.reload(('queues: { q: { run: ["cat"] } }\n', ''))
                assert (await call('POST', '/submit/b?queue=q', b'')).status in (400, 404)
                assert (await call.get('/status/a'))['state'] == 'done'


@run
async def test_queues_change_while_jobs_run():
    with folder() as home:
        async with serving(home, {'q': shell(HELD, workers=1), 'keep': 'workers: 1'}) as call:
            for job in ('a', 'b', 'c'):
                await call.submit(f'/{job}?queue=q')
            await call.submit('/kept?queue=keep')
            await call.until_state('a', 'running')
            await call.gateway.reload(('workers: 1 }\n  keep', 'workers: 2 }\n  keep'))
            await call.until_state('b', 'running')
            assert await call.state('c') == 'queued'
            # A queue that is taken out keeps its jobs; what runs goes on.
            text = call.gateway.path.read_text()
            [line] = [line for line in text.splitlines(True) if line.startswith('  q:')]
            await call.gateway.reload((line, ''))
            assert await call.state('a') == 'running'
            (home / 'go').touch()
            assert (await call.get('/status/a?wait=30'))['state'] == 'done'
            assert (await call.get('/status/b?wait=30'))['state'] == 'done'
            assert await call.state('c') == 'queued'
            await call.gateway.reload(('  keep', line + '  keep'))
            assert (await call.get('/status/c?wait=30'))['state'] == 'done'
            assert await call.state('kept') == 'queued'


@run
async def test_another_folder_needs_a_restart_and_a_missing_command_is_refused():
    with folder() as home:
        async with serving(home, {'q': 'run: ["cat"], workers: 1'}) as call:
            await call.gateway.reload((f'data: {home}/data', f'data: {home}/other'))
            assert 'a change of data needs a restart' in call.gateway.complaints()
            assert not (home / 'other').exists()
            text = call.gateway.path.read_text().replace('["cat"]', '["/nowhere/at-all"]')
            call.gateway.path.write_text(text)
            call.gateway.process.send_signal(signal.SIGHUP)
            await until(lambda: 'everything goes on as before' in call.gateway.complaints(), 'it is refused')
            assert '/nowhere/at-all' in call.gateway.complaints()
            await call.submit('/a?queue=q', b'hello')
            assert (await call.get('/status/a?wait=30'))['state'] == 'done'
