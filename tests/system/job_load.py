"""A Weir with durable jobs that is killed and started again, and clients that do whatever clients do meanwhile. All
that they see goes into a History.

Four queues: `kept`, which nothing runs; `command` and `slow`, a command that notes in a ledger that it has begun; `route`, to an
upstream that is part of the test."""
import asyncio
import contextlib
import functools
import json
import os
import pathlib
import random
import re
import signal

import aiohttp
from aiohttp import web
from history import ACCEPTED, History, digest, read_ledger
from weir import PATIENCE, PROGRAM, until

CONFIG = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
grace: 5s
data: {data}
upstreams: {{ up: {{ url: "http://127.0.0.1:{upstream}" }} }}
gates: {{ gate: {{ limit: 4, line: {{ timeout: 10s }} }} }}
routes: [ {{ match: /work, gate: gate, upstream: up }} ]
queues:
  kept: {{ line: {{ max: 1000000 }}, keep: 365d }}
  command:
    run: [{command}, "{{in}}", "{{out}}", "{{id}}", "{{attempt}}", {ledger}]
    workers: 3
    line: {{ max: 1000000 }}
    attempts: 4
    backoff: {{ first: 10ms, max: 50ms }}
    keep: 365d
  route:
    route: /work
    workers: 4
    line: {{ max: 1000000 }}
    attempts: 4
    backoff: {{ first: 10ms, max: 50ms }}
    keep: 365d
