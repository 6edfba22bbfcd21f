"""What must not pass: foreign pages, borrowed names, other protocols, paths with two meanings, secrets."""
import asyncio
import base64
import contextlib
import json
import subprocess
import tempfile

import pytest
from raw import PATIENCE, ask, connect, front, reply, request, run, upstream
from weir import PROGRAM

HERE = ['localhost', 'LOCALHOST', 'x.localhost', 'a.b.LocalHost', '127.0.0.1', '127.9.9.9', '[::1]',
        '[0:0:0:0:0:0:0:1]', 'localhost:1', 'x.localhost:65535', '127.0.0.1:80', '[::1]:8080']
ELSEWHERE = ['evil.com', 'evil.com:80', '127.0.0.1.evil.com', 'localhost.evil.com', 'xlocalhost',
             '0.0.0.0', '10.0.0.1', '128.0.0.1', '1127.0.0.1', '[::]', '[::2]', '[fe80::1]',
             '[::ffff:10.0.0.1]']
LISTENERS = ['listen', 'api']


@contextlib.asynccontextmanager
async def both(address='127.0.0.1:0', more='', **config):
    """A gateway whose `listen` and `api` have the same settings: whom to ask, and for what."""
    with tempfile.TemporaryDirectory() as folder:
        def listener(name):
            where = address.format(folder=folder, name=name)
            return f'{{ address: "{where}"{", " if more else ""}{more} }}'
        async with upstream() as server:
            config.setdefault('listen', listener('listen'))
            async with front(server, **config, api=listener('api')) as gateway:
                def where(name):
                    [text] = gateway.addresses['listening' if name == 'listen' else 'api']
                    return text
                async def say(name, *fields, **more):
                    target = '/functions/f' if name == 'listen' else '/gates'
                    return await ask(where(name), request(target, *fields, **more))
                yield say, server


def check_forbidden(message):
    assert message.status == 403
    assert message.one('content-type') == 'application/problem+json'
    problem = json.loads(message.body)
    assert problem['type'] == 'urn:weir:forbidden'
    assert problem['status'] == 403
    assert problem['detail']


# ---- web pages are no callers

@run
async def test_on_loopback_a_request_addresses_this_machine_and_no_other():
    async with both() as (say, server):
        for name in LISTENERS:
            for host in HERE:
                assert (await say(name, host=host)).status == 200, (name, host)
            for host in ELSEWHERE:
                check_forbidden(await say(name, host=host))
        assert len(server.seen) == len(HERE)


@run
async def test_an_absolute_target_counts_instead_of_host():
    async with upstream() as server, front(server) as gateway:
        for target, host in (('http://evil.com/functions/f', 'localhost'),
                             ('http://127.0.0.1.evil.com/functions/f', '127.0.0.1')):
            check_forbidden(await ask(gateway.port, request(target, host=host)))
        for target in ('http://evil.com/gates', 'http://evil.com/healthz'):
            check_forbidden(await ask(gateway.api_port, request(target)))
        assert server.seen == []


@run
async def test_a_client_of_1_0_may_address_nobody_but_not_somebody_else():
    async with both() as (say, _):
        for name in LISTENERS:
            assert (await say(name, host=None, version='1.0')).status == 200
            check_forbidden(await say(name, host='evil.com', version='1.0'))


@run
async def test_a_page_of_a_foreign_origin_is_refused():
    async with both() as (say, server):
        for name in LISTENERS:
            for origin in ('http://evil.com', 'https://evil.com:8443', 'null', 'http://127.0.0.1.evil.com',
                           'https://localhost.evil.com', 'http://0.0.0.0', 'http://10.0.0.1', 'x', '',
                           'chrome-extension://abcdef', 'file://', 'http://localhost@evil.com'):
                check_forbidden(await say(name, f'Origin: {origin}'))
                check_forbidden(await say(name, f'Origin: {origin}', 'Sec-Fetch-Site: same-origin'))
            for site in ('cross-site', 'Cross-Site'):
                check_forbidden(await say(name, f'Sec-Fetch-Site: {site}'))
        assert server.seen == []


@run
async def test_a_second_origin_does_not_hide_behind_the_first():
    async with both() as (say, _):
        for name in LISTENERS:
            message = await say(name, 'Origin: http://localhost', 'Origin: http://evil.com')
            assert message.status in (400, 403)


