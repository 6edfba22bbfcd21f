"""The commands about jobs: against a real server; and where a server has to refuse, to break off or to be at some
point at a moment that a test chooses, against one of the tests' own that answers as docs/guides/jobs.md says."""
import asyncio
import fcntl
import hashlib
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import termios

from aiohttp import web
from jobs import QUEUES
from jobs import jobs as jobs_served
from raw import run
from test_cli import Cli, Said, ended, on_terminal
from weir import PATIENCE, PROGRAM, until

BIG = 200 << 20  # more than the program may have
RESIDENT_MAX = 190 << 20  # most of which is what a sanitizer takes


def problem(status, kind, detail, **headers):
    return web.json_response({'type': f'urn:weir:{kind}', 'title': kind, 'status': status, 'detail': detail},
                             status=status, headers=headers, content_type='application/problem+json')


class Jobs:
    """Accepts jobs and keeps them queued until a test says what becomes of them."""

    def __init__(self):
        self.jobs = {}
        self.bodies = {}
        self.calls = []
        self.queries = {}
        self.refusals = []  # answered one after the other before anything is accepted
        self.results = {}
        self.lists = {}
        self.port = 0
        self._runner = None

    # ---- what tests say

    def set(self, name, state, **more):
        self.jobs[name].update(state=state, **more)

    def done(self, name, result=b''):
        self.results[name] = result
        self.set(name, 'done')

    def on_accept(self, name):
        """Tests may replace it: what happens to a job that has just been accepted."""

    # ---- the calls

    async def submit(self, request):
        name = request.match_info['name']
        self.calls.append(('submit', name))
        self.queries[name] = dict(request.query)
        if self.refusals:
            refusal = self.refusals.pop(0)
            if refusal == 'drop':
                await request.read()
                request.transport.abort()
                return web.Response()
            return refusal
        digest = hashlib.sha256()
        bytes_ = 0
        async for piece in request.content.iter_any():
            digest.update(piece)
            bytes_ += len(piece)
        digest = (bytes_, digest.hexdigest())
        if name in self.jobs:
            if self.bodies[name] != digest:
                return problem(409, 'job-conflict', f'Job {name} is there with another body.')
            return web.json_response(self.jobs[name])
        self.bodies[name] = digest
        self.jobs[name] = {'id': name, 'state': 'queued', 'queue': request.query.get('queue', 'first'),
                           'attempts': 0, 'attempts_max': 5, 'position': 3}
        self.on_accept(name)
        return web.json_response(self.jobs[name], status=202, headers={'Location': f'/status/{name}'})

    async def status(self, request):
        name = request.match_info['name']
        self.calls.append(('status', name, request.query.get('wait')))
        if name not in self.jobs:
            return problem(404, 'not-found', f'There is no job {name}.')
        if 'wait' in request.query:
            deadline = asyncio.get_running_loop().time() + 0.05  # nobody here has the patience that it is asked for
            while (self.jobs[name]['state'] not in ('done', 'failed', 'cancelled')
                   and asyncio.get_running_loop().time() < deadline):
                await asyncio.sleep(0.005)
        return web.json_response(self.jobs[name])

    async def result(self, request):
        name = request.match_info['name']
        self.calls.append(('result', name))
        job = self.jobs.get(name)
        if job is None:
            return problem(404, 'not-found', f'There is no job {name}.')
        if job['state'] in ('failed', 'cancelled'):
            return web.json_response(job, status=422)
        if name not in self.results:
            return problem(409, 'job-unfinished', f'Job {name} has not ended; it is {job["state"]}.')
        result = self.results[name]
        return await result(request) if callable(result) else web.Response(body=result)

    async def log(self, request):
        return web.Response(text=self.results[request.match_info['name']].decode())

    async def capacity(self, request):
        return web.json_response(self.lists['/capacity'])

    # ---- coming and going

    async def start(self):
        app = web.Application(client_max_size=1 << 40)
        app.router.add_post('/submit/{name}', self.submit)
        app.router.add_get('/status/{name}', self.status)
        app.router.add_get('/result/{name}', self.result)
        app.router.add_get('/log/{name}', self.log)
        app.router.add_get('/capacity', self.capacity)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, '127.0.0.1', self.port, shutdown_timeout=0.1)
        await site.start()
        self.port = site._server.sockets[0].getsockname()[1]

    async def stop(self):
        if self._runner:
            await self._runner.cleanup()
            self._runner = None

    @property
    def cli(self):
        return Cli(f'127.0.0.1:{self.port}')


def with_jobs(test):
    @run
    async def wrapper(tmp_path):
        jobs = Jobs()
        await jobs.start()
        try:
            await test(jobs, tmp_path)
        finally:
            await jobs.stop()
    wrapper.__name__ = test.__name__
    return wrapper


def digest_of(body):
    return len(body), hashlib.sha256(body).hexdigest()


