"""What HTTP/1 asks of a proxy, seen from both of its ends, byte by byte."""
import asyncio
import contextlib
import json
import os
import pathlib
import re
import socket
import tempfile

import pytest
from raw import ask, connect, front, open_narrow_wire, open_wire, reply, request, run, upstream
from weir import until, until_still


def numbers(timing):
    """What Server-Timing says, in milliseconds."""
    match = re.fullmatch(r'line;dur=(\d+\.\d{3}), upstream;dur=(\d+\.\d{3})', timing)
    return float(match[1]), float(match[2])


# ---- versions and connections

@run
async def test_a_connection_of_1_1_is_kept_until_it_is_told_to_close():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(3):
                await wire.send(request())
                message = await wire.message()
                assert message.start == 'HTTP/1.1 200 OK'
                assert message.one('connection') == 'keep-alive'
            await wire.send(request('/functions/f', 'Connection: close'))
            assert (await wire.message()).one('connection') == 'close'
            assert await wire.rest() == b''
        assert len(server.seen) == 4
        assert server.connections == 1


@run
async def test_a_connection_of_1_0_is_kept_only_where_it_is_asked_for():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):
                await wire.send(request('/functions/f', 'Connection: keep-alive', version='1.0'))
                message = await wire.message()
                assert message.one('connection') == 'keep-alive'
                assert message.body == b'ok'
            await wire.send(request(version='1.0'))
            assert (await wire.message()).one('connection') == 'close'
            assert await wire.rest() == b''
        assert [message.start for message in server.seen] == ['GET /functions/f HTTP/1.0'] * 3


@run
async def test_a_client_of_1_0_never_sees_chunks():
    """It asks in 1.0, so an upstream has no reason to send any; from one that does, nothing is believed."""
    chunks = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n'
    async with upstream(chunks) as server, front(server) as gateway:
        message = await ask(gateway.port, request(version='1.0'))
        assert message.one('transfer-encoding') is None
        assert message.status == 502
        assert b'Send the request in HTTP/1.1' in message.body


@run
async def test_head_has_the_length_and_no_body():
    head = b'HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n'
    async with upstream(head) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):  # on one connection: nothing is left between them
                await wire.send(request(method='HEAD'))
                message = await wire.message('HEAD')
                assert message.one('content-length') == '1234'
        assert server.connections == 1


@run
async def test_head_of_a_chunked_reply_has_no_chunks():
    head = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
    async with upstream(head) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):
                await wire.send(request(method='HEAD'))
                message = await wire.message('HEAD')
                assert (message.status, message.one('content-length')) == (200, None)
        assert server.connections == 1


@run
@pytest.mark.parametrize('head', [
    b'HTTP/1.1 204 No Content\r\n\r\n',
    b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\n\r\n',
    b'HTTP/1.1 304 Not Modified\r\nContent-Length: 1234\r\n\r\n'])
async def test_replies_without_a_body_end_with_their_head(head):
    async with upstream(head) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):
                await wire.send(request())
                message = await wire.message()
                assert message.start.encode() == head.split(b'\r\n')[0]
                if b'1234' in head:
                    assert message.one('content-length') == '1234'
        assert server.connections == 1


@run
@pytest.mark.parametrize('version', ['1.0', '1.1'])
async def test_a_reply_that_ends_with_the_connection_does_so_on_both_sides(version):
    async def serve(wire, _):
        await wire.send(f'HTTP/{version} 200 OK\r\n\r\n', b'x' * 100_000)
        wire.finish()
        await wire.rest()
    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request())
            message = await wire.message()
            assert message.start == 'HTTP/1.1 200 OK'
            assert message.one('connection') == 'close'
            assert message.body == b'x' * 100_000


@run
async def test_a_reply_that_is_cut_short_is_not_made_to_look_whole():
    async def serve(wire, message):
        cut = {'/functions/length': b'Content-Length: 10\r\n\r\nabc',
               '/functions/chunks': b'Transfer-Encoding: chunked\r\n\r\na\r\nabc',
               '/functions/last': b'Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n'}
        await wire.send(b'HTTP/1.1 200 OK\r\n', cut[message.target])
        raise ConnectionError
    async with upstream(serve) as server, front(server) as gateway:
        for name in ('length', 'chunks', 'last'):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await ask(gateway.port, request(f'/functions/{name}'))
            await gateway.until(name, active=0)


