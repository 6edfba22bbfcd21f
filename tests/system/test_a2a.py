"""Agents that speak A2A behind Weir, and clients in front of it: both of the SDK for JavaScript, in both versions."""
import asyncio
import contextlib
import json

import aiohttp
import pytest
from a2a_agents import agent, client, relay
from aiohttp import web
from raw import run
from test_clients import serving
from weir import until, weir

both = pytest.mark.parametrize('version', ['0.3', '1'])
TASK = 'task'


@contextlib.asynccontextmanager
async def behind_weir(upstream, limit=1, lease='60s', route='', timeout='60s', more_routes='', more_upstreams=''):
    """The gateway, and the address that clients know: that of what stands in front of it."""
    async with relay() as front:
        config = f'''
listen: {{ address: "127.0.0.1:0", public_url: "{front.url}" }}
api: 127.0.0.1:0
threads: 2
grace: 5s
upstreams: {{ planner: {{ url: "{upstream}" }}{more_upstreams} }}
gates: {{ agents: {{ limit: {limit}, line: {{ timeout: {timeout} }} }} }}
routes:
  - {{ match: "/agents/{{agent}}/", strip: "/agents/{{agent}}", key: "{{agent}}", gate: agents, upstream: planner,
      a2a: true, task_lease: {lease}{route} }}
{more_routes}
'''
        async with weir(config) as gateway:
            front.to = gateway.port
            gateway.front = front.url
            gateway.agent = f'{front.url}/agents/planner/'
            yield gateway


@contextlib.asynccontextmanager
async def agents(version, **more):
    async with agent(version) as planner, behind_weir(planner.url, **more) as gateway:
        yield planner, gateway


async def counts(gateway, **expected):
    await gateway.until('planner', 'agents', **expected)


# ---- cards

@run
@both
async def test_a_card_leads_to_weir_and_needs_no_permit(version):
    async with agents(version) as (planner, gateway), client(version, gateway.agent) as one:
        call = await one.begin('send', text='work')
        task = await planner.began()
        await counts(gateway, active=1)
        async with aiohttp.ClientSession() as session:
            async with session.get(gateway.agent + '.well-known/agent-card.json',
                                   headers={'Range': 'bytes=0-9'}) as reply:
                assert reply.status == 200
                assert 'ETag' not in reply.headers
                text = await reply.text()
        card = json.loads(text)
        assert planner.url not in text
        assert 'GRPC' not in text
        assert 'signatures' not in card
        assert card['name'] == 'planner'
        rpc, rest = gateway.agent + 'rpc', gateway.agent + 'rest'
        if version == '1':
            assert [way['url'] for way in card['supportedInterfaces']] == [rpc, rest]
        else:
            assert card['url'] == rpc
            assert [way['url'] for way in card['additionalInterfaces']] == [rpc, rest]
        await planner.finish(task)
        assert await one.next(call) == [TASK, task, 'completed']
        assert 'direct' not in await planner.ways()
        await until(lambda: 'signatures dropped' in gateway.complaints(), 'the log has it')


@run
@both
async def test_an_extended_card_is_rewritten_as_well(version):
    async with agents(version) as (planner, gateway), aiohttp.ClientSession() as session:
        method = 'GetExtendedAgentCard' if version == '1' else 'agent/getAuthenticatedExtendedCard'
        asked = {'jsonrpc': '2.0', 'id': 'x', 'method': method, 'params': {}}
        async with session.post(gateway.agent + 'rpc', json=asked, headers={'A2A-Version': '1.0'}) as reply:
            text = await reply.text()
        assert json.loads(text)['id'] == 'x'
        assert planner.url not in text
        assert 'signatures' not in text
        assert gateway.agent + 'rpc' in text


# ---- messages and tasks

