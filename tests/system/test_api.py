"""The API on a raw connection: what is running, the gates and their keys, however long they are."""
import asyncio
import contextlib
import json
import tempfile
import urllib.parse

import pytest
from raw import ask, connect, front, open_narrow_wire, open_wire, reply, request, run, upstream
from weir import PATIENCE, until, weir

REMEMBERED = 'limit: 10, rate: 1000/d'  # a bucket that is not full keeps a key from being forgotten


async def get(gateway, target, **more):
    message = await ask(gateway.api_port, request(target, **more), more.get('method', 'GET'))
    return message.status, message


def check_problem(message, kind, status):
    assert message.status == status
    assert message.one('content-type') == 'application/problem+json'
    problem = json.loads(message.body)
    assert (problem['type'], problem['status']) == (f'urn:weir:{kind}', status)
    assert set(problem) == {'type', 'title', 'status', 'detail'}
    assert problem['title'] and problem['detail']


@run
async def test_it_says_that_it_lives_and_is_ready():
    async with upstream() as server, front(server) as gateway:
        for target, text in (('/healthz', b'ok\n'), ('/readyz', b'ready\n')):
            status, message = await get(gateway, target)
            assert (status, message.body) == (200, text)
            assert message.one('content-type').startswith('text/plain')
            assert message.one('cache-control') == 'no-store'


@run
async def test_while_it_drains_it_lives_and_is_not_ready():
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    async with upstream(serve) as server, front(server, grace='1m') as gateway:
        async with connect(gateway.port) as wire, connect(gateway.api_port) as kept:
            await wire.send(request())
            await gateway.until('f', active=1)
            await kept.send(request('/readyz'))
            assert (await kept.message()).status == 200
            gateway.terminate()

            async def drains():
                return (await get(gateway, '/readyz'))[0] == 503
            await until(drains, 'it is not ready any more')
            assert (await get(gateway, '/healthz'))[0] == 200
            assert (await gateway.counts('f'))['active'] == 1
            await kept.send(request('/readyz'))  # also on a connection that was there before
            message = await kept.message()
            assert (message.status, message.body) == (503, b'draining\n')
            with pytest.raises(ConnectionError):
                await open_wire(gateway.port)
            go.set()
            assert (await wire.message()).status == 200
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0


@run
async def test_gates_are_summed_up():
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    async with upstream(serve) as server, front(server, gate='limit: 2') as gateway:
        status, said = await gateway.ask_api('/gates')
        assert status == 200
        [gate] = said['gates']
        assert (gate['gate'], gate['keys'], gate['active'], gate['waiting']) == ('functions', 0, 0, 0)
        tasks = [asyncio.create_task(ask(gateway.port, request(f'/functions/{key}'))) for key in 'aaabbb']
        await gateway.until('a', active=2, waiting=1)
        await gateway.until('b', active=2, waiting=1)
        _, said = await gateway.ask_api('/gates')
        [gate] = said['gates']
        assert (gate['keys'], gate['active'], gate['waiting'], gate['limit']) == (2, 4, 2, 2)
        go.set()
        assert {(await task).status for task in tasks} == {200}


@run
async def test_a_key_tells_its_counts():
    async with upstream() as server, front(server, gate=REMEMBERED) as gateway:
        for _ in range(5):
            await ask(gateway.port, request())
        _, said = await gateway.ask_api('/gates/functions/f')
        assert (said['gate'], said['key'], said['limit']) == ('functions', 'f', 10)
        assert (said['active'], said['waiting'], said['entered']) == (0, 0, 5)
        assert said['ended']['left'] == 5
        assert said['waiting_by_priority'] == {'high': 0, 'normal': 0, 'low': 0}
        assert [(lane['lane'], lane['active'], lane['limit']) for lane in said['lanes']] == [(0, 0, 10)]


@run
async def test_keys_of_any_bytes_are_found_and_told():
    keys = ['a/b', '"quoted"', 'back\\slash', '\xe9\u4e2d\U0001f600', 'a b', 'a%b', '?#', '\x7f', 'x' * 255]
    route = '''
  - { match: /named, key: "header:X-Key", gate: functions, upstream: functions }'''
    async with upstream() as server, front(server, gate=REMEMBERED, route=route) as gateway:
        for key in keys:
            text = f'X-Key: {key.encode().decode("latin-1")}'
            if key == '\x7f':  # which no field may have
                target, fields = '/functions/%7F', []
            else:
                target, fields = '/named', [text]
            assert (await ask(gateway.port, request(target, *fields))).status == 200, key
            for safe in ('', '"'):
                path = '/gates/functions/' + urllib.parse.quote(key, safe=safe)
                _, message = await get(gateway, path)
                assert message.status == 200, path
                assert json.loads(message.body)['key'] == key
                _, lower = await get(gateway, path.lower() if key.islower() and key.isascii() else path)
                assert lower.status == 200
        _, said = await gateway.ask_api('/gates/functions')
        assert sorted(entry['key'] for entry in said['keys']) == sorted(keys)