@pytest.mark.parametrize('why', ['idle', 'grace'])
@run
async def test_a_reply_that_ends_with_the_connection_and_stops_before_is_reset(why):
    """Its server says no more, or Weir goes away, and a plain close would look like its end."""
    async def serve(wire, _):
        await wire.send(b'HTTP/1.1 200 OK\r\n\r\nabc')
        await wire.ended()
    idle = '50ms' if why == 'idle' else '5m'
    async with upstream(serve) as server, front(server, grace='50ms', more=f'timeouts: {{ idle: {idle} }}') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request())
            assert (await wire.head()).status == 200
            if why == 'grace':
                gateway.terminate()
            with pytest.raises(ConnectionResetError):
                await wire.reader.read(-1)


# ---- bodies

@run
async def test_chunks_of_a_request_arrive_without_their_extensions_and_trailers():
    async with upstream() as server, front(server) as gateway:
        head = request('/functions/f', 'Transfer-Encoding: chunked', 'Trailer: X-Sum', method='POST')
        message = await ask(gateway.port, head + b'5;a=b\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 42\r\n\r\n')
        assert message.status == 200
        seen = server.seen[0]
        assert seen.one('transfer-encoding') == 'chunked'
        assert seen.one('content-length') is None
        assert seen.one('trailer') is None
        assert seen.body == b'hello world'
        assert seen.trailers == []
        assert seen.one('x-sum') is None


@run
async def test_a_long_body_loses_every_extension_wherever_it_is_cut():
    parts = [bytes([65 + i % 26]) * (1 + 37 * i % 1500) for i in range(2000)]  # 1.5 MB, from one byte on
    body = b''.join(b'%x;number=%d;quoted="a;b"\r\n%s\r\n' % (len(part), i, part) for i, part in enumerate(parts))
    plain = b''.join(b'%x\r\n%s\r\n' % (len(part), part) for part in parts) + b'0\r\n\r\n'
    came = []

    async def serve(wire):
        for _ in range(2):  # what follows on the connection is untouched
            await wire.head()
            came.append(await wire.exactly(len(plain)))
            await wire.send(reply())
        await wire.ended()
    async with upstream(serve) as server, front(server) as gateway, connect(gateway.port) as wire:
        whole = (request('/functions/f', 'Transfer-Encoding: chunked', method='POST')
                 + body + b'0;last\r\nX-Sum: 42\r\nX-Other: 1\r\n\r\n')
        for _ in range(2):
            for at in range(0, len(whole), 7919):  # pieces that end anywhere
                await wire.send(whole[at:at + 7919])
            assert (await wire.message()).status == 200
        assert came == [plain, plain]
        assert server.connections == 1


@run
async def test_chunks_and_trailers_of_a_reply_arrive_as_they_were_sent():
    async def serve(wire, _):
        for part in (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n',
                     b'5\r\nhel', b'lo\r\n6\r', b'\n world\r\n0\r\nX-S', b'um: 42\r\n', b'\r\n'):
            await wire.send(part)
            await until_still(gateway.process.pid)  # it has read this part before the next one comes
    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):
                await wire.send(request())
                message = await wire.message()
                assert message.body == b'hello world'
                assert message.one('trailer') == 'X-Sum'
                assert message.trailers == [('x-sum', '42')]
        assert server.connections == 1


@run
async def test_a_reply_may_come_before_the_request_has_been_sent():
    async def serve(wire):
        await wire.head()
        await wire.send(reply(b'too much', status='413 Content Too Large'))
        await wire.ended()
    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', 'Content-Length: 1000000', method='POST'), b'x' * 10_000)
            message = await wire.message()
            assert (message.status, message.body) == (413, b'too much')
            assert message.one('connection') == 'close' or await wire.rest() == b''
        await gateway.until('f', active=0)


