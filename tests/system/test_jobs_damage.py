"""A disk that changes what it keeps (docs/internals/jobs.md, J6): what is damaged is never served, sent or run as if it were right;
its job is a dead letter that says so, or counted as lost; everything else goes on."""
import asyncio
import contextlib
import os
import pathlib
import random
import re
import signal
import sqlite3
import subprocess

import aiohttp
from job_load import chance_of
from jobs import Caller
from raw import run
from weir import PATIENCE, PROGRAM, until

LONG = 300000  # longer than what lies in the database
FLIPS = 40

QUEUES = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
data: ./data
upstreams: {{ up: {{ url: "http://127.0.0.1:{upstream}" }} }}
gates: {{ gate: {{ limit: 4 }} }}
routes: [ {{ match: /work, gate: gate, upstream: up }} ]
queues:
  keep: {{ line: {{ max: 20000 }} }}
  echo: {{ run: ["cat", "{{in}}"], workers: 4, attempts: 1 }}
  piped: {{ run: ["cat"], workers: 1, attempts: 1 }}
  route: {{ route: /work, workers: 1, attempts: 1 }}
'''


class Weir:
    """One that is started again on the same folder; its lines on stderr stay."""

    def __init__(self, place, upstream):
        self.path = pathlib.Path(place) / 'weir.yaml'
        self.data = pathlib.Path(place) / 'data'
        self.errors = pathlib.Path(f'{place}-errors')  # not on a disk that may be full
        self.config = QUEUES.format(upstream=upstream)
        self.path.write_text(self.config)
        self.process = None
        self.api = None

    async def start(self, config=None):
        self.path.write_text(config or self.config)
        with self.errors.open('wb') as errors:
            self.process = await asyncio.create_subprocess_exec(
                PROGRAM, 'serve', str(self.path), cwd=self.path.parent, stdout=asyncio.subprocess.PIPE, stderr=errors)
        while True:
            line = (await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)).decode()
            assert line, self.said()
            if found := re.fullmatch(r'weir: api on (127\.0\.0\.1:\d+)\n', line):
                self.api = f'http://{found[1]}'
                return

    async def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(self.process.wait(), PATIENCE) == 0, self.said()

    def said(self):
        return self.errors.read_text()


class Upstream:
    def __init__(self):
        self.bodies = []

    async def work(self, request):
        self.bodies.append(await request.read())
        return aiohttp.web.Response(body=self.bodies[-1])

    @contextlib.asynccontextmanager
    async def serve(self):
        app = aiohttp.web.Application(client_max_size=1 << 24)
        app.router.add_post('/work', self.work)
        runner = aiohttp.web.AppRunner(app)
        await runner.setup()
        site = aiohttp.web.TCPSite(runner, '127.0.0.1', 0)
        await site.start()
        try:
            yield site._server.sockets[0].getsockname()[1]
        finally:
            await runner.cleanup()


@contextlib.asynccontextmanager
async def site(place):
    upstream = Upstream()
    async with upstream.serve() as port, aiohttp.ClientSession() as session:
        weir = Weir(place, port)
        await weir.start()
        try:
            yield weir, Caller(weir, session), upstream
        finally:
            if weir.process.returncode is None:
                weir.process.kill()
                await weir.process.wait()


def flip(path, bit):
    with path.open('r+b') as file:
        file.seek(bit // 8)
        byte = file.read(1)[0]
        file.seek(bit // 8)
        file.write(bytes([byte ^ 1 << bit % 8]))


def only_file(weir):
    [path] = (weir.data / 'bodies').iterdir()
    return path


# ---- long bodies and results

@run
async def test_a_long_body_that_is_damaged_is_not_run(tmp_path):
    """Neither by a command, whichever way it reads, nor by a route: that never has the whole of it."""
    body = os.urandom(LONG)
    async with site(tmp_path) as (weir, call, upstream):
        for queue in ('echo', 'piped', 'route'):
            await weir.end()
            await weir.start(re.sub(r'(run|route): (\[.*\]|/work),', '', weir.config))  # nothing runs it yet
            await call.submit(f'/{queue}?queue={queue}', body)
            flip(only_file(weir), 8 * (LONG - 100000) + 3)
            await weir.end()
            await weir.start()
            await call.until_state(queue, 'failed')
            assert 'damaged on disk' in (await call.get(f'/status/{queue}'))['error']
            assert not upstream.bodies
            assert (await call('DELETE', f'/dlq/{queue}')).status == 200
            await until(lambda: not list((weir.data / 'bodies').iterdir()), 'the body is gone')
        await call.submit('/whole?queue=route', body)
        await call.until_state('whole', 'done')
        assert upstream.bodies == [body]
        await weir.end()


async def read_result(call, job):
    """The status and the bytes, or None where the reply broke off."""
    try:
        reply = await call('GET', f'/result/{job}')
        return reply.status, reply.body
    except aiohttp.ClientPayloadError:
        return 200, None


@run
async def test_a_long_result_that_is_damaged_is_never_served_whole(tmp_path):
    """The job becomes a dead letter that says so; redriven, it has its result again."""
    body = os.urandom(LONG)
    async with site(tmp_path) as (weir, call, _):
        for queue in ('echo', 'route'):
            await call.submit(f'/{queue}?queue={queue}', body)
            await call.until_state(queue, 'done')
            assert await read_result(call, queue) == (200, body)
            files = sorted((weir.data / 'bodies').iterdir(), key=lambda path: int(path.name))
            for at in (0, LONG // 2, LONG - 1):  # the result is the younger one
                flip(files[-1], 8 * at)
                assert await read_result(call, queue) == (200, None)
                await call.until_state(queue, 'failed')
                assert 'its result is damaged on disk' in (await call.get(f'/status/{queue}'))['error']
                assert (await read_result(call, queue))[0] == 422
                assert (await call('POST', f'/dlq/{queue}/redrive')).json == {'redriven': 1}
                await call.until_state(queue, 'done')
                assert await read_result(call, queue) == (200, body)
                files = sorted((weir.data / 'bodies').iterdir(), key=lambda path: int(path.name))
            assert (await call('DELETE', f'/dlq/{queue}')).status == 409
        await weir.end()
        assert weir.said().count('is damaged on disk') == 6


# ---- the database

def body_of(job):
    return (b'%d ' % job) * (600 if job % 5 == 0 else 8)


async def fill(weir, call, count):
    for job in range(count):
        queue = 'echo' if job % 2 else 'keep'
        await call.submit(f'/job-{job}?queue={queue}&key=k{job}&tenant=t{job % 3}', body_of(job),
                          Content_Type='text/plain')
    for job in range(1, count, 2):
        await call.until_state(f'job-{job}', 'done')
    documents = [await call.get(f'/status/job-{job}') for job in range(count)]
    await weir.end()
    return documents


def same(told, known):
    """What changes while a job waits is left out."""
    changing = ('position', 'predicted_start')
    return {name: value for name, value in told.items() if name not in changing} == \
           {name: value for name, value in known.items() if name not in changing}


async def check(call, documents):
    """Each job is right, or a dead letter that says why; the numbers of those that are damaged and lost."""
    damaged = lost = 0
    for job, known in enumerate(documents):
        reply = await call('GET', f'/status/job-{job}')
        if reply.status == 404:
            lost += 1
            continue
        assert reply.status == 200, reply
        if reply.json['state'] == 'failed':
            assert 'damaged on disk' in reply.json['error']
            damaged += 1
            continue
        assert same(reply.json, known), (reply, known)
        if job % 2:
            status, result = await read_result(call, f'job-{job}')
            assert status == 503 or (status, result) == (200, body_of(job)), (job, status, result)
            damaged += status == 503
    return damaged, lost


async def metric(call, name):
    reply = await call('GET', '/metrics')
    return float(re.search(rf'^{name} (\S+)$', reply.body.decode(), re.MULTILINE)[1])


def is_header(byte):
    """Where the file says that it is a database, and of which program and version."""
    return byte < 16 or 60 <= byte < 64 or 68 <= byte < 72


@run
async def test_a_flipped_bit_in_the_database_is_never_served(tmp_path):
    """As it was found: of 25 starts nine served wrong data."""
    chance = chance_of('flips')
    async with site(tmp_path) as (weir, call, _):
        documents = await fill(weir, call, 60)
        path = weir.data / 'jobs.db'
        good = path.read_bytes()
        bad = 0
        for _ in range(FLIPS):
            for old in weir.data.glob('jobs.db*'):
                old.unlink()
            path.write_bytes(good)
            bit = chance.randrange(8 * len(good))
            if is_header(bit // 8):
                continue
            flip(path, bit)
            await weir.start()
            damaged, lost = await check(call, documents)
            assert damaged + lost <= 3, (bit, damaged, lost)
            bad += damaged + lost > 0
            await weir.end()  # which writes the last lines
            assert lost == 0 or 'damaged' in weir.said(), bit
        assert bad > FLIPS / 20


@run
async def test_a_lost_page_costs_what_was_in_it_and_is_said(tmp_path):
    async with site(tmp_path) as (weir, call, _):
        documents = await fill(weir, call, 60)
        path = weir.data / 'jobs.db'
        good = path.read_bytes()
        for at in range(2 * 4096, len(good), 4096):
            for old in weir.data.glob('jobs.db*'):
                old.unlink()
            path.write_bytes(good[:at] + bytes(4096) + good[at + 4096:])
            await weir.start()
            damaged, lost = await check(call, documents)
            counted = await metric(call, 'weir_job_lost_total') + await metric(call, 'weir_store_pages_lost_total')
            assert lost == 0 or counted > 0, (at, lost, weir.said())
            assert damaged + lost < 40, (at, damaged, lost)
            kept = list(weir.data.glob('jobs.db.damaged-*'))
            await call.submit('/new?queue=echo', b'goes on')
            await call.until_state('new', 'done')
            await weir.end()  # which writes the last lines
            assert lost == 0 or 'at least' in weir.said(), (at, lost, weir.said())
            assert lost == 0 or (len(kept) == 1 and kept[0].name in weir.said()), at


@run
async def test_one_row_that_is_too_long_keeps_nobody_from_starting(tmp_path):
    async with site(tmp_path) as (weir, call, _):
        documents = await fill(weir, call, 6)
        with contextlib.closing(sqlite3.connect(weir.data / 'jobs.db')) as database:
            database.execute('update jobs set error = zeroblob(501) where number = 3')
            database.commit()
        await weir.start()
        assert await check(call, documents) == (1, 0)
        assert await metric(call, 'weir_job_damaged_total') == 1
        dead = await call.get('/dlq')
        assert [job['id'] for job in dead['jobs']] == ['job-2']
        assert (await call('POST', '/dlq/redrive')).json == {'redriven': 1}  # it ends there again: nobody knows its body
        await weir.end()


# ---- a disk that fills

@run
async def test_a_disk_that_fills_is_said_once_and_again_when_it_has_room(tmp_path):
    place = tmp_path / 'small'
    place.mkdir()
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m', 'tmpfs', str(place)], check=True)
    try:
        async with site(place) as (weir, call, _):
            async def is_full():
                return (await call('POST', '/submit?queue=keep', random.randbytes(60000))).status == 503
            await until(is_full, 'the disk is full')
            for _ in range(20):
                assert await is_full()
            await until(lambda: 'No space left on device' in weir.said(), 'it is said')
            [line] = [line for line in weir.said().splitlines() if 'cannot be recorded' in line]
            assert str(weir.data.name) in line and 'is full' in line and 'tries again' in line
            subprocess.run(['mount', '-o', 'remount,size=16m', str(place)], check=True)

            async def has_room():
                return not await is_full()
            await until(has_room, 'it accepts again')
            await until(lambda: 'are recorded in ./data again' in weir.said(), 'that is said')
            assert weir.said().count('cannot be recorded') == 1
            await weir.end()
    finally:
        subprocess.run(['umount', '-l', str(place)], check=True)
