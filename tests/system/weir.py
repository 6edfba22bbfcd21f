"""A real `weir serve` for the tests, and an upstream that tells what it has seen.

Every wait is for a condition, with a deadline that is only there to end a test that hangs."""
import asyncio
import contextlib
import inspect
import os
import pathlib
import re
import signal
import sys
import tempfile

import aiohttp
from aiohttp import web

PROGRAM = os.path.abspath(os.environ['WEIR_PROGRAM'])  # tests start it in folders of its own
PATIENCE = 60

# A shell has whatever runs in its background ignore this signal, and so would all that is started here.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


async def until(condition, what):
    """Waits until the condition, which may be a coroutine function, holds; returns what it said."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while True:
        holds = condition()
        if inspect.isawaitable(holds):
            holds = await holds
        if holds:
            return holds
        assert asyncio.get_running_loop().time() < deadline, f'it never came: {what}'
        await asyncio.sleep(0.005)


def sleeps(pid):
    """Whether each thread of the process waits for something: it has done all that it could so far. One that
    is ready to run, or stopped, does not sleep, however long it has to wait for a core."""
    try:
        states = [pathlib.Path(f'/proc/{pid}/task/{task}/stat').read_text().rsplit(')', 1)[1].split()[0]
                  for task in os.listdir(f'/proc/{pid}/task')]
    except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended, or ends while it is read
        return False
    return set(states) == {'S'}


async def until_still(pid):
    """Waits until the process has nothing more to do, and nothing of what goes on in this loop wakes it."""
    looks = 0

    def stays_asleep():
        nonlocal looks
        looks = looks + 1 if sleeps(pid) else 0
        return looks == 10
    await until(stays_asleep, 'it has nothing more to do')


class Upstream:
    """Requests stay until they are let go; who is inside, and in which order they came, is kept."""

    def __init__(self):
        self.inside = []
        self.came = []
        self.most = 0
        self.bodies = {}
        self.headers = {}
        self._doors = {}

    def open(self, name):
        self._doors.setdefault(name, asyncio.Event()).set()

    async def _hold(self, request):
        name = request.query.get('id', '')
        self.came.append(name)
        self.inside.append(name)
        self.most = max(self.most, len(self.inside))
        self.headers[name] = dict(request.headers)
        try:
            self.bodies[name] = await request.read()
            if 'hold' in request.query:
                await self._doors.setdefault(name, asyncio.Event()).wait()
            return web.json_response({'id': name, 'bytes': len(self.bodies[name])})
        finally:
            self.inside.remove(name)

    async def _stream(self, request):
        reply = web.StreamResponse()
        reply.content_type = 'text/event-stream'
        await reply.prepare(request)
        for part in ('one', 'two', 'three'):
            await self._doors.setdefault(part, asyncio.Event()).wait()
            await reply.write(f'data: {part}\n\n'.encode())
        await reply.write_eof()
        return reply

    @contextlib.asynccontextmanager
    async def serve(self):
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route('*', '/functions/stream', self._stream)
        app.router.add_route('*', '/{path:.*}', self._hold)
        runner = web.AppRunner(app)
        await runner.setup()
        site = web.TCPSite(runner, '127.0.0.1', 0)
        await site.start()
        try:
            yield site._server.sockets[0].getsockname()[1]
        finally:
            for door in self._doors.values():
                door.set()
            await runner.cleanup()


class Weir:
    """A running gateway: where it listens, and what its API says of its gates."""

    def __init__(self, process, addresses, session, path):
        self.process = process
        self.path = path
        self.ending = False
        self.status = 0  # which it has to end with
        self.addresses = addresses
        self.port = self._port('listening')
        self.api_port = self._port('api')
        self.url = f'http://127.0.0.1:{self.port}'
        self.api = f'http://127.0.0.1:{self.api_port}' if self.api_port else None
        self._session = session

    def _port(self, word):
        """The last port of 127.0.0.1 among the addresses, or None."""
        matches = [re.fullmatch(r'127\.0\.0\.1:(\d+)', text) for text in self.addresses.get(word, [])]
        return next((int(match[1]) for match in reversed(matches) if match), None)

    async def ask_api(self, path):
        async with self._session.get(self.api + path) as reply:
            return reply.status, await reply.json(content_type=None)

    def terminate(self):
        """Has it drain; a second signal would end it at once."""
        if not self.ending:
            self.ending = True
            self.process.terminate()

    async def kill(self):
        """Ends it in the middle of whatever it does."""
        self.status = -signal.SIGKILL
        self.process.kill()
        await self.process.wait()

    async def reload(self, *changes):
        """Replaces texts in the config and has it taken up."""
        config = self.path.read_text()
        for before, after in changes:
            assert before in config, before
            config = config.replace(before, after)
        self.path.write_text(config)
        self.process.send_signal(signal.SIGHUP)
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE)
        assert line == b'weir: reloaded\n'

    def complaints(self):
        """What it has written to stderr so far."""
        return self.path.with_suffix('.err').read_text()

    async def counts(self, key, gate='functions'):
        """The counts of a key; all zero if nobody has used it."""
        status, said = await self.ask_api(f'/gates/{gate}/{key}')
        return said if status == 200 else {'active': 0, 'waiting': 0, 'reserved': 0}

    async def until(self, key, gate='functions', **expected):
        """Waits until the key has these counts, such as waiting=2."""
        async def holds():
            counts = await self.counts(key, gate)
            return all(counts[name] == value for name, value in expected.items())
        await until(holds, f'{key} has {expected}')


async def read_addresses(process, config):
    """The addresses that the program says it listens on: those of `listening`, of `api` and of `protocol`.
    Several of one are all there if there is one that comes behind."""
    addresses = {}
    wanted = {word for field, word in (('listen', 'listening'), ('api', 'api'), ('protocol', 'protocol'))
              if re.search(f'^{field}:', config, flags=re.M)}
    while wanted - addresses.keys():
        line = (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()
        assert line, 'the program ended before it listened'
        match = re.fullmatch(r'weir: (\w+) on (.*)\n', line)
        addresses.setdefault(match[1], []).append(match[2])
    return addresses


@contextlib.asynccontextmanager
async def weir(config, **more):
    """Runs the gateway, in a folder of its own; at the end it must drain and exit 0. `more` goes to whoever
    starts it."""
    with tempfile.TemporaryDirectory() as folder:
        more.setdefault('cwd', folder)
        path = pathlib.Path(folder) / 'weir.yaml'
        path.write_text(config)
        with open(path.with_suffix('.err'), 'wb') as errors:
            process = await asyncio.create_subprocess_exec(
                PROGRAM, 'serve', str(path), stdout=asyncio.subprocess.PIPE, stderr=errors, **more)
        try:
            addresses = await read_addresses(process, config)
            async with aiohttp.ClientSession() as session:
                gateway = Weir(process, addresses, session, path)
                yield gateway
            if process.returncode is None:
                gateway.terminate()
            assert await asyncio.wait_for(process.wait(), PATIENCE) == gateway.status
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
            sys.stderr.write(path.with_suffix('.err').read_text(errors='replace'))


@contextlib.asynccontextmanager
async def functions(limit=1, timeout='10s', line_max=1000, top='', listen='127.0.0.1:0',
                    gate='', route='', upstream_more=''):
    """An upstream of functions behind a gate: the weir, its upstream, and a client. What is given more
    of goes into the config where it says."""
    upstream = Upstream()
    async with upstream.serve() as port:
        config = f'''
listen: {listen}
api: 127.0.0.1:0
threads: 2
grace: 5s
{top}
upstreams: {{ functions: {{ url: "http://127.0.0.1:{port}"{upstream_more} }} }}
gates:
  functions:
    limit: {limit}
    line: {{ timeout: {timeout}, max: {line_max} }}
    {gate}
routes:
  - match: /functions/{{function}}
    key: "{{function}}"
    tenant: header:X-Tenant
    flow: header:X-Flow
    gate: functions
    upstream: functions
    {route}
'''
        async with weir(config) as gateway:
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(gateway.url, connector=connector) as client:
                yield gateway, upstream, client
