"""Routes of one path that differ by their methods."""
import contextlib
import json

from raw import ask, connect, reply, request, run, upstream
from weir import weir


@contextlib.asynccontextmanager
async def two_upstreams():
    async with upstream() as reader, upstream() as writer:
        async with weir(f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams: {{ reader: {{ url: "{reader.url}" }}, writer: {{ url: "{writer.url}" }} }}
gates: {{ tools: {{ limit: 1, line: {{ timeout: 1ms }} }} }}
routes:
  - {{ match: /, upstream: reader }}
  - {{ match: /mcp, methods: [POST], gate: tools, upstream: writer }}
  - {{ match: /mcp, methods: [GET, DELETE], upstream: reader }}
  - {{ match: '/any/{{x}}', methods: PUT, upstream: writer }}
  - {{ match: '/any/{{y}}', upstream: reader }}
''') as gateway:
            yield gateway, reader, writer


def starts(server):
    return [seen.start.rsplit(' ', 1)[0] for seen in server.seen]


@run
async def test_the_method_chooses_among_the_routes_of_a_path():
    async with two_upstreams() as (gateway, reader, writer):
        for method, path in (('POST', '/mcp'), ('GET', '/mcp'), ('DELETE', '/mcp/x'), ('PUT', '/any/1'),
                             ('GET', '/any/2'), ('PROPFIND', '/any/3')):
            assert (await ask(gateway.port, request(path, method=method))).status == 200
        assert starts(writer) == ['POST /mcp', 'PUT /any/1']
        assert starts(reader) == ['GET /mcp', 'DELETE /mcp/x', 'GET /any/2', 'PROPFIND /any/3']


@run
async def test_a_method_that_no_route_of_the_path_takes_is_refused():
    """The path decides first: a less specific route does not get the request."""
    async with two_upstreams() as (gateway, reader, writer), connect(gateway.port) as wire:
        for method in ('PUT', 'PROPFIND', 'HEAD'):
            await wire.send(request('/mcp', method=method))
            said = await wire.message(method)
            assert (said.status, said.one('allow')) == (405, 'GET, POST, DELETE')
            if method != 'HEAD':
                assert json.loads(said.body)['type'] == 'urn:weir:bad-request'
        await wire.send(request('/mcp'))  # on the same connection
        assert (await wire.message()).status == 200
        assert (starts(reader), starts(writer)) == (['GET /mcp'], [])


@run
async def test_a_long_reply_to_one_method_does_not_hold_the_permit_of_another():
    async def serve(wire, message):
        await wire.send('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: hello\n\n')
        await wire.rest()
    async with upstream(serve) as reader, upstream(reply()) as writer:
        async with weir(f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams: {{ reader: {{ url: "{reader.url}" }}, writer: {{ url: "{writer.url}" }} }}
gates: {{ tools: {{ limit: 1, line: {{ timeout: 1ms }} }} }}
routes:
  - {{ match: /mcp, gate: tools, methods: [POST], upstream: writer }}
  - {{ match: /mcp, upstream: reader }}
''') as gateway, connect(gateway.port) as stream:
            await stream.send(request('/mcp', 'Accept: text/event-stream'))
            assert (await stream.head()).status == 200
            assert (await ask(gateway.port, request('/mcp', 'Content-Length: 2', method='POST', body=b'{}'))).status == 200
