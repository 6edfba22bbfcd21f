"""Programs that people really use, through the gateway: curl, wrk, OpenAI's client, WebSockets."""
import asyncio
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import aiohttp
import pytest
from aiohttp import web
from raw import connect, front, request, run, upstream
from test_mock import mock
from weir import PATIENCE, functions, until

# Of npm, installed once below build/. The clients need a newer Node.js than Debian 12 has, so that is one of them.
NODE = f'node-linux-{ {"x86_64": "x64", "aarch64": "arm64"}[os.uname().machine]}'
PACKAGES = {'openai': '6.49.0', '@anthropic-ai/sdk': '1.9.0', 'ws': '8.18.3',
            '@pydantic/genai-prices': '0.1.8', '@modelcontextprotocol/sdk': '1.32.2',
            '@modelcontextprotocol/conformance': '0.1.16', NODE: '22.21.1'}
CACHE = pathlib.Path(__file__).resolve().parents[2] / 'build' / 'node'


def install(name, *packages):
    """Where these packages are; npm installs them unless they are there. Of several test runs at once one does."""
    home = CACHE / name
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            place = CACHE / 'incomplete'
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run(['npm', 'install', '--prefix', place, '--no-save', '--no-audit',
                            '--no-fund', '--ignore-scripts', '--loglevel=error',
                            *packages], check=True, timeout=120)
            place.rename(home)
    return home / 'node_modules'


def fetch(name):
    return install(f'{name}-{PACKAGES[name]}'.replace('/', '-'), f'{name}@{PACKAGES[name]}')


