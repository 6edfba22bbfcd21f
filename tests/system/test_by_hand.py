"""Limits and pauses by hand: PUT and DELETE /gates/{gate}/{key}/limit, pause and resume, `weir gate`."""
import asyncio
import json
import os

from raw import ask, connect, front, reply, request, run, upstream
from weir import PROGRAM, until, weir

SHORT = 'limit: 2, line: { timeout: 300ms }'


async def steer(gateway, target, method='POST', body=b'', token=None):
    fields = [f'Content-Length: {len(body)}'] if body else []
    fields += [f'Authorization: Bearer {token}'] if token else []
    message = await ask(gateway.api_port, request(f'/gates/{target}', *fields, method=method, body=body))
    return message.status, json.loads(message.body)


async def set_limit(gateway, key, limit, **more):
    return await steer(gateway, f'functions/{key}/limit', 'PUT', json.dumps({'limit': limit}).encode(), **more)


def holding():
    """A server whose requests stay until `go` is set."""
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    return go, serve


def start(gateway, key='f'):
    return asyncio.create_task(ask(gateway.port, request(f'/functions/{key}')))


async def command(gateway, *words):
    process = await asyncio.create_subprocess_exec(
        PROGRAM, *words, '--api', f'127.0.0.1:{gateway.api_port}', stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, 'COLUMNS': '200'})
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


@run
async def test_a_limit_by_hand_replaces_the_keys_own_until_it_is_removed():
    go, serve = holding()
    async with upstream(serve) as server, front(server, gate='limit: 2') as gateway:
        tasks = [start(gateway) for _ in range(8)]
        await gateway.until('f', active=2, waiting=6)
        status, said = await set_limit(gateway, 'f', 5)
        assert (status, said) == (200, {'gate': 'functions', 'key': 'f', 'paused': False,
                                        'limit_by_hand': {'limit': 5}})
        await gateway.until('f', active=5, waiting=3)
        counts = await gateway.counts('f')
        assert (counts['limit'], counts['limit_by_hand'], counts['lanes'][0]['limit']) == (5, {'limit': 5}, 5)
        assert (await set_limit(gateway, 'f', None))[0] == 200
        await gateway.until('f', active=8, waiting=0)
        assert (await gateway.counts('f'))['limit'] is None
        status, said = await steer(gateway, 'functions/f/limit', 'DELETE')
        assert (status, said['limit_by_hand']) == (200, None)
        assert (await gateway.counts('f'))['limit'] == 2
        assert (await steer(gateway, 'functions/f/limit', 'DELETE'))[0] == 200  # also if there is none
        go.set()
        assert [(await task).status for task in tasks] == [200] * 8


@run
async def test_it_holds_for_a_limit_that_is_learned():
    go, serve = holding()
    async with upstream(serve) as server, front(server, gate='limit: { start: 20 }') as gateway:
        assert (await set_limit(gateway, 'f', 1))[0] == 200
        tasks = [start(gateway) for _ in range(6)]
        await gateway.until('f', active=1, waiting=5)
        go.set()
        assert [(await task).status for task in tasks] == [200] * 6
        assert (await gateway.counts('f'))['limit'] == 1
        await steer(gateway, 'functions/f/limit', 'DELETE')
        assert (await gateway.counts('f'))['limit'] > 1  # what it has learned is not lost


@run
async def test_a_paused_key_lets_requests_wait_and_refuses_them_by_their_deadline():
    go, serve = holding()
    async with upstream(serve) as server, front(server, gate=SHORT) as gateway:
        inside = start(gateway)
        await gateway.until('f', active=1)
        assert (await steer(gateway, 'functions/f/pause'))[0] == 200
        late = await ask(gateway.port, request('/functions/f'))
        said = json.loads(late.body)
        assert (late.status, said['type']) == (429, 'urn:weir:paused')
        assert 'An operator has paused this gate' in said['detail']
        assert late.one('retry-after') == '1'
        at_once = await ask(gateway.port, request('/functions/f', 'Weir-Timeout: 0s'))
        assert json.loads(at_once.body)['type'] == 'urn:weir:paused'
        other = start(gateway, 'g')  # another key goes on
        await gateway.until('g', active=1)
        go.set()
        assert (await inside).status == 200  # and so does what was inside
        assert (await other).status == 200
        assert (await gateway.counts('f'))['paused'] is True
        waits = start(gateway)
        await gateway.until('f', waiting=1)
        async with connect(gateway.api_port) as wire:
            await wire.send(request('/gates/functions/f/line'))
            place = json.loads((await wire.message()).body)['line']
            assert [entry['binding'] for entry in place] in (['gate_paused'], [])
        assert (await steer(gateway, 'functions/f/resume'))[1]['paused'] is False
        assert (await waits).status in (200, 429)  # if this was slow, its time was over