# ---- submitting, to a server of our own

@with_jobs
async def test_a_file_becomes_a_job_whose_id_is_printed(jobs, folder):
    (folder / 'body').write_bytes(b'what is to be done')
    said = await jobs.cli.good('submit', folder / 'body')
    [name] = said.out.splitlines()
    assert re.fullmatch('[0-9a-f]{32}', name)
    assert jobs.bodies == {name: digest_of(b'what is to be done')} and jobs.queries[name] == {}
    said = await jobs.cli.good('submit', folder / 'body', '--id', 'report-7', '--queue', 'pricing', '--tenant', 'acme',
                               '--priority', 'high', '--delay', '90s', '--attempts', '3', '--timeout', '1500ms',
                               '--key', 'a b&c', '--cost', '2m')
    assert said.out == 'report-7\n'
    assert jobs.queries['report-7'] == {'queue': 'pricing', 'tenant': 'acme', 'priority': 'high', 'delay': '90s',
                                        'attempts': '3', 'timeout': '1500ms', 'key': 'a b&c', 'cost': '2m'}
    await jobs.cli.good('submit', folder / 'body', '--id', 'later', '--run-at', '2027-01-31T06:00:00+01:00')
    assert jobs.queries['later'] == {'run_at': '2027-01-31T06:00:00+01:00'}
    (folder / 'empty').write_bytes(b'')
    await jobs.cli.good('submit', folder / 'empty', '--id', 'empty')
    assert jobs.bodies['empty'] == digest_of(b'')


@with_jobs
async def test_the_same_command_again_makes_no_second_job(jobs, folder):
    (folder / 'body').write_bytes(b'one')
    for _ in range(2):
        assert (await jobs.cli.good('submit', folder / 'body', '--id', 'once')).out == 'once\n'
    assert list(jobs.jobs) == ['once'] and len(jobs.calls) == 2
    (folder / 'body').write_bytes(b'two')
    (await jobs.cli('submit', folder / 'body', '--id', 'once')).complained(1, 'once is there with another body')
    said = await jobs.cli('submit', folder / 'body', '--id', 'once', '--json')
    assert said.status == 1 and said.documents[0]['type'] == 'urn:weir:job-conflict'


@with_jobs
async def test_the_files_of_a_folder_are_submitted_in_the_order_of_their_names(jobs, folder):
    inside = folder / 'in'
    (inside / 'deeper').mkdir(parents=True)
    for name in ('b.txt', 'a.txt', 'C.txt', '.hidden'):
        (inside / name).write_text(name)
    said = await jobs.cli.good('submit', inside, '--id', 'x-{name}')
    assert said.out.split() == ['x-C.txt', 'x-a.txt', 'x-b.txt']
    assert {name: jobs.bodies[name] for name in said.out.split()} == jobs.bodies
    assert jobs.bodies['x-b.txt'] == digest_of(b'b.txt')
    said = await jobs.cli.good('submit', inside / 'b.txt', f'{inside}/', '--json')
    assert [document['state'] for document in said.documents] == ['queued'] * 4
    (await jobs.cli('submit', inside / 'deeper')).complained(1, 'deeper: the folder has no files')


@with_jobs
async def test_standard_input_is_a_body_too(jobs, folder):
    for number, words in enumerate((['-'], [], ['-', '--id', 'x-{name}'])):
        process = await jobs.cli.start('submit', *words, stdin=asyncio.subprocess.PIPE)
        out, err = await asyncio.wait_for(process.communicate(b'piped' * 100000), PATIENCE)
        assert (process.returncode, err) == (0, b'')
        assert list(jobs.bodies.values())[number] == digest_of(b'piped' * 100000)
    assert out == b'x-stdin\n'
    (folder / 'body').write_bytes(b'redirected')
    with open(folder / 'body', 'rb') as body:
        said = await jobs.cli('submit', stdin=body)
    assert jobs.bodies[said.out.strip()] == digest_of(b'redirected')
    with open(folder / 'body', 'rb', buffering=0) as body:
        body.read(2)  # somebody else's
        said = await jobs.cli('submit', '-', stdin=body)
    assert jobs.bodies[said.out.strip()] == digest_of(b'directed')