'''

# What a body begins with says what the command does with it.
COMMAND = '''#!/bin/sh
read -r what rest <"$1"
read -r now rest </proc/uptime
run=$$-$now
echo "begin $3 $4 $run" >>"$5"
case $what in
fail) echo 'weir-progress: 0.5 half way to failure' >&2; exit 3 ;;
die) kill -KILL $$ ;;
slow) sleep 0.05 ;;
hold) while [ ! -e "$5.go" ]; do sleep 0.01; done ;;
esac
sum=$(sha256sum <"$1")
printf '{"id":"%s","attempt":%s,"run":"%s","digest":"%s"}' "$3" "$4" "$run" "${sum%% *}" >"$2"
'''

SEED = int(os.environ.get('WEIR_SEED', '0')) or random.SystemRandom().randrange(1, 1 << 32)
RUNS_SECONDS = 0.15  # at most, before it is killed
LONG = 65536  # longer bodies are files
QUEUES = ['kept', 'command', 'route']
ASK_TIMEOUT = aiohttp.ClientTimeout(total=PATIENCE)


class Upstream:
    """Answers what the history can check; to /long, at length; and to /deadly as the test says."""

    def __init__(self):
        self.longs = 0
        self.deadly = None  # a handler

    async def _long(self, request):
        self.longs += 1
        return web.Response(body=bytes(100000))

    async def _deadly(self, request):
        return await self.deadly(request)

    async def _work(self, request):
        body = await request.read()
        if body.startswith(b'fail'):
            return web.Response(status=500)
        return web.json_response({'id': request.headers.get('X-Request-Id', ''), 'digest': digest(body)})

    @contextlib.asynccontextmanager
    async def serve(self):
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post('/work', self._work)
        app.router.add_post('/long', self._long)
        app.router.add_post('/deadly', self._deadly)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, '127.0.0.1', 0)
        await site.start()
        try:
            yield site._server.sockets[0].getsockname()[1]
        finally:
            await runner.cleanup()


class Site:
    """A data folder, and a Weir on it that comes and goes."""

    def __init__(self, place, upstream, faults=None, config=CONFIG):
        self.place = pathlib.Path(place)
        self.data = self.place / 'data'
        self.ledger = self.place / 'ledger'
        self.command = self.place / 'command'
        self.command.write_text(COMMAND)
        self.command.chmod(0o755)
        self.faults = faults
        (self.place / 'weir.yaml').write_text(config.format(
            data=self.data, upstream=upstream, command=self.command, ledger=self.ledger))
        self.errors = self.place / 'errors'
        self.history = History()
        self.up = asyncio.Event()
        self.api = None
        self.process = None
        self.starts = 0
        self.probes = 0
        self.harmless = set()  # ids of jobs that succeed, if they are let

    async def spawn(self, program=(PROGRAM,)):
        """Begins to start it."""
        environment = self.faults.environment() if self.faults else None
        self.starts += 1
        with self.errors.open('ab') as errors:
            self.process = await asyncio.create_subprocess_exec(
                *program, 'serve', str(self.place / 'weir.yaml'), stdout=asyncio.subprocess.PIPE, stderr=errors,
                cwd=self.place, env=environment)

    async def ready(self):
        while True:
            line = (await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)).decode()
            assert line, f'it did not start:\n{self.errors.read_text()[-2000:]}'
            found = re.fullmatch(r'weir: api on (127\.0\.0\.1:\d+)\n', line)
            if found:
                self.api = f'http://{found[1]}'
                self.up.set()
                return

    async def start(self):
        await self.spawn()
        await self.ready()

    def check_alive(self):
        """It ends only when it is told to."""
        assert not self.up.is_set() or self.process.returncode is None, \
            f'it has ended by itself: {self.process.returncode}\n{self.errors.read_text()[-5000:]}'

    async def kill(self):
        self.check_alive()
        self.up.clear()
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        status = await self.process.wait()
        assert status == -signal.SIGKILL, f'it had ended by itself: {status}\n{self.errors.read_text()[-2000:]}'

    async def end(self):
        """As people end it: it drains."""
        self.up.clear()
        self.process.terminate()
        assert await asyncio.wait_for(self.process.wait(), PATIENCE) == 0

    # ---- asking

    async def ask(self, session, method, path, body=None, **headers):
        """The status, and the document or the bytes; (None, None) if nobody knows."""
        try:
            async with session.request(method, self.api + path, data=body, headers=headers,
                                       timeout=ASK_TIMEOUT) as reply:
                said = await reply.read()
                kind = reply.headers.get('Content-Type', '')
                return reply.status, json.loads(said) if 'json' in kind and '/result' not in path else said
        except (OSError, aiohttp.ClientError, asyncio.TimeoutError):
            return None, None

    async def tell(self, session, kind, job, path, body=None, method='POST'):
        """Asks something about a job, for the history."""
        request = self.history.begin(kind, job, body)
        status, said = await self.ask(session, method, path, body)
        if status is not None:
            self.history.end(request, status, said.get('state') if isinstance(said, dict) else None)
        return status, said

    async def submit(self, session, job, body, query=''):
        return await self.tell(session, 'submit', job, f'/submit/{job}{query}', body)

    async def submit_batch(self, session, jobs):
        """`jobs`: (id, queue, body as a text). All or none."""
        lines = [json.dumps({'id': job, 'queue': queue, 'body': body}) for job, queue, body in jobs]
        requests = self.history.begin_batch([(job, body.encode()) for job, _, body in jobs])
        status, said = await self.ask(session, 'POST', '/submit', '\n'.join(lines) + '\n',
                                      **{'Content-Type': 'application/x-ndjson'})
        if status is not None:
            for request in requests:
                self.history.end(request, status)
        return status, said

    async def accepts(self, session):
        """Whether a new job is accepted now, and what was answered."""
        self.probes += 1
        status, said = await self.submit(session, f'probe{self.probes}', b'ok probe', '?queue=kept')
        return status == 202, status, said

    # ---- the end

    async def left(self, session):
        """How many run, or wait and could run; None: it does not say."""
        status, said = await self.ask(session, 'GET', '/capacity')
        if status != 200:
            return None
        return sum(queue['running'] + (0 if queue['queue'] == 'kept' else queue['waiting'] + queue['delayed'])
                   for queue in said['queues'])

    async def ends(self, session):
        """Waits until nothing runs and nothing waits, for as long as they become fewer: after thousands of kills there
        are many."""
        fewest = None
        while fewest != 0:
            async def fewer():
                left = await self.left(session)
                return left is not None and (fewest is None or left < fewest) and [left]
            fewest = (await until(fewer, f'fewer than {fewest} are left'))[0]

    async def listed(self, session):
        documents, after = [], ''
        while True:
            status, said = await self.ask(session, 'GET', f'/jobs?limit=1000{after}')
            assert status == 200, said
            documents += said['jobs']
            if 'next' not in said:
                return documents
            after = f'&after={said["next"]}'

    async def results(self, session, documents):
        """Of all that are done, a few at a time."""
        found, left = {}, [document['id'] for document in documents if document['state'] == 'done']

        async def fetch():
            while left:
                job = left.pop()
                status, said = await self.ask(session, 'GET', f'/result/{job}')
                if status == 200:
                    found[job] = said
        await asyncio.gather(*(fetch() for _ in range(8)))
        return found

    async def check(self):
        """Waits until all is over, and compares everything."""
        async with aiohttp.ClientSession() as session:
            await self.ends(session)
            documents = await self.listed(session)
            results = await self.results(session, documents)
            wrong = self.history.wrong(documents, results, read_ledger(self.ledger))
            assert not wrong, '\n'.join([*wrong[:50], self.history.story(wrong[0].partition(':')[0])])
            self.check_dead(documents)
            self.check_files(documents)
            return documents

    def check_dead(self, documents):
        """Only what fails by itself is a dead letter, and what ran whenever Weir was killed."""
        dead = [(document['id'], document['error']) for document in documents if document['state'] == 'failed' and
                document['id'] in self.harmless and 'Weir itself ended' not in document['error']]
        assert not dead, dead[:20]

    def check_files(self, documents):
        """Long bodies are there as they were sent, and no file is there that nobody needs."""
        accepted = self.history.accepted()
        files = {digest(path.read_bytes()) for path in (self.data / 'bodies').iterdir()}
        long = [document for document in documents if document['body_bytes'] > LONG]
        assert len(files) <= len(long), 'files that nobody needs'
        lost = [document['id'] for document in long if document['state'] == 'queued' and document['id'] in accepted and
                accepted[document['id']] not in files]
        assert not lost, f'bodies that are lost: {lost}'


class Clients:
    """So many at once, from one seed, until they are told to stop."""

    ACTS = {'short': 30, 'long': 4, 'batch': 6, 'again': 6, 'conflict': 3, 'cancel': 4, 'look': 6, 'revive': 2, 'remove': 1}

    def __init__(self, site, chance, count=6, acts=None):
        self.site, self.chance, self.count = site, chance, count
        self.acts = acts or self.ACTS
        self.sent = []  # (id, body, query)
        self.number = 0
        self.stopping = False
        self.refusals = []  # (status, document) of submissions that were not accepted

    def _new(self, queue=None):
        self.number += 1
        what = self.chance.choices(['ok', 'slow', 'fail', 'die'], [30, 3, 2, 1])[0]
        if what in ('ok', 'slow'):
            self.site.harmless.add(f'j{self.number}')
        return f'j{self.number}', queue or self.chance.choice(QUEUES), f'{what} {self.chance.getrandbits(64):x} '

    def _note(self, status, said):
        if status not in (None, *ACCEPTED):
            self.refusals.append((status, said))

    async def _submit(self, session, body=None):
        job, queue, text = self._new()
        body = body or text.encode()
        query = f'?queue={queue}&tenant=t{self.chance.randrange(5)}&priority={self.chance.choice(["high", "low"])}'
        self.sent.append((job, body, query))
        self._note(*await self.site.submit(session, job, body, query))

    async def short(self, session):
        await self._submit(session)

    async def long(self, session):
        body = f'ok {self.chance.getrandbits(64):x} '.encode() * self.chance.randrange(4000, 12000)
        await self._submit(session, body)

    async def batch(self, session):
        jobs = [self._new() for _ in range(self.chance.randrange(1, 20))]
        self.sent += [(job, body.encode(), '') for job, _, body in jobs]
        self._note(*await self.site.submit_batch(session, jobs))

    async def again(self, session):
        if self.sent:
            self._note(*await self.site.submit(session, *self.chance.choice(self.sent)))

    async def conflict(self, session):
        if self.sent:
            job, _, query = self.chance.choice(self.sent)
            self._note(*await self.site.submit(session, job, b'ok, but not the same', query))

    async def cancel(self, session):
        if self.sent:
            job, _, _ = self.chance.choice(self.sent)
            await self.site.tell(session, 'cancel', job, f'/cancel/{job}')

    async def look(self, session):
        if self.sent:
            job, _, _ = self.chance.choice(self.sent)
            await self.site.tell(session, 'look', job, f'/status/{job}', method='GET')

    async def _dead(self, session):
        status, said = await self.site.ask(session, 'GET', '/dlq?limit=20')
        return [document['id'] for document in said['jobs']] if status == 200 else []

    async def revive(self, session):
        for job in (await self._dead(session))[:3]:
            await self.site.tell(session, 'redrive', job, f'/dlq/{job}/redrive')

    async def remove(self, session):
        for job in (await self._dead(session))[:1]:
            await self.site.tell(session, 'remove', job, f'/dlq/{job}', method='DELETE')

    async def _one(self):
        async with aiohttp.ClientSession() as session:
            while not self.stopping:
                await self.site.up.wait()
                [act] = self.chance.choices(list(self.acts), list(self.acts.values()))
                await getattr(self, act)(session)
                if not self.stopping:
                    self.site.check_alive()
                await asyncio.sleep(0)  # also when it fails at once

    @contextlib.asynccontextmanager
    async def at_work(self):
        tasks = [asyncio.create_task(self._one()) for _ in range(self.count)]
        try:
            yield self
        finally:
            self.stopping = True
            self.site.up.set()  # so that nobody waits for it
            done = await asyncio.gather(*tasks, return_exceptions=True)
            for result in done:
                if isinstance(result, BaseException):
                    raise result


@contextlib.asynccontextmanager
async def site(place, faults=None, **more):
    """One with its upstream; it is killed in the end, if it still runs."""
    upstream = Upstream()
    async with upstream.serve() as port:
        made = Site(place, port, faults, **more)
        made.upstream = upstream
        try:
            yield made
        finally:
            if made.process and made.process.returncode is None:
                made.process.kill()
                await made.process.wait()


def describe(history):
    """What happened, for people; a test that saw nothing proves nothing."""
    return ', '.join(f'{kind} {answer or "unknown"}: {count}' for (kind, answer), count in
                     sorted(history.counts().items(), key=str))


# ---- what tests of it share

def to_the_end(test):
    """As raw.run(), for as long as it takes: a soak's every wait has an end, but there are many."""
    @functools.wraps(test)
    def wrapper(*args, **more):
        asyncio.run(test(*args, **more))
    return wrapper


def chance_of(*words):
    """Numbers by chance, other ones for each test."""
    print(f'WEIR_SEED={SEED}', *words)
    return random.Random(f'{SEED} {words}')


async def be_killed(one, chance, times, cut=None, trouble=None):
    """Now and then it is killed before it is even there, else in trouble."""
    for _ in range(times):
        await one.spawn()
        if chance.random() < 0.15:
            await asyncio.sleep(chance.uniform(0, 0.03))
        else:
            await one.ready()
            if trouble:
                trouble()
            await asyncio.sleep(chance.uniform(0, RUNS_SECONDS))
        await one.kill()
        if cut:
            cut()


async def kill_under_load(place, name, times, faults=None, cut=None, trouble=None):
    place.mkdir(exist_ok=True)
    chance = chance_of(name)
    async with site(place, faults) as one:
        async with Clients(one, chance).at_work():
            await be_killed(one, chance, times, cut, trouble)
            await one.start()
        documents = await one.check()
        print(f'{name}: {len(documents)} jobs, {one.starts} starts; {describe(one.history)}')
        assert len(one.history.accepted()) > times
        await one.end()
