"""What a command has started ends with Weir, however Weir ends, and before the next attempt begins (docs/internals/jobs.md).

Commands leave processes behind in all the usual ways. Each process writes marks with the time to a file; the checks
compare the times of attempts that may not overlap."""
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import signal

import aiohttp
import pytest
from job_load import chance_of, site, to_the_end
from power import SHIM
from raw import run
from weir import until

KILLS = int(os.environ.get('WEIR_KILLS', '12' if SHIM.exists() else '4'))
WORKERS = 3

CONFIG = '''
api: 127.0.0.1:0
data: {data}
queues:
  work:
    run: [/usr/bin/python3, -ISB, {command}, "{{in}}", "{{id}}", "{{attempt}}", {ledger}]
    workers: 3
    per_key: 1
    attempts: 1000
    backoff: {{ first: 1ms, max: 1ms }}
'''

# The command does a few steps and ends well; what it leaves behind would do many more.
COMMAND = '''
import os, signal, sys, time
how, job, attempt, ledger = open(sys.argv[1]).read().split()[0], sys.argv[2], sys.argv[3], sys.argv[4]
marks = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

def work(name, steps):
    for _ in range(steps):
        os.write(marks, f'{job} {attempt} {name} {os.getpid()} {time.monotonic_ns()}\\n'.encode())
        time.sleep(0.005)

def leave(begin):
    if os.fork() == 0:
        begin()
        work(how, 20000)
        os._exit(0)

def fork_twice():
    os.setsid()
    if os.fork() > 0:
        os._exit(0)

def ignore_sigterm():
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

leave({'fork': lambda: None, 'setsid': os.setsid, 'twice': fork_twice, 'deaf': ignore_sigterm}[how])
work('command', 20)
'''
WAYS = ['fork', 'setsid', 'twice', 'deaf']


def read_marks(path):
    """The marks of each attempt, (job, attempt): [(ns, name, pid)]. The last line may be cut short by a kill."""
    marks = collections.defaultdict(list)
    for line in path.read_text().splitlines() if path.exists() else []:
        if len(words := line.split()) == 5:
            marks[words[0], int(words[1])].append((int(words[4]), words[2], int(words[3])))
    return marks


def overlaps(spans):
    """Pairs of spans (begin, end, name), of which the second begins before the first has ended."""
    spans = sorted(spans)
    return [(first[2], second[2], (first[1] - second[0]) / 1e6)
            for first, second in zip(spans, spans[1:]) if second[0] <= first[1]]


def check(marks, keys):
    spans = {attempt: (min(each)[0], max(each)[0], attempt) for attempt, each in marks.items()}
    by_key, by_job = collections.defaultdict(list), collections.defaultdict(list)
    for (job, attempt), span in spans.items():
        by_job[job].append(span)
        by_key[keys[job]].append(span)
    for job, each in by_job.items():
        assert not overlaps(each), f'attempts of {job} at the same time, for ms: {overlaps(each)[:5]}'
    for key, each in by_key.items():
        assert not overlaps(each), f'jobs of the key {key} at the same time, for ms: {overlaps(each)[:5]}'
    running, most = 0, 0
    for _, change in sorted([(span[0], 1) for span in spans.values()] + [(span[1], -1) for span in spans.values()]):
        running += change
        most = max(most, running)
    assert most <= WORKERS, f'{most} attempts at the same time'


async def submit(one, session, keys):
    lines = [json.dumps({'id': job, 'queue': 'work', 'key': key, 'body': WAYS[number % len(WAYS)]})
             for number, (job, key) in enumerate(keys.items())]
    status, said = await one.ask(session, 'POST', '/submit', '\n'.join(lines) + '\n',
                                 **{'Content-Type': 'application/x-ndjson'})
    assert status == 202, said


def children(pid):
    try:
        return [int(child) for child in pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()]
    except FileNotFoundError:
        return []


def name_of(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/comm').read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ''


def is_alive(pid):
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] not in 'ZX'
    except (FileNotFoundError, ProcessLookupError):
        return False


def helpers(pid):
    """Weir's launcher and its supervisors."""
    launchers = [child for child in children(pid) if name_of(child) == 'job-launcher']
    return launchers + [each for launcher in launchers for each in children(launcher) if name_of(each) == 'job-supervisor']


