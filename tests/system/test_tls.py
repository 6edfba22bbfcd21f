"""TLS to upstreams, against Python's own."""
import asyncio
import hashlib
import json
import os
import signal
import ssl
import subprocess

import pytest
from raw import ask, connect, front, open_narrow_wire, reply, request, run, upstream
from secure import town
from test_llm import DONE, TEXTS, USAGE, chat, llm, post, quiet, refusal, shown, streams, turns
from weir import PATIENCE, PROGRAM, until, until_still, weir


def problem_of(message):
    """What a 502 says."""
    assert message.status == 502
    problem = json.loads(message.body)
    assert problem['type'] == 'urn:weir:upstream-unreachable'
    return problem['detail']


def by_name(server):
    return f'https://localhost:{server.port}'


@pytest.fixture(name='place')
def make_place():
    with town() as place:
        yield place


# ---- what works

@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@run
async def test_a_server_with_a_certificate_of_ones_own_authority_is_served(place, version):
    context = place.context(version=version)
    async with upstream(secure=context) as server, front(by_name(server), more=place.ca()) as gateway:
        for _ in range(3):
            assert (await ask(gateway.port, request('/functions/f'))).body == b'ok'
        assert server.connections == 1  # it is kept
        assert context.called == ['localhost']
        assert server.seen[0].one('host') == f'localhost:{server.port}'
        assert server.seen[0].one('x-forwarded-proto') == 'http'  # as the client came


@run
async def test_http_1_1_is_what_is_agreed_on(place):
    agreed = []

    async def serve(wire, _):
        agreed.append(wire.writer.get_extra_info('ssl_object').selected_alpn_protocol())
        await wire.send(reply())
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        assert (await ask(gateway.port, request('/functions/f'))).status == 200
    assert agreed == ['http/1.1']


@run
async def test_an_address_is_checked_and_no_name_is_told(place):
    for host in ('127.0.0.1', '::1'):
        context = place.context(host)
        async with upstream(secure=context, host=host) as server, front(server, more=place.ca()) as gateway:
            assert (await ask(gateway.port, request('/functions/f'))).status == 200
            assert context.called == [None]


@run
async def test_a_server_may_have_another_name_than_its_url(place):
    context = place.context('api.example')
    async with upstream(secure=context) as server:
        async with front(server, more=place.ca('server_name: api.example')) as gateway:
            assert (await ask(gateway.port, request('/functions/f'))).status == 200
            assert context.called == ['api.example']
            assert server.seen[0].one('host') == f'127.0.0.1:{server.port}'


