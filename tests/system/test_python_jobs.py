"""clients/python beyond permits of a connection: leases that renew themselves, jobs, other ways to reach a server, gates
in memory, and the package itself."""
import asyncio
import contextlib
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import threading

import pytest
from raw import run
from secure import Town
from test_python_client import CLIENT, InThreads, Inside, Server, enter, leave
from weir import PATIENCE, until, weir
from weir_client import (AsyncGate, AsyncJobs, AsyncMemoryGate, Gate, JobFailed, Jobs, JobUnfinished, MemoryGate,
                         WeirNotHeld, WeirRefused, WeirTimeout, WeirUnreachable)

QUEUES = '''
queues:
  shout: { run: ["tr", "a-z", "A-Z"], workers: 2 }
  broken: { run: ["sh", "-c", "echo why >&2; exit 1"], workers: 2, attempts: 1 }
  later: { line: { max: 10 } }
'''
CONFIG = '''
api: 127.0.0.1:0
threads: 2
grace: 2s
gates:
  agents: { limit: 1, line: { timeout: 30s } }
''' + QUEUES


@pytest.fixture(scope='module')
def server():
    server = Server(CONFIG)
    yield server
    server.stop()


@pytest.fixture(params=[InThreads, AsyncGate], ids=['threads', 'asyncio'])
def kind(request):
    return request.param


# ---- leases

async def lease_left(server, key):
    """How long the lease of the one permit at the key still is."""
    asked = asyncio.run_coroutine_threadsafe(server.gateway.ask_api(f'/gates/agents/{key}/holders'), server.loop)
    _, said = await asyncio.wrap_future(asked)
    [holder] = said['holders']
    return holder['lease_left_ms']


def test_a_lease_is_renewed_as_long_as_the_permit_is_held(server, kind):
    @run
    async def test():
        gate = kind(server.api)
        async with gate.permit('renewed', hold=False, lease=6) as permit:
            least = await lease_left(server, 'renewed')

            async def begins_again():
                nonlocal least
                left = await lease_left(server, 'renewed')
                least = min(least, left)
                return left > least + 500
            await until(begins_again, 'the lease begins again')
            assert not permit.lost
        await server.until('renewed', active=0)
        assert (await gate.counts('renewed'))['ended']['lapsed'] == 0
        await gate.close()
    test()


def test_a_permit_that_is_released_by_its_flow_is_renewed_no_more(server, kind):
    @run
    async def test():
        gate = kind(server.api)
        permit = await gate.acquire('by-flow', flow='f', lease=0.3)
        await gate.release('by-flow', 'f')
        await until(lambda: permit.lost, 'a renewal has found out')
        await gate.close()
        again = await gate.acquire('by-flow', flow='f', lease=0.3)
        await gate.close()  # which renews no more
        await server.until('by-flow', active=0)
        with pytest.raises(WeirNotHeld):
            await gate.release(again)
        await gate.close()
    test()


def test_a_server_that_goes_away_does_not_end_the_program(kind):
    @run
    async def test():
        async with weir(CONFIG) as gateway:
            gate = kind(gateway.api)
            permit = await gate.acquire('k', lease=0.3)
            await gateway.kill()
            await until(lambda: permit.lost, 'its lease is over')
            with pytest.raises(WeirUnreachable):
                await gate.release(permit)
            await gate.close()
    test()


# ---- jobs

class JobsInThreads:
    """Jobs with the face of AsyncJobs."""

    def __init__(self, *args, **more):
        self.jobs = Jobs(*args, **more)

    def __getattr__(self, name):
        return lambda *args, **more: asyncio.to_thread(getattr(self.jobs, name), *args, **more)


@pytest.fixture(params=[JobsInThreads, AsyncJobs], ids=['threads', 'asyncio'])
def jobs_kind(request):
    return request.param


def test_a_job_is_handed_in_waited_for_and_fetched(server, jobs_kind):
    @run
    async def test():
        jobs = jobs_kind(server.api, queue='shout')
        job = await jobs.submit(b'hello', priority='high', timeout=20)
        assert (job.queue, job.document['priority'], job.over) == ('shout', 'high', job.state == 'done')
        done = await jobs.wait(job.id, timeout=PATIENCE)
        assert (done.state, done.over, done.error) == ('done', True, None)
        assert await jobs.result(job.id) == b'HELLO'
        assert (await jobs.status(job.id)).state == 'done'
        assert await jobs.result((await jobs.submit({'a': ['ü']})).id, wait=PATIENCE) == b'{"A": ["\\U00FC"]}'
        same = f'{jobs_kind.__name__}-same'
        assert [(await jobs.submit('text', same)).id for _ in range(2)] == [same] * 2
        with pytest.raises(WeirRefused) as caught:
            await jobs.submit('another text', same)
        assert caught.value.type == 'urn:weir:job-conflict'
        with pytest.raises(TypeError):
            await jobs.submit('x', quee='shout')
        await jobs.close()
    test()