@run
async def test_a_page_of_this_machine_may_call():
    async with both() as (say, _):
        for name in LISTENERS:
            for fields in (['Origin: http://localhost:3000', 'Sec-Fetch-Site: same-site'],
                           ['Origin: https://127.0.0.1'], ['Origin: http://[::1]:5000'],
                           ['Sec-Fetch-Site: none'], ['Sec-Fetch-Site: same-origin']):
                assert (await say(name, *fields)).status == 200, (name, fields)


@run
async def test_methods_that_pages_may_send_unasked_are_refused_like_the_others():
    async with upstream() as server, front(server) as gateway:
        for method in ('GET', 'HEAD', 'POST', 'OPTIONS', 'DELETE'):
            async with connect(gateway.port) as wire:
                await wire.send(request('/functions/f', 'Origin: http://evil.com', 'Content-Length: 0',
                                        method=method))
                message = await wire.message(method)
                assert message.status == 403
                assert message.one('access-control-allow-origin') is None
        assert server.seen == []


@run
async def test_hosts_lets_named_ones_in():
    async with both(more='hosts: [weir.example, 10.0.0.1]') as (say, _):
        for name in LISTENERS:
            for host in ('weir.example', 'WEIR.example:8080', '10.0.0.1', 'localhost'):
                assert (await say(name, host=host)).status == 200, host
                page = (f'Origin: https://{host}', 'Sec-Fetch-Site: cross-site')
                assert (await say(name, *page)).status == 200, host
            for host in ('evil.com', 'x.weir.example', 'weir.example.evil.com', '10.0.0.2'):
                check_forbidden(await say(name, host=host))
                check_forbidden(await say(name, f'Origin: https://{host}'))


@run
async def test_hosts_may_let_everybody_in():
    async with both(more='hosts: ["*"]') as (say, _):
        for name in LISTENERS:
            for host in (*ELSEWHERE, *HERE):
                assert (await say(name, host=host)).status == 200, host
            for origin in ('http://evil.com', 'null'):
                assert (await say(name, f'Origin: {origin}')).status == 200, origin


@run
async def test_no_browser_reaches_a_unix_socket():
    async with both(address='unix:{folder}/{name}') as (say, _):
        for name in LISTENERS:
            assert (await say(name, 'Origin: http://evil.com', host='evil.com')).status == 200


@run
async def test_what_others_may_reach_has_names_of_its_own():
    async with upstream() as server, front(server, listen='0.0.0.0:0') as gateway:
        [address] = gateway.addresses['listening']
        port = int(address.split(':')[1])
        message = await ask(port, request('/functions/f', 'Origin: http://evil.com', host='weir.example'))
        assert message.status == 200


# ---- the API from elsewhere

@pytest.mark.parametrize('address', ['0.0.0.0:0', '"[::]:0"', '192.0.2.1:7070', 'weir.example:7070'])
def test_an_api_that_others_reach_needs_tokens(address):
    with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
        file.write(f'api: {address}\ngates: {{ g: {{ limit: 1 }} }}\n')
        file.flush()
        for command in ('check', 'serve'):
            done = subprocess.run([PROGRAM, command, file.name], capture_output=True, text=True, timeout=20)
            assert done.returncode != 0
            assert f'{file.name}:1:6: api can be reached from other machines' in done.stdout + done.stderr
            assert 'api_tokens' in done.stdout + done.stderr


# ---- who speaks for others

# A route whose key is the tenant; with a rate, a key is remembered.
MINE = '''
  - { match: /mine, key: "t-{tenant}", tenant: "header:X-Tenant", gate: functions, upstream: functions }'''


@run
async def test_a_priority_is_believed_only_from_trusted_peers():
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    for top, counts in (('', {'high': 1, 'normal': 1, 'low': 1}),
                        ('trusted: ["::1", unix]', {'high': 0, 'normal': 3, 'low': 0})):
        go.clear()
        async with upstream(serve) as server, front(server, gate='limit: 1', top=top) as gateway:
            tasks = [asyncio.create_task(ask(gateway.port, request()))]
            await gateway.until('f', active=1)
            for priority in ('high', 'low', 'urgent'):
                tasks.append(asyncio.create_task(
                    ask(gateway.port, request('/functions/f', f'X-Priority: {priority}'))))
            await gateway.until('f', waiting=3)
            assert (await gateway.counts('f'))['waiting_by_priority'] == counts
            go.set()
            assert {(await task).status for task in tasks} == {200}


