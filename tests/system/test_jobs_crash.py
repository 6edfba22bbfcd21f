"""Durable jobs under load while everything around them goes wrong: the power is cut, the disk fails or is full, the clock
jumps. Nothing that was accepted is lost (docs/internals/jobs.md, J1, J5); history.py says what that means.

WEIR_SEED repeats a run as far as the kernel's timing allows; WEIR_KILLS says how often (in make soak: thousands)."""
import asyncio
import contextlib
import os
import signal
import subprocess
import time

import aiohttp
import pytest
from history import read_ledger
from job_load import Clients, chance_of, describe, kill_under_load, site, to_the_end
from power import FOR_EVER, Faults
from raw import run
from weir import until

CUTS = int(os.environ.get('WEIR_KILLS', '100')) // 2
SIDE_BY_SIDE = 2


@to_the_end
async def test_nothing_is_lost_when_the_power_is_cut_under_load(tmp_path):
    """What was not synced is gone, or a part of it by chance."""
    async def cut_power(number):
        place = tmp_path / f'site{number}'
        place.mkdir()
        chance = chance_of('seeds of cuts', number)
        faults = Faults(place, place / 'data', power=True)

        def cut():
            faults.cut(chance.choice((None, chance.getrandbits(32))))
        await kill_under_load(place, f'cut {number}', CUTS // SIDE_BY_SIDE, faults, cut)
    await asyncio.gather(*(cut_power(number) for number in range(SIDE_BY_SIDE)))


@to_the_end
async def test_nothing_is_lost_when_it_is_killed_while_the_disk_fails(tmp_path):
    """By a power cut or without one: then the next start finds what the system still has in memory of the files, which
    after a failed sync is not what is on the disk."""
    async def kill_in_trouble(number):
        place = tmp_path / f'site{number}'
        place.mkdir()
        chance = chance_of('seeds of trouble', number)
        faults = Faults(place, place / 'data', power=True)

        def trouble():
            kind, error = chance.choice((('write', 'EIO'), ('write', 'ENOSPC'), ('write', 'short'), ('sync', 'EIO')))
            faults.fail(kind, error, after=chance.randrange(50), count=chance.choice((1, 3, FOR_EVER)))

        def cut():
            faults.mend()
            if chance.random() < 0.5:
                faults.cut(chance.choice((None, chance.getrandbits(32))))
        await kill_under_load(place, f'in trouble {number}', CUTS // SIDE_BY_SIDE, faults, cut, trouble)
    await asyncio.gather(*(kill_in_trouble(number) for number in range(SIDE_BY_SIDE)))


# ---- a disk that fails

async def fails_and_recovers(one, clients, session, kind, error, chance):
    """The disk fails until somebody was told; then it works again, and so does Weir by itself."""
    before = len(clients.refusals)
    one.faults.fail(kind, error, after=chance.randrange(20))
    told = []

    async def is_told():
        _, status, said = await one.accepts(session)
        if status == 503:
            told.append(said)
        return status == 503
    await until(is_told, f'{kind} fails with {error}, and submitters are told')
    assert told[-1]['type'] == 'urn:weir:store-failed', told
    assert told[-1]['detail']
    assert not (await one.accepts(session))[0]
    one.faults.mend()

    async def works():
        return (await one.accepts(session))[0]
    await until(works, f'it accepts again after {kind} failed with {error}')
    assert all(status == 503 for status, _ in clients.refusals[before:]
               if status not in (409, None)), clients.refusals[before:]


@pytest.mark.parametrize('kind', ['write', 'sync'])
@pytest.mark.parametrize('error', ['EIO', 'ENOSPC'])
@run
async def test_a_disk_that_fails_is_told_and_recovered_from(tmp_path, kind, error):
    """A failed sync may have lost what it was to write, whatever later ones say: after the cut that shows."""
    chance = chance_of(kind, error)
    faults = Faults(tmp_path, tmp_path / 'data', power=True)
    async with site(tmp_path, faults) as one, aiohttp.ClientSession() as session:
        await one.start()
        async with Clients(one, chance, count=4).at_work() as clients:
            for _ in range(3):
                await fails_and_recovers(one, clients, session, kind, error, chance)
            await one.kill()
            faults.cut(chance.getrandbits(32))
            await one.start()
        await one.check()
        print(describe(one.history))
        await one.end()


@pytest.mark.parametrize('kind', ['write', 'sync'])
@run
async def test_what_runs_goes_on_while_the_disk_fails(tmp_path, kind):
    """And its end is recorded when the disk works again: it has run once."""
    faults = Faults(tmp_path, tmp_path / 'data', power=True)
    async with site(tmp_path, faults) as one, aiohttp.ClientSession() as session:
        await one.start()
        await one.submit(session, 'held', b'hold', '?queue=command')
        await until(lambda: read_ledger(one.ledger), 'it runs')
        faults.fail(kind, 'EIO')

        async def fails():
            return (await one.accepts(session))[1] == 503
        await until(fails, 'submitters are told')
        pid = int(read_ledger(one.ledger)['held'][0].split('-')[0])
        one.ledger.with_suffix('.go').touch()
        await until(lambda: not os.path.exists(f'/proc/{pid}'), 'it has ended')
        status, said = await one.ask(session, 'GET', '/status/held')
        assert status == 200 and 'ended' not in said, said
        faults.mend()
        status, said = await one.ask(session, 'GET', '/status/held?wait=60')
        assert (status, said['state'], said['attempts']) == (200, 'done', 1)
        await one.kill()
        faults.cut()
        await one.start()
        await one.check()
        assert len(read_ledger(one.ledger)['held']) == 1
        await one.end()


LONG = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
data: {data}
upstreams: {{ up: {{ url: "http://127.0.0.1:{upstream}" }} }}
gates: {{ gate: {{ limit: 4 }} }}
routes: [ {{ match: /long, gate: gate, upstream: up }} ]
queues:
'''
LONG_RESULTS = LONG + '''
  command:
    run: [sh, -c, 'echo "begin $3 $4 run" >>"$1"; while [ ! -e "$1.go" ]; do sleep 0.01; done; head -c 100000 /dev/zero >"$2"',
          sh, {ledger}, "{{out}}", "{{id}}", "{{attempt}}"]
    attempts: 1
    backoff: {{ first: 1ms, max: 1ms }}
  route: {{ route: /long, attempts: 1, backoff: {{ first: 1ms, max: 1ms }} }}
'''
LONG_BODIES = LONG + '''
  command: {{ run: [cat], attempts: 2, backoff: {{ first: 1ms, max: 1ms }} }}
  route: {{ route: /long, attempts: 2, backoff: {{ first: 1ms, max: 1ms }} }}
'''


@run
async def test_a_body_that_cannot_be_read_any_more_ends_in_the_dead_letter_queue(tmp_path):
    """With the reason; others go on, and when it can be read again, it can be done again."""
    bodies = tmp_path / 'data/bodies'
    bodies.mkdir(parents=True)
    faults = Faults(tmp_path, bodies)
    jobs = ('command', 'route')

    async def ends(job, state, attempts):
        status, said = await one.ask(session, 'GET', f'/status/{job}?wait=60')
        assert (status, said['state'], said['attempts']) == (200, state, attempts), said
        return said

    async def redrive(job):
        assert (await one.ask(session, 'POST', f'/dlq/{job}/redrive'))[0] == 200
    async with site(tmp_path, faults, config=LONG_BODIES) as one, aiohttp.ClientSession() as session:
        await one.start()
        faults.fail('read', 'EIO')
        for job in jobs:
            assert (await one.ask(session, 'POST', f'/submit/{job}?queue={job}', b'x' * 100000))[0] == 202
        for job in jobs:
            assert 'body could not be read' in (await ends(job, 'failed', 2))['error']
        assert (await one.ask(session, 'POST', '/submit/short?queue=command', b'short'))[0] == 202
        await ends('short', 'done', 1)
        faults.mend()
        for path in bodies.iterdir():
            os.truncate(path, 99999)
        for job in jobs:
            await redrive(job)
            assert 'body could not be read' in (await ends(job, 'failed', 2))['error']
        for path in bodies.iterdir():
            path.write_bytes(b'x' * 100000)
        for job in jobs:
            await redrive(job)
            await ends(job, 'done', 1)
        assert (await one.ask(session, 'GET', '/result/command')) == (200, b'x' * 100000)
        await one.end()


@run
async def test_a_long_result_that_the_disk_does_not_take_costs_no_attempt(tmp_path):
    """It is made again when there is room, and before that now and then at most."""
    faults = Faults(tmp_path, tmp_path / 'data')
    async with site(tmp_path, faults, config=LONG_RESULTS) as one, aiohttp.ClientSession() as session:
        await one.start()
        await one.submit(session, 'command', b'', '?queue=command')
        await until(lambda: read_ledger(one.ledger), 'it runs')
        faults.fail('create', 'ENOSPC')
        begun = time.monotonic()
        await one.submit(session, 'route', b'', '?queue=route')
        one.ledger.with_suffix('.go').touch()
        for job in ('command', 'route'):
            async def lost():
                said = (await one.ask(session, 'GET', f'/status/{job}'))[1]
                assert said['state'] in ('queued', 'running'), said
                return 'No space left' in said.get('error', '')
            await until(lost, f'the result of {job} could not be kept')

        async def again():
            return one.upstream.longs > 2
        await until(again, 'the route is asked again')
        assert one.upstream.longs <= 2 + time.monotonic() - begun
        assert len(read_ledger(one.ledger)['command']) == 1  # without room it is not even begun
        faults.mend()
        for job in ('command', 'route'):
            status, said = await one.ask(session, 'GET', f'/status/{job}?wait=60')
            assert (status, said['state'], said['attempts'], said['result']['bytes']) == (200, 'done', 1, 100000), said
        assert len(read_ledger(one.ledger)['command']) == 2
        await one.kill()


@pytest.mark.parametrize('kind, error', [
    ('write', 'EIO'), ('write', 'ENOSPC'), ('write', 'short'), ('sync', 'EIO'), ('create', 'ENOSPC'), ('truncate', 'EIO'),
    ('rename', 'EIO'), ('unlink', 'EIO')])
@run
async def test_one_call_that_fails_loses_nothing(tmp_path, kind, error):
    """At one place after the other."""
    chance = chance_of('once', kind, error)
    faults = Faults(tmp_path, tmp_path / 'data', power=True)
    async with site(tmp_path, faults) as one, aiohttp.ClientSession() as session:
        await one.start()

        async def works():
            return (await one.accepts(session))[0]
        async with Clients(one, chance, count=4).at_work():
            for _ in range(5):
                faults.fail(kind, error, after=chance.randrange(30), count=1)
                for _ in range(5):
                    await one.accepts(session)
                await until(works, 'it accepts again')
            faults.mend()
            await one.kill()
            faults.cut(chance.getrandbits(32))
            await one.start()
        await one.check()
        await one.end()


ECHO = '''
api: 127.0.0.1:0
data: {data}
grace: 0s
queues: {{ echo: {{ run: [cat], backoff: {{ first: 1ms, max: 1ms }} }} }}
'''


@pytest.mark.parametrize('way', ['killed', 'ended'])
@run
async def test_a_submission_whose_sync_failed_keeps_its_body_as_long_as_it_may_come_back(tmp_path, way):
    """Its row may be in the journal all the same, and whoever submits it again is told that it is there."""
    faults = Faults(tmp_path, tmp_path / 'data')
    async with site(tmp_path, faults, config=ECHO) as one, aiohttp.ClientSession() as session:
        await one.start()
        answers = []
        for number in range(2, 5):  # syncs: of the file and its folder, perhaps of the journal's head, and of the commit
            path, body = f'/submit/j{number}', f'{number} '.encode() * 50000
            faults.fail('sync', 'EIO', after=number)
            answers.append((await one.ask(session, 'POST', path, body))[0])
            await (one.kill() if way == 'killed' else one.end())
            faults.mend()
            await one.start()
            assert (await one.ask(session, 'POST', path, body))[0] in (200, 202)
            assert (await one.ask(session, 'GET', f'/result/j{number}?wait=60')) == (200, body)
        assert 503 in answers
        await one.kill()


@run
async def test_the_body_of_a_submission_whose_sync_failed_goes_when_the_disk_works_again(tmp_path):
    faults = Faults(tmp_path, tmp_path / 'data')
    async with site(tmp_path, faults, config=ECHO) as one, aiohttp.ClientSession() as session:
        await one.start()
        faults.fail('sync', 'EIO', after=2)
        assert (await one.ask(session, 'POST', '/submit/long', bytes(100000)))[0] == 503
        faults.mend()
        await until(lambda: not list((tmp_path / 'data/bodies').iterdir()), 'its file is gone')
        assert (await one.ask(session, 'GET', '/status/long'))[0] == 404
        await one.kill()


@run
async def test_a_start_on_a_disk_that_fails_damages_nothing(tmp_path):
    chance = chance_of('start')
    faults = Faults(tmp_path, tmp_path / 'data', power=True)
    async with site(tmp_path, faults) as one:
        await one.start()
        async with Clients(one, chance, count=4).at_work():
            await until(lambda: len(one.history.accepted()) > 50, 'some are accepted')
            await one.kill()
            faults.cut()
            for number in range(8):
                for kind, error in (('write', 'EIO'), ('sync', 'EIO'), ('write', 'ENOSPC')):
                    faults.fail(kind, error, after=number, count=1)
                    await one.spawn()
                    with contextlib.suppress(AssertionError):  # whether it gets there is its own affair
                        await one.ready()
                        await one.kill()
                    assert await one.process.wait() in (1, -signal.SIGKILL)
                    one.up.clear()
                    faults.cut(chance.getrandbits(32))
            faults.mend()
            await one.start()
        await one.check()
        await one.end()


@contextlib.contextmanager
def small_disk(place, size):
    place.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', f'size={size}', 'weir', str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(['umount', '-l', str(place)], check=True)


@run
async def test_a_full_disk_is_told_and_recovered_from(tmp_path):
    """A command that runs meanwhile goes on, and its end is recorded later."""
    chance = chance_of('full')
    with small_disk(tmp_path / 'disk', '24m') as disk:
        ballast = disk / 'ballast'
        ballast.write_bytes(b'x' * (8 << 20))
        async with site(disk) as one, aiohttp.ClientSession() as session:
            await one.start()
            acts = {'short': 4, 'long': 4, 'batch': 1}
            async with Clients(one, chance, count=4, acts=acts).at_work() as clients:
                await until(lambda: any(status == 503 for status, _ in clients.refusals), 'the disk is full')
            problem = next(said for status, said in clients.refusals if status == 503)
            assert problem['type'] == 'urn:weir:store-failed', problem
            one.up.set()
            ballast.unlink()

            async def works():
                return (await one.accepts(session))[0]
            await until(works, 'it accepts again')
            await one.kill()
            await one.start()
            await one.check()
            await one.end()


@contextlib.contextmanager
def ballast_but(disk, free_bytes):
    """Fills the disk but for so many bytes."""
    ballast = disk / 'ballast'
    with ballast.open('wb', buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    os.truncate(ballast, ballast.stat().st_size - free_bytes)
    yield ballast
    ballast.unlink(missing_ok=True)


@run
async def test_a_disk_that_takes_no_files_takes_no_jobs_and_capacity_says_so(tmp_path):
    """Though the database has room of its own; and of a body that was too long for the room only that is refused."""
    async def capacity():
        return (await one.ask(session, 'GET', '/capacity'))[1]

    with small_disk(tmp_path / 'disk', '24m') as disk:
        async with site(disk) as one, aiohttp.ClientSession() as session:
            await one.start()
            assert await one.submit(session, 'before', b'x', '?queue=kept')
            assert (await one.ask(session, 'POST', '/submit/huge?queue=kept', bytes(30 << 20)))[0] == 503
            assert (await capacity())['accepting'] is True
            assert await one.submit(session, 'after', b'x', '?queue=kept')
            await until(lambda: not list((disk / 'data/bodies').iterdir()), 'its file is gone')
            with ballast_but(disk, 32768):
                status, said = await one.ask(session, 'POST', '/submit/long?queue=kept', bytes(100000))
                assert (status, said['type']) == (503, 'urn:weir:store-failed')
                said = await capacity()
                assert (said['accepting'], said['wrong']) == (False, 'the disk that holds the data folder is full')
                status, said = await one.ask(session, 'POST', '/submit/short?queue=kept', b'x')
                assert (status, said['type']) == (503, 'urn:weir:store-failed')
                assert 'folder is full. Weir' in said['detail']

            async def accepts():
                return (await capacity())['accepting']
            await until(accepts, 'it accepts again')
            assert 'wrong' not in await capacity()
            for job, body in (('long', bytes(100000)), ('short', b'x')):
                assert (await one.ask(session, 'POST', f'/submit/{job}?queue=kept', body))[0] == 202
            assert len(list((disk / 'data/bodies').iterdir())) == 1
            await one.kill()


# ---- time

@run
async def test_a_clock_that_jumps_loses_nothing_and_delays_stay_delays(tmp_path):
    chance = chance_of('clock')
    faults = Faults(tmp_path, tmp_path / 'data')
    async with site(tmp_path, faults) as one, aiohttp.ClientSession() as session:
        await one.start()

        async def state(job):
            _, said = await one.tell(session, 'look', job, f'/status/{job}', method='GET')
            return said['state']
        # A delay is a time to wait; a date is one of the wall's.
        await one.submit(session, 'delayed', b'ok', '?queue=command&delay=600s')
        await one.submit(session, 'dated', b'ok', f'?queue=command&run_at={int(time.time() + 600) * 1000}')
        async with Clients(one, chance, count=2, acts={'short': 1, 'look': 3, 'cancel': 1, 'revive': 1}).at_work():
            for hours in (1, -5, 3, -1, 30):
                faults.shift_clock(3600 * hours)
                for number in range(5):
                    await one.submit(session, f'c{hours}-{number}', b'ok', '?queue=command&tenant=clock&priority=high')

                async def all_done():
                    states = [await state(f'c{hours}-{number}') for number in range(5)]
                    return set(states) == {'done'}
                await until(all_done, f'jobs are done at {hours} hours from now')

                async def dated_is_done():
                    return await state('dated') == 'done'
                await until(dated_is_done, 'the date has come')
                assert await state('delayed') == 'queued'
            faults.shift_clock(-7200)
            await one.kill()
            await one.start()
        status, _ = await one.tell(session, 'cancel', 'delayed', '/cancel/delayed')
        assert status == 200
        await one.check()
        await one.end()


REMEMBERED = '''
api: 127.0.0.1:0
data: {data}
queues: {{ echo: {{ run: [cat], keep: 1h }} }}
'''
HOUR, DAY = 3600, 86400


@run
async def test_an_id_is_remembered_for_seven_days_also_when_its_result_is_gone(tmp_path):
    faults = Faults(tmp_path, tmp_path / 'data')
    async with site(tmp_path, faults, config=REMEMBERED) as one, aiohttp.ClientSession() as session:
        async def ask(method, path, body=None):
            status, said = await one.ask(session, method, path, body)
            return status, said.get('state', said.get('type')) if isinstance(said, dict) else said

        async def result_is(status):
            async def holds():
                return (await ask('GET', '/result/a'))[0] == status
            await until(holds, f'its result is {status}')

        await one.start()
        assert (await ask('POST', '/submit/a', b'body'))[0] == 202
        assert await ask('GET', '/status/a?wait=60') == (200, 'done')
        faults.shift_clock(HOUR - 300)
        assert await ask('GET', '/result/a') == (200, b'body')
        faults.shift_clock(HOUR + 300)
        await result_is(410)
        for seconds in (HOUR + 300, 3 * DAY, 7 * DAY - 300):
            faults.shift_clock(seconds)
            for _ in range(2):
                assert await ask('POST', '/submit/a', b'body') == (200, 'done')
                assert await ask('POST', '/submit/a', b'other') == (409, 'urn:weir:job-conflict')
                assert (await ask('GET', '/result/a'))[0] == (await ask('GET', '/log/a'))[0] == 410
                await one.kill()
                await one.start()
        faults.shift_clock(7 * DAY + 300)
        await result_is(404)
        assert (await ask('POST', '/submit/a', b'other'))[0] == 202
        await one.kill()