def test_a_job_that_has_no_result_says_why(server, jobs_kind):
    @run
    async def test():
        jobs = jobs_kind(server.api)
        failed = await jobs.submit('x', queue='broken')
        with pytest.raises(JobFailed) as caught:
            await jobs.result(failed.id, wait=PATIENCE)
        assert caught.value.job.state == 'failed' and 'why' in caught.value.job.error
        later = await jobs.submit('x', queue='later')
        with pytest.raises(JobUnfinished):
            await jobs.result(later.id)
        with pytest.raises(JobUnfinished):
            await jobs.wait(later.id, timeout=0.1)
        assert (await jobs.cancel(later.id)).state == 'cancelled'
        with pytest.raises(JobFailed):
            await jobs.result(later.id)
        with pytest.raises(WeirRefused) as caught:
            await jobs.status('nobody')
        assert caught.value.status == 404
        await jobs.close()
    test()


# ---- ways to a server

def test_a_server_on_a_unix_socket_is_reached_and_named_by_the_environment(kind, jobs_kind, tmp_path, monkeypatch):
    @run
    async def test():
        path = tmp_path / 's'
        monkeypatch.setenv('WEIR_ALL', 'a-secret-of-all-of-them')
        config = CONFIG.replace('127.0.0.1:0', f'[127.0.0.1:0, "unix:{path}"]') + '''
api_tokens: { all: { token: "${WEIR_ALL}", scopes: [read, work, submit] } }
'''
        async with weir(config):
            monkeypatch.setenv('WEIR_API', f'unix:{path}')
            monkeypatch.setenv('WEIR_TOKEN', 'a-secret-of-all-of-them')
            gate, jobs = kind(), jobs_kind(queue='shout')
            async with gate.permit('k') as permit:
                assert not permit.lost
                [holder] = [entry for entry in [await gate.counts('k')]]
                assert holder['active'] == 1
            permit = await gate.acquire('k')
            await gate.release(permit)
            assert await jobs.result((await jobs.submit('over a socket')).id, wait=PATIENCE) == b'OVER A SOCKET'
            await gate.close()
            await jobs.close()
        with pytest.raises(WeirUnreachable):
            await kind(f'unix:{path}-not').counts('k')
    test()