@run
async def test_a_paused_gate_stops_all_of_its_keys_also_new_ones():
    async with upstream() as server, front(server, gate='limit: 2, line: { timeout: 30s }') as gateway:
        assert (await ask(gateway.port, request('/functions/f'))).status == 200
        assert await steer(gateway, 'functions/pause') == (200, {'gate': 'functions', 'paused': True})
        tasks = [start(gateway, key) for key in ('f', 'f', 'new', 'newer')]
        await gateway.until('f', active=0, waiting=2)
        await gateway.until('new', active=0, waiting=1)
        await gateway.until('newer', active=0, waiting=1)
        _, said = await gateway.ask_api('/gates')
        assert [gate['paused'] for gate in said['gates']] == [True]
        assert (await steer(gateway, 'functions/f/resume'))[1]['paused'] is True  # the gate still is
        assert len(server.seen) == 1
        assert await steer(gateway, 'functions/resume') == (200, {'gate': 'functions', 'paused': False})
        assert [(await task).status for task in tasks] == [200] * 4


@run
async def test_a_forgotten_key_keeps_its_override_and_a_reload_keeps_and_lists_all():
    config = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
upstreams: {{ u: {{ url: "{url}" }} }}
gates: {{ functions: {{ limit: 4, max_keys: 2, forget: 1s, line: {{ timeout: 30s }} }}, other: {{ limit: 3, lease: 1m }} }}
routes: [{{ match: "/functions/{{function}}", key: "{{function}}", gate: functions, upstream: u }}]
'''
    async with upstream() as server, weir(config.format(url=server.url)) as gateway:
        assert (await set_limit(gateway, 'f', 0))[0] == 200  # a key that nobody has used yet
        for i in range(20):  # others come and go
            assert (await ask(gateway.port, request(f'/functions/k{i}'))).status == 200
        await steer(gateway, 'other/pause')
        message = await ask(gateway.api_port, request('/reload', method='POST'))
        assert json.loads(message.body)['overrides'] == [
            {'gate': 'functions', 'key': 'f', 'paused': False, 'limit_by_hand': {'limit': 0}},
            {'gate': 'other', 'paused': True}]
        await gateway.process.stdout.readline()
        await gateway.reload(('limit: 4', 'limit: 7'))
        assert (await gateway.counts('f'))['limit'] == 0
        task = start(gateway)
        await gateway.until('f', active=0, waiting=1)
        await steer(gateway, 'functions/f/limit', 'DELETE')
        assert (await task).status == 200
        assert (await gateway.counts('f'))['limit'] == 7


@run
async def test_what_is_wrong_is_refused_and_changes_nothing():
    async with upstream() as server, front(server) as gateway:
        for body in (b'', b'{}', b'{"limit": -1}', b'{"limit": 10000001}', b'{"limit": 1.5}', b'{"limit": "3"}',
                     b'{"limit": 3, "more": 1}', b'[3]', b'{"limit": 3'):
            status, said = await steer(gateway, 'functions/f/limit', 'PUT', body)
            assert (status, 'The body must be {"limit": N}' in said['detail']) == (400, True), body
        assert (await steer(gateway, 'nope/pause'))[0] == 404
        assert (await steer(gateway, 'nope/f/limit', 'DELETE'))[0] == 404
        assert (await set_limit(gateway, 256 * 'k', 1))[0] == 400
        for method, target, allow in (('GET', 'functions/f/limit', 'PUT, DELETE'), ('PUT', 'functions/pause', None),
                                      ('DELETE', 'functions/f/pause', 'POST')):
            message = await ask(gateway.api_port, request(f'/gates/{target}', method=method))
            assert message.status == 405
            assert allow is None or message.one('allow') == allow
        assert (await gateway.ask_api('/gates'))[1]['gates'][0]['overrides'] == 0


@run
async def test_only_so_many_keys_may_have_one():
    async with upstream() as server, front(server) as gateway, connect(gateway.api_port) as wire:
        async def ask_for(number, method='PUT'):
            body = b'{"limit":1}' if method == 'PUT' else b''
            await wire.send(request(f'/gates/functions/k{number}/limit', f'Content-Length: {len(body)}',
                                    method=method, body=body))
            return await wire.message()
        for number in range(1000):
            assert (await ask_for(number)).status == 200
        message = await ask_for(1000)
        assert (message.status, json.loads(message.body)['type']) == (409, 'urn:weir:too-many-overrides')
        assert (await ask_for(5)).status == 200  # one that has one may change
        assert (await ask_for(5, 'DELETE')).status == 200
        assert (await ask_for(1000)).status == 200
        message = await ask(gateway.api_port, request('/reload', method='POST'))
        assert len(json.loads(message.body)['overrides']) == 1000
        await gateway.process.stdout.readline()


@run
async def test_who_may(monkeypatch):
    for name in ('boss', 'read', 'acme'):
        monkeypatch.setenv(f'WEIR_TEST_{name.upper()}', f'{name}-token-0123456789')
    top = '''api_tokens:
  boss: { token: "${WEIR_TEST_BOSS}", scopes: [admin, read] }
  reader: { token: "${WEIR_TEST_READ}", scopes: [read, work] }
  acme: { token: "${WEIR_TEST_ACME}", scopes: [admin, read], tenant: acme }