@with_jobs
async def test_a_wrong_submission_sends_nothing(jobs, folder):
    for name in ('a', 'b', 'with blank'):
        (folder / name).write_text(name)
    (folder / 'other').mkdir()
    (folder / 'other' / 'a').write_text('')
    a, b = folder / 'a', folder / 'b'
    for status, words, word in ((2, [a, '--delay', '1s', '--run-at', '0'], '--delay and --run-at'),
                                (2, [a, '--output', folder], '--output goes with --wait'),
                                (2, [a, b, '--id', 'one'], '{name}'), (2, [''], 'not empty'),
                                (2, [a, '--attempts', 'many'], 'whole number'),
                                (1, [a, '--id', 'a/b'], 'a/b is not a job id'),
                                (1, [a, '--id', 'x' * 129], 'is not a job id'),
                                (1, [a, '--id', '{name}' + 'x' * 128], 'is not a job id'),
                                (1, [folder / 'with blank', '--id', '{name}'], 'with blank is not a job id'),
                                (1, [a, folder / 'other' / 'a', '--id', 'x-{name}'], 'would both be job x-a'),
                                (1, [folder, '--id', 'x'], 'would both be job x'),
                                (1, [a, folder / 'nowhere'], 'nowhere: No such file')):
        (await jobs.cli('submit', *words)).complained(status, word)
    assert jobs.calls == []
    (await Cli('127.0.0.1:1')('submit', a)).complained(1, 'cannot connect to 127.0.0.1:1', 'weir serve')


@with_jobs
async def test_the_first_of_several_that_is_refused_is_named_and_ends_it(jobs, folder):
    for name in 'abc':
        (folder / name).write_text(name)
    await jobs.cli.good('submit', folder / 'c', '--id', 'b')  # another body under b's id
    said = await jobs.cli('submit', folder, '--id', '{name}')
    assert said.out == 'a\n'
    said.complained(1, '/b: Job b is there', '(1 of 3 were submitted)')


@with_jobs
async def test_what_is_refused_for_now_is_sent_again_when_it_was_asked_to(jobs, folder):
    full = [problem(429, 'queue-full', 'The queue is full.', **{'Retry-After': '1'}),
            problem(503, 'queue-blocked', 'Too many dead letters.', **{'Retry-After': '1'})]
    jobs.refusals = list(full)
    process = await jobs.cli.start('submit', '--id', 'again', stdin=asyncio.subprocess.PIPE)
    begun = asyncio.get_running_loop().time()
    out, err = await asyncio.wait_for(process.communicate(b'piped'), PATIENCE)
    assert (process.returncode, out) == (0, b'again\n')
    assert err.decode().splitlines() == ['refused; again in 1 s: The queue is full.',
                                         'refused; again in 1 s: Too many dead letters.']
    assert asyncio.get_running_loop().time() - begun >= 2
    assert jobs.bodies['again'] == digest_of(b'piped') and len(jobs.calls) == 3


@with_jobs
async def test_who_is_refused_again_and_again_gives_up(jobs, folder):
    (folder / 'body').write_text('')
    jobs.refusals = [problem(429, 'queue-full', 'The queue is full.', **{'Retry-After': '1'}) for _ in range(100)]
    for_ever = jobs.cli('submit', folder / 'body')
    jobs.refusals[0:0] = [problem(429, 'queue-full', 'Do not come again.')]
    at_once = await jobs.cli('submit', folder / 'body', '--id', 'at-once')
    at_once.complained(1, 'Do not come again.')
    said = await for_ever
    assert said.status == 1 and said.err.splitlines()[-1] == 'weir submit: The queue is full.'
    assert len(jobs.calls) == 1 + 11  # once, and ten times more


@with_jobs
async def test_an_answer_that_is_lost_is_asked_for_again(jobs, folder):
    for name in 'ab':
        (folder / name).write_text(name)
    await jobs.cli.good('submit', folder / 'a', '--id', 'a')
    jobs.refusals = ['drop']
    (await jobs.cli('submit', folder / 'a', '--id', 'a')).complained(1, 'the connection to the API broke')
    accept = jobs.on_accept

    def lose_the_next(name):
        jobs.on_accept = accept
        jobs.refusals = ['drop']
    jobs.jobs.clear()
    jobs.on_accept = lose_the_next
    said = await jobs.cli('submit', folder, '--id', '{name}')  # a server that has answered before is looked for
    assert (said.status, said.out) == (0, 'a\nb\n') and 'the API is away' in said.err


@with_jobs
async def test_an_answer_that_comes_early_is_heard(jobs, folder):
    with open(folder / 'big', 'wb') as big:
        big.truncate(BIG)
    jobs.refusals = [problem(413, 'too-large', 'A body may have 1GiB.')]
    (await jobs.cli('submit', folder / 'big')).complained(1, 'A body may have 1GiB.')


def most_resident(words, environment, **more):
    """Runs the program to its end; its status, what it said on stderr and the most memory that it had."""
    with subprocess.Popen([PROGRAM, *words], env=environment, stderr=subprocess.PIPE, **more) as process:
        err = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, err, usage.ru_maxrss * 1024


