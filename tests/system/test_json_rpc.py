"""Bodies that say where a request stands: keys out of JSON, and JSON-RPC, of which only requests need a permit."""
import asyncio
import contextlib
import json

import pytest
from raw import ask, connect, reply, request, run, upstream
from weir import weir


def call(name='echo', ident=1, method='tools/call', **more):
    return {'jsonrpc': '2.0', 'method': method, 'params': {'name': name, **more}, 'id': ident}


NOTIFICATION = {'jsonrpc': '2.0', 'method': 'tools/call', 'params': {'name': 'x'}}
RESPONSE = {'jsonrpc': '2.0', 'id': 7, 'result': {'method': 'tools/call'}}


def post(message, *fields, path='/mcp', method='POST'):
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    return request(path, f'Content-Length: {len(body)}', *fields, method=method, body=body)


class Tools:
    """An upstream that answers calls of `hold` when it is told to, and everything else at once."""

    def __init__(self):
        self.door = asyncio.Event()
        self.bodies = []

    async def serve(self, wire, message):
        self.bodies.append(message.body)
        if b'"hold"' in message.body:
            await self.door.wait()
        await wire.send(reply(message.body))


@contextlib.asynccontextmanager
async def tools(route='json_rpc: true, key: "json:params.name"', gate='limit: 1, line: { timeout: 1ms }', top=''):
    held = Tools()
    async with upstream(held.serve) as server, weir(f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
grace: 5s
{top}
upstreams: {{ tools: {{ url: "{server.url}" }} }}
gates: {{ tools: {{ {gate} }} }}
routes: [ {{ match: /mcp, upstream: tools, gate: tools, {route} }} ]
''') as gateway:
        yield gateway, held
        held.door.set()


@contextlib.asynccontextmanager
async def holding(gateway, key='hold', message=None):
    """A call of the tool that holds the permit of its key."""
    async with connect(gateway.port) as wire:
        await wire.send(post(message or call('hold')))
        await gateway.until(key, 'tools', active=1)
        yield wire


@run
async def test_each_tool_has_a_line_of_its_own():
    async with tools() as (gateway, held), holding(gateway) as holder:
        assert (await ask(gateway.port, post(call('echo')))).status == 200
        assert (await ask(gateway.port, post(call('hold', 2)))).status == 429
        held.door.set()
        assert json.loads((await holder.message()).body) == call('hold')


@run
async def test_only_requests_need_a_permit():
    """At limit 1 a tool call that waits for its client's response would never end else."""
    async with tools(route='json_rpc: true') as (gateway, _), holding(gateway, 'all'):
        for message in (NOTIFICATION, RESPONSE, RESPONSE | {'result': None}, {'id': 1, 'error': {}}, {},
                        call(method='initialize'), call(method='ping'), call(method='notifications/x', ident=3),
                        [RESPONSE, call(method='ping')]):
            said = await ask(gateway.port, post(message))
            assert said.status == 200, message
            assert json.loads(said.body) == message
        for message in (call(), call(method='pings'), call(method='tools/list'), call(ident=None), call(method=1),
                        [RESPONSE, call()], [1], b'method=initialize', b'"ping"', b'[]', b'{"method":"ping","id":1'):
            assert (await ask(gateway.port, post(message))).status == 429, message
        for method in ('GET', 'DELETE'):
            assert (await ask(gateway.port, request('/mcp', method=method))).status == 200


@run
async def test_which_methods_need_no_permit_can_be_chosen():
    async with tools(route='json_rpc: true, ungated: ["tools/*", "a*z"]') as (gateway, _), \
            holding(gateway, 'all', call('hold', method='other')):
        for method in ('tools/call', 'tools/', 'az', 'abcz'):
            assert (await ask(gateway.port, post(call(method=method)))).status == 200
        for method in ('ping', 'initialize', 'tools', 'abc'):
            assert (await ask(gateway.port, post(call(method=method)))).status == 429
    async with tools(route='json_rpc: true, ungated: []') as (gateway, _), holding(gateway, 'all'):
        assert (await ask(gateway.port, post(call(method='ping')))).status == 429


@pytest.mark.parametrize('ident', [1, -2.5, 'a "quoted" \u00e9', None])
@run
async def test_a_refusal_is_an_error_with_the_id_of_the_request(ident):
    async with tools() as (gateway, _), holding(gateway):
        said = await ask(gateway.port, post(call('hold', ident)))
        assert said.status == 429
        assert said.one('retry-after') is not None
        assert said.one('content-type') == 'application/json'
        body = json.loads(said.body)
        assert (body['jsonrpc'], body['id']) == ('2.0', ident)
        assert body['error']['code'] == -32050
        assert body['error']['message'] == body['error']['data']['detail']
        assert body['error']['data']['type'] == 'urn:weir:line-timeout'
        assert body['error']['data']['key'] == 'hold'


@run
async def test_other_refusals_of_a_json_rpc_route():
    route = 'json_rpc: true, key: "json:params.name", max_body: 100000B'
    async with tools(route=route) as (gateway, _):
        for message, status, ident, code in (
                (call('n' * 256, 8), 400, 8, -32600),  # no key has so many bytes
                ([call()] * 1001, 400, None, -32600),
                (call(ident='i' * 300, name='n' * 256), 400, None, -32600)):  # nor is such an id kept
            said = await ask(gateway.port, post(message))
            assert said.status == status
            body = json.loads(said.body)
            assert (body['id'], body['error']['code']) == (ident, code)
        said = await ask(gateway.port, request('/mcp', 'Content-Length: 100001', method='POST'))
        assert (said.status, json.loads(said.body)['id']) == (413, None)
        said = await ask(gateway.port, request('/mcp', 'Upgrade: websocket', 'Connection: upgrade',
                                               'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: dGVzdHRlc3R0ZXN0dGVzdA=='))
        assert (said.status, json.loads(said.body)['type']) == (400, 'urn:weir:bad-request')  # there is no request


@run
async def test_a_key_without_a_value_is_the_default_key():
    async with tools(route='json_rpc: true, key: "json:params.name", default_key: others') as (gateway, _), \
            holding(gateway, 'others', {'id': 1, 'method': 'hold', 'params': {'text': 'hold'}}):
        for message in (call(method='tools/list', name=''), call(name=None), call(name={}), call(name=[1]),
                        {'id': 1, 'method': 'x'}, {'id': 1, 'method': 'x', 'params': ['echo']}, b'{'):
            said = await ask(gateway.port, post(message))
            assert said.status == 429
            assert json.loads(said.body)['error']['data']['key'] == 'others'
        assert (await ask(gateway.port, post(call('echo')))).status == 200


@run
async def test_a_batch_has_the_key_of_its_first_message_and_costs_its_length():
    async with tools(gate='limit: 1, line: { timeout: 60s }') as (gateway, held), holding(gateway), \
            connect(gateway.port) as waiting:
        await waiting.send(post([call('hold', 1), call('echo', 2), NOTIFICATION]))
        await gateway.until('hold', 'tools', waiting=1)
        _, line = await gateway.ask_api('/gates/tools/hold/line')
        assert [entry['cost'] for entry in line['line']] == [3]
        held.door.set()
        assert (await waiting.message()).status == 200


@pytest.mark.parametrize('size', [100, 20_000, 70_000, 900_000, 3_000_000])
@run
async def test_a_body_of_any_length_and_form_is_read(size):
    """The name stands behind what is long, and arrives last."""
    async with tools() as (gateway, held), holding(gateway):
        message = {'id': 5, 'method': 'tools/call', 'params': {'arguments': {'text': 'x' * size}, 'name': 'hold'}}
        body = json.dumps(message).encode()
        chunks = b''.join(b'%x;ext=1\r\n%s\r\n' % (len(part), part) for part in (body[:17], body[17:-9], body[-9:]))
        chunked = request('/mcp', 'Transfer-Encoding: chunked', method='POST', body=chunks + b'0\r\nX-Trailer: x\r\n\r\n')
        for whole in (post(message), chunked):
            async with connect(gateway.port) as wire:
                await wire.send(whole[:-5])
                await wire.send(whole[-5:])
                said = await wire.message()
                assert (said.status, json.loads(said.body)['id']) == (429, 5)
        response = {'result': {'content': 'x' * size}, 'jsonrpc': '2.0', 'id': 1}  # of a client, to the tool
        assert (await ask(gateway.port, post(response))).status == 200
        message['params']['name'] = 'echo'
        said = await ask(gateway.port, post(message))
        assert said.status == 200
        assert json.loads(held.bodies[-1]) == message


@run
async def test_a_client_that_waits_for_a_100_is_told_to_send():
    async with tools() as (gateway, _), connect(gateway.port) as wire:
        whole = post(call(), 'Expect: 100-continue')
        head, _, body = whole.partition(b'\r\n\r\n')
        await wire.send(head + b'\r\n\r\n')
        assert (await wire.head()).status == 100
        await wire.send(body)
        assert (await wire.message()).status == 200


@run
async def test_a_client_that_leaves_in_line_or_while_it_sends_leaves_nothing_behind():
    async with tools(gate='limit: 1, line: { timeout: 60s }') as (gateway, held), holding(gateway):
        async with connect(gateway.port) as wire:
            await wire.send(post(call('hold'))[:-3])
        async with connect(gateway.port) as wire:
            await wire.send(post(call('hold')))
            await gateway.until('hold', 'tools', waiting=1)
        await gateway.until('hold', 'tools', waiting=0)
        held.door.set()
        await gateway.until('hold', 'tools', active=0)


@run
async def test_any_json_names_a_key_without_json_rpc():
    """There everything needs a permit, and refusals are problem documents."""
    route = 'key: "{tenant}:{json:user.tiers.0}", tenant: header:X-Tenant'
    acme = 'X-Tenant: acme'
    async with tools(route=route) as (gateway, _), connect(gateway.port) as wire:
        await wire.send(post({'user': {'tiers': ['hold', 'x']}}, acme))
        await gateway.until('acme:hold', 'tools', active=1)
        said = await ask(gateway.port, post({'user': {'tiers': ['hold']}}, acme))
        assert (said.status, said.one('content-type')) == (429, 'application/problem+json')
        assert json.loads(said.body)['key'] == 'acme:hold'
        for message in ({'user': {'tiers': ['y', 'x']}}, {}, b'no json', b''):
            assert (await ask(gateway.port, post(message, acme))).status == 200
        assert (await ask(gateway.port, request('/mcp', acme))).status == 200
        await gateway.until('acme:default', 'tools', active=0)
        status, _ = await gateway.ask_api('/gates/tools/acme:y')
        assert status == 200