@run
@both
async def test_a_message_stands_in_line_and_its_permit_goes_back_with_the_reply(version):
    async with agents(version) as (planner, gateway), client(version, gateway.agent) as one:
        assert await one.do('send', text='say') == ['message', None, None]
        await counts(gateway, active=0)
        first = await one.begin('send', text='work')
        task = await planner.began()
        second = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        await planner.finish(task)
        assert await one.next(first) == [TASK, task, 'completed']
        assert (await one.next(second))[0] == 'message'
        await counts(gateway, active=0, waiting=0)


@run
@both
async def test_a_task_that_goes_on_keeps_its_permit_until_it_is_seen_to_have_ended(version):
    async with agents(version) as (planner, gateway), client(version, gateway.agent) as one:
        _, task, state = await one.do('send', text='work', blocking=False)
        assert (task, state) == (await planner.began(), 'working')
        waiting = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        assert await one.do('get', task=task) == [TASK, task, 'working']  # which does not wait behind it
        await counts(gateway, active=1, waiting=1)
        await planner.finish(task)

        async def completed():
            return await one.do('get', task=task) == [TASK, task, 'completed']
        await until(completed, 'the task has ended')
        assert (await one.next(waiting))[0] == 'message'
        await counts(gateway, active=0, waiting=0)


@run
async def test_a_task_is_listed_as_a_holder_and_can_be_ended_there():
    async with agents('1') as (planner, gateway), client('1', gateway.agent) as one:
        _, task, _ = await one.do('send', text='work', blocking=False)
        await planner.began()
        await counts(gateway, active=1)
        _, page = await gateway.ask_api('/gates/agents/planner/holders')
        holder, = page['holders']
        assert (holder['kind'], holder['name'], holder['from']) == ('task', f'task:{task}', '127.0.0.1')
        assert 0 < holder['lease_left_ms'] <= 60_000
        watching = await one.begin('subscribe', task=task)
        await one.next(watching)
        _, page = await gateway.ask_api('/gates/agents/planner/holders')
        assert page['holders'][0]['lease_left_ms'] is None
        waiting = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        async with aiohttp.ClientSession(gateway.api) as session:
            async with session.post(f'/gates/agents/planner/holders/{holder["handle"]}/end') as reply:
                assert reply.status == 200
        assert (await one.next(waiting))[0] == 'message'
        await planner.finish(task)
        assert (await one.next(watching))[1:] == [task, 'completed']  # its stream goes on
        await counts(gateway, active=0, waiting=0)


@run
@both
async def test_a_task_is_cancelled_while_another_message_waits_for_its_permit(version):
    async with agents(version) as (planner, gateway), client(version, gateway.agent) as one:
        _, task, _ = await one.do('send', text='work', blocking=False)
        await planner.began()
        waiting = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        assert await one.do('cancel', task=task) == [TASK, task, 'canceled']
        assert (await one.next(waiting))[0] == 'message'
        await counts(gateway, active=0, waiting=0)


@run
@both
async def test_a_stream_holds_its_permit_and_its_task_keeps_it_when_the_client_has_gone(version):
    async with agents(version) as (planner, gateway), client(version, gateway.agent) as one:
        stream = await one.begin('stream', text='work')
        kind, task, state = await one.next(stream)
        assert (kind, state) == (TASK, 'working')
        await planner.began()
        await counts(gateway, active=1)
        await one.abort(stream)
        assert (await one.next(stream))[0] == 'wrong'
        waiting = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        watching = await one.begin('subscribe', task=task)
        assert (await one.next(watching))[1:] == [task, 'working']
        await planner.finish(task)
        assert (await one.next(watching))[1:] == [task, 'completed']
        assert await one.next(watching) == 'end'
        assert (await one.next(waiting))[0] == 'message'
        await counts(gateway, active=0, waiting=0)


@run
@both
async def test_a_stream_that_comes_to_its_end_gives_its_permit_back(version):
    async with agents(version) as (planner, gateway), client(version, gateway.agent) as one:
        stream = await one.begin('stream', text='work')
        _, task, _ = await one.next(stream)
        await planner.finish(await planner.began())
        assert await one.next(stream) == ['status-update', task, 'completed']
        assert await one.next(stream) == 'end'
        await counts(gateway, active=0, waiting=0)