@run
async def test_a_priority_is_capped_for_each_tenant():
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    top = 'tenants: { default: { priority: normal }, much: { priority: high }, little: { priority: low } }'
    async with upstream(serve) as server, front(server, gate='limit: 1', top=top) as gateway:
        tasks = [asyncio.create_task(ask(gateway.port, request()))]
        await gateway.until('f', active=1)
        for count, (tenant, asked) in enumerate((('much', 'high'), ('else', 'high'), ('little', 'high'),
                                                 ('little', 'normal'), ('else', 'low')), 1):
            tasks.append(asyncio.create_task(ask(gateway.port, request(
                '/functions/f', f'X-Tenant: {tenant}', f'X-Priority: {asked}'))))
            await gateway.until('f', waiting=count)
        body = b'{"tenant": "little", "priority": "high"}'  # and so with permits of the API
        tasks.append(asyncio.create_task(ask(gateway.api_port, request(
            '/gates/functions/f/acquire', f'Content-Length: {len(body)}', method='POST', body=body))))
        await gateway.until('f', waiting=6)
        assert (await gateway.counts('f'))['waiting_by_priority'] == {'high': 1, 'normal': 1, 'low': 4}
        go.set()
        assert {(await task).status for task in tasks} == {200}


@run
async def test_a_key_made_of_the_tenant_is_not_the_clients_to_choose():
    for top, key in (('', 't-acme'), ('trusted: []', 't-')):
        gate = 'limit: 10, rate: 100/d'
        async with upstream() as server, front(server, route=MINE, top=top, gate=gate) as gateway:
            assert (await ask(gateway.port, request('/mine', 'X-Tenant: acme'))).status == 200
            _, said = await gateway.ask_api('/gates/functions')
            assert [entry['key'] for entry in said['keys']] == [key]


# ---- other protocols

@run
async def test_tunnels_and_http_2_without_an_upgrade_are_refused():
    async with upstream() as server, front(server) as gateway:
        for text, status in (
                (request('localhost:443', method='CONNECT', host='localhost:443'), 501),
                (b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 505)):
            message = await ask(gateway.port, text)
            assert message.status == status, text
            assert json.loads(message.body)['type'] == 'urn:weir:bad-request'
        assert server.seen == []


# What JDK 17's own HttpClient sends with every request to http://, in its order.
JDK = ('Connection: Upgrade, HTTP2-Settings', 'Content-Length: {}', 'Host: 127.0.0.1',
       'HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA', 'Upgrade: h2c',
       'User-Agent: Java-http-client/17.0.15')


def jdk(body, method):
    return request('/functions/f', *(field.format(len(body)) for field in JDK), method=method, host=None,
                   body=body)


@run
@pytest.mark.parametrize('text, body', [
    (jdk(b'', 'GET'), b''),
    (jdk(b'hello', 'POST'), b'hello'),
    (request('/functions/f', 'Connection: Upgrade, HTTP2-Settings, X-Mine', 'X-Mine: 1', 'Upgrade: h2c',
             'HTTP2-Settings: AAMAAABkAAQAAP__', 'Transfer-Encoding: chunked', method='POST',
             body=b'3\r\nabc\r\n0\r\n\r\n'), b'abc'),
    (request('/functions/f', 'Connection: Upgrade', 'Upgrade: TLS/1.0'), b''),
    (request('/functions/f', 'connection: upgrade', 'upgrade: h2c, websocket'), b''),
    (request('/functions/f', 'Connection: Upgrade', 'Upgrade: h2c', 'Upgrade: websocket'), b''),
    (request('/functions/f', 'Connection: Upgrade', 'Upgrade: websocket', 'Content-Length: 2',
             method='POST', body=b'ab'), b'ab'),
], ids=['JDK', 'JDK with a body', 'chunks', 'TLS', 'list', 'twice', 'a WebSocket by POST'])
async def test_an_upgrade_to_another_protocol_is_ignored(text, body):
    async with upstream() as server, front(server) as gateway, connect(gateway.port) as wire:
        for _ in range(2):  # the connection goes on as HTTP/1.1
            await wire.send(text)
            message = await wire.message()
            assert (message.status, message.body) == (200, b'ok')
            assert message.one('upgrade') is None
            assert message.one('connection') == 'keep-alive'
        assert len(server.seen) == 2
        for seen in server.seen:
            assert seen.body == body
            for name in ('connection', 'upgrade', 'http2-settings', 'x-mine'):
                assert seen.one(name) is None