@run
async def test_events_pass_one_by_one():
    go = asyncio.Queue()

    async def serve(wire, _):
        await wire.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n'
                        'Transfer-Encoding: chunked\r\n\r\n')
        for i in range(100):
            await go.get()
            event = f'data: {i}\n\n'
            await wire.send(f'{len(event):x}\r\n{event}\r\n')
        await wire.send('0\r\n\r\n')
    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request())
            assert (await wire.head()).one('content-type') == 'text/event-stream'
            for i in range(100):  # the next is not sent before this one has come
                go.put_nowait(None)
                event = f'data: {i}\n\n'
                whole = f'{len(event):x}\r\n{event}\r\n'.encode()
                assert await wire.exactly(len(whole)) == whole
            assert await wire.exactly(5) == b'0\r\n\r\n'


# ---- interim replies

@run
async def test_100_continue_is_the_upstreams_to_say():
    heard = asyncio.Event()

    async def serve(wire):
        head = await wire.head()
        assert head.one('expect') == '100-continue'
        heard.set()
        await wire.send('HTTP/1.1 100 Continue\r\n\r\n')
        assert await wire.exactly(5) == b'hello'
        await wire.send(reply(b'thanks'))
        await wire.ended()
    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', 'Content-Length: 5', 'Expect: 100-continue',
                                    method='POST'))
            assert (await wire.message()).start == 'HTTP/1.1 100 Continue'
            assert heard.is_set()
            await wire.send(b'hello')
            assert (await wire.message()).body == b'thanks'


@run
async def test_a_refused_expectation_is_passed_on():
    refused = reply(b'no', status='417 Expectation Failed')
    async with upstream(lambda wire: refuse(wire)) as server, front(server) as gateway:
        async def refuse(wire):
            await wire.head()
            await wire.send(refused)
            await wire.ended()
        message = await ask(gateway.port, request(
            '/functions/f', 'Content-Length: 5', 'Expect: 100-continue', method='POST'))
        assert (message.status, message.body) == (417, b'no')


@run
async def test_a_client_of_1_0_is_not_told_to_continue():
    async def serve(wire):
        await wire.head()
        await wire.send('HTTP/1.1 100 Continue\r\n\r\n')
        assert await wire.exactly(5) == b'hello'
        await wire.send(reply(b'thanks'))
        await wire.ended()
    async with upstream(serve) as server, front(server) as gateway:
        message = await ask(gateway.port, request(
            '/functions/f', 'Content-Length: 5', 'Expect: 100-continue', method='POST',
            version='1.0', body=b'hello'))
        assert (message.status, message.body) == (200, b'thanks')


@run
async def test_interim_replies_pass_at_once_and_only_to_1_1():
    go = asyncio.Event()

    async def serve(wire, _):
        await wire.send('HTTP/1.1 102 Processing\r\n\r\n'
                        'HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\n\r\n')
        await go.wait()
        await wire.send(reply())
    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request())
            assert (await wire.message()).status == 102
            hints = await wire.message()
            assert hints.status == 103
            assert hints.one('link') == '</a.css>; rel=preload'
            go.set()
            assert (await wire.message()).status == 200
        assert (await ask(gateway.port, request(version='1.0'))).status == 200


@run
async def test_an_upstream_that_fails_after_an_interim_reply_is_still_a_502():
    async def serve(wire):
        await wire.message()
        await wire.send('HTTP/1.1 103 Early Hints\r\n\r\n')
        await go.wait()
    go = asyncio.Event()
    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request())
            assert (await wire.message()).status == 103
            go.set()
            assert (await wire.message()).status == 502


# ---- targets and addresses

@run
async def test_an_absolute_target_is_routed_by_its_path_and_passed_on_without_its_host():
    async with upstream() as server, front(server) as gateway:
        for target in ('http://localhost/functions/f?a=b', 'HTTP://LOCALHOST:81/functions/f?a=b'):
            assert (await ask(gateway.port, request(target))).status == 200
            assert server.seen[-1].start == 'GET /functions/f?a=b HTTP/1.1'
            assert server.seen[-1].one('host') == server.authority