@run
@both
async def test_a_task_nobody_asks_about_frees_its_permit_after_its_lease(version):
    async with agents(version, lease='300ms') as (planner, gateway), client(version, gateway.agent) as one:
        _, task, _ = await one.do('send', text='work', blocking=False)
        await planner.began()
        waiting = await one.begin('send', text='say')
        assert (await one.next(waiting))[0] == 'message'
        await counts(gateway, active=0, waiting=0)
        watching = await one.begin('subscribe', task=task)  # it goes on, without a permit
        assert (await one.next(watching))[1:] == [task, 'working']


@run
@both
async def test_a_task_that_is_watched_needs_no_lease(version):
    async with agents(version, lease='300ms') as (planner, gateway), client(version, gateway.agent) as one:
        _, task, _ = await one.do('send', text='work', blocking=False)
        watching = await one.begin('subscribe', task=task)
        assert (await one.next(watching))[1:] == [task, 'working']
        await planner.began()
        waiting = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        await asyncio.sleep(0.6)  # what is to be seen is that nothing happens
        await counts(gateway, active=1, waiting=1)
        await one.abort(watching)
        assert (await one.next(waiting))[0] == 'message'


@run
@both
async def test_a_message_whose_client_has_gone_before_the_reply_keeps_its_permit_for_the_lease(version):
    async with agents(version, lease='300ms') as (planner, gateway), client(version, gateway.agent) as one:
        call = await one.begin('send', text='silent')
        await planner.began()
        await one.abort(call)
        assert (await one.next(call))[0] == 'wrong'
        waiting = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        assert (await one.next(waiting))[0] == 'message'
        await counts(gateway, active=0, waiting=0)


@run
@both
async def test_a_message_for_a_task_goes_on_the_permit_of_that(version):
    async with agents(version) as (planner, gateway), client(version, gateway.agent) as one:
        _, task, state = await one.do('send', text='ask')
        assert state == 'input-required'
        waiting = await one.begin('send', text='say')
        await counts(gateway, active=1, waiting=1)
        answer = await one.begin('send', text='work', task=task)
        assert await planner.began() == task
        await counts(gateway, active=1, waiting=1)
        second = await one.begin('send', text='work', task=task)  # one at a time
        await counts(gateway, active=1, waiting=2)
        await one.abort(second)
        await counts(gateway, active=1, waiting=1)
        await planner.finish(task)
        assert await one.next(answer) == [TASK, task, 'completed']
        assert (await one.next(waiting))[0] == 'message'
        await counts(gateway, active=0, waiting=0)


@run
@both
async def test_a_refusal_is_an_error_of_json_rpc(version):
    async with agents(version, timeout='100ms') as (planner, gateway), client(version, gateway.agent) as one:
        _, task, _ = await one.do('send', text='work', blocking=False)
        await planner.began()
        for do in ('send', 'stream'):
            _, wrong = await one.do(do, text='say')
            assert 'its turn did not come' in wrong
        async with aiohttp.ClientSession() as session:
            asked = {'jsonrpc': '2.0', 'id': 'x', 'method': 'message/send', 'params': {}}
            async with session.post(gateway.agent + 'rpc', json=asked) as reply:
                assert (reply.status, reply.content_type) == (429, 'application/json')
                assert int(reply.headers['Retry-After']) > 0
                said = await reply.json()
            assert (said['jsonrpc'], said['id'], said['error']['code']) == ('2.0', 'x', -32050)
            assert said['error']['message'] == said['error']['data']['detail']
            assert said['error']['data']['type'] == 'urn:weir:line-timeout'
            async with session.post(gateway.agent + 'rest/message:send', json={'message': {}}) as reply:
                assert (reply.status, reply.content_type) == (429, 'application/problem+json')


