"""Servers that people run behind a gateway, as Debian has them: cheroot, Tornado and gunicorn. What they make of a
request is what counts, and no client may get another one's reply."""
import asyncio
import contextlib
import json
import sys
import tempfile
import threading

import pytest
from raw import ask, connect, front, request, run
from weir import PATIENCE

CHUNKED = 'Transfer-Encoding: chunked'
# A trailer line that is also a request line, for a server that does not read trailers.
POISON = b'0\r\nX:POST /slow HTTP/1.1\r\n\r\n'


class Seen:
    """What an application was asked, by whatever thread of its server."""

    def __init__(self):
        self._lock = threading.Lock()
        self._requests = []

    def note(self, *what):
        with self._lock:
            self._requests.append(what)

    @property
    def requests(self):
        with self._lock:
            return list(self._requests)


@contextlib.asynccontextmanager
async def cheroot():
    """CherryPy's server, in threads of its own."""
    from cheroot import wsgi
    seen = Seen()

    def application(environ, start_response):
        body = environ['wsgi.input'].read()
        seen.note(environ['REQUEST_METHOD'], environ['PATH_INFO'])
        said = json.dumps({'path': environ['PATH_INFO'], 'query': environ['QUERY_STRING'],
                           'body': body.decode('latin-1')}).encode()
        start_response('200 OK', [('Content-Length', str(len(said)))])
        return [said]

    server = wsgi.Server(('127.0.0.1', 0), application, numthreads=16)
    server.prepare()
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield f'http://127.0.0.1:{server.bind_addr[1]}', seen
    finally:
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(thread.join)


@contextlib.asynccontextmanager
async def tornado():
    """Tornado, in the loop of the test."""
    from tornado import httpserver, netutil, web
    seen = Seen()

    class Handler(web.RequestHandler):
        def answer(self):
            seen.note(self.request.method, self.request.path)
            self.finish({'path': self.request.path, 'query': self.request.query,
                         'body': self.request.body.decode('latin-1')})
        get = post = answer

    server = httpserver.HTTPServer(web.Application([('.*', Handler)]))
    sockets = netutil.bind_sockets(0, '127.0.0.1')
    server.add_sockets(sockets)
    try:
        yield f'http://127.0.0.1:{sockets[0].getsockname()[1]}', seen
    finally:
        server.stop()
        await server.close_all_connections()


GUNICORN_APPLICATION = '''
import json

def application(environ, start_response):
    body = environ['wsgi.input'].read()
    said = {name: value for name, value in environ.items() if isinstance(value, str)}
    said = json.dumps({**said, 'body': body.decode('latin-1')}).encode()
    start_response('200 OK', [('Content-Length', str(len(said)))])
    return [said]
'''