@run
async def test_options_leads_somewhere_but_not_for_everything():
    async with upstream() as server, front(server) as gateway:
        assert (await ask(gateway.port, request(method='OPTIONS'))).status == 200
        assert server.seen[0].start == 'OPTIONS /functions/f HTTP/1.1'
        assert (await ask(gateway.port, request('*', method='OPTIONS'))).status == 204
        assert (await ask(gateway.port, request('*'))).status == 400
        assert len(server.seen) == 1


@run
async def test_any_method_and_query_passes_as_it_is():
    async with upstream() as server, front(server) as gateway:
        for start in ('DELETE /functions/f HTTP/1.1', 'PATCH /functions/f/a/b?q=%2F&&x// HTTP/1.1',
                      'M-SEARCH /functions/%C3%A9/;a=b?? HTTP/1.1', 'GET /functions/f? HTTP/1.1'):
            method, target, _ = start.split()
            assert (await ask(gateway.port, request(target, method=method))).status == 200
            assert server.seen[-1].start == start


@run
async def test_ipv6_on_both_sides():
    async with upstream(host='::1') as server, front(server, listen='"[::1]:0"') as gateway:
        [address] = gateway.addresses['listening']
        assert address.startswith('[::1]:')
        assert (await ask(address, request(host=address))).status == 200
        seen = server.seen[0]
        assert seen.one('host') == server.authority
        assert seen.one('x-forwarded-for') == '::1'
        assert seen.one('forwarded') == f'for="[::1]";host="{address}";proto=http'


@run
async def test_unix_sockets_on_both_sides():
    with tempfile.TemporaryDirectory() as folder:
        path = f'{folder}/weir.sock'
        async with upstream(path=f'{folder}/up.sock') as server, \
                front(server, listen=f'unix:{path}') as gateway:
            assert gateway.addresses['listening'] == [f'unix:{path}']
            async with connect(f'unix:{path}') as wire:
                for _ in range(2):
                    await wire.send(request(host='anybody.example'))
                    assert (await wire.message()).status == 200
            seen = server.seen[0]
            assert seen.one('host') == 'localhost'
            assert seen.one('x-forwarded-host') == 'anybody.example'
            assert seen.one('forwarded') == 'for=unknown;host="anybody.example";proto=http'
            assert server.connections == 1


@run
async def test_a_path_that_was_left_behind_is_taken_over():
    with tempfile.TemporaryDirectory() as folder:
        path = f'{folder}/weir.sock'
        async with upstream() as server:
            with socket.socket(socket.AF_UNIX) as left:
                left.bind(path)
            for _ in range(2):
                async with front(server, listen=f'unix:{path}'):
                    assert (await ask(f'unix:{path}', request())).status == 200


def watched_by_loops(pid):
    """How many descriptors each thread's loop looks after."""
    folder = pathlib.Path(f'/proc/{pid}/fdinfo')
    counts = []
    for name in os.listdir(folder):
        with contextlib.suppress(FileNotFoundError):  # it has just been closed
            counts.append((folder / name).read_text().count('tfd:'))
    return [count for count in counts if count > 0]


@pytest.mark.parametrize('kind', ['tcp', 'unix'])
@run
async def test_threads_share_the_connections_evenly(kind):
    with tempfile.TemporaryDirectory() as folder:
        listen = '127.0.0.1:0' if kind == 'tcp' else f'unix:{folder}/weir.sock'
        async with upstream() as server, front(server, listen=listen, threads=2) as gateway:
            where = gateway.port if kind == 'tcp' else listen
            alone = watched_by_loops(gateway.process.pid)
            assert len(alone) == 2
            async with contextlib.AsyncExitStack() as stack:
                wires = [await stack.enter_async_context(connect(where)) for _ in range(60)]
                await until(lambda: sum(watched_by_loops(gateway.process.pid)) >= sum(alone) + 60,
                            'all are accepted')
                counts = watched_by_loops(gateway.process.pid)
                assert max(counts) - min(counts) <= 4
                for wire in wires:
                    await wire.send(request())
                assert [(await wire.message()).status for wire in wires] == [200] * 60
            await until(lambda: sum(watched_by_loops(gateway.process.pid)) < sum(alone) + 60,
                        'they are gone')


# ---- fields