@run
async def test_http_json_is_gated_as_json_rpc_is():
    async with agents('1') as (planner, gateway), client('1', gateway.agent, 'HTTP+JSON') as one:
        _, task, _ = await one.do('send', text='work', blocking=False)
        assert task == await planner.began()
        waiting = await one.begin('stream', text='work')
        await counts(gateway, active=1, waiting=1)
        assert await one.do('get', task=task) == [TASK, task, 'working']
        assert await one.do('cancel', task=task) == [TASK, task, 'canceled']
        _, other, _ = await one.next(waiting)
        await planner.finish(await planner.began())
        assert (await one.next(waiting))[1:] == [other, 'completed']
        await counts(gateway, active=0, waiting=0)
        assert 'direct' not in await planner.ways()


@run
@both
async def test_a_push_notification_that_passes_weir_ends_the_permit(version):
    came = asyncio.Queue()

    async def receive(request):
        came.put_nowait(await request.json())
        return web.Response(status=204)
    app = web.Application()
    app.router.add_post('/hook', receive)
    async with serving(app) as hook, agent(version) as planner:
        route = '''  - { match: "/push/{agent}/", strip: "/push/{agent}", key: "{agent}", gate: agents, upstream: hook,
      a2a: true }'''
        async with behind_weir(planner.url, more_upstreams=f', hook: {{ url: "{hook}" }}',
                               more_routes=route) as gateway, client(version, gateway.agent) as one:
            push = f'{gateway.front}/push/planner/hook'
            _, task, _ = await one.do('send', text='work', blocking=False, push=push)
            await planner.began()
            waiting = await one.begin('send', text='say')
            await counts(gateway, active=1, waiting=1)
            await planner.finish(task)
            assert (await one.next(waiting))[0] == 'message'
            await counts(gateway, active=0, waiting=0)
            assert not came.empty()


# ---- agents that nobody's SDK made

class Bare:
    """An agent whose replies are what the test says."""

    def __init__(self):
        self.came = []
        self.card = lambda: web.json_response({'url': 'http://agent/'})
        self.reply = {'jsonrpc': '2.0', 'id': 1, 'result': {'kind': 'message'}}
        self.go = asyncio.Event()

    async def tell_card(self, request):
        self.came.append((request.method, 'card', dict(request.headers)))
        return self.card() if callable(self.card) else self.card

    async def answer(self, request):
        text = await request.text()
        self.came.append((request.method, request.path, text))
        if 'hold' in text:
            await self.go.wait()
        return web.json_response(self.reply)

    @contextlib.asynccontextmanager
    async def serve(self, **more):
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route('*', '/.well-known/agent-card.json', self.tell_card)
        app.router.add_route('*', '/{path:.*}', self.answer)
        async with serving(app) as url, behind_weir(url, **more) as gateway, aiohttp.ClientSession() as session:
            yield gateway, session


async def problem(reply, status, word):
    document = await reply.json(content_type=None)
    assert (reply.status, document['status']) == (status, status)
    assert word in document['detail']


@run
@pytest.mark.parametrize('card, word', [
    (web.Response(status=302, headers={'Location': 'http://agent/card'}), 'redirects'),
    (web.json_response({'url': 'http://agent:1/', 'preferredTransport': 'GRPC'}), 'names no address'),
    (web.json_response({}), 'names no address'),
    (web.Response(text='<html>'), 'no JSON'),
    (web.json_response({'url': 'http://agent/', 'more': 'x' * (256 << 10)}), 'longer than 256 KiB')],
    ids=['redirected', 'grpc', 'empty', 'html', 'long'])
async def test_a_card_that_cannot_be_rewritten_is_not_passed_on(card, word):
    bare = Bare()
    bare.card = card
    async with bare.serve() as (gateway, session):
        where = gateway.agent + '.well-known/agent-card.json'
        async with session.get(where, allow_redirects=False) as reply:
            await problem(reply, 502, word)
            assert 'Location' not in reply.headers