def kill_all(pids):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def kill_when_it_works(one, chance, helpers_too):
    """When more has been marked, at some moment."""
    before = one.ledger.stat().st_size if one.ledger.exists() else 0
    more = chance.randrange(50, 4000)
    await until(lambda: one.ledger.exists() and one.ledger.stat().st_size > before + more, 'commands work')
    if helpers_too:
        one.process.send_signal(signal.SIGSTOP)  # so that it can do nothing about it
        kill_all(helpers(one.process.pid))
    await one.kill()


async def all_done(one, session):
    async def ended():
        listed = await one.listed(session)
        return all(document['state'] in ('done', 'failed') for document in listed) and listed
    return await until(ended, 'all have ended')


@pytest.mark.parametrize('helpers_too', [False, True], ids=['weir', 'weir-and-its-supervisors'])
@to_the_end
async def test_no_two_attempts_overlap_when_it_is_killed(tmp_path, helpers_too):
    chance = chance_of('orphans', helpers_too)
    keys = {}
    async with site(tmp_path, config=CONFIG) as one, aiohttp.ClientSession() as session:
        one.command.write_text(COMMAND)
        await one.start()
        for _ in range(KILLS):
            if sum(document['state'] in ('queued', 'running') for document in await one.listed(session)) < 12:
                more = {f'j{len(keys) + number}': f'k{number % 4}' for number in range(12)}
                keys |= more
                await submit(one, session, more)
            await kill_when_it_works(one, chance, helpers_too)
            await one.start()
        await all_done(one, session)
        await one.end()
        marks = read_marks(one.ledger)
        assert len({attempt for _, attempt in marks}) > 1, 'no attempt was repeated'
        check(marks, keys)
        assert not any(is_alive(pid) for each in marks.values() for _, _, pid in each)


ONE = CONFIG.replace('attempts: 1000', 'attempts: 1')


async def start_one(one, session, how):
    one.command.write_text(COMMAND.replace("work('command', 20)", "work('command', 20000)"))
    await one.start()
    await one.ask(session, 'POST', '/submit/j?queue=work', how.encode())

    def left():
        return [pid for each in read_marks(one.ledger).values() for _, name, pid in each if name == how]
    return (await until(left, 'the command has left a process'))[0]


@pytest.mark.parametrize('how', WAYS)
@run
async def test_what_a_command_has_started_ends_with_weir(tmp_path, how):
    async with site(tmp_path, config=ONE) as one, aiohttp.ClientSession() as session:
        pid = await start_one(one, session, how)
        assert is_alive(pid)
        await one.kill()
        await until(lambda: not is_alive(pid), 'it ends without a Weir')


@run
async def test_what_a_command_has_started_ends_when_its_supervisor_is_killed(tmp_path):
    async with site(tmp_path, config=ONE) as one, aiohttp.ClientSession() as session:
        pid = await start_one(one, session, 'twice')
        kill_all([each for each in helpers(one.process.pid) if name_of(each) == 'job-supervisor'])
        [document] = await all_done(one, session)
        assert 'job supervisor was killed' in document['error'], document
        assert not is_alive(pid)
        await one.end()


@run
async def test_a_launcher_that_was_killed_is_replaced(tmp_path):
    async with site(tmp_path, config=ONE) as one, aiohttp.ClientSession() as session:
        pid = await start_one(one, session, 'setsid')
        kill_all([each for each in helpers(one.process.pid) if name_of(each) == 'job-launcher'])
        await one.ask(session, 'POST', '/submit/k?queue=work', b'fork')
        await until(lambda: any(job == 'k' for job, _ in read_marks(one.ledger)), 'another command is started')
        assert is_alive(pid)  # it has its supervisor still
        await one.kill()
        await until(lambda: not is_alive(pid), 'it ends without a Weir')


@run
async def test_a_start_waits_for_what_has_not_ended(tmp_path):
    """A supervisor that is stopped cannot end what is its own, as one that waits for a disk."""
    async with site(tmp_path, config=ONE) as one, aiohttp.ClientSession() as session:
        pid = await start_one(one, session, 'deaf')
        stopped = [each for each in helpers(one.process.pid) if name_of(each) == 'job-supervisor']
        for each in stopped:
            os.kill(each, signal.SIGSTOP)
        await one.kill()
        try:
            await one.spawn()
            await until(lambda: children(one.process.pid), 'it has begun to start')
            assert is_alive(pid) and not one.up.is_set()
        finally:
            for each in stopped:
                os.kill(each, signal.SIGCONT)
        await one.ready()
        assert not is_alive(pid)
        await one.end()