@run
async def test_what_a_trusted_peer_says_of_others_is_kept_and_added_to():
    async with upstream() as server, front(server) as gateway:
        await ask(gateway.port, request(
            '/functions/f', 'X-Forwarded-For: 192.0.2.1', 'X-Forwarded-For: 192.0.2.2, 192.0.2.3',
            'Forwarded: for=192.0.2.1', 'Forwarded: for=192.0.2.2;proto=https',
            'X-Forwarded-Proto: https', 'X-Forwarded-Host: example.com', 'X-Real-IP: 192.0.2.1'))
        seen = server.seen[0]
        assert seen.one('x-forwarded-for') == '192.0.2.1, 192.0.2.2, 192.0.2.3, 127.0.0.1'
        assert seen.one('forwarded') == ('for=192.0.2.1, for=192.0.2.2;proto=https, '
                                         'for=127.0.0.1;host="localhost";proto=http')
        assert seen.one('x-forwarded-proto') == 'https'
        assert seen.one('x-forwarded-host') == 'example.com'
        assert seen.one('x-real-ip') == '192.0.2.1'


@run
async def test_what_anybody_else_says_of_others_is_replaced():
    async with upstream() as server, front(server, top='trusted: []') as gateway:
        await ask(gateway.port, request(
            '/functions/f', 'X-Forwarded-For: 192.0.2.1', 'X-Forwarded-For: 192.0.2.2, 192.0.2.3',
            'Forwarded: for=192.0.2.1', 'X-Forwarded-Proto: https',
            'X-Forwarded-Host: example.com', 'X-Real-IP: 192.0.2.1'))
        seen = server.seen[0]
        assert seen.one('x-forwarded-for') == '127.0.0.1'
        assert seen.one('forwarded') == 'for=127.0.0.1;host="localhost";proto=http'
        assert seen.one('x-forwarded-proto') == 'http'
        assert seen.one('x-forwarded-host') == 'localhost'
        assert seen.one('x-real-ip') is None


@run
async def test_via_is_added_to_in_both_directions():
    async with upstream(reply(b'ok', 'Via: 1.1 inner')) as server, front(server) as gateway:
        message = await ask(gateway.port, request('/functions/f', 'Via: 1.0 fred', 'Via: 1.1 example'))
        assert server.seen[0].one('via') == '1.0 fred, 1.1 example, 1.1 weir'
        assert message.one('via') == '1.1 inner, 1.1 weir'
        await ask(gateway.port, request(version='1.0'))
        assert server.seen[1].one('via') == '1.0 weir'


@run
async def test_ids_of_requests_and_traces_are_kept_or_made():
    async with upstream() as server, front(server) as gateway:
        trace = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
        await ask(gateway.port, request('/functions/f', 'X-Request-Id: mine',
                                        f'traceparent: {trace}', 'tracestate: a=b'))
        assert server.seen[0].one('x-request-id') == 'mine'
        assert server.seen[0].one('traceparent') == trace
        assert server.seen[0].one('tracestate') == 'a=b'
        made = set()
        for _ in range(10):
            await ask(gateway.port, request())
            made.add(server.seen[-1].one('x-request-id'))
        assert len(made) == 10
        assert all(re.fullmatch('[0-9a-f]{16}', text) for text in made)


@run
async def test_the_id_of_a_request_is_in_the_reply_and_in_problems():
    async with upstream() as server, front(server) as gateway:
        longest = '~' * 128
        for sent in ('mine', 'a "b"', longest):
            message = await ask(gateway.port, request('/functions/f', f'X-Request-Id: {sent}'))
            assert message.one('x-request-id') == server.seen[-1].one('x-request-id') == sent
        for fields in ((), (f'X-Request-Id: {longest}~',), ('X-Request-Id: one', 'X-Request-Id: two'),
                       ('X-Request-Id: \xe4',), ('X-Request-Id: a\tb',), ('X-Request-Id:',)):
            message = await ask(gateway.port, request('/functions/f', *fields))
            assert re.fullmatch('[0-9a-f]{16}', message.one('x-request-id')), fields
            assert server.seen[-1].one('x-request-id') == message.one('x-request-id')
        message = await ask(gateway.port, request('/nowhere', 'X-Request-Id: mine'))
        assert message.status == 404 and message.one('x-request-id') == 'mine'
        assert json.loads(message.body)['request_id'] == 'mine'
        message = await ask(gateway.port, b'GET /functions/f HTTP/1.1\r\nA\r\n\r\n')
        assert message.status == 400
        assert message.one('x-request-id') == json.loads(message.body)['request_id']


