"""Paths that programs read differently: whatever an upstream makes of one, no request gets past the route of
what it names. `/expensive` asks for an API key, `/` does not, and both lead to the same upstream."""
import asyncio
import contextlib
import itertools
import json
import pathlib
import re
import shutil

from raw import ask, connect, front, reply, request, run, upstream
from test_cli import Cli
from weir import until, weir

EXPENSIVE = ['//expensive/run', '///expensive//run', '/expensive//run', '/%65xpensive/run', '/expensiv%65//run',
             '/./expensive/run', '/%2e/expensive', '/x/../expensive/run', '/expensive;x/run', '/expensive;x',
             '/expensive%3Bx/run', '/;/expensive', '/;x=y/expensive', '/..;/expensive', '/%2e%2e;x/expensive',
             '/x/..;/expensive', '//;//expensive', '/expensive;/', '/expensive/', '/expensive']


def spellings(path):
    """A path as a target of both forms, with a query and without."""
    starts = ('', 'http://localhost', 'http://localhost:80')
    return [start + path + query for start in starts for query in ('', '?//;x')]


def config_of(url, folder, listen='127.0.0.1:0', routes=''):
    return f'''
listen: {listen}
api: 127.0.0.1:0
threads: 1
data: {folder}
upstreams: {{ u: {{ url: "{url}" }} }}
gates: {{ g: {{ limit: 10 }} }}
routes:
  - {{ match: /, upstream: u }}
  - {{ match: /expensive, tenant: api_key, gate: g, upstream: u }}
{routes}'''


