"""Servers behind the gateway: which is taken, how their connections are kept, and what becomes of failures."""
import asyncio
import contextlib
import socket

import pytest
from raw import ask, connect, front, reply, request, run, upstream
from weir import until, weir


@contextlib.asynccontextmanager
async def silent_server():
    """A server whose connections never stand: its backlog is full."""
    with socket.socket() as listening, contextlib.ExitStack() as stack:
        listening.bind(('127.0.0.1', 0))
        listening.listen(0)
        for _ in range(3):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                client.connect(listening.getsockname())
        yield f'http://127.0.0.1:{listening.getsockname()[1]}'


class Dead(socket.socket):
    """A port at which nobody listens, and which nobody else can take meanwhile."""

    def __init__(self):
        super().__init__()
        self.bind(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{self.getsockname()[1]}'


@run
async def test_the_server_with_the_fewest_requests_is_next():
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    async with upstream(serve) as a, upstream(serve) as b, upstream(serve) as c:
        async with front(a, b, c, gate='limit: 20') as gateway:
            tasks = []
            for count in range(1, 13):
                tasks.append(asyncio.create_task(ask(gateway.port, request())))
                await until(lambda n=count: sum(len(s.seen) for s in (a, b, c)) == n, 'it has come')
                seen = [len(server.seen) for server in (a, b, c)]
                assert max(seen) - min(seen) <= 1, seen
            go.set()
            assert {(await task).status for task in tasks} == {200}


@run
async def test_a_busy_server_is_passed_by():
    go = asyncio.Event()

    async def serve(wire, message):
        if message.target.endswith('hold'):
            await go.wait()
        await wire.send(reply())
    async with upstream(serve) as a, upstream(serve) as b, front(a, b) as gateway:
        held = asyncio.create_task(ask(gateway.port, request('/functions/f/hold')))
        await until(lambda: len(a.seen) + len(b.seen) == 1, 'it has come')
        for _ in range(6):
            assert (await ask(gateway.port, request())).status == 200
        assert sorted([len(a.seen), len(b.seen)]) == [1, 6]
        go.set()
        assert (await held).status == 200


@run
async def test_a_dead_server_is_left_alone_and_comes_back():
    more = 'health: { failures: 2, pause: 300ms, pause_max: 300ms }'
    with Dead() as dead:
        async with upstream() as alive, front(alive, dead, more=more) as gateway:
            for _ in range(20):  # a request that nothing was sent of goes to the other one
                assert (await ask(gateway.port, request())).status == 200
            assert len(alive.seen) == 20
            async with upstream(bound=dead) as back:
                async def is_back():
                    assert (await ask(gateway.port, request())).status == 200
                    return len(back.seen) > 0
                await until(is_back, 'the server is used again')


@run
async def test_the_pauses_of_a_server_that_keeps_failing_grow_up_to_the_longest():
    asked = []  # when it was tried: by the first request, and by one after each pause

    async def fail(wire):
        await wire.message()
        asked.append(asyncio.get_running_loop().time())
        await wire.send(b'nonsense')
    more = 'health: { failures: 1, pause: 25ms, pause_max: 100ms }'
    async with upstream() as steady, upstream(fail) as failing, front(steady, failing, more=more) as gateway:
        async def tried():
            await ask(gateway.port, request())
            return len(asked) == 13  # if they grew on and on, it would take 102 s until then
        await until(tried, 'it has been tried again and again')
    pauses = [later - earlier for earlier, later in zip(asked, asked[1:])]
    assert all(pause >= least for pause, least in zip(pauses, [0.025, 0.05] + [0.1] * 10)), pauses


@run
async def test_when_no_server_is_there_each_request_is_told_so_at_once():
    with Dead() as first, Dead() as second:
        async with front(first, second, more='health: { failures: 1, pause: 1m }') as gateway:
            for _ in range(5):
                message = await ask(gateway.port, request())
                assert message.status == 502
                assert b'urn:weir:upstream-unreachable' in message.body
            await gateway.until('f', active=0)
            async with upstream(bound=first):  # paused, but there is no better one
                async def works():
                    return (await ask(gateway.port, request())).status == 200
                await until(works, 'it is tried nevertheless')


@run
@pytest.mark.parametrize('how', ['finish', 'reset'])
async def test_a_pooled_connection_that_the_server_has_closed_is_not_noticed(how):
    wires = []

    async def serve(wire):
        wires.append(wire)
        while True:
            await wire.message()
            await wire.send(reply())
    async with upstream(serve) as server, front(server) as gateway:
        for method in ('GET', 'POST'):
            fields = () if method == 'GET' else ('Content-Length: 2',)
            text = request('/functions/f', *fields, method=method, body=b'' if method == 'GET' else b'ab')
            for count in range(1, 6):
                assert (await ask(gateway.port, text)).status == 200
                getattr(wires[-1], how)()
                ended = server.ended
                await until(lambda: server.ended > ended or how == 'reset', 'it has been closed')


@run
async def test_a_connection_that_dies_under_a_request_is_replaced():
    async def serve(wire):
        await wire.message()
        await wire.send(reply())
        await wire.message()  # taken and not answered: nobody knows what became of it
        server.seen.append('again')
    async with upstream(serve) as server, front(server) as gateway:
        assert (await ask(gateway.port, request())).status == 200
        assert (await ask(gateway.port, request())).status == 200
        assert server.connections == 2


@run
@pytest.mark.parametrize('body', [b'', b'ab'])
async def test_a_post_that_was_sent_is_not_sent_again(body):
    async def serve(wire):
        message = await wire.message()
        await wire.send(reply())
        message = await wire.message()
        assert message.start.startswith('POST')
        server.seen.append(message)
    async with upstream(serve) as server, front(server) as gateway:
        assert (await ask(gateway.port, request())).status == 200
        message = await ask(gateway.port, request('/functions/f', f'Content-Length: {len(body)}',
                                                  method='POST', body=body))
        assert message.status == 502
        assert len(server.seen) == 1
        assert server.connections == 1


@run
async def test_a_post_whose_body_was_partly_sent_is_not_sent_again():
    async def serve(wire):
        await wire.head()
        await wire.exactly(10_000)
    async with upstream(serve) as first, upstream(serve) as second:
        async with front(first, second) as gateway:
            async with connect(gateway.port) as wire:
                await wire.send(request('/functions/f', 'Content-Length: 20000', method='POST'), b'x' * 10_000)
                message = await wire.message()
                assert message.status == 502
                assert b'urn:weir:upstream-unreachable' in message.body
            assert first.connections + second.connections == 1


@run
async def test_what_may_be_done_twice_is_not_if_a_part_of_it_is_gone():
    async def serve(wire):
        await wire.message()
        await wire.send(reply())
        await wire.head()
        await wire.exactly(10_000)
    async with upstream(serve) as server, front(server) as gateway:
        assert (await ask(gateway.port, request())).status == 200
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', 'Content-Length: 20000', method='PUT'), b'x' * 10_000)
            assert (await wire.message()).status == 502
        assert server.connections == 1


@run
async def test_an_upstream_that_does_not_connect_in_time_is_a_502():
    async with silent_server() as url:
        async with front(url, more='timeouts: { connect: 100ms }') as gateway:
            message = await ask(gateway.port, request())
            assert message.status == 502
            assert b'urn:weir:upstream-unreachable' in message.body
            await gateway.until('f', active=0)


@run
async def test_a_server_that_does_not_connect_in_time_is_passed_over():
    async with silent_server() as url, upstream() as server:
        async with front(url, server, more='timeouts: { connect: 100ms }') as gateway:
            for _ in range(3):
                assert (await ask(gateway.port, request())).status == 200
            assert len(server.seen) == 3


@run
async def test_an_upstream_that_does_not_answer_in_time_is_a_504():
    async def serve(wire):
        await wire.ended()
    async with upstream(serve) as server:
        async with front(server, more='timeouts: { first_byte: 100ms }') as gateway:
            async with connect(gateway.port) as wire:
                for method in ('GET', 'HEAD'):
                    await wire.send(request(method=method))
                    message = await wire.message(method)
                    assert message.status == 504
                    assert message.one('content-type') == 'application/problem+json'
            await gateway.until('f', active=0)
            await until(lambda: server.ended == 2, 'it is not waited for any longer')


@run
async def test_first_byte_counts_from_the_end_of_the_request():
    async def serve(wire):
        await wire.message()
        await wire.send(reply())
        await wire.ended()
    async with upstream(serve) as server:
        async with front(server, more='timeouts: { first_byte: 1s }') as gateway:
            async with connect(gateway.port) as wire:
                await wire.send(request('/functions/f', 'Content-Length: 5', method='POST'))
                for byte in b'hello':
                    await asyncio.sleep(0.3)
                    await wire.send(bytes([byte]))
                assert (await wire.message()).status == 200


@run
async def test_an_upstream_that_pauses_too_long_in_its_reply_is_cut_off():
    async def serve(wire, _):
        await wire.send('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc')
        await wire.ended()
    async with upstream(serve) as server:
        async with front(server, more='timeouts: { idle: 100ms }') as gateway:
            async with connect(gateway.port) as wire:
                await wire.send(request())
                assert (await wire.head()).status == 200
                assert await wire.rest() == b'abc'
            await gateway.until('f', active=0)


@run
async def test_an_upstream_that_sends_nonsense_is_a_502():
    for text in (b'hello\r\n\r\n', b'HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n',
                 b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n',
                 b'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'):
        async with upstream(text) as server, front(server) as gateway:
            message = await ask(gateway.port, request())
            assert message.status == 502, text
            assert message.one('content-type') == 'application/problem+json'


@run
@pytest.mark.parametrize('text, more', [
    (reply(b'ok', 'Connection: close'), ''), (reply(), 'keepalive: 0'),
    (b'HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok', '')])
async def test_a_connection_that_is_not_to_be_kept_is_used_once(text, more):
    async with upstream(text) as server, front(server, more=more) as gateway:
        for count in (1, 2, 3):
            assert (await ask(gateway.port, request())).body == b'ok'
            await until(lambda n=count: server.ended == n or more, 'it has been closed')
        assert server.connections == 3 or more


@run
async def test_a_body_behind_a_reply_to_head_spoils_the_connection():
    async with upstream(reply(b'hello')) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(3):
                await wire.send(request(method='HEAD'))
                message = await wire.message('HEAD')
                assert (message.status, message.one('content-length')) == (200, '5')
            await wire.send(request())
            assert (await wire.message()).body == b'hello'


@run
async def test_lanes_take_what_the_first_has_no_room_for():
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    async with upstream(serve) as first, upstream(serve) as second:
        async with weir(f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams:
  one: {{ url: "{first.url}", headers: {{ X-Lane: "1" }} }}
  two: {{ url: "{second.url}", headers: {{ X-Lane: "2" }} }}
gates: {{ functions: {{ limit: 2 }} }}
routes: [ {{ match: /, key: f, gate: functions, upstream: [one, two] }} ]
''') as gateway:
            tasks = [asyncio.create_task(ask(gateway.port, request())) for _ in range(6)]
            await gateway.until('f', active=4, waiting=2)
            await until(lambda: (len(first.seen), len(second.seen)) == (2, 2), 'both are full')
            for server, lane in ((first, '1'), (second, '2')):
                for seen in server.seen:
                    assert (seen.one('x-lane'), seen.one('host')) == (lane, server.authority)
            go.set()
            assert {(await task).status for task in tasks} == {200}


@run
async def test_each_server_is_addressed_by_its_own_name():
    async with upstream() as a, upstream() as b, front(a, b) as gateway:
        for _ in range(4):
            assert (await ask(gateway.port, request())).status == 200
        for server in (a, b):
            assert {seen.one('host') for seen in server.seen} == {server.authority}


@run
async def test_what_a_server_says_beyond_its_reply_is_nobodys():
    async with upstream(reply(b'ok') + reply(b'for somebody else')) as server, front(server) as gateway:
        for _ in range(3):
            assert (await ask(gateway.port, request())).body == b'ok'
        assert server.connections == 3  # who knows what such a connection says next


@run
async def test_every_url_is_tried_while_nothing_was_sent():
    """However many are dead, and whether that is known already."""
    for alive in (1, 2):
        async with contextlib.AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(upstream(reply(b'alive'))) for _ in range(alive)]
            urls = [stack.enter_context(Dead()) for _ in range(4 - alive)]
            urls[1:1] = servers
            gateway = await stack.enter_async_context(front(*urls, more='health: { failures: 3, pause: 100ms }'))
            said = [await ask(gateway.port, request()) for _ in range(30)]
            assert {message.body for message in said} == {b'alive'}
            long_body = request('/functions/f', 'Content-Length: 100000', method='POST') + b'x' * 100_000
            assert (await ask(gateway.port, long_body)).body == b'alive'