@with_jobs
async def test_bodies_and_results_may_be_larger_than_memory(jobs, folder):
    with open(folder / 'big', 'wb') as big:
        big.truncate(BIG)
    expected = hashlib.sha256(bytes(BIG)).hexdigest()
    status, err, resident = await asyncio.to_thread(
        most_resident, ['submit', folder / 'big', '--id', 'big'], jobs.cli.environment, stdout=subprocess.DEVNULL)
    assert (status, err) == (0, b'') and resident < RESIDENT_MAX
    assert jobs.bodies['big'] == (BIG, expected)

    async def result(request):
        reply = web.StreamResponse()
        reply.content_length = BIG
        await reply.prepare(request)
        for _ in range(BIG >> 20):
            await reply.write(bytes(1 << 20))
        return reply
    jobs.done('big', result)
    status, err, resident = await asyncio.to_thread(
        most_resident, ['result', 'big', '-o', folder / 'out'], jobs.cli.environment)
    assert (status, err) == (0, b'') and resident < RESIDENT_MAX
    with open(folder / 'out', 'rb') as out:
        assert hashlib.file_digest(out, 'sha256').hexdigest() == expected


# ---- waiting

def later(jobs, name, action):
    """Once the job has been looked at in vain."""
    async def wait():
        await until(lambda: sum(call[:2] == ('status', name) for call in jobs.calls) > 1, f'{name} is looked at')
        action()
    return asyncio.create_task(wait())


@with_jobs
async def test_who_waits_gets_the_result(jobs, folder):
    (folder / 'body').write_text('2 + 3')
    jobs.on_accept = lambda name: later(jobs, name, lambda: jobs.done(name, b'five\x00\xff'))
    process = await jobs.cli.start('submit', folder / 'body', '--id', 'sum', '--wait')
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, out) == (0, b'five\x00\xff')
    assert err.decode().splitlines() == ['sum queued, position 3']  # for people; it is no terminal
    said = await jobs.cli('submit', folder / 'body', '--id', 'sum', '--wait', '--json')
    assert said.status == 0 and [document['state'] for document in said.documents] == ['done']
    said = await jobs.cli.good('submit', folder / 'body', '--id', 'sum', '--wait', '-o', folder / 'results')
    assert said.out == 'sum done\n' and (folder / 'results' / 'sum').read_bytes() == b'five\x00\xff'


@with_jobs
async def test_a_job_that_fails_is_told_with_the_reason_and_what_to_do(jobs, folder):
    (folder / 'body').write_text('')
    jobs.on_accept = lambda name: jobs.set(name, 'failed', error='exit status 3')
    said = await jobs.cli('submit', folder / 'body', '--id', 'bad', '--wait')
    said.complained(1, 'bad failed: exit status 3', '`weir log bad`', '`weir redrive bad`')
    assert said.out == ''
    jobs.on_accept = lambda name: jobs.set(name, 'cancelled')
    (await jobs.cli('submit', folder / 'body', '--id', 'gone', '--wait')).complained(1, 'gone was cancelled')
    (await jobs.cli('result', 'bad')).complained(1, 'bad failed: exit status 3')
    (await jobs.cli('result', 'bad', '--wait')).complained(1, 'bad failed: exit status 3')


@with_jobs
async def test_of_several_each_is_told_and_all_must_be_done(jobs, folder):
    for name in 'abcd':
        (folder / name).write_text(name)

    def become(name):
        if name == 'b':
            jobs.set(name, 'failed', error='no')
        elif name == 'd':
            later(jobs, 'd', lambda: jobs.done('d', b'D'))
        else:
            jobs.done(name, name.upper().encode())
    jobs.on_accept = become
    said = await jobs.cli('submit', *(folder / name for name in 'abcd'), '--id', '{name}', '--wait', '--output',
                          folder / 'out')
    assert sorted(said.out.splitlines()) == ['a done', 'b failed', 'c done', 'd done']
    said.complained(1, 'b failed: no')
    assert {path.name: path.read_text() for path in (folder / 'out').iterdir()} == {'a': 'A', 'c': 'C', 'd': 'D'}
    said = await jobs.cli.good('submit', *(folder / name for name in 'acd'), '--id', '{name}', '--wait')
    assert sorted(said.out.splitlines()) == ['a done', 'c done', 'd done']
    assert said.status == 0


@with_jobs
async def test_one_that_is_slow_does_not_hide_that_others_end(jobs, folder):
    for number in range(300):
        (folder / f'{number:03}').write_text('')
    process = await jobs.cli.start('submit', folder, '--id', '{name}', '--wait')
    await until(lambda: len(jobs.jobs) == 300, 'all are there')
    jobs.done('299')
    assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b'299 done\n'
    for name in list(jobs.jobs):
        jobs.done(name)
    said = await ended(process)
    assert (said.status, len(said.out.splitlines())) == (0, 299)