@run
async def test_a_key_that_is_no_utf_8_makes_valid_json():
    async with upstream() as server, front(server, gate=REMEMBERED) as gateway:
        assert (await ask(gateway.port, request('/functions/%FF%FE'))).status == 200
        _, message = await get(gateway, '/gates/functions/%FF%FE')
        assert message.status == 200
        json.loads(message.body)
        _, message = await get(gateway, '/gates/functions')
        assert len(json.loads(message.body)['keys']) == 1


@run
async def test_what_is_not_there_is_a_404():
    async with upstream() as server, front(server) as gateway:
        for target in ('/', '/nothing', '/gates/', '/gates/nothing', '/gates/functions/', '/gates//f',
                       '/gates/functions/nobody', '/gates/functions/f/line/x', '/healthz/', '/healthz/x',
                       '/Healthz', '/gates/functions/%', '/gates/functions/%zz', '/gates/' + 'x' * 2000,
                       '/a/b/c/d/e/f', '/gates/functions/' + 'x' * 256, '//', '/../healthz'):
            _, message = await get(gateway, target)
            check_problem(message, 'not-found', 404)


@run
async def test_a_refusal_keeps_the_connection_exactly_if_it_says_so():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.api_port) as wire:
            for target, host, status in (('/a/b/c/d/e/f/g/h', '127.0.0.1', 404), ('/gates', 'elsewhere.example', 403),
                                         ('/nothing', '127.0.0.1', 404)):
                await wire.send(request(target, host=host))
                message = await wire.message()
                assert (message.status, message.one('connection')) == (status, 'keep-alive')
                await wire.send(request('/healthz'))
                assert (await wire.message()).status == 200
            await wire.send(request('/a/b/c/d/e/f/g/h', 'Content-Length: 5', method='POST', body=b'hello'))
            message = await wire.message()
            assert (message.status, message.one('connection')) == (404, 'close')
            await wire.ended()


@run
async def test_a_method_that_a_path_does_not_have_is_a_405():
    async with upstream() as server, front(server) as gateway:
        for target in ('/healthz', '/readyz', '/gates', '/gates/functions', '/gates/functions/f'):
            for method in ('PUT', 'DELETE', 'PATCH', 'OPTIONS'):
                message = await ask(gateway.api_port, request(target, method=method), method)
                check_problem(message, 'bad-request', 405)
                assert message.one('allow') == 'GET, HEAD'
        message = await ask(gateway.api_port, request('/healthz', 'Content-Length: 5', method='POST',
                                                      body=b'hello'))
        check_problem(message, 'bad-request', 405)
        for target in ('/reload', '/gates/functions/f/acquire', '/gates/functions/f/release', '/gates/functions/f/renew'):
            message = await ask(gateway.api_port, request(target))
            check_problem(message, 'bad-request', 405)
            assert message.one('allow') == 'POST'


@run
async def test_what_cannot_be_read_is_a_400_and_the_end():
    async with upstream() as server, front(server) as gateway:
        for text in (b'nonsense\r\n\r\n', b'GET /healthz HTTP/1.1\r\n\r\n',
                     b'GET /healthz HTTP/1.1\nHost: a\n\n'):
            async with connect(gateway.api_port) as wire:
                await wire.send(text + request('/healthz'))
                message = await wire.message()
                check_problem(message, 'bad-request', 400)
                assert message.one('connection') == 'close'
                assert await wire.rest() == b''


@run
async def test_head_has_the_length_and_no_body():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.api_port) as wire:
            for target in ('/healthz', '/gates', '/nothing'):
                await wire.send(request(target))
                whole = await wire.message()
                await wire.send(request(target, method='HEAD'))
                head = await wire.message('HEAD')
                assert head.start == whole.start
                assert head.one('content-length') == str(len(whole.body))
                assert head.one('content-type') == whole.one('content-type')