@run
async def test_an_upgrade_that_was_not_passed_on_cannot_be_accepted_by_the_upstream():
    switch = b'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n'
    async with upstream(switch) as server, front(server) as gateway:
        message = await ask(gateway.port, jdk(b'', 'GET'))
        assert message.status == 502
        await gateway.until('f', active=0)


def websocket(target):
    key = base64.b64encode(bytes(16)).decode()
    return request(target, 'Connection: Upgrade', 'Upgrade: websocket', f'Sec-WebSocket-Key: {key}',
                   'Sec-WebSocket-Version: 13')


@run
async def test_a_websocket_passes_only_where_the_route_says_so():
    async with upstream() as server, front(server, route='''
  - { match: /chat, websocket: true, upstream: functions }''') as gateway:
        message = await ask(gateway.port, websocket('/functions/f'))
        assert message.status == 400
        assert 'websocket: true' in json.loads(message.body)['detail']
        assert server.seen == []
        assert (await ask(gateway.port, websocket('/chat'))).status == 200  # as this upstream has it
        assert server.seen[0].one('upgrade') == 'websocket'
        assert server.seen[0].one('connection') == 'Upgrade'


@run
async def test_an_upgrade_field_without_an_upgrade_stays_behind():
    async with upstream(reply(b'ok', 'Upgrade: h2c', 'Connection: Upgrade')) as server, \
            front(server) as gateway:
        message = await ask(gateway.port, request('/functions/f', 'Upgrade: h2c', 'HTTP2-Settings: AA'))
        assert message.status == 200
        assert server.seen[0].one('upgrade') is None
        assert server.seen[0].one('http2-settings') is None
        assert message.one('upgrade') is None
        assert message.one('connection') == 'keep-alive'


# ---- one reading of a message

@run
@pytest.mark.parametrize('name', ['Content-Length', 'Transfer-Encoding', 'Host', 'Authorization', 'Cookie',
                                  'X-Forwarded-For', 'Connection'])
async def test_a_trailer_that_belongs_into_the_head_ends_the_request(name):
    async with upstream() as server, front(server) as gateway:
        message = await ask(gateway.port, request(
            '/functions/f', 'Transfer-Encoding: chunked', method='POST',
            body=f'3\r\nabc\r\n0\r\n{name}: 1\r\n\r\n'.encode()))
        assert message.status == 400
        assert message.one('connection') == 'close'
        await gateway.until('f', active=0)
        assert server.seen == []  # it never saw the end


@run
async def test_a_tenant_cannot_come_in_a_trailer():
    async with upstream() as server, front(server, route=MINE, gate='limit: 10, rate: 100/d') as gateway:
        message = await ask(gateway.port, request(
            '/mine', 'Transfer-Encoding: chunked', method='POST', body=b'0\r\nX-Tenant: acme\r\n\r\n'))
        assert message.status == 200
        assert server.seen[0].one('x-tenant') is None
        assert server.seen[0].trailers == []
        _, said = await gateway.ask_api('/gates/functions')
        assert [entry['key'] for entry in said['keys']] == ['t-']


@run
async def test_a_bad_trailer_of_a_reply_cuts_it_off():
    passed_on = asyncio.Event()

    async def serve(wire, _):
        await wire.send(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n')
        await passed_on.wait()
        await wire.send(b'0\r\nSet-Cookie: a=b\r\n\r\n')

    async with upstream(serve) as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request())
            await asyncio.wait_for(wire.reader.readuntil(b'ok\r\n'), PATIENCE)
            passed_on.set()
            with contextlib.suppress(ConnectionError):  # by which the client knows that it is not whole
                assert await wire.rest() == b''
        await gateway.until('f', active=0)


@run
async def test_a_bad_trailer_that_comes_with_its_reply_is_not_passed_on():
    bad = (b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
           b'2\r\nok\r\n0\r\nSet-Cookie: a=b\r\n\r\n')
    async with upstream(bad) as server, front(server) as gateway:
        message = await ask(gateway.port, request())
        assert message.status == 502
        assert (message.one('set-cookie'), message.trailers) == (None, [])
        await gateway.until('f', active=0)


@run
@pytest.mark.parametrize('path', [
    '/functions/..', '/functions/../f', '/functions/f/..', '/functions/f/../../g', '/functions/./f',
    '/functions/.', '/functions/%2e%2e/f', '/functions/.%2E/f', '/functions/%2e', '/functions/a%2fb',
    '/functions/a%2Fb', '/functions/f/a%2fb', '/functions/a%5cb', '/functions/a%5Cb', '/functions/a\\b',
    '/functions/a%00b', '/functions/%', '/functions/%4', '/functions/%zz', '/functions/f;x', '/functions/..;/f'])