@contextlib.asynccontextmanager
async def nginx(folder):
    """Debian's nginx, which merges slashes, decodes escapes and resolves dots: says which location it took, and
    which target it got."""
    program = shutil.which('nginx', path='/usr/sbin:/usr/bin')
    place = pathlib.Path(folder) / 'nginx'
    place.mkdir()
    where = place / 'socket'
    temporary = '\n'.join(f'{kind}_temp_path {place}/{kind};'
                          for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
    (place / 'nginx.conf').write_text(f'''daemon off;
master_process off;
pid {place}/pid;
error_log stderr crit;
events {{}}
http {{
    access_log off;
    {temporary}
    default_type text/plain;
    server {{
        listen unix:{where};
        location / {{ return 200 "free $request_uri"; }}
        location /expensive {{ return 200 "expensive $request_uri"; }}
    }}
}}
''')
    process = await asyncio.create_subprocess_exec(
        program, '-p', str(place), '-e', 'stderr', '-c', str(place / 'nginx.conf'))

    async def listens():
        try:
            _, writer = await asyncio.open_unix_connection(str(where))
        except OSError:
            return False
        writer.close()
        return True
    try:
        await until(listens, 'nginx listens')
        yield f'unix:{where}'
    finally:
        process.kill()
        await process.wait()


async def servlet(wire, message):
    """A container that decodes escapes, drops parameters, merges slashes and resolves dots."""
    path = message.target.partition('?')[0]
    path = re.sub(r'%(..)', lambda match: chr(int(match[1], 16)), path)
    kept = []
    for segment in path.split('/'):
        segment = segment.split(';')[0]
        if segment == '..':
            kept = kept[:-1]
        elif segment not in ('', '.'):
            kept.append(segment)
    place = 'expensive' if kept[:1] == ['expensive'] else 'free'
    await wire.send(reply(f'{place} {message.target}'.encode()))


async def key_of(folder):
    """Before the gateway starts, so the folder needs the mark that it leaves there."""
    folder.mkdir()
    (folder / 'gateway').touch()
    return (await Cli(None).good('keys', 'add', '--tenant', 'acme', '--data', str(folder))).out.strip()


# ---- no request without a key

@run
async def test_no_spelling_leads_past_the_key_to_an_nginx(tmp_path):
    key = await key_of(tmp_path / 'data')
    async with nginx(tmp_path) as url, weir(config_of(url, tmp_path / 'data')) as gateway:
        for path in EXPENSIVE:
            for target in spellings(path):
                message = await ask(gateway.port, request(target))
                assert message.status in (400, 401), (target, message.body)
                with_key = await ask(gateway.port, request(target, f'X-Api-Key: {key}'))
                assert (with_key.status == 200) == (message.status == 401), target
        for target in spellings('//expensiv%65//run'):
            message = await ask(gateway.port, request(target, f'X-Api-Key: {key}'))
            query = '?//;x' if '?' in target else ''
            assert message.body.decode() == f'expensive /expensive/run{query}'
        for target in ('/', '//a//b', '/page;jsessionid=1', '/%7euser/;x'):
            message = await ask(gateway.port, request(target))
            assert (message.status, message.body.split()[0]) == (200, b'free'), target


@run
async def test_no_short_path_leads_past_the_key_to_a_server_that_drops_parameters(tmp_path):
    pieces = ['/', ';', ';x', '.', '..', '%2e', '%3b', 'expensive', '%65xpensive', 'x']
    passed = 0
    async with upstream(servlet) as server, weir(config_of(server.url, tmp_path)) as gateway:
        for count in range(1, 4):
            async with connect(gateway.port) as wire:
                for parts in itertools.product(pieces, repeat=count):
                    target = '/' + ''.join(parts)
                    await wire.send(request(target))
                    message = await wire.message()
                    assert message.status in (200, 400, 401), target
                    assert not message.body.startswith(b'expensive'), target
                    passed += message.status == 200
        for path in EXPENSIVE:
            for target in spellings(path):
                assert (await ask(gateway.port, request(target))).status in (400, 401), target
    assert passed > 100  # or nothing would have been tried


# ---- what the upstream gets

@run
async def test_the_upstream_gets_the_path_by_which_the_route_was_chosen():
    async with upstream() as server, front(server) as gateway:
        for target, sent in (('//functions//f', '/functions/f'), ('/functions/%66?//%61;', '/functions/f?//%61;'),
                             ('http://localhost//functions/f//?', '/functions/f/?'),
                             ('/functions/f/%7Ea;b/%c3%BC', '/functions/f/~a;b/%c3%BC')):
            assert (await ask(gateway.port, request(target))).status == 200
            assert server.seen[-1].target == sent
        assert (await gateway.counts('f'))['active'] == 0


@run
async def test_one_key_however_it_is_spelled():
    release = asyncio.Event()

    async def hold(wire, message):
        await release.wait()
        await wire.send(reply())
    async with upstream(hold) as server, front(server, gate='limit: 1') as gateway:
        async with connect(gateway.port) as first, connect(gateway.port) as second:
            await first.send(request('/functions/%c3%BC~'))
            await until(lambda: server.seen, 'the first is inside')
            await second.send(request('//functions//%C3%bc%7E'))
            await gateway.until('%C3%BC~', active=1, waiting=1)
            release.set()
            assert [(await wire.message()).status for wire in (first, second)] == [200, 200]


@run
async def test_a_captured_segment_has_no_parameters():
    async with upstream() as server, front(server) as gateway:
        for path in ('/functions/f;x', '/functions/f%3Bx/y', '/functions/;x'):
            message = await ask(gateway.port, request(path))
            assert message.status in (400, 404)
        assert server.seen == []


@run
async def test_what_is_stripped_and_put_in_front_leaves_no_empty_segments(tmp_path):
    async with upstream() as server:
        config = config_of(server.url, tmp_path, routes='  - { match: /a/b/, strip: /a/b, upstream: p }\n').replace(
            'upstreams: {', f'upstreams: {{ p: {{ url: "{server.url}", prefix: /v1 }},')
        async with weir(config) as gateway:
            for target, sent in (('//a//b//c//d', '/v1/c/d'), ('/a/%62//', '/v1/'), ('/a/b/c;x', '/v1/c;x')):
                assert (await ask(gateway.port, request(target))).status == 200
                assert server.seen[-1].target == sent
            assert (await ask(gateway.port, request('/a;x/b/c'))).status == 400


@run
async def test_a_call_of_an_llm_is_known_however_its_path_is_spelled(tmp_path):
    body = json.dumps({'model': 'm', 'stream': True, 'messages': []}).encode()
    fields = ('Content-Type: application/json', f'Content-Length: {len(body)}')

    def post(target):
        return request(target, *fields, method='POST', body=body)
    async with upstream(reply(b'{}', 'Content-Type: application/json')) as server:
        routes = '  - { match: /v1, llm: openai, upstream: u }\n'
        async with weir(config_of(server.url, tmp_path, routes=routes)) as gateway:
            assert (await ask(gateway.port, post('//v1//chat/completion%73'))).status == 200
            assert server.seen[-1].target == '/v1/chat/completions'
            assert json.loads(server.seen[-1].body)['stream_options'] == {'include_usage': True}
            assert (await ask(gateway.port, post('/v1/chat/completions;x'))).status == 400
            assert len(server.seen) == 1


@run
async def test_a_websocket_is_routed_by_the_same_path(tmp_path):
    async def refuse(wire, message):
        await wire.send(reply(b'no', status='403 Forbidden'))
    async with upstream(refuse) as server:
        routes = '  - { match: /ws, websocket: true, upstream: u }\n'
        async with weir(config_of(server.url, tmp_path, routes=routes)) as gateway:
            upgrade = ('Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Version: 13',
                       'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==')
            assert (await ask(gateway.port, request('//w%73//a', *upgrade))).status == 403
            assert server.seen[-1].target == '/ws/a'
            assert (await ask(gateway.port, request('/ws;x/a', *upgrade))).status == 400
            assert len(server.seen) == 1


# ---- the setting

@run
async def test_an_address_may_refuse_what_another_rewrites_or_keeps(tmp_path):
    listen = ''.join(f'\n  - {{ address: "unix:{tmp_path}/{mode}", paths: {mode} }}'
                     for mode in ('normalize', 'refuse', 'keep'))
    async with upstream() as server, weir(config_of(server.url, tmp_path, listen)) as gateway:
        async def sent(mode, target):
            before = len(server.seen)
            message = await ask(f'unix:{tmp_path}/{mode}', request(target))
            if message.status == 200:
                assert len(server.seen) == before + 1
                return server.seen[-1].target
            assert len(server.seen) == before
            return message.status
        for target, normalized, refused, kept in (
                ('/a/b', '/a/b', '/a/b', '/a/b'),
                ('//a//b', '/a/b', 400, '//a//b'),
                ('/fetch/https://host//', '/fetch/https:/host/', 400, '/fetch/https://host//'),
                ('/%7Ea', '/~a', 400, '/~a'),
                ('/a;x', '/a;x', 400, '/a;x'),
                ('/;x/a', 400, 400, '/;x/a'),
                ('/%c3%BC', '/%c3%BC', '/%c3%BC', '/%c3%BC'),
                ('/a%2Fb', 400, 400, 400),
                ('/a/../b', 400, 400, 400),
                ('//expensive', 401, 400, '//expensive')):
            for mode, expected in (('normalize', normalized), ('refuse', refused), ('keep', kept)):
                assert await sent(mode, target) == expected, (mode, target)
        message = await ask(f'unix:{tmp_path}/refuse', request('//a'))
        assert 'paths: refuse' in json.loads(message.body)['detail']
        gateway.path.write_text(gateway.path.read_text().replace('paths: keep', 'paths: refuse'))
        await gateway.reload()
        assert 'a change of listen needs a restart' in gateway.complaints()


# ---- OPTIONS *

@run
async def test_options_of_the_whole_server_is_answered_here():
    async with upstream() as server, front(server) as gateway:
        async with connect(gateway.port) as wire:
            for target in ('*', 'http://localhost', '*'):
                await wire.send(request(target, method='OPTIONS'))
                message = await wire.message()
                assert message.status == 204, target
                assert message.one('allow').split(', ')[0] == 'GET'
                assert message.one('content-length') is None
            await wire.send(request())
            assert (await wire.message()).status == 200
        assert len(server.seen) == 1
        assert (await ask(gateway.port, request('*', method='OPTIONS', version='1.0', host=None))).status == 204
        async with connect(gateway.port) as wire:
            await wire.send(request('*', 'Content-Length: 5', method='OPTIONS', body=b'hello'), request())
            said = await wire.rest()
            assert said.startswith(b'HTTP/1.1 204 ') and said.count(b'HTTP/1.1 ') == 1
        assert len(server.seen) == 1


@run
async def test_options_of_the_whole_server_passes_no_guard_that_others_do_not_pass():
    async with upstream() as server, front(server) as gateway:
        for fields, more in ((['Origin: http://evil.com'], {}), ([], {'host': 'evil.com'}),
                             (['Sec-Fetch-Site: cross-site'], {})):
            assert (await ask(gateway.port, request('*', *fields, method='OPTIONS', **more))).status == 403
        assert (await ask(gateway.port, request('http://evil.com', method='OPTIONS'))).status == 403
        for method in ('GET', 'POST', 'HEAD'):
            assert (await ask(gateway.port, request('*', method=method), method)).status == 400
        assert (await ask(gateway.port, request('http://localhost/', method='OPTIONS'))).status == 404
        assert (await ask(gateway.port, request('http://localhost?a', method='OPTIONS'))).status == 404
        assert server.seen == []