@with_jobs
async def test_on_a_terminal_a_bar_is_drawn_in_place_and_taken_away(jobs, folder):
    (folder / 'body').write_text('')
    async with on_terminal(jobs.cli, 'submit', str(folder / 'body'), '--id', 'slow', '--wait') as (process, terminal):
        await terminal.until(lambda text: '\rslow queued, position 3\033[K' in text, 'it waits')
        del jobs.jobs['slow']['position']
        jobs.set('slow', 'running', progress=0.4, progress_text='half\x1b[31m way')
        await terminal.until(lambda text: '\r[########............]  40 %  slow running: half?[31m way\033[K' in text,
                             'it runs')
        resize(terminal.descriptor, 30)
        await terminal.until(lambda text: '\r[########............]  40 %\033[K' in re.sub(' +\033', '\033', text),
                             'it fits')
        jobs.done('slow', b'result\n')
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        await terminal.until(lambda text: text.endswith('\r\033[Kresult\r\n'), 'only the result is left')
        assert '\n' not in terminal.text[:-1]


def resize(descriptor, columns):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack('HHHH', 24, columns, 0, 0))


@with_jobs
async def test_on_a_terminal_several_are_counted(jobs, folder):
    for name in 'abcd':
        (folder / name).write_text('')
    async with on_terminal(jobs.cli, 'submit', str(folder), '--id', '{name}', '--wait') as (process, terminal):
        await until(lambda: len(jobs.jobs) == 4, 'all are there')
        jobs.set('a', 'running')
        jobs.set('b', 'running')
        jobs.set('c', 'failed', error='no')
        jobs.done('d')
        await terminal.until(lambda text: '\r[##########..........]  50 %  1 of 4 done, 1 not, 2 running\033[K' in text,
                             'they are counted')
        jobs.calls.clear()
        await until(lambda: sum(call[:2] == ('status', 'a') for call in jobs.calls) > 3, 'they are looked at')
        jobs.done('a')
        jobs.done('b')
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 1
        # Which of the two is told first depends on which was just being looked at.
        await terminal.until(lambda text: all(f'{name} done\r\n' in text for name in 'abd') and text.endswith('done\r\n'),
                             'all are told')
        assert '\r\033[Ka done\r\n' in terminal.text or '\r\033[Kb done\r\n' in terminal.text
        assert '3 running' not in terminal.text


@with_jobs
async def test_waiting_survives_a_restart_of_the_server(jobs, folder):
    (folder / 'body').write_text('')
    submitter = await jobs.cli.start('submit', folder / 'body', '--id', 'long', '--wait')
    await until(lambda: 'long' in jobs.jobs, 'it is accepted')
    waiter = await jobs.cli.start('result', 'long', '--wait')
    looks = len(jobs.calls)
    await until(lambda: len(jobs.calls) > looks + 4, 'both wait')
    await jobs.stop()
    assert b'the API is away' in await asyncio.wait_for(waiter.stderr.readuntil(b'again\n'), PATIENCE)
    jobs.done('long', b'at last')
    await jobs.start()
    for process in (submitter, waiter):
        said = await ended(process)
        assert (said.status, said.out) == (0, 'at last')


@with_jobs
async def test_who_is_interrupted_while_it_waits_is_told_what_goes_on(jobs, folder):
    for name in 'ab':
        (folder / name).write_text('')
    for signum in (signal.SIGINT, signal.SIGTERM):
        process = await jobs.cli.start('submit', folder, '--id', '{name}', '--wait')
        jobs.calls.clear()
        await until(lambda: ('status', 'b', None) in jobs.calls, 'it waits')
        process.send_signal(signum)
        said = await ended(process)
        assert said.out == ''
        said.complained(1, '2 of 2 jobs have not ended and continue', '`weir result a --wait`')
    assert {job['state'] for job in jobs.jobs.values()} == {'queued'}


# ---- results and logs

@with_jobs
async def test_results_are_printed_or_kept_as_they_are(jobs, folder):
    jobs.jobs['a'] = {'id': 'a', 'state': 'queued'}
    (await jobs.cli('result', 'a')).complained(1, 'a has not ended; it is queued')
    (await jobs.cli('result', 'none')).complained(1, 'There is no job none.')
    said = await jobs.cli('result', 'a', '--json')
    assert said.status == 1 and said.documents[0]['type'] == 'urn:weir:job-unfinished'
    jobs.done('a', bytes(range(256)))
    process = await jobs.cli.start('result', 'a')
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, out, err) == (0, bytes(range(256)), b'')
    os.umask(mask := os.umask(0o077))
    await jobs.cli.good('result', 'a', '-o', folder / 'out')
    assert (folder / 'out').read_bytes() == bytes(range(256))
    assert stat.S_IMODE((folder / 'out').stat().st_mode) == 0o666 & ~mask
    os.mkfifo(folder / 'pipe')
    reader = asyncio.to_thread((folder / 'pipe').read_bytes)
    said, read = await asyncio.gather(jobs.cli('result', 'a', '--output', folder / 'pipe'), reader)
    assert said.status == 0 and read == bytes(range(256)) and (folder / 'pipe').is_fifo()
    (await jobs.cli('result', 'a', '-o', folder / 'no' / 'out')).complained(1, 'cannot be written: No such file')
    with open('/dev/full', 'wb') as full:
        (await jobs.cli('result', 'a', stdout=full)).complained(1, 'cannot be written: No space left')