async def test_a_path_with_two_readings_is_refused(path):
    async with upstream() as server, front(server) as gateway:
        for target in (path, path + '?q', f'http://localhost{path}'):
            message = await ask(gateway.port, request(target))
            assert message.status == 400, target
            assert json.loads(message.body)['type'] == 'urn:weir:bad-request'
        assert server.seen == []


@run
async def test_a_query_may_have_what_a_path_may_not():
    async with upstream() as server, front(server) as gateway:
        query = '/functions/f?a=../..&b=%2e%2f%5c%00&c=\\'
        assert (await ask(gateway.port, request(query))).status == 200
        assert server.seen[0].target == query


@run
@pytest.mark.parametrize('text', [
    request('/functions/f', 'Content-Length: 5', 'Transfer-Encoding: chunked', method='POST'),
    request('/functions/f', 'Content-Length: 5', 'Content-Length: 5', method='POST'),
    request('/functions/f', 'Content-Length: +5', method='POST'),
    request('/functions/f', 'Transfer-Encoding: chunked', 'Transfer-Encoding: identity', method='POST'),
    request('/functions/f', 'Transfer-Encoding : chunked', method='POST'),
    request('/functions/f', 'Host: localhost'),
    request('/functions/f', 'X: a', ' folded'),
    request('/functions/f', 'Transfer-Encoding: chunked', method='POST') + b'3 \r\nabc\r\n0\r\n\r\n',
    request('/functions/f', 'Transfer-Encoding: chunked', method='POST') + b'-1\r\nabc\r\n0\r\n\r\n'])
async def test_nothing_behind_an_ambiguous_request_is_served(text):
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(text, request('/functions/smuggled'))
            said = await wire.rest()
        assert said.startswith((b'HTTP/1.1 400 ', b'HTTP/1.1 501 '))
        assert said.count(b'HTTP/1.1 ') == 1
        assert b'connection: close' in said.lower()
        assert server.seen == []


# ---- secrets

SECRET = 'geheim-0123456789'


@run
async def test_secrets_of_an_upstream_are_in_no_answer(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_SECRET', SECRET)
    more = ('headers: { Authorization: "Bearer ${WEIR_TEST_SECRET}", X-Plain: "plain-geheim" }, '
            'timeouts: { first_byte: 50ms }')

    async def serve(wire, message):
        assert message.one('authorization') == f'Bearer {SECRET}'
        if message.target.endswith('slow'):
            await wire.ended()
        elif message.target.endswith('bad'):
            await wire.send('nonsense\r\n\r\n')
        raise ConnectionError
    async with upstream(serve) as server, front(server, more=more) as gateway:
        for target in ('/functions/f/slow', '/functions/f/bad', '/functions/f/gone', '/nowhere',
                       '/functions/..'):
            message = await ask(gateway.port, request(target))
            assert message.status >= 400
            assert b'geheim' not in message.body
            assert 'geheim' not in str(message.fields)
        for path in ('/gates', '/gates/functions', '/gates/functions/f', '/healthz', '/nothing'):
            message = await ask(gateway.api_port, request(path))
            assert b'geheim' not in message.body
        await gateway.reload()  # by then the log is written
        assert 'geheim' not in gateway.complaints()


def test_secrets_are_not_shown_by_check(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_SECRET', SECRET)
    good = '''listen: 127.0.0.1:0
api: 0.0.0.0:7070
api_tokens: { a: { token: "${WEIR_TEST_SECRET}", scopes: [read] } }
upstreams:
  f:
    url: http://127.0.0.1:1
    headers: { Authorization: "Bearer ${WEIR_TEST_SECRET}", X-Plain: "plain-geheim" }
routes: [ { match: /, upstream: f } ]
'''
    bad = good.replace('Authorization:', 'Connection:').replace('match: /', 'match: x')
    for config, status in ((good, 0), (bad, 1)):
        with tempfile.NamedTemporaryFile('w', suffix='.yaml') as file:
            file.write(config)
            file.flush()
            done = subprocess.run([PROGRAM, 'check', '--print', file.name], capture_output=True, text=True,
                                  timeout=20)
            assert (done.returncode != 0) == (status != 0), done.stderr
            assert 'geheim' not in done.stdout + done.stderr
            assert ('***' in done.stdout) == (status == 0)