@contextlib.asynccontextmanager
async def program(*command, **more):
    """A program with pipes; at the end it is gone."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, **more)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def output(*command, status=0, give=None):
    """What a program says; it must end with this status, unless that is None."""
    async with program(*command) as process:
        said, wrong = await asyncio.wait_for(process.communicate(give), PATIENCE)
        assert status is None or process.returncode == status, wrong
        return said, wrong.decode()


async def curl(*arguments, **more):
    return await output('curl', '-sS', *arguments, **more)


# ---- curl

@run
async def test_curl_gets_and_keeps_its_connection():
    async with functions(limit=2) as (gateway, upstream_, _):
        url = f'{gateway.url}/functions/f?id='
        said, _ = await curl(url + 'a', url + 'b', url + 'c', '-w', '\\n%{http_code} %{num_connects}\\n')
        assert said.decode().splitlines()[1::2] == ['200 1', '200 0', '200 0']
        assert upstream_.came == ['a', 'b', 'c']
        said, _ = await curl('-I', url + 'd')
        assert said.startswith(b'HTTP/1.1 200 OK\r\n')
        assert b'ontent-' in said and said.endswith(b'\r\n\r\n')


@run
async def test_curl_that_offers_http_2_gets_http_1_1():
    async with upstream() as server, front(server) as gateway:
        url = f'http://127.0.0.1:{gateway.port}/functions/'
        shown = ('-w', ' %{http_code} %{http_version} %{num_connects}\n')
        said, _ = await curl('--http2', url + 'a', url + 'b', *shown)
        assert said == b'ok 200 1.1 1\nok 200 1.1 0\n'
        said, _ = await curl('--http2', '-d', 'hello', url + 'c', *shown)
        assert said == b'ok 200 1.1 1\n'
        said, _ = await curl('--http2', '-H', 'Transfer-Encoding: chunked', '-d', 'hello', url + 'd', *shown)
        assert said == b'ok 200 1.1 1\n'
        assert [seen.body for seen in server.seen] == [b'', b'', b'hello', b'hello']
        assert not any(seen.one(name) for seen in server.seen for name in ('upgrade', 'http2-settings', 'connection'))


@run
async def test_curl_in_1_0():
    async with functions(limit=2) as (gateway, upstream_, _):
        url = f'{gateway.url}/functions/f?id='
        said, _ = await curl('--http1.0', '-i', url + 'a')
        assert b'"id": "a"' in said
        assert b'connection: close' in said.lower()
        assert b'chunked' not in said
        said, _ = await curl('--http1.0', '-d', 'hello', url + 'b')
        assert upstream_.bodies['b'] == b'hello'
        for part in ('one', 'two', 'three'):
            upstream_.open(part)
        said, _ = await curl('--http1.0', f'{gateway.url}/functions/stream')
        assert said == b'data: one\n\ndata: two\n\ndata: three\n\n'


@run
async def test_curl_waits_to_be_told_to_go_on():
    async with functions(limit=2) as (gateway, upstream_, _):
        said, trace = await curl('-v', '-H', 'Expect: 100-continue', '--expect100-timeout', '600',
                                 '-d', 'hello', f'{gateway.url}/functions/f?id=a')
        assert '< HTTP/1.1 100 ' in trace
        assert json.loads(said) == {'id': 'a', 'bytes': 5}
        assert upstream_.bodies['a'] == b'hello'


@run
async def test_curl_uploads_files_of_known_and_unknown_length():
    async with functions(limit=2) as (gateway, upstream_, _):
        body = os.urandom(5_000_000)
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            await curl('-T', file.name, f'{gateway.url}/functions/f?id=file')
            await curl('-F', f'file=@{file.name}', f'{gateway.url}/functions/f?id=form')
        await curl('-T', '-', f'{gateway.url}/functions/f?id=pipe', give=body)
        assert upstream_.bodies['file'] == body
        assert upstream_.bodies['pipe'] == body
        assert body in upstream_.bodies['form']
        assert upstream_.headers['pipe']['Transfer-Encoding'] == 'chunked'


@run
async def test_curl_that_loses_patience_leaves():
    # 28: nothing came for a second, from when it had sent its request.
    patience = ('--speed-time', '1', '--speed-limit', '1')
    async with functions(limit=1) as (gateway, upstream_, _):
        await curl(*patience, f'{gateway.url}/functions/f?hold&id=admitted', status=28)
        await gateway.until('f', active=0, entered=1)
        async with connect(gateway.port) as first:
            await first.send(request('/functions/f?hold&id=first'))
            await gateway.until('f', active=1)
            await curl(*patience, f'{gateway.url}/functions/f?hold&id=waiting', status=28)
            await gateway.until('f', waiting=0, active=1, entered=3)
        assert upstream_.came == ['admitted', 'first']


@run
async def test_transfers_may_take_longer_than_any_timeout_as_long_as_bytes_flow():
    more = 'timeouts: { first_byte: 1s, idle: 1s }'
    async with mock('--bytes', str(1 << 40)) as server, front(server.url, more=more) as gateway:
        async def transfer(count, *how):  # 28: the time was up, and it had not ended before
            said, _ = await curl('-m', '2.5', '-o', '/dev/null', '-w', count, *how,
                                 f'{gateway.url}/functions/f', status=28)
            assert int(said) > 1_000_000
        await asyncio.gather(transfer('%{size_download}'),
                             transfer('%{size_download}', '--limit-rate', '5M'),
                             transfer('%{size_upload}', '-T', '/dev/zero'),
                             transfer('%{size_upload}', '-T', '/dev/zero', '--limit-rate', '5M'))


# ---- wrk

@run
async def test_wrk_sees_no_errors_at_a_gate_that_is_full():
    async with mock('--concurrency', '4', '--latency', '5ms') as server:
        async with front(server.url, gate='limit: 4', threads=2) as gateway:
            wrk = asyncio.create_task(output('wrk', '-t2', '-c32', '-d1s', f'{gateway.url}/functions/f'))

            async def full():
                counts = await gateway.counts('f')
                return counts['active'] == 4 and counts['waiting'] > 0
            await until(full, 'as many as may be are inside, and others wait')
            # Not at the end: when wrk hangs up, permits of clients that are gone pass on before the mock sees it.
            during = await server.stats()
            said = (await wrk)[0].decode()
            assert 'Socket errors' not in said, said
            assert 'Non-2xx' not in said, said
            assert int(re.search(r'(\d+) requests in', said)[1]) > 0
            await gateway.until('f', active=0, waiting=0)
        assert during['refused'] == 0 and during['most'] <= 4  # four at once, and never more


# ---- OpenAI's client

COMPLETE = '''
const OpenAI = require('openai');
const client = new OpenAI({baseURL: process.argv[1] + '/v1', apiKey: 'theirs',
                           maxRetries: Number(process.argv[2])});
const say = text => process.stdout.write(JSON.stringify(text) + '\\n');
(async () => {
    const asked = {model: 'gpt-test', messages: [{role: 'user', content: 'count'}]};
    const whole = await client.chat.completions.create(asked);
    say(whole.choices[0].message.content);
    const stream = await client.chat.completions.create({...asked, stream: true});
    for await (const part of stream) {
        say(part.choices[0].delta.content);
        if (process.argv[3] === 'leave') {
            stream.controller.abort();
            process.stdin.once('data', () => process.exit(0));  // it lives on, but not this request
            return;
        }
    }
    say('end');
})().catch(wrong => say({name: wrong.constructor.name, status: wrong.status}));
'''


class Provider:
    """Speaks like OpenAI: each piece of a stream comes when it is let go."""

    def __init__(self):
        self.keys = []
        self.go = asyncio.Queue()
        self.gone = 0

    async def complete(self, asked):
        self.keys.append(asked.headers['Authorization'])
        document = await asked.json()
        if not document.get('stream'):
            return web.json_response({'id': 'x', 'object': 'chat.completion', 'model': 'gpt-test', 'choices': [
                {'index': 0, 'finish_reason': 'stop', 'message': {'role': 'assistant', 'content': 'whole'}}]})
        stream = web.StreamResponse(headers={'Content-Type': 'text/event-stream'})
        await stream.prepare(asked)
        try:
            for i in range(20):
                await self.go.get()
                piece = {'id': 'x', 'object': 'chat.completion.chunk', 'model': 'gpt-test', 'choices': [
                    {'index': 0, 'delta': {'content': f'{i} \u00e9'}, 'finish_reason': None}]}
                await stream.write(f'data: {json.dumps(piece)}\n\n'.encode())
            await stream.write(b'data: [DONE]\n\n')
        except ConnectionError:
            self.gone += 1
            raise
        return stream

    @contextlib.asynccontextmanager
    async def serve(self):
        app = web.Application()
        app.router.add_post('/v1/chat/completions', self.complete)
        async with serving(app) as url:
            yield url


@contextlib.asynccontextmanager
async def serving(app):
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, '127.0.0.1', 0, shutdown_timeout=1)
    await site.start()
    try:
        yield f'http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}'
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def llm(gate):
    provider = Provider()
    route = '''
  - { match: /v1/, key: llm, gate: functions, upstream: functions }'''
    async with provider.serve() as url:
        more = 'headers: { Authorization: "Bearer ours" }'
        async with front(url, gate=gate, route=route, more=more) as gateway:
            yield provider, gateway


def node(script, name, *arguments):
    return program(fetch(NODE) / NODE / 'bin/node', '-e', script, *arguments,
                   env={**os.environ, 'NODE_PATH': str(fetch(name))})


async def line_of(process):
    line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
    assert line, (await process.stderr.read()).decode()
    return json.loads(line)


@run
async def test_openai_streams_piece_by_piece():
    async with llm('limit: 1') as (provider, gateway):
        async with node(COMPLETE, 'openai', gateway.url, '0') as client:
            assert await line_of(client) == 'whole'
            for i in range(20):  # the next piece is not sent before this one has come
                provider.go.put_nowait(None)
                assert await line_of(client) == f'{i} \u00e9'
                assert (await gateway.counts('llm'))['active'] == 1 or i == 19
            assert await line_of(client) == 'end'
            assert await asyncio.wait_for(client.wait(), PATIENCE) == 0
        assert provider.keys == ['Bearer ours'] * 2
        await gateway.until('llm', active=0)


@run
async def test_openai_understands_a_refusal_and_tries_again():
    async with llm('limit: 1, line: { timeout: 50ms }') as (provider, gateway):
        async with connect(gateway.port) as holder:
            body = b'{"stream": true}'
            await holder.send(request('/v1/chat/completions', f'Content-Length: {len(body)}', method='POST',
                                      body=body))
            await gateway.until('llm', active=1)
            async with node(COMPLETE, 'openai', gateway.url, '0') as client:
                assert await line_of(client) == {'name': 'RateLimitError', 'status': 429}
            before = (await gateway.counts('llm'))['ended']['timeout']
            async with node(COMPLETE, 'openai', gateway.url, '9') as client:
                async def refused():
                    return (await gateway.counts('llm'))['ended']['timeout'] > before
                await until(refused, 'it has been refused')
                holder.reset()
                assert await line_of(client) == 'whole'


@run
async def test_openai_that_stops_listening_gives_its_permit_back():
    async with llm('limit: 1') as (provider, gateway):
        async with node(COMPLETE, 'openai', gateway.url, '0', 'leave') as client:
            assert await line_of(client) == 'whole'
            provider.go.put_nowait(None)
            assert await line_of(client) == '0 \u00e9'
            await gateway.until('llm', active=0)

            def noticed():  # by sending to somebody who is not there
                provider.go.put_nowait(None)
                return provider.gone == 1
            await until(noticed, 'the provider has noticed')
            assert client.returncode is None


# ---- WebSockets

class Echo:
    """Says every message back. `close` and `drop` end the connection from this side."""

    def __init__(self):
        self.open = []
        self.ended = []
        self.headers = None

    async def handle(self, asked):
        self.headers = asked.headers
        if asked.query.get('hang'):
            await asyncio.Event().wait()
        if asked.query.get('refuse'):
            return web.Response(status=400, text='no sockets today')
        socket = web.WebSocketResponse(protocols=['chat'], max_msg_size=1 << 24, autoping=False)
        await socket.prepare(asked)
        self.open.append(socket)
        try:
            async for message in socket:
                if message.type == aiohttp.WSMsgType.TEXT and message.data == 'close':
                    await socket.close(code=4001, message=b'enough')
                elif message.type == aiohttp.WSMsgType.TEXT and message.data == 'drop':
                    asked.transport.abort()
                elif message.type == aiohttp.WSMsgType.TEXT:
                    await socket.send_str(message.data)
                elif message.type == aiohttp.WSMsgType.BINARY:
                    await socket.send_bytes(message.data)
                elif message.type == aiohttp.WSMsgType.PING:
                    await socket.pong(message.data)
        finally:
            self.open.remove(socket)
            self.ended.append(socket.close_code)
        return socket


@contextlib.asynccontextmanager
async def sockets(route='websocket: true', gate='limit: 1', **more):
    echo = Echo()
    app = web.Application()
    app.router.add_route('*', '/{path:.*}', echo.handle)
    async with serving(app) as url, front(url, gate=gate, route=route, **more) as gateway:
        async with aiohttp.ClientSession(gateway.url) as session:
            yield gateway, echo, session


def open_socket(session, target='/functions/f', **more):
    return session.ws_connect(target, max_msg_size=1 << 24, autoping=False, timeout=PATIENCE, **more)


@run
async def test_messages_of_every_kind_pass_both_ways():
    async with sockets() as (gateway, echo, session):
        async with open_socket(session, protocols=['chat']) as socket:
            assert socket.protocol == 'chat'
            for text in ('', 'hello', '\u00e9\u4e2d', 'x' * 1_000_000):
                await socket.send_str(text)
                assert await socket.receive_str() == text
            for size in (0, 1, 125, 126, 65535, 65536, 1_000_000, 5_000_000):
                data = os.urandom(size)
                await socket.send_bytes(data)
                assert await socket.receive_bytes() == data
            await socket.ping(b'are you there')
            message = await socket.receive()
            assert (message.type, message.data) == (aiohttp.WSMsgType.PONG, b'are you there')
            for i in range(500):
                await socket.send_str(str(i))
            assert [await socket.receive_str() for _ in range(500)] == [str(i) for i in range(500)]
        await gateway.until('f', active=0)


@run
async def test_compressed_messages_pass():
    async with sockets() as (_, echo, session):
        async with open_socket(session, compress=15) as socket:
            assert socket.compress
            await socket.send_str('hello' * 10_000)
            assert await socket.receive_str() == 'hello' * 10_000


@run
async def test_the_upstream_sees_an_upgrade_and_the_client_behind_it():
    async with sockets(top='trusted: []') as (gateway, echo, session):
        async with open_socket(session, headers={'X-Forwarded-For': '192.0.2.1'}):
            assert echo.headers['Connection'] == 'Upgrade'
            assert echo.headers['Upgrade'] == 'websocket'
            assert echo.headers['X-Forwarded-For'] == '127.0.0.1'
            assert echo.headers['Via'] == '1.1 weir'


@run
async def test_a_close_passes_from_either_side():
    async with sockets() as (gateway, echo, session):
        async with open_socket(session) as socket:
            await socket.close(code=4002, message=b'bye')
            await until(lambda: echo.ended == [4002], 'the upstream has heard it')
            await gateway.until('f', active=0)
        async with open_socket(session) as socket:
            await socket.send_str('close')
            message = await socket.receive()
            assert (message.type, message.data, message.extra) == (aiohttp.WSMsgType.CLOSE, 4001, 'enough')
            await socket.close()
        await gateway.until('f', active=0)


@run
async def test_a_permit_is_held_as_long_as_the_socket_is_open():
    async with sockets() as (gateway, echo, session):
        async with open_socket(session) as first:
            await gateway.until('f', active=1)
            waiting = asyncio.create_task(open_socket(session)._coro)
            await gateway.until('f', active=1, waiting=1)
            await first.send_str('still here')
            assert await first.receive_str() == 'still here'
            assert len(echo.open) == 1
            await first.close()
            second = await asyncio.wait_for(waiting, PATIENCE)
            await gateway.until('f', active=1, waiting=0)
            await second.send_str('my turn')
            assert await second.receive_str() == 'my turn'
            await second.close()
        await gateway.until('f', active=0)


@run
async def test_a_permit_comes_back_when_either_side_vanishes():
    async with sockets() as (gateway, echo, session):
        async with open_socket(session) as socket:
            await gateway.until('f', active=1)
            socket._response.connection.transport.abort()  # without a word
            await gateway.until('f', active=0)
            await until(lambda: echo.open == [], 'the upstream is told')
        async with open_socket(session) as socket:
            await gateway.until('f', active=1)
            await socket.send_str('drop')
            message = await socket.receive()
            assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
            await gateway.until('f', active=0)


@run
async def test_whoever_waits_for_a_socket_may_be_refused():
    async with sockets(gate='limit: 1, line: { timeout: 50ms }') as (gateway, echo, session):
        async with open_socket(session):
            await gateway.until('f', active=1)
            with pytest.raises(aiohttp.WSServerHandshakeError) as wrong:
                await open_socket(session)
            assert wrong.value.status == 429


@run
async def test_a_route_without_websockets_and_a_foreign_page_are_refused():
    async with sockets(route='') as (gateway, echo, session):
        with pytest.raises(aiohttp.WSServerHandshakeError) as wrong:
            await open_socket(session)
        assert wrong.value.status == 400
    async with sockets() as (gateway, echo, session):
        with pytest.raises(aiohttp.WSServerHandshakeError) as wrong:
            await open_socket(session, origin='http://evil.com')
        assert wrong.value.status == 403
        assert echo.headers is None


@run
async def test_an_upstream_that_refuses_the_upgrade_is_passed_on():
    async with sockets() as (gateway, echo, session):
        with pytest.raises(aiohttp.WSServerHandshakeError) as wrong:
            await open_socket(session, '/functions/f?refuse=1')
        assert wrong.value.status == 400
        await gateway.until('f', active=0)
        upgrade = ('Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
                   'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==')
        async with connect(gateway.port) as wire:
            for _ in range(2):  # and the connection goes on
                await wire.send(request('/functions/f?refuse=1', *upgrade))
                message = await wire.message()
                assert (message.status, message.body) == (400, b'no sockets today')


@run
async def test_timeouts_of_requests_do_not_end_a_socket():
    more = 'timeouts: { first_byte: 1s }'
    async with sockets(route='websocket: true\n    deadline: 1s', more=more) as (gateway, echo, session):
        async with open_socket(session) as socket:
            async with session.get('/functions/g?hang=1') as late:  # it comes later, and has the same time
                assert late.status == 504
            await socket.send_str('still here')
            assert await socket.receive_str() == 'still here'


@run
async def test_what_is_sent_ahead_of_the_reply_and_right_behind_it_arrives():
    switch = (b'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n'
              b'Sec-WebSocket-Accept: x\r\n\r\n')

    async def serve(wire):
        await wire.head()
        await wire.send(switch + b'right behind')
        assert await wire.exactly(10) == b'sent ahead'
        await wire.send(b'heard')
        wire.finish()
        await wire.ended()
    async with upstream(serve) as server, front(server, route='websocket: true') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', 'Connection: Upgrade', 'Upgrade: websocket',
                                    'Sec-WebSocket-Version: 13',
                                    'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='), b'sent ahead')
            message = await wire.head()
            assert message.status == 101
            assert message.one('upgrade') == 'websocket'
            assert message.one('sec-websocket-accept') == 'x'
            assert await wire.rest() == b'right behindheard'
        await gateway.until('f', active=0)


@run
async def test_a_drain_waits_for_sockets_as_long_as_the_grace_lasts():
    async with sockets(grace='2s') as (gateway, echo, session):
        async with open_socket(session) as socket:
            await gateway.until('f', active=1)
            gateway.terminate()
            assert await asyncio.wait_for(gateway.process.stdout.readline(), PATIENCE) == b'weir: draining\n'
            await socket.send_str('still here')
            assert await socket.receive_str() == 'still here'
            message = await socket.receive()
            assert message.type in (aiohttp.WSMsgType.CLOSED, aiohttp.WSMsgType.ERROR)
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0


TALK = '''
const WebSocket = require('ws');
const socket = new WebSocket(process.argv[1], {perMessageDeflate: process.argv[2] === 'deflate'});
const big = Buffer.alloc(1000000, 'weir');
const told = [];
socket.on('open', () => { socket.send('hello'); });
socket.on('pong', data => { told.push('pong ' + data); socket.close(4003, 'done'); });
socket.on('message', (data, binary) => {
    if (!binary) { told.push('text ' + data); socket.send(big); }
    else { told.push('binary ' + big.equals(data)); socket.ping('there'); }
});
socket.on('close', (code, reason) => { told.push('close ' + code); console.log(JSON.stringify(told)); });
socket.on('error', wrong => { console.log(JSON.stringify(['error ' + wrong.message])); });
'''


@run
async def test_ws_of_npm_talks():
    async with sockets() as (gateway, echo, _):
        url = f'ws://127.0.0.1:{gateway.port}/functions/f'
        for how in ('plain', 'deflate'):
            async with node(TALK, 'ws', url, how) as client:
                told = await line_of(client)  # aiohttp answers any close with 1000
                assert told == ['text hello', 'binary true', 'pong there', 'close 1000']
        await gateway.until('f', active=0)
        assert echo.ended == [4003, 4003]
    async with sockets(route='') as (gateway, _, _):
        async with node(TALK, 'ws', f'ws://127.0.0.1:{gateway.port}/functions/f', 'plain') as client:
            assert (await line_of(client))[0] == 'error Unexpected server response: 400'
