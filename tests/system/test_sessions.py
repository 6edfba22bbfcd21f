"""Event streams opened by GET are sessions: with a limit of their own, and quiet for as long as they like."""
import contextlib
import json

from raw import ask, connect, reply, request, run, upstream
from weir import until, weir

EVENTS = ('Accept: application/json, text/event-stream',)
BEGUN = 'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\r\n'
SESSIONS = 'sessions: { gate: streams, key: "{tenant}" }, tenant: header:X-Tenant'


class Streams:
    """An upstream whose GETs are streams that say what they are told to; the others it answers at once."""

    def __init__(self):
        self.open = []

    async def serve(self, wire, message):
        if message.start.startswith('GET ') and 'plain' not in message.start:
            await wire.send(BEGUN)
            self.open.append(wire)
            with contextlib.suppress(ConnectionError):
                await wire.rest()
            self.open.remove(wire)
        else:
            await wire.send(reply())


@contextlib.asynccontextmanager
async def tools(route=SESSIONS, upstream_more='', limit=2):
    streams = Streams()
    async with upstream(streams.serve) as server, weir(f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
grace: 5s
upstreams: {{ tools: {{ url: "{server.url}" {upstream_more} }} }}
gates: {{ calls: {{ limit: 1, line: {{ timeout: 1ms }} }}, streams: {{ limit: {limit}, line: {{ timeout: 1ms }} }} }}
routes:
  - {{ match: /mcp, upstream: tools, gate: calls, {route} }}
  - {{ match: /cut, upstream: tools }}
''') as gateway:
        yield gateway, streams, server


@contextlib.asynccontextmanager
async def stream(gateway, *fields, path='/mcp'):
    async with connect(gateway.port) as wire:
        await wire.send(request(path, *EVENTS, *fields))
        assert (await wire.head()).status == 200
        yield wire


@run
async def test_a_session_has_a_limit_of_its_own_and_holds_no_other_permit():
    async with tools() as (gateway, streams, _):
        async with stream(gateway, 'X-Tenant: a'), stream(gateway, 'X-Tenant: a'), stream(gateway, 'X-Tenant: b'):
            await gateway.until('a', 'streams', active=2)
            await gateway.until('b', 'streams', active=1)
            assert (await gateway.counts('all', 'calls'))['active'] == 0
            for method in ('POST', 'DELETE', 'GET'):  # no GET for an event stream
                assert (await ask(gateway.port, request('/mcp/plain', 'X-Tenant: a', method=method))).status == 200
            refused = await ask(gateway.port, request('/mcp', *EVENTS, 'X-Tenant: a'))
            assert refused.status == 429
            assert json.loads(refused.body)['gate'] == 'streams'
        for key in ('a', 'b'):  # the clients have gone
            await gateway.until(key, 'streams', active=0)
        async with stream(gateway, 'X-Tenant: a'):
            await gateway.until('a', 'streams', active=1)


@run
async def test_without_a_gate_sessions_pass():
    async with tools('sessions: {}') as (gateway, streams, _), stream(gateway), stream(gateway), stream(gateway):
        await until(lambda: len(streams.open) == 3, 'three streams')
        assert (await gateway.counts('all', 'calls'))['active'] == 0
        assert (await ask(gateway.port, request('/mcp', method='POST'))).status == 200


@run
async def test_without_sessions_a_stream_holds_the_permit_of_its_route():
    async with tools('') as (gateway, _, _), stream(gateway):
        await gateway.until('all', 'calls', active=1)
        assert (await ask(gateway.port, request('/mcp', method='POST'))).status == 429


@run
async def test_a_quiet_session_outlives_the_idle_time_of_its_upstream():
    async with tools(upstream_more=', timeouts: { idle: 50ms }') as (gateway, streams, _), stream(gateway, 'X-Tenant: a') as session:
        await until(lambda: streams.open, 'the session')
        server_side = streams.open[0]
        for _ in range(3):  # a stream that is no session is cut each time
            async with stream(gateway, path='/cut') as other:
                await other.ended()
        assert streams.open == [server_side]
        await server_side.send('data: still there\n\n')
        assert await session.exactly(len('data: still there\n\n')) == b'data: still there\n\n'
        assert (await gateway.counts('a', 'streams'))['active'] == 1


@run
async def test_what_answers_a_session_at_once_is_no_session():
    """A server without streams says 405; the connection and the permit are free again."""
    async def serve(wire, message):
        await wire.send(reply(b'no streams', 'Allow: POST', status='405 Method Not Allowed'))
    async with upstream(serve) as server, weir(f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams: {{ tools: {{ url: "{server.url}" }} }}
gates: {{ streams: {{ limit: 1, line: {{ timeout: 1ms }} }} }}
routes: [ {{ match: /mcp, upstream: tools, sessions: {{ gate: streams }} }} ]
''') as gateway, connect(gateway.port) as wire:
        for _ in range(3):
            await wire.send(request('/mcp', *EVENTS))
            assert (await wire.message()).status == 405
        await gateway.until('all', 'streams', active=0)