@with_jobs
async def test_a_result_that_breaks_off_leaves_no_file_and_is_fetched_again(jobs, folder):
    tries = 0

    async def result(request):
        nonlocal tries
        tries += 1
        reply = web.StreamResponse()
        reply.content_length = 200000
        await reply.prepare(request)
        await reply.write(b'x' * 100000)
        if tries in (1, 3):
            request.transport.abort()
        else:
            await reply.write(b'y' * 100000)
        return reply
    jobs.jobs['a'] = {'id': 'a', 'state': 'done'}
    jobs.results['a'] = result
    (await jobs.cli('result', 'a', '-o', folder / 'out')).complained(1, 'the connection to the API broke')
    assert tries == 1 and list(folder.iterdir()) == []
    tries = 0
    await jobs.cli('result', 'a', '-o', folder / 'out', '--wait')  # which has been in touch with it, and so tries again
    assert tries == 2 and (folder / 'out').read_bytes() == b'x' * 100000 + b'y' * 100000
    assert [path.name for path in folder.iterdir()] == ['out']
    process = await jobs.cli.start('result', 'a', '--wait')  # what is printed cannot be taken back
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1 and tries == 3 and b'broke' in err and out == b'x' * len(out)


@with_jobs
async def test_a_log_does_not_steer_a_terminal(jobs, folder):
    jobs.results['a'] = 'red \x1b[31m\tü\nbell \x07\n'.encode()
    assert (await jobs.cli.good('log', 'a')).out == 'red \x1b[31m\tü\nbell \x07\n'
    async with on_terminal(jobs.cli, 'log', 'a') as (process, terminal):
        await terminal.until(lambda text: 'bell' in text, 'it is printed')
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        await terminal.until(lambda text: text.endswith('?\r\n'), 'all of it')
        assert '\x1b' not in terminal.text and 'red ?[31m' in terminal.text and 'ü\r\n' in terminal.text


# ---- looking

@with_jobs
async def test_the_status_of_a_job_is_told_field_by_field(jobs, folder):
    jobs.jobs['a'] = {'id': 'a', 'state': 'running', 'queue': 'pricing', 'attempts': 2, 'attempts_max': 5,
                      'created': '2026-11-16T10:00:00.000Z', 'progress': 0.4, 'progress_text': 'half',
                      'error': 'exit \x1b status 1', 'result': {'bytes': 7, 'type': 'text/plain'}, 'body_bytes': 12}
    said = await jobs.cli.good('status', 'a')
    assert dict(line.split(None, 1) for line in said.out.splitlines()) == {
        'id': 'a', 'state': 'running', 'queue': 'pricing', 'attempts': '2 of 5', 'created': '2026-11-16T10:00:00.000Z',
        'progress': '40 % half', 'error': 'exit ? status 1', 'result': '7 bytes text/plain', 'body_bytes': '12'}
    assert (await jobs.cli.good('status', 'a', '--json')).documents == [jobs.jobs['a']]
    jobs.jobs['gone'] = {'id': 'gone', 'state': 'done', 'ended': '2026-11-16T10:00:00.000Z'}  # all that is remembered
    assert [line.split()[0] for line in (await jobs.cli.good('status', 'gone')).out.splitlines()] == ['id', 'state', 'ended']
    (await jobs.cli('status', 'none')).complained(1, 'There is no job none.')
    (await jobs.cli('status')).complained(2, 'expected ID')
    (await jobs.cli('status', 'a', 'b')).complained(2, 'one word too many')


@with_jobs
async def test_capacity_is_a_table(jobs, folder):
    jobs.lists['/capacity'] = {'accepting': False, 'queues': [
        {'queue': 'q', 'workers': 4, 'running': 3, 'free': 1, 'waiting': 7, 'delayed': 2, 'max': 100,
         'drain_per_second': 1.25, 'dead': 5}]}
    said = await jobs.cli.good('capacity')
    assert said.out.endswith('\nNothing is accepted now.\n')
    [row] = Said(0, said.out.removesuffix('Nothing is accepted now.\n').encode(), b'').rows
    assert row == {'QUEUE': 'q', 'WORKERS': '4', 'RUNNING': '3', 'FREE': '1', 'WAITING': '7', 'DELAYED': '2',
                   'MAX': '100', 'DRAIN/S': '1.2', 'DEAD': '5'}
    assert (await jobs.cli.good('capacity', '--json')).documents == [jobs.lists['/capacity']]
    jobs.lists['/capacity'].update(wrong='the disk is full')
    assert (await jobs.cli.good('capacity')).out.endswith('\nNothing is accepted now: the disk is full.\n')
    jobs.lists['/capacity'].update(accepting=True, wrong='')
    jobs.lists['/capacity']['queues'][0].update(wrong='too many dead letters')
    assert (await jobs.cli.good('capacity')).out.endswith('\nNothing is accepted by q: too many dead letters.\n')