@run
async def test_an_id_of_the_upstreams_own_stays_in_its_reply():
    async with upstream(reply(b'ok', 'X-Request-Id: req_1')) as server, front(server) as gateway:
        message = await ask(gateway.port, request('/functions/f', 'X-Request-Id: mine'))
        assert message.one('x-request-id') == 'req_1' and message.one('weir-request-id') == 'mine'


@run
async def test_what_concerns_one_connection_stays_on_it():
    private = ('Connection: keep-alive, X-Private', 'X-Private: 1', 'Keep-Alive: timeout=5',
               'Proxy-Connection: keep-alive', 'Proxy-Authenticate: Basic', 'X-Public: 1')
    async with upstream(reply(b'ok', *private)) as server, front(server) as gateway:
        message = await ask(gateway.port, request(
            '/functions/f', *private, 'TE: trailers', 'Proxy-Authorization: Basic eA=='))
        for seen in (server.seen[0], message):
            assert seen.one('x-public') == '1'
            for name in ('x-private', 'keep-alive', 'proxy-connection', 'proxy-authenticate',
                         'proxy-authorization', 'te'):
                assert seen.one(name) is None, name
        assert message.one('connection') == 'keep-alive'
        assert server.seen[0].one('connection') in (None, 'keep-alive')


@run
async def test_fields_of_a_reply_pass_in_their_order_and_as_often_as_they_stand_there():
    fields = ('Set-Cookie: a=1', 'X-Odd: \xe9 "\\', 'Set-Cookie: b=2', 'Server: mine', 'Date: now',
              'Server-Timing: db;dur=3', 'X-Empty:')
    async with upstream(reply(b'ok', *fields)) as server, front(server) as gateway:
        message = await ask(gateway.port, request())
        assert message.all('set-cookie') == ['a=1', 'b=2']
        assert message.one('x-odd') == '\xe9 "\\'
        assert message.one('x-empty') == ''
        assert (message.one('server'), message.one('date')) == ('mine', 'now')
        own = [value for value in message.all('server-timing') if value != 'db;dur=3']
        assert len(message.all('server-timing')) == 2
        numbers(own[0])


@run
async def test_strip_takes_segments_off_the_front():
    config = '''strip: /functions
  - { match: /a/b/, strip: /a/b, upstream: functions }
  - { match: /c/d, strip: /c/d, upstream: functions }'''
    async with upstream() as server, front(server, route=config) as gateway:
        for sent, passed in (('/functions/f', '/f'), ('/functions/f/g?x=/a', '/f/g?x=/a'),
                             ('/a/b/', '/'), ('/a/b/c//d/', '/c/d/'), ('/a/b/?q', '/?q'),
                             ('/c/d', '/'), ('/c/d?q', '/?q'), ('/c/d/e', '/e'),
                             ('http://localhost/c/d?q', '/?q')):
            assert (await ask(gateway.port, request(sent))).status == 200
            assert server.seen[-1].target == passed, sent


@run
async def test_headers_of_an_upstream_replace_what_the_client_sent():
    more = 'headers: { Authorization: "Bearer ours", X-New: "1", Host: "api.example" }'
    async with upstream() as server, front(server, more=more) as gateway:
        await ask(gateway.port, request('/functions/f', 'authorization: Bearer theirs',
                                        'AUTHORIZATION: Bearer other', 'X-Kept: 1'))
        seen = server.seen[0]
        assert seen.one('authorization') == 'Bearer ours'
        assert seen.one('x-new') == '1'
        assert seen.one('x-kept') == '1'
        assert seen.one('host') == 'api.example'