@contextlib.asynccontextmanager
async def tls_before(port, context):
    """A TLS server that passes everything on to that port."""
    async def serve(reader, writer):
        upstream_reader, upstream_writer = await asyncio.open_connection('127.0.0.1', port)

        async def pump(source, sink):
            with contextlib.suppress(OSError):
                while data := await source.read(65536):
                    sink.write(data)
                    await sink.drain()
            sink.close()
        await asyncio.gather(pump(reader, upstream_writer), pump(upstream_reader, writer))
    server = await asyncio.start_server(serve, '127.0.0.1', 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def test_a_server_behind_tls_is_reached_and_a_stranger_is_not_trusted(kind, jobs_kind, tmp_path):
    @run
    async def test():
        town = Town(tmp_path)
        context = town.context('localhost')
        trusting = ssl.create_default_context(cafile=town.authority.path)
        async with weir(CONFIG) as gateway, tls_before(gateway.api_port, context) as port:
            gate = kind(f'https://localhost:{port}', tls=trusting)
            async with gate.permit('k', flow='f') as permit:
                assert not permit.lost
                await gateway.until('k', 'agents', active=1)
            await gateway.until('k', 'agents', active=0)
            jobs = jobs_kind(f'https://localhost:{port}', tls=trusting)
            assert await jobs.result((await jobs.submit('safe', queue='shout')).id, wait=PATIENCE) == b'SAFE'
            with pytest.raises(WeirUnreachable):
                await kind(f'https://localhost:{port}').counts('k')
            await gate.close()
            await jobs.close()
    test()


# ---- gates in memory: the same tests as of real ones

class MemoryInThreads(InThreads):
    def __init__(self, **more):
        super().__init__('http://localhost')
        self.gate = MemoryGate(**more)


@pytest.fixture(params=[MemoryInThreads, AsyncMemoryGate], ids=['threads', 'asyncio'])
def memory_kind(request):
    return request.param


def test_in_memory_the_fourth_flow_waits_and_goes_when_one_has_ended(memory_kind):
    @run
    async def test():
        gate = memory_kind(limit=3)
        insides = [await enter(gate, 'a', flow=f'flow-{number}') for number in range(3)]
        fourth = Inside(gate, 'a', flow='fourth', tenant='t')

        async def waits():
            return (await gate.counts('a'))['waiting'] == 1
        await until(waits, 'the fourth waits')
        [entry] = await gate.line('a')
        assert (entry['flow'], entry['tenant'], entry['position']) == ('fourth', 't', 1)
        async with gate.permit('b', timeout=0) as permit:  # agents do not wait for each other
            assert (permit.active, permit.limit, permit.lease, permit.lost) == (1, 3, None, False)
        await insides[0].leave()
        await asyncio.wait_for(fourth.entered.wait(), PATIENCE)
        await leave(fourth, *insides[1:])
        counts = await gate.counts('a')
        assert (counts['active'], counts['waiting']) == (0, 0)
    test()


def test_in_memory_a_caller_that_waits_too_long_is_told_and_so_are_events(memory_kind):
    @run
    async def test():
        gate = memory_kind(limit=1, timeout=0.05, limits={'free': None})
        async with gate.events('gate.timeout') as events:
            permit = await gate.acquire('a', flow='f')
            with pytest.raises(WeirTimeout) as caught:
                await gate.acquire('a', flow='late')
            said = caught.value
            assert (said.agent, said.flow, said.active, said.limit, said.timeout) == ('a', 'late', 1, 1, 0.05)
            event = await events.__anext__()
            assert (event['type'], event['flow']) == ('gate.timeout', 'late')
        assert await gate.renew(permit) is None
        await gate.release('a', 'f')
        for again in (gate.release('a', 'f'), gate.release(permit), gate.renew(permit)):
            with pytest.raises(WeirNotHeld):
                await again
        for active in range(1, 10):
            assert (await gate.acquire('free')).active == active
    test()


def test_in_memory_a_flow_does_not_wait_for_itself_and_has_a_depth(memory_kind):
    @run
    async def test():
        gate = memory_kind(limit=1, timeout=0)
        async with gate.permit('a', flow='f'), gate.permit('b', flow='f'), gate.permit('a', flow='f') as inner:
            assert inner.active == 1
            with pytest.raises(WeirTimeout):
                await gate.acquire('a', flow='g')
            more = [await gate.acquire('a', flow='f') for _ in range(3)]
            with pytest.raises(WeirRefused) as caught:
                await gate.acquire('a', flow='f')
            assert caught.value.status == 508
            for permit in more:
                await gate.release(permit)
        assert (await gate.counts('a'))['active'] == 0
    test()


def test_in_memory_a_task_that_is_cancelled_leaves_the_line():
    @run
    async def test():
        gate = AsyncMemoryGate(limit=1)
        first = await gate.acquire('a')
        waiting = [asyncio.create_task(gate.acquire('a')) for _ in range(3)]
        await until(lambda: len(gate._memory.of('a').line) == 3, 'they wait')
        waiting[0].cancel()
        await gate.release(first)
        waiting[1].cancel()  # whose turn has just come
        permit = await waiting[2]
        assert (await gate.counts('a'))['active'] == 1
        await gate.release(permit)
    test()


def test_a_gate_in_memory_has_every_call_of_a_real_one():
    for real, other in ((Gate, MemoryGate), (AsyncGate, AsyncMemoryGate)):
        for name in vars(real):
            if not name.startswith('_'):
                assert callable(getattr(other, name)), name


# ---- the package

def test_the_package_is_installed_by_pip_with_its_types(tmp_path):
    source = tmp_path / 'source'
    shutil.copytree(CLIENT, source)
    target = tmp_path / 'installed'
    done = subprocess.run(
        [sys.executable, '-m', 'pip', 'install', '--no-index', '--no-build-isolation', '--no-deps', '--quiet',
         '--disable-pip-version-check', '--root-user-action=ignore', '--target', target, source],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=PATIENCE,
        env={**os.environ, 'HOME': str(tmp_path)})
    assert done.returncode == 0, done.stdout
    assert (target / 'weir_client/py.typed').exists() and (target / 'weir_sync.py').exists()
    code = 'import weir_client; print(weir_client.Gate, weir_client.__file__)'
    said = subprocess.run([sys.executable, '-c', code], cwd=tmp_path, env={'PYTHONPATH': str(target)}, text=True,
                          stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
    assert str(target) in said


def test_threads_of_renewals_end_with_their_permits(server):
    gate = Gate(server.api)

    def running():
        return [thread for thread in threading.enumerate() if thread.name == 'weir renewals']
    with gate.permit('threads', hold=False):
        assert len(running()) == 1
    gate.close()
    for thread in running():
        thread.join(PATIENCE)
    assert running() == []
    assert pathlib.Path(CLIENT / 'weir_client/py.typed').exists()
