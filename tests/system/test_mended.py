"""Faults that a review found, each of which was there once."""
import asyncio
import contextlib
import os
import signal
import socket
import time

import aiohttp
import pytest
from raw import connect, front, reply, request, run, upstream
from weir import PATIENCE, PROGRAM, until, weir


async def ask(port, message):
    async with connect(port) as wire:
        await wire.send(message)
        return await wire.message()


@run
async def test_a_second_gateway_on_the_same_port_does_not_start():
    async with upstream() as server, front(server) as gateway:
        with pytest.raises(AssertionError, match='ended before it listened'):
            async with front(server, listen=f'127.0.0.1:{gateway.port}'):
                pass
        assert (await ask(gateway.port, request('/functions/f'))).status == 200


@run
async def test_what_a_server_sends_beyond_a_reply_that_fills_the_buffer_is_nobodys_reply():
    async def serve(wire, message):
        if not message.target.endswith('bad'):
            await wire.send(reply(b'honest'))
            return
        head = b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n'
        body = 16384 - len(head % 16384)
        whole = head % body + b'x' * body
        assert len(whole) == 16384  # what is read at once
        await wire.send(whole + reply(b'POISON'))
    async with upstream(serve) as server, front(server, threads=1) as gateway:
        for _ in range(5):
            assert (await ask(gateway.port, request('/functions/bad'))).status == 200
            for _ in range(3):
                message = await ask(gateway.port, request('/functions/good'))
                assert (message.status, message.body) == (200, b'honest')


@run
async def test_the_breaker_learns_of_a_server_that_cannot_be_reached():
    with socket.socket() as dead:
        dead.bind(('127.0.0.1', 0))  # and does not listen
        async with weir(f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
upstreams:
  a: {{ url: "http://127.0.0.1:{dead.getsockname()[1]}", health: {{ failures: 100 }} }}
gates: {{ g: {{ limit: 10, line: {{ timeout: 50ms }}, breaker: {{ failures: 2, pause: 30s }} }} }}
routes:
  - {{ match: /, key: all, gate: g, upstream: a }}
''') as gateway:
            statuses = [(await ask(gateway.port, request('/x'))).status for _ in range(4)]
            assert statuses == [502, 502, 429, 429]


@run
async def test_servers_that_fail_together_pause_once():
    stop = asyncio.Event()

    async def flaky(wire, _message):
        if not stop.is_set():
            await stop.wait()
            raise ConnectionError  # all of them in one moment
        await wire.send(reply(b'flaky'))

    async def steady(wire, _message):
        await stop.wait()  # so that each of the two servers has half of them
        await wire.send(reply(b'steady'))
    more = 'health: { failures: 3, pause: 200ms, pause_max: 1h }'
    async with (upstream(flaky) as first, upstream(steady) as second,
                front(first, second, gate='limit: 100', more=more, threads=1) as gateway):
        tasks = [asyncio.create_task(ask(gateway.port, request('/functions/f')))
                 for _ in range(40)]
        await until(lambda: len(first.seen) == 20, 'they are there')
        stop.set()
        await asyncio.gather(*tasks, return_exceptions=True)

        async def is_back():
            return (await ask(gateway.port, request('/functions/f'))).body == b'flaky'
        await until(is_back, 'the first server is asked again')


@run
async def test_lines_move_on_and_the_api_answers_until_the_last_thread_has_drained():
    gate = 'limit: 100, rate: { rate: 2/s, burst: 1 }, line: { timeout: 30s }'
    async with upstream() as server, front(server, threads=2, grace='20s', gate=gate) as gateway:
        async with contextlib.AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(connect(gateway.port)) for _ in range(8)]
            for wire in wires:
                await wire.send(request('/functions/f'))
            await gateway.until('f', entered=8)
            gateway.terminate()

            async def probe():
                async with aiohttp.ClientSession() as session:
                    while gateway.process.returncode is None:
                        try:
                            async with session.get(gateway.api + '/readyz', timeout=5) as reply_:
                                assert reply_.status in (200, 503)
                        except aiohttp.ClientConnectionError:
                            return
                        await asyncio.sleep(0.01)
            probing = asyncio.create_task(probe())
            began = time.monotonic()
            statuses = [(await wire.message()).status for wire in wires]
            assert statuses == [200] * 8
            assert time.monotonic() - began < 15  # long before the grace is over
            await probing


@run
async def test_a_gate_that_goes_and_comes_back_has_forgotten_its_keys_settings():
    gate = 'limit: 7, keys: { f: { limit: 1 } }'
    async with upstream() as server, front(server, gate=gate) as gateway:
        assert (await ask(gateway.port, request('/functions/f'))).status == 200
        assert (await gateway.counts('f'))['limit'] == 1
        await gateway.reload(('functions: { limit', 'others: { limit'), ('gate: functions', 'gate: others'))
        await gateway.reload(('others: { limit', 'functions: { limit'), ('gate: others', 'gate: functions'),
                             (', keys: { f: { limit: 1 } }', ''))
        assert (await ask(gateway.port, request('/functions/f'))).status == 200
        assert (await gateway.counts('f'))['limit'] == 7


@run
async def test_a_second_signal_ends_it_at_once():
    release = asyncio.Event()

    async def slow(wire, _message):
        await release.wait()
        await wire.send(reply())
    with contextlib.suppress(AssertionError):  # its status is the signal's
        async with upstream(slow) as server, front(server, grace='1h') as gateway:
            task = asyncio.create_task(ask(gateway.port, request('/functions/f')))
            await until(lambda: len(server.seen) == 1, 'it is inside')
            gateway.terminate()
            line = await asyncio.wait_for(gateway.process.stdout.readline(), PATIENCE)
            assert line == b'weir: draining\n'
            while gateway.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(gateway.process.pid, signal.SIGTERM)  # terminate() may take its status from asyncio
                await asyncio.sleep(0.01)
            release.set()
            await asyncio.gather(task, return_exceptions=True)
            ended = gateway.process.returncode
    assert ended == -15


@run
async def test_a_name_to_listen_on_that_cannot_be_found_is_named(tmp_path):
    path = tmp_path / 'weir.yaml'
    path.write_text('api: 127.0.0.1:0\nlisten: no.such.host.invalid:1\n')
    process = await asyncio.create_subprocess_exec(PROGRAM, 'serve', str(path), stdout=asyncio.subprocess.DEVNULL,
                                                   stderr=asyncio.subprocess.PIPE)
    _, said = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    assert 'no.such.host.invalid:1: the host name cannot be found' in said.decode()