@run
async def test_a_card_comes_whole_whatever_is_asked_for():
    bare = Bare()
    bare.card = lambda: web.json_response({'url': 'http://agent/', 'more': 'x' * 200_000}, headers={
        'ETag': '"1"', 'Content-Digest': 'sha-256=:x:', 'X-More': 'y'})
    async with bare.serve() as (gateway, session):
        where = gateway.agent + '.well-known/agent-card.json'
        asked = {'If-None-Match': '"1"', 'Range': 'bytes=0-1', 'Accept-Encoding': 'gzip'}
        for _ in range(2):
            async with session.get(where, headers=asked) as reply:
                assert reply.status == 200
                assert (await reply.json())['url'] == gateway.agent
                assert 'ETag' not in reply.headers
                assert 'Content-Digest' not in reply.headers
                assert reply.headers['X-More'] == 'y'
        seen = {name.lower() for _, _, fields in bare.came for name in fields}
        assert not seen & {'if-none-match', 'range'}
        async with session.post(where, json={}) as reply:
            await problem(reply, 400, 'GET')
        async with session.head(where) as reply:
            assert reply.status == 200


@run
async def test_what_may_begin_work_stands_in_line_however_it_is_written():
    bare = Bare()
    async with bare.serve() as (gateway, session):
        async def post(path, body, **more):
            async with session.post(gateway.agent + path, data=body, **more) as reply:
                await reply.read()
        holds = asyncio.create_task(post('rpc', '{"method": "SendMessage", "id": 1, "hold": 1}'))
        await counts(gateway, active=1)
        bodies = ['{"method": "SendMessage", "id": 1}', '{"method": "unheard of", "id": 1}', '{"method": "tasks/get"',
                  '{"method": "tasks/get", "id": 1, "method": "message/send"}', 'text',
                  '{"method": "tasks/get", "id": 1} {}']
        paths = ['rpc', 'tasks/1:cancel', 'message:send']
        waiting = [asyncio.create_task(post(path, body)) for path in paths for body in bodies]
        waiting += [asyncio.create_task(post('message:send', '{"method": "tasks/get", "id": 1}'))]
        await counts(gateway, active=1, waiting=len(waiting))
        long = json.dumps({'method': 'tasks/get', 'id': 1, 'params': {'more': 'x' * 2_000_000}})
        for body in ('{"method": "tasks/get", "id": 1}\n', '{"method": "CancelTask", "id": 1}', long):
            for path in paths[:2]:
                await post(path, body)

        async def in_chunks():
            yield b'{"method": "tas'
            yield b'ks/get", "id": 1}'
        await post('rpc', in_chunks())
        await post('rpc', '{"method": "tasks/get", "id": 1}', expect100=True)
        async with session.options(gateway.agent + 'rpc') as reply:
            assert reply.status == 200
        async with session.post(gateway.agent + 'rpc', data='[{"method": "tasks/get", "id": 1}]') as reply:
            await problem(reply, 400, 'batches')
        await counts(gateway, active=1, waiting=len(waiting))
        bare.go.set()
        await asyncio.gather(holds, *waiting)
        await counts(gateway, active=0, waiting=0)


@run
async def test_tasks_of_one_key_are_not_those_of_another():
    bare = Bare()
    bare.reply = {'jsonrpc': '2.0', 'id': 1, 'result': {'kind': 'task', 'id': 't', 'status': {'state': 'working'}}}
    async with bare.serve() as (gateway, session):
        async def call(agent, method, state):
            bare.reply['result']['status']['state'] = state
            async with session.post(f'{gateway.front}/agents/{agent}/rpc', json={'method': method, 'id': 1}) as reply:
                assert reply.status == 200
        await call('planner', 'message/send', 'working')
        await call('other', 'message/send', 'working')
        await call('other', 'tasks/get', 'failed')
        await gateway.until('other', 'agents', active=0)
        await counts(gateway, active=1)
        await gateway.reload(('limit: 1', 'limit: 2'))  # a reload leaves tasks alone
        await counts(gateway, active=1)
        await call('planner', 'tasks/get', 'completed')
        await counts(gateway, active=0)
        await call('planner', 'message/send', 'working')  # and a shutdown gives back what is held