@contextlib.asynccontextmanager
async def gunicorn():
    """gunicorn, a process that keeps connections; its application says what it finds in the environment."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f'{folder}/said.py', 'w', encoding='ascii') as file:
            file.write(GUNICORN_APPLICATION)
        process = await asyncio.create_subprocess_exec(
            sys.executable, '-B', '-m', 'gunicorn', '--bind', '127.0.0.1:0', '--worker-class', 'gthread',
            '--threads', '8', '--keep-alive', '60', '--worker-tmp-dir', folder, '--chdir', folder,
            '--graceful-timeout', '1', 'said:application',
            stderr=asyncio.subprocess.PIPE)
        try:
            url = None
            while url is None:
                line = (await asyncio.wait_for(process.stderr.readline(), PATIENCE)).decode()
                assert line, 'gunicorn ended before it listened'
                url = line.split('Listening at: ')[1].split(' ')[0] if 'Listening at: ' in line else None
            drained = asyncio.create_task(process.stderr.read())
            yield url, None
            process.terminate()
            await asyncio.wait_for(asyncio.gather(process.wait(), drained), PATIENCE)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


SERVERS = {'cheroot': cheroot, 'tornado': tornado, 'gunicorn': gunicorn}


# ---- replies go to those who asked

async def ask_own(port, name, count):
    """Requests of one client on one connection; each reply has to be the one to its own request."""
    async with connect(port) as wire:
        for number in range(count):
            body = f'{name}-{number}'.encode()
            await wire.send(request(f'/functions/f?{name}-{number}', f'Content-Length: {len(body)}',
                                    method='POST', body=body))
            reply = await wire.message()
            assert reply.status == 200, reply.body
            said = json.loads(reply.body)
            assert said.get('query', said.get('QUERY_STRING')) == body.decode(), (name, said)
            assert said['body'] == body.decode()


async def attack(port, body, count):
    """Sends the body so often, whatever is answered."""
    for _ in range(count):
        async with connect(port) as wire:
            await wire.send(request('/functions/f?attack', CHUNKED, method='POST', body=body))
            reply = await wire.message()
            assert reply.status == 200, reply.body
            said = json.loads(reply.body)
            assert said.get('query', said.get('QUERY_STRING')) == 'attack'


@run
@pytest.mark.parametrize('body', [
    POISON,
    b'3\r\nabc\r\n' + POISON,
    b'3;name=value\r\nabc\r\n0\r\n\r\n',
    b'3;name="POST /slow HTTP/1.1"\r\nabc\r\n0;last\r\nX-Sum: 1\r\nY:GET /slow HTTP/1.1\r\n\r\n',
], ids=['trailer', 'data and trailer', 'extension', 'both'])
@pytest.mark.parametrize('name', SERVERS)
async def test_no_client_gets_the_reply_to_what_another_one_hid_in_its_body(name, body):
    async with SERVERS[name]() as (url, seen), front(url, gate='limit: 100') as gateway:
        await asyncio.gather(*(ask_own(gateway.port, f'client{i}', 40) for i in range(8)),
                             *(attack(gateway.port, body, 10) for _ in range(4)))
        if seen is not None:
            assert {path for _, path in seen.requests} == {'/functions/f'}
            assert len(seen.requests) == 8 * 40 + 4 * 10


@run
@pytest.mark.parametrize('name', SERVERS)
async def test_a_body_in_chunks_arrives_at_servers_as_it_was_sent(name):
    body = b'5\r\nhello\r\n6;a=b\r\n world\r\n0;c\r\nX-Sum: 42\r\n\r\n'
    async with SERVERS[name]() as (url, _), front(url) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(3):
                await wire.send(request('/functions/f', CHUNKED, method='POST', body=body))
                assert json.loads((await wire.message()).body)['body'] == 'hello world'


# ---- names that a server takes for another

@run
async def test_a_name_with_underscores_does_not_get_past_one_that_weir_sets_or_believes():
    route = '''
  - { match: /mine, tenant: "header:X-Tenant", upstream: functions }'''
    fields = ('X_Auth_User: admin', 'x-auth_user: admin', 'X_Forwarded_For: 6.6.6.6', 'X_REAL_IP: 6.6.6.6',
              'X_Request_Id: theirs', 'X_Forwarded_Proto: https', 'X-Tenant: acme', 'X_Tenant: rival',
              'x_other: kept')
    async with gunicorn() as (url, _), front(url, top='trusted: []', route=route,
                                             more='headers: { X-Auth-User: service }') as gateway:
        said = json.loads((await ask(gateway.port, request('/mine', *fields))).body)
        assert said['HTTP_X_AUTH_USER'] == 'service'
        assert said['HTTP_X_FORWARDED_FOR'] == '127.0.0.1'
        assert said['HTTP_X_FORWARDED_PROTO'] == 'http'
        assert said['HTTP_X_REQUEST_ID'] != 'theirs'
        assert ',' not in said['HTTP_X_REQUEST_ID']
        assert said['HTTP_X_TENANT'] == 'acme'
        assert said['HTTP_X_OTHER'] == 'kept'
        assert 'HTTP_X_REAL_IP' not in said