@run
async def test_headers_of_an_upstream_may_be_long():
    more = f'headers: {{ Authorization: "Bearer {"x" * 3000}", X-Other: "{"y" * 3000}" }}'
    async with upstream() as server, front(server, more=more) as gateway:
        assert (await ask(gateway.port, request())).status == 200
        assert server.seen[0].one('authorization') == f'Bearer {"x" * 3000}'
        assert server.seen[0].one('x-other') == 'y' * 3000


@run
async def test_a_long_host_does_not_make_a_head_too_long():
    host = '.'.join(['a' * 60] * 4) + '.localhost:65535'
    async with upstream() as server, front(server) as gateway:
        for size in range(700, 1300, 40):  # about where one size of buffer ends and another begins
            message = await ask(gateway.port, request('/functions/f', 'X-Long: ' + 'x' * size, host=host))
            assert message.status == 200, size


@run
async def test_long_heads_pass_both_ways():
    fields = [f'X-Field-{i}: {"x" * 200}' for i in range(80)]
    async with upstream(reply(b'ok', *fields)) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):
                await wire.send(request('/functions/f?' + 'q' * 4000, *fields))
                message = await wire.message()
                assert message.body == b'ok'
                for seen in (server.seen[-1], message):
                    assert [seen.one(f'x-field-{i}') for i in range(80)] == ['x' * 200] * 80
                assert len(server.seen[-1].target) > 4000
        assert server.connections == 1


@run
async def test_a_reply_that_is_wrong_before_anything_of_it_was_passed_on_is_a_502():
    wrong = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n'
    async with upstream(wrong) as server, front(server) as gateway, connect(gateway.port) as wire:
        for _ in range(2):
            await wire.send(request())
            message = await wire.message()
            assert (message.status, json.loads(message.body)['type']) == (502, 'urn:weir:upstream-unreachable')
        assert server.connections == 2
        await gateway.until('f', active=0)


@run
async def test_a_head_of_an_upstream_that_is_too_long_is_a_502():
    async with upstream(reply(b'ok', 'X-Long: ' + 'x' * 100_000)) as server, front(server) as gateway:
        assert (await ask(gateway.port, request())).status == 502
        await gateway.until('f', active=0)


@run
async def test_server_timing_tells_how_long_the_line_and_the_upstream_took():
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await asyncio.sleep(0.05)
        await wire.send(reply())
    async with upstream(serve) as server, front(server, gate='limit: 1') as gateway:
        first = asyncio.create_task(ask(gateway.port, request()))
        await gateway.until('f', active=1)
        second = asyncio.create_task(ask(gateway.port, request()))
        await gateway.until('f', waiting=1)
        start = asyncio.get_running_loop().time()
        go.set()
        line, took = numbers((await first).one('server-timing'))
        assert line < 1000
        assert 50 <= took
        line, took = numbers((await second).one('server-timing'))
        assert 50 <= line
        assert 50 <= took <= (asyncio.get_running_loop().time() - start) * 1000


# ---- how much is held back

BIG = 50_000_000
SLACK = 4 << 20  # of what the sanitizers' own memory grows by; without a window it were 50 MB


def memory(gateway):
    """Bytes of memory that the gateway has in use."""
    text = pathlib.Path(f'/proc/{gateway.process.pid}/status').read_text()
    return int(re.search(r'VmRSS:\s+(\d+) kB', text)[1]) << 10