@pytest.mark.parametrize('version', [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@run
async def test_the_second_connection_takes_up_the_session_of_the_first(place, version):
    reused = []

    async def serve(wire, _):
        reused.append(wire.writer.get_extra_info('ssl_object').session_reused)
        await wire.send(reply())
    context = place.context(version=version)
    async with upstream(serve, secure=context) as server:
        async with front(server, more=place.ca() + ', keepalive: 0') as gateway:
            for _ in range(4):
                assert (await ask(gateway.port, request('/functions/f'))).status == 200
        assert server.connections == 4
    assert reused == [False, True, True, True]


def pattern(size):
    block = bytes(range(251))
    return (block * (size // len(block) + 1))[:size]


@run
async def test_large_bodies_go_both_ways(place):
    async def serve(wire, message):
        await wire.send(reply(hashlib.sha256(message.body).hexdigest().encode() + message.body))
    body = pattern(20_000_000)
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        async with connect(gateway.port) as wire:
            for size in (16384, 20_000_000, 16383, 1):
                sent = request('/functions/f', f'Content-Length: {size}', method='POST', body=body[:size])
                task = asyncio.create_task(wire.send(sent))
                message = await wire.message()
                await task
                assert message.body == hashlib.sha256(body[:size]).hexdigest().encode() + body[:size]
        assert server.connections == 1


@run
async def test_replies_of_every_size_leave_a_connection_that_can_be_kept(place):
    async def serve(wire, message):
        size = int(message.target.rsplit('=', 1)[1])
        await wire.send(reply(pattern(size)))
    sizes = [*range(0, 200, 7), *range(16000, 16800, 13), *range(32600, 33000, 17), 65536, 100_000]
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        async with connect(gateway.port) as wire:
            for size in sizes:
                await wire.send(request(f'/functions/f?size={size}'))
                assert (await wire.message()).body == pattern(size)
        assert server.connections == 1


@run
async def test_a_reader_that_is_slow_slows_the_server_and_loses_nothing(place):
    sent = 0
    body = pattern(30_000_000)

    async def serve(wire, _):
        nonlocal sent
        await wire.send(f'HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n')
        for start in range(0, len(body), 100_000):
            await wire.send(body[start:start + 100_000])
            sent += 100_000
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        wire = await open_narrow_wire(gateway.port)
        await wire.send(request('/functions/f'))
        await wire.head()
        await until(lambda: sent > 0, 'it has begun')
        await until_still(gateway.process.pid)
        assert sent < 20_000_000
        assert await wire.exactly(2_000_000) == body[:2_000_000]
        wire.close()


@run
async def test_what_is_streamed_comes_as_it_is_sent(place):
    go = asyncio.Event()

    async def serve(wire, _):
        await wire.send('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
        for part in (b'one', b'two'):
            await wire.send(b'3\r\n', part, b'\r\n')
            await go.wait()
            go.clear()
        await wire.send(b'0\r\n\r\n')
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f'))
            await wire.head()
            for part in (b'one', b'two'):
                assert await wire.exactly(8) == b'3\r\n' + part + b'\r\n'
                go.set()
            assert await wire.exactly(5) == b'0\r\n\r\n'


@run
async def test_an_llm_is_asked_again_on_the_same_connection_and_its_usage_is_hidden(place):
    context = place.context()
    answers = turns(refusal('429 Too Many Requests', 'retry-after-ms: 5'), streams(*TEXTS, USAGE, DONE))
    async with upstream(answers, secure=context) as server, llm(server, more=place.ca()) as gateway:
        said = await ask(gateway.port, post(chat(stream=True)), 'POST')
        assert (said.status, said.body) == (200, shown(*TEXTS, DONE))
        assert (len(server.seen), server.connections) == (2, 1)
        await quiet(gateway)
        assert (await gateway.ask_api('/usage'))[1]['usage'][0]['output_tokens'] == 3


@run
async def test_a_websocket_goes_through(place):
    async def serve(wire, _):
        await wire.send('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n')
        while data := await wire.reader.read(100):
            await wire.send(data.upper())
    context = place.context()
    async with upstream(serve, secure=context) as server:
        async with front(server, more=place.ca(), route='websocket: true') as gateway:
            async with connect(gateway.port) as wire:
                await wire.send(request('/functions/f', 'Connection: Upgrade', 'Upgrade: websocket',
                                        'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='))
                assert (await wire.head()).status == 101
                for text in (b'hello', b'world' * 20):
                    await wire.send(text)
                    assert await wire.exactly(len(text)) == text.upper()


# ---- ends

@run
async def test_a_server_that_closes_without_a_goodbye_has_said_what_it_has_said(place):
    async def serve(wire, message):
        await wire.send(reply(b'whole', 'Connection: close'))
        wire.abort()
        await asyncio.sleep(PATIENCE)
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(3):
                await wire.send(request('/functions/f'))
                assert (await wire.message()).body == b'whole'


@pytest.mark.parametrize('goodbye', [True, False])
@run
async def test_a_body_that_ends_with_the_connection_needs_a_goodbye(place, goodbye):
    async def serve(wire):
        await wire.head()
        await wire.send('HTTP/1.1 200 OK\r\n\r\npart')
        if goodbye:
            wire.close()
            await wire.writer.wait_closed()
        else:
            wire.abort()
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f'))
            await wire.head()
            if goodbye:
                assert await wire.rest() == b'part'
            else:
                with pytest.raises(ConnectionResetError):
                    await wire.rest()


@run
async def test_a_kept_connection_that_the_server_has_closed_is_not_used(place):
    async def serve(wire):
        await wire.message()
        await wire.send(reply())
        wire.abort()
    async with upstream(serve, secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        for count in range(1, 4):
            assert (await ask(gateway.port, request('/functions/f', method='POST'))).status == 200
            await until(lambda expected=count: server.ended == expected, 'the server has closed')
            await until_still(gateway.process.pid)  # it has seen that


@run
async def test_what_tls_says_between_requests_is_not_the_servers_word(place):
    """OpenSSL's own server, which sends what is typed, and new keys for a line with K. All comes on one connection."""
    identity = place.identity()
    process = await asyncio.create_subprocess_exec(
        'stdbuf', '-oL', 'openssl', 's_server', '-accept', '127.0.0.1:0', '-cert', identity.path,
        '-key', identity.key_path, '-crlf', stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL)

    async def read_until(word):
        while word not in (line := await asyncio.wait_for(process.stdout.readline(), PATIENCE)):
            assert line, 'the server has ended'
            assert b'CONNECTION CLOSED' not in line
        return line
    try:
        port = int((await read_until(b'ACCEPT')).split(b':')[-1])
        async with front(f'https://127.0.0.1:{port}', more=place.ca()) as gateway:
            for number in range(3):
                task = asyncio.create_task(ask(gateway.port, request(f'/functions/f?number={number}')))
                await read_until(b'number=%d' % number)
                process.stdin.write(b'HTTP/1.1 200 OK\nContent-Length: 0\n\n')
                assert (await task).status == 200
                process.stdin.write(b'K\n')
                await read_until(b'SSL_do_handshake -> 1')
                await until_still(gateway.process.pid)
    finally:
        process.kill()
        await process.wait()


# ---- what does not

@run
async def test_a_certificate_for_another_name_is_refused(place):
    async with upstream(secure=place.context('other.example')) as server:
        async with front(by_name(server), more=place.ca()) as gateway:
            assert 'another name' in problem_of(await ask(gateway.port, request('/functions/f')))
        assert server.seen == []


@run
async def test_a_certificate_that_has_expired_is_refused(place):
    async with upstream(secure=place.context(days=(-3, -2))) as server:
        async with front(server, more=place.ca()) as gateway:
            assert 'expired' in problem_of(await ask(gateway.port, request('/functions/f')))
        assert server.seen == []


@run
async def test_who_is_not_trusted_is_told_with_the_setting_that_is_missing(place):
    for identity, said in (({}, 'as ca in'), ({'issuer': None}, 'signed by itself')):
        async with upstream(secure=place.context(**identity)) as server, front(server) as gateway:
            assert said in problem_of(await ask(gateway.port, request('/functions/f')))
            assert server.seen == []


@run
async def test_without_the_check_anybody_is_served_and_that_is_said(place):
    async with upstream(secure=place.context('other.example', issuer=None, days=(-3, -2))) as server:
        async with front(server, more='tls: { verify: false }') as gateway:
            assert (await ask(gateway.port, request('/functions/f'))).status == 200
            assert 'upstream functions: certificates are not checked (tls.verify is false)' in gateway.complaints()


@run
async def test_a_server_without_tls_is_told_as_such(place):
    async def serve(wire):
        await wire.reader.read(1)
        await wire.send(reply(status='400 Bad Request'))
    async with upstream(serve) as server, front(f'https://127.0.0.1:{server.port}', more=place.ca()) as gateway:
        assert 'does not speak TLS' in problem_of(await ask(gateway.port, request('/functions/f')))


@run
async def test_a_handshake_that_hangs_has_the_time_of_a_connection(place):
    async def serve(wire):
        await wire.reader.read()
    async with upstream(serve) as server:
        more = place.ca() + ', timeouts: { connect: 300ms }'
        async with front(f'https://127.0.0.1:{server.port}', more=more) as gateway:
            before = asyncio.get_running_loop().time()
            said = problem_of(await ask(gateway.port, request('/functions/f')))
            assert 'did not finish the TLS handshake within its connect timeout' in said
            assert 0.3 <= asyncio.get_running_loop().time() - before < 5
            await until(lambda: server.ended == server.connections, 'the connection is closed')


@run
async def test_a_failed_handshake_counts_as_the_servers_failure_and_others_are_tried(place):
    bad = place.context('other.example')
    async with upstream(secure=bad) as stranger, upstream(secure=place.context()) as server:
        async with front(stranger, server, more=place.ca() + ', health: { failures: 1, pause: 1h }') as gateway:
            for _ in range(6):
                assert (await ask(gateway.port, request('/functions/f', method='POST'))).status == 200
            assert len(server.seen) == 6
            assert stranger.connections <= 1


@run
async def test_client_that_goes_during_a_handshake_leaves_nothing(place):
    async def serve(wire):
        await wire.reader.read()
    async with upstream(serve) as server:
        async with front(f'https://127.0.0.1:{server.port}', more=place.ca(), gate='limit: 1') as gateway:
            async with connect(gateway.port) as wire:
                await wire.send(request('/functions/f'))
                await until(lambda: server.connections == 1, 'it shakes hands')
                wire.reset()
            await gateway.until('f', active=0, waiting=0)
            await until(lambda: server.ended == 1, 'the connection is closed')


# ---- files

@run
async def test_a_reload_takes_up_another_authority(place):
    with town() as other:
        async with upstream(secure=other.context()) as server, front(server, more=place.ca()) as gateway:
            assert 'ca in' in problem_of(await ask(gateway.port, request('/functions/f')))
            await gateway.reload((str(place.authority.path), str(other.authority.path)))
            assert (await ask(gateway.port, request('/functions/f'))).status == 200
            # Sessions and connections from before are not used against the new config's word.
            await gateway.reload((str(other.authority.path), str(place.authority.path)))
            assert 'ca in' in problem_of(await ask(gateway.port, request('/functions/f')))


@run
async def test_a_file_that_is_no_authority_changes_nothing(place):
    async with upstream(secure=place.context()) as server, front(server, more=place.ca()) as gateway:
        assert (await ask(gateway.port, request('/functions/f'))).status == 200
        config = gateway.path.read_text()
        gateway.path.write_text(config.replace(str(place.authority.path), '/nowhere/ca.pem'))
        gateway.process.send_signal(signal.SIGHUP)
        await until(lambda: 'everything goes on as before' in gateway.complaints(), 'it is refused')
        assert 'upstreams.functions.tls.ca: /nowhere/ca.pem: cannot be read: No such file' in gateway.complaints()
        assert (await ask(gateway.port, request('/functions/f'))).status == 200
        assert server.connections == 1


def test_a_file_that_is_no_authority_is_told_before_anything_starts(tmp_path):
    path = tmp_path / 'weir.yaml'
    bad = tmp_path / 'ca.pem'
    bad.write_text('nonsense\n')
    for ca, said in (('/nowhere/ca.pem', '/nowhere/ca.pem: cannot be read: No such file'),
                     (bad, f'{bad}: has no certificate that can be used')):
        path.write_text('api: 127.0.0.1:0\nupstreams:\n  u:\n    url: https://localhost\n'
                        f'    tls:\n      ca: {ca}\n')
        for command in ('check', 'serve'):
            done = subprocess.run([PROGRAM, command, str(path)], capture_output=True, text=True, timeout=PATIENCE,
                                  check=False)
            assert done.returncode == 1
            assert f'{path}:6: upstreams.u.tls.ca: {said}' in done.stderr
            assert 'expected a file of certificates in PEM format' in done.stderr


# ---- many

@run
async def test_many_at_once_on_several_threads(place):
    async def serve(wire, message):
        await wire.send(reply(message.body, *(['Connection: close'] if b'7' in message.body else [])))
    context = place.context()
    async with upstream(serve, secure=context) as server:
        async with front(by_name(server), more=place.ca(), threads=4, gate='limit: 50, line: { max: 1000 }') as gateway:
            async def one(number):
                body = str(number).encode() * 100
                message = await ask(gateway.port, request('/functions/f', f'Content-Length: {len(body)}',
                                                          method='POST', body=body))
                assert message.body == body
            await asyncio.gather(*(one(number) for number in range(300)))
            await gateway.until('f', active=0, waiting=0)
        assert 0 < server.connections <= 300


def resident_bytes(pid):
    with open(f'/proc/{pid}/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


@run
async def test_connections_leave_no_memory_behind(place):
    """Handshakes that work, that fail and that are cut: after the first of them, memory stays where it is."""
    async def serve(wire, message):
        await wire.send(reply(message.body, 'Connection: close'))
        wire.abort()
    async with upstream(serve, secure=place.context()) as good, upstream(secure=place.context('x')) as bad:
        top = f'''
upstreams: {{ good: {{ url: "{good.url}", {place.ca()} }}, bad: {{ url: "{bad.url}", {place.ca()} }} }}
routes: [{{ match: /good, key: a, upstream: good }}, {{ match: /bad, key: a, upstream: bad }}]
'''
        async with weir(f'listen: 127.0.0.1:0\nthreads: 1\n{top}') as gateway:
            async def rounds(count):
                for _ in range(count):
                    assert (await ask(gateway.port, request('/good'))).status == 200
                    assert (await ask(gateway.port, request('/bad'))).status == 502
                return resident_bytes(gateway.process.pid)
            before = await rounds(100)
            after = await rounds(300)
            if 'asan' not in PROGRAM and 'tsan' not in PROGRAM:
                assert after - before < 1 << 20