# ---- all of it, with a real server

def cli_of(call):
    return Cli(f'127.0.0.1:{call.gateway.api_port}')


def with_server(test):
    @run
    async def wrapper(tmp_path):
        async with jobs_served() as call:
            await test(call, cli_of(call), tmp_path)
    wrapper.__name__ = test.__name__
    return wrapper


@with_server
async def test_files_become_results(call, cli, folder):
    inside = folder / 'in'
    inside.mkdir()
    for name in 'abc':
        (inside / name).write_text(name * 100000)
    said = await cli('submit', inside, '--id', 'x-{name}', '--wait', '--output', folder / 'out')
    assert said.status == 0 and sorted(said.out.splitlines()) == ['x-a done', 'x-b done', 'x-c done']
    assert {path.name: path.read_text() for path in (folder / 'out').iterdir()} == {
        f'x-{name}': name * 100000 for name in 'abc'}
    said = await cli('submit', inside / 'a', '--id', 'x-a', '--wait')  # the same again
    assert (said.status, said.out) == (0, 'a' * 100000)
    (await cli('submit', inside / 'b', '--id', 'x-a')).complained(1, 'x-a is taken by a job with another body')
    (await cli('submit', inside / 'a', '--queue', 'nowhere')).complained(1, 'no queue called nowhere')
    (await cli('submit', inside / 'a', '--priority', 'urgent')).complained(1, 'priority')
    await cli.good('submit', inside / 'a', '--id', 'y', '--queue', 'keep', '--tenant', 'acme', '--priority', 'low',
                   '--delay', '1h', '--attempts', '2', '--timeout', '90s', '--key', 'a b', '--cost', '1m')
    fields = dict(line.split(None, 1) for line in (await cli.good('status', 'y')).out.splitlines())
    assert {name: fields[name] for name in ('state', 'queue', 'tenant', 'priority', 'key', 'attempts')} == {
        'state': 'queued', 'queue': 'keep', 'tenant': 'acme', 'priority': 'low', 'key': 'a b', 'attempts': '0 of 2'}
    assert fields['due'] > fields['created']
    assert (await cli.good('status', 'y', '--json')).documents[0]['id'] == 'y'


@with_server
async def test_results_and_logs_are_fetched(call, cli, folder):
    await call.submit('/a', b'text')
    assert (await cli('result', 'a', '--wait')).out == 'text'
    await cli.good('result', 'a', '-o', folder / 'out')
    assert (folder / 'out').read_text() == 'text'
    await call.submit('/k?queue=keep', b'')
    (await cli('result', 'k')).complained(1, 'weir result: ')
    (await cli('result', 'none')).complained(1, 'no job with this id')
    await call.submit('/bad?queue=broken', b'what went wrong\n')
    said = await cli('result', 'bad', '--wait')
    assert said.status == 1 and '`weir log bad`' in said.err.splitlines()[-1]
    assert (await cli.good('log', 'bad')).out == 'what went wrong\n'
    (await cli('log', 'none')).complained(1, 'no job with this id')


@with_server
async def test_progress_is_shown_on_a_terminal_and_elsewhere(call, cli, folder):
    with call.gate() as (body, path):
        (folder / 'body').write_bytes(body)
        words = ['submit', str(folder / 'body'), '--id', 'p', '--queue', 'progress', '--wait']
        async with on_terminal(cli, *words) as (process, terminal):
            await terminal.until(lambda text: '\r[#####...............]  25 %  p running: a quarter\033[K' in text, 'it runs')
            plain = await cli.start('result', 'p', '--wait')
            assert await asyncio.wait_for(plain.stderr.readline(), PATIENCE) == b'p running: a quarter, 25 %\n'
            path.touch()
            assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
            assert (await ended(plain)).status == 0


@with_server
async def test_jobs_are_cancelled_each_by_itself(call, cli, folder):
    with call.gate() as (body, path):
        await call.submit('/a?queue=keep')
        await call.submit('/b')
        await call.submit('/c?queue=held', body)
        await call.until_state('b', 'done')
        await call.until_state('c', 'running')
        said = await cli('cancel', 'a', 'b', 'none', 'c')
        assert said.status == 1 and said.out.splitlines()[0] == 'a cancelled'
        assert len(said.out.splitlines()) == len(said.err.splitlines()) == 2
        await call.until_state('c', 'cancelled')
    assert (await cli.good('cancel', 'a', '--json')).documents[0]['state'] == 'cancelled'
    (await cli('cancel')).complained(2, 'expected ID...')
    (await Cli('127.0.0.1:1')('cancel', 'a', 'b')).complained(1, 'cannot connect')