'''
    async with upstream() as server, front(server, top=top) as gateway:
        assert (await steer(gateway, 'functions/pause'))[0] == 401
        assert (await steer(gateway, 'functions/pause', token='read-token-0123456789'))[0] == 403
        assert (await steer(gateway, 'functions/pause', token='acme-token-0123456789'))[0] == 403
        assert (await steer(gateway, 'functions/pause', token='boss-token-0123456789'))[0] == 200
        assert (await set_limit(gateway, 'f', 3, token='read-token-0123456789'))[0] == 403
        assert (await set_limit(gateway, 'f', 3, token='acme-token-0123456789'))[0] == 200  # no key is a tenant's


@run
async def test_the_command():
    async with upstream() as server, front(server, gate=SHORT) as gateway:
        assert await command(gateway, 'gate', 'limit', 'functions', 'f', '5') == (
            0, 'functions / f: open, limit by hand: 5\n', '')
        assert await command(gateway, 'gate', 'pause', 'functions', 'f') == (
            0, 'functions / f: paused, limit by hand: 5\n', '')
        _, out, _ = await command(gateway, 'gates', 'functions')
        assert 'paused by hand' in out
        _, out, _ = await command(gateway, 'gates')
        assert 'keys by hand' in out
        assert 'In force by hand' in (await command(gateway, 'reload'))[1]
        await gateway.process.stdout.readline()
        assert (await command(gateway, 'gate', 'resume', 'functions', 'f'))[1] == (
            'functions / f: open, limit by hand: 5\n')
        _, out, _ = await command(gateway, 'gates', 'functions')
        assert 'limit by hand' in out
        assert (await command(gateway, 'gate', 'limit', 'functions', 'f', 'none'))[1] == (
            'functions / f: open, limit by hand: none\n')
        assert (await command(gateway, 'gate', 'limit', 'functions', 'f', '--remove'))[1] == 'functions / f: open\n'
        assert (await command(gateway, 'gate', 'pause', 'functions'))[1] == 'functions: paused\n'
        _, out, _ = await command(gateway, 'gates')
        assert 'paused by hand' in out
        assert (await command(gateway, 'gate', 'resume', 'functions'))[1] == 'functions: open\n'
        for words in (('limit', 'functions'), ('limit', 'functions', 'f'), ('stop', 'functions'),
                      ('limit', 'functions', 'f', '5', '--remove'), ('pause', 'functions', 'f', '5'),
                      ('limit', 'functions', 'f', '-1'), ('limit', 'functions', 'f', '5x')):
            assert (await command(gateway, 'gate', *words))[0] == 2, words


@run
async def test_pauses_under_traffic_lose_no_request():
    """Many requests over several threads, while the gate is paused, resumed and limited all the time."""
    async with upstream() as server, front(server, threads=2, gate='limit: 3, line: { timeout: 60s }') as gateway:
        done = asyncio.Event()

        async def turn():
            while not done.is_set():
                for target in ('functions/pause', 'functions/f1/pause', 'functions/resume', 'functions/f1/resume'):
                    assert (await steer(gateway, target))[0] == 200
                for limit in (0, 1, None):
                    assert (await set_limit(gateway, 'f0', limit))[0] == 200
                assert (await steer(gateway, 'functions/f0/limit', 'DELETE'))[0] == 200
        turning = asyncio.create_task(turn())
        try:
            async def client(number):
                async with connect(gateway.port) as wire:
                    for _ in range(20):
                        await wire.send(request(f'/functions/f{number % 3}'))
                        assert (await wire.message()).status == 200
            await asyncio.gather(*(client(number) for number in range(12)))
        finally:
            done.set()
            await turning
        for number in range(3):
            await gateway.until(f'f{number}', active=0, waiting=0)
        assert len(server.seen) == 240
        await until(lambda: not gateway.complaints(), 'it says nothing')