@run
async def test_a_body_that_nobody_asked_for_is_thrown_away():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.api_port) as wire:
            for fields, body in ((['Content-Length: 60000'], b'x' * 60_000),
                                 (['Transfer-Encoding: chunked'], b'5\r\nhello\r\n0\r\n\r\n')):
                await wire.send(request('/healthz', *fields), body)
                message = await wire.message()
                assert (message.status, message.body) == (200, b'ok\n')
        async with connect(gateway.api_port) as wire:
            await wire.send(request('/healthz', 'Content-Length: 1000000'), b'x' * 1_000_000)
            message = await wire.message()
            assert message.status == 413
            assert message.one('connection') == 'close'
            assert await wire.rest() == b''


@run
async def test_many_calls_on_one_connection_in_both_versions():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.api_port) as wire:
            for i in range(300):
                version, fields = ('1.0', ['Connection: keep-alive']) if i % 2 else ('1.1', [])
                await wire.send(request('/gates', *fields, version=version))
                message = await wire.message()
                assert message.one('connection') == 'keep-alive'
                assert json.loads(message.body)['gates'][0]['gate'] == 'functions'
            await wire.send(request('/healthz', version='1.0'))
            assert (await wire.message()).one('connection') == 'close'
            assert await wire.rest() == b''


@run
async def test_calls_in_one_packet_are_answered_in_order():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.api_port) as wire:
            targets = ['/healthz', '/gates', '/nothing', '/readyz'] * 50
            await wire.send(b''.join(request(target) for target in targets))
            said = [(await wire.message()).body for _ in targets]
            assert said == said[:4] * 50
            assert said[0] == b'ok\n' and said[3] == b'ready\n'


# ---- long replies

COUNT = 3000


@contextlib.asynccontextmanager
async def many_keys():
    """A gateway that knows 3,000 keys, in a gate of which a reply has some 1 MB."""
    async with upstream() as server:
        async with front(server, gate=REMEMBERED, threads=2) as gateway:
            async with connect(gateway.port) as wire:
                for start in range(0, COUNT, 500):
                    await wire.send(b''.join(request(f'/functions/key-{i}') for i in range(start, start + 500)))
                    for _ in range(500):
                        assert (await wire.message()).status == 200
            yield gateway


def check_keys(body):
    names = [entry['key'] for entry in json.loads(body)['keys']]
    assert len(names) == len(set(names))
    assert set(names) >= {f'key-{i}' for i in range(COUNT)}


@run
async def test_a_long_reply_is_whole_while_traffic_goes_on_and_in_both_versions():
    async with many_keys() as gateway:
        stop = asyncio.Event()

        async def traffic():
            async with connect(gateway.port) as wire:
                count = 0
                while not stop.is_set():
                    count += 1
                    await wire.send(request(f'/functions/other-{count}'))
                    assert (await wire.message()).status == 200
                return count
        busy = asyncio.create_task(traffic())
        async with connect(gateway.api_port) as wire:
            for _ in range(3):
                await wire.send(request('/gates/functions'))
                message = await wire.message()
                assert message.one('transfer-encoding') == 'chunked'
                check_keys(message.body)
                await wire.send(request('/gates/functions', 'Connection: keep-alive', version='1.0'))
                message = await wire.message()
                assert message.one('transfer-encoding') is None
                assert message.one('connection') == 'close'  # which is its end
                check_keys(message.body)
                wire.close()
                fresh = await open_wire(gateway.api_port)
                wire.reader, wire.writer = fresh.reader, fresh.writer
            await wire.send(request('/gates/functions', method='HEAD'), request('/gates'))
            assert (await wire.message('HEAD')).status == 200
            [gate] = json.loads((await wire.message()).body)['gates']
            assert gate['keys'] >= COUNT
        stop.set()
        assert await busy > 0

        # A client that reads slowly gets all of it, and one that goes away in the middle nothing more.
        slow = await open_narrow_wire(gateway.api_port)
        await slow.send(request('/gates/functions'), request('/healthz'))
        gone = [await open_narrow_wire(gateway.api_port) for _ in range(6)]
        for i, wire in enumerate(gone):
            await wire.send(request('/gates/functions') * 3)
            assert (await wire.head()).status == 200
            (wire.reset if i % 2 else wire.abort)()
        for _ in range(20):  # others are served meanwhile
            assert (await get(gateway, '/healthz'))[0] == 200
        check_keys((await slow.message()).body)
        assert (await slow.message()).body == b'ok\n'
        slow.close()


# ---- other addresses

@run
async def test_an_api_without_a_listener_and_on_a_unix_socket():
    with tempfile.TemporaryDirectory() as folder:
        async with weir(f'api: ["unix:{folder}/api"]\ngates: {{ g: {{ limit: 3 }} }}\n') as gateway:
            [address] = gateway.addresses['api']
            message = await ask(address, request('/gates'))
            assert json.loads(message.body)['gates'][0]['limit'] == 3