class Flow:
    """Sends `BIG` bytes, and knows how many have gone."""

    def __init__(self):
        self.bytes = 0

    async def send(self, wire):
        raw = wire.writer.get_extra_info('socket')
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        wire.writer.transport.set_write_buffer_limits(65536)
        while self.bytes < BIG:
            await wire.send(bytes([self.bytes // 50_000 % 251]) * 50_000)
            self.bytes += 50_000

    async def stands_still(self, gateway):
        """Waits until some has gone, and no more goes."""
        await until(lambda: self.bytes > 0, 'it has begun')
        await until_still(gateway.process.pid)
        assert self.bytes < BIG


async def check_flow(wire):
    for i in range(BIG // 50_000):
        assert await wire.exactly(50_000) == bytes([i % 251]) * 50_000


@run
async def test_a_slow_reader_slows_the_upstream_down_and_takes_no_memory():
    flow = Flow()

    async def serve(wire, message):
        if message.target.endswith('warm'):
            await wire.send(reply(b'x' * 1_000_000))
            return
        await wire.send(f'HTTP/1.1 200 OK\r\nContent-Length: {BIG}\r\n\r\n')
        await flow.send(wire)
    async with upstream(serve) as server, front(server) as gateway:
        await ask(gateway.port, request('/functions/f/warm'))
        before = memory(gateway)
        async with connect(gateway.port) as wire:
            wire.writer.transport.pause_reading()
            await wire.send(request())
            await flow.stands_still(gateway)
            assert memory(gateway) - before < SLACK
            wire.writer.transport.resume_reading()
            assert (await wire.head()).status == 200
            await check_flow(wire)
        assert memory(gateway) - before < SLACK


@run
async def test_a_client_that_pauses_is_not_taken_for_an_idle_upstream():
    body = b'x' * 12_000_000

    async def serve(wire, message):
        if message.target.endswith('idle'):
            await wire.send('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n')
            await wire.ended()
        await wire.send(reply(body))
    async with upstream(serve) as server:
        listen = '{ address: 127.0.0.1:0, body_rate: none }'
        async with front(server, listen=listen, more='timeouts: { idle: 1s }') as gateway:
            sends = await open_wire(gateway.port)
            await sends.send(request('/functions/f', 'Content-Length: 2', method='POST'), b'a')
            reads = await open_narrow_wire(gateway.port)
            await reads.send(request())
            await gateway.until('f', active=2)
            await reads.head()
            async with connect(gateway.port) as wire:  # who comes later meets one that is idle, and is cut off
                await wire.send(request('/functions/f/idle'))
                assert (await wire.head()).status == 200
                assert await wire.rest() == b''
            await sends.send(b'b')
            assert (await sends.message()).body == body
            assert await reads.exactly(len(body)) == body
            sends.close()
            reads.close()


@run
async def test_a_slow_upstream_slows_the_client_down_and_takes_no_memory():
    flow = Flow()
    go = asyncio.Event()

    async def serve(wire):
        head = await wire.head()
        if head.target.endswith('warm'):
            assert len(await wire.exactly(1_000_000)) == 1_000_000
            await wire.send(reply())
            head = await wire.head()
        wire.writer.transport.pause_reading()
        await go.wait()
        wire.writer.transport.resume_reading()
        await check_flow(wire)
        await wire.send(reply(b'all of it'))
        await wire.ended()
    async with upstream(serve) as server, front(server) as gateway:
        await ask(gateway.port, request('/functions/f/warm', 'Content-Length: 1000000',
                                        method='POST', body=b'x' * 1_000_000))
        before = memory(gateway)
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', f'Content-Length: {BIG}', method='POST'))
            sending = asyncio.create_task(flow.send(wire))
            await flow.stands_still(gateway)
            assert memory(gateway) - before < SLACK
            go.set()
            await sending
            assert (await wire.message()).body == b'all of it'
        assert memory(gateway) - before < SLACK


# ---- answers of the gateway's own, on the wire

@run
async def test_a_refused_request_is_answered_once_and_the_next_one_served():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for target in ('/nowhere', '/functions/..', '/functions/%2f'):
                await wire.send(request(target))
                assert (await wire.message()).status in (400, 404)
                await wire.send(request())
                assert (await wire.message()).status == 200
            await wire.send(request('/nowhere', 'Connection: close'))
            assert (await wire.message()).status == 404
            assert await wire.rest() == b''
        assert len(server.seen) == 3


@run
async def test_an_answer_to_head_has_no_body():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/nowhere', method='HEAD'))
            message = await wire.message('HEAD')
            assert message.status == 404
            assert int(message.one('content-length')) > 0
            await wire.send(request())
            assert (await wire.message()).status == 200


@run
async def test_a_refused_client_that_still_sends_gets_to_read_why():
    async with upstream() as server, front(server, route='max_body: 1KB') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', 'Content-Length: 10000000', method='POST'),
                            b'x' * 10_000_000)
            assert (await wire.message()).status == 413
        assert server.seen == []