@with_server
async def test_lists_are_paged_through(call, cli, folder):
    names = [f'job-{"x" * (number % 40)}{number}' for number in range(2500)]
    await call.lines(*({'id': name, 'queue': 'keep', 'body': ''} for name in names))
    said = await cli.good('jobs')
    assert said.out.count('ID ') == 1 and [row['ID'] for row in said.rows] == names
    assert {**said.rows[0], 'CREATED': ''} == {'ID': 'job-0', 'STATE': 'queued', 'QUEUE': 'keep', 'TENANT': '-',
                                               'PRIORITY': 'normal', 'ATTEMPTS': '0/5', 'CREATED': '', 'ERROR': '-'}
    documents = (await cli.good('jobs', '--json', '--state', 'queued', '--queue', 'keep')).documents
    assert [job['id'] for document in documents for job in document['jobs']] == names and len(documents) > 2
    for words in (['--state', 'done'], ['--queue', 'echo'], ['--tenant', 'acme']):
        assert (await cli.good('jobs', *words)).rows == []
    (await cli('jobs', '--state', 'lost')).complained(1, 'state')


@with_server
async def test_dead_letters_are_listed_redriven_and_deleted(call, cli, folder):
    for name in 'abcd':
        await call.submit(f'/{name}?queue=broken&tenant=t{name}')
        await call.until_state(name, 'failed')
    rows = (await cli.good('dlq')).rows
    assert [(row['ID'], row['QUEUE'], row['TENANT'], row['ATTEMPTS']) for row in rows] == [
        (name, 'broken', f't{name}', '1/1') for name in 'abcd']
    assert all('3' in row['REASON'] and row['ENDED'] != '-' for row in rows)
    assert [row['ID'] for row in (await cli.good('dlq', 'list', '--tenant', 'tb')).rows] == ['b']
    assert (await cli.good('dlq', 'delete', 'a', 'b')).out == 'a deleted\nb deleted\n'
    (await cli('dlq', 'delete', 'a')).complained(1, 'weir dlq: ')
    assert (await cli.good('redrive', 'c')).out == 'c queued\n'
    await call.until_state('c', 'failed')
    assert (await cli.good('redrive', '--all', '--tenant', 'td')).out == 'Redriven: 1.\n'
    assert (await cli.good('redrive', '--all', '--queue', 'keep', '--json')).documents == [{'redriven': 0}]
    for words in (['redrive'], ['redrive', 'a', '--all'], ['redrive', 'a', '--queue', 'q'], ['dlq', 'delete'],
                  ['dlq', 'list', 'a'], ['dlq', 'remove', 'a'], ['dlq', 'delete', 'a', '--queue', 'q']):
        (await cli(*words)).complained(2, f'`weir {words[0]} --help`')


@with_server
async def test_names_of_jobs_and_queues_are_completed(call, cli, folder):
    await call.submit('/live-1?queue=keep')
    await call.submit('/dead-1?queue=broken')
    await call.until_state('dead-1', 'failed')

    async def offered(*words):
        return [line.split('\t')[0] for line in (await cli.good('complete', *words)).out.splitlines()]
    assert await offered('status', '') == ['live-1', 'dead-1']
    assert await offered('cancel', 'x', 'y', 'z', 'l') == ['live-1']
    assert await offered('dlq', '') == ['list', 'delete']
    assert await offered('dlq', 'delete', '') == await offered('redrive', 'a', 'b', '') == ['dead-1']
    assert await offered('submit', '--queue', 'pr') == ['progress']
    assert await offered('submit', 'a', '') == []


def free_port():
    with socket.create_server(('127.0.0.1', 0)) as probe:
        return probe.getsockname()[1]


@run
async def test_waiting_survives_that_the_server_is_killed(tmp_path):
    port = free_port()
    (tmp_path / 'weir.yaml').write_text(QUEUES.replace('api: 127.0.0.1:0', f'api: 127.0.0.1:{port}'))
    (tmp_path / 'body').write_text(f'{tmp_path}/go\n')
    cli = Cli(f'127.0.0.1:{port}')

    async def serve():
        process = await cli.start('serve', 'weir.yaml', cwd=tmp_path)
        await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        return process
    server = await serve()
    try:
        waiter = await cli.start('submit', tmp_path / 'body', '--id', 'a', '--queue', 'held', '--wait')
        await asyncio.wait_for(waiter.stderr.readuntil(b'a running\n'), PATIENCE)
        server.kill()
        await asyncio.wait_for(waiter.stderr.readuntil(b'the API is away; trying to reach it again\n'), PATIENCE)
        await server.communicate()
        server = await serve()
        (tmp_path / 'go').touch()
        said = await ended(waiter)
        assert (said.status, said.out) == (0, 'let go\n')
        assert (await cli.good('status', 'a', '--json')).documents[0]['attempts'] == 2
    finally:
        server.terminate()
        await server.communicate()
