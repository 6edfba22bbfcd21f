"""Routes to LLMs when somebody misbehaves: clients that go, providers that say odd things at odd times, and memory that
runs out. Whatever happens has a defined answer, and nothing stays held."""
import asyncio
import json

import pytest
from raw import ask, connect, open_narrow_wire, reply, request, run, upstream
from test_edges import LONG_HINTS, queued
from test_llm import CHAT, JSON, chat, chunked, completion, llm, post, quiet, refusal, turns
from weir import sleeps, until, until_still


# ---- keys

@pytest.mark.parametrize('key', ['x-{model}-{tenant}', '{model}-{tenant}', '{tenant}-{model}', 'x-{tenant}'])
@run
async def test_a_key_that_is_too_long_without_its_model_is_refused(key):
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        await gateway.reload(('key: "{model}"', f'key: "{key}"'))
        said = await ask(gateway.port, post(chat(), f'X-Tenant: {"t" * 255}'), 'POST')
        problem = json.loads(said.body)
        assert (said.status, problem['type']) == (400, 'urn:weir:bad-request')
        assert (await ask(gateway.port, post(chat(), 'X-Tenant: t'), 'POST')).status == 200
        assert len(server.seen) == 1


# ---- refusals that are judged before the client sees them

def slowly(text, held, go_on):
    """Says the text but for its last bytes, and those once it may."""
    async def answer(wire):
        await wire.send(text[:-held])
        await go_on.wait()
        await wire.send(text[-held:])
    return answer


@run
async def test_what_a_client_sends_while_a_refusal_is_judged_does_not_bring_the_refusal_out():
    go_on = asyncio.Event()
    text = refusal('429 Too Many Requests', 'retry-after-ms: 5')
    async with upstream(turns(slowly(text, 20, go_on), reply(completion(), JSON))) as server, \
            llm(server) as gateway, connect(gateway.port) as wire:
        first, second = post(chat(text='first')), post(chat(text='second'))
        await wire.send(first)
        await until(lambda: len(server.seen) == 1, 'the first attempt')
        await until_still(gateway.process.pid)
        await wire.send(second[:50])  # the client's connection has news
        await until_still(gateway.process.pid)
        go_on.set()
        assert (await wire.message('POST')).body == completion()
        await wire.send(second[50:])
        assert (await wire.message('POST')).body == completion()
        assert [json.loads(message.body)['messages'][0]['content'] for message in server.seen] == [
            'first', 'first', 'second']
        await quiet(gateway)


@run
async def test_an_interim_reply_that_is_cut_is_not_followed_by_another_attempt():
    sent = 0

    async def stands_still():
        """Waits until all that was sent is on its way to the client, or has come. Or else, whether it stays."""
        port = wire.writer.get_extra_info('sockname')[1]
        asleep = 0
        while sent > queued(gateway.port, port)[0] + queued(port, gateway.port)[1] + len(wire.reader._buffer):
            asleep = asleep + 1 if sleeps(gateway.process.pid) else 0
            if asleep == 5:
                return True
            await asyncio.sleep(0.005)
        return False

    async def refuse(upstream_wire):
        nonlocal sent
        while not await stands_still():
            await upstream_wire.send(LONG_HINTS)
            sent += len(LONG_HINTS)
        # The gateway has a part of the last one.
        await upstream_wire.send(refusal('429 Too Many Requests', 'retry-after-ms: 5'))
    async with upstream(turns(refuse, reply(completion(), JSON))) as server, llm(server) as gateway:
        wire = await open_narrow_wire(gateway.port)
        await wire.send(post(chat()))
        await gateway.until('gpt-4o', 'llm', entered=1, active=0)
        for _ in range(sent // len(LONG_HINTS)):
            assert await wire.exactly(len(LONG_HINTS)) == LONG_HINTS
        assert (await wire.message('POST')).status == 429
        assert len(server.seen) == 1
        wire.close()


@pytest.mark.parametrize('route, status', [('', 200), ('retries: 0', 504)])
@run
async def test_a_refusal_whose_body_does_not_come_is_judged_by_its_head(route, status):
    never = asyncio.Event()
    text = refusal('429 Too Many Requests', 'retry-after-ms: 5')
    async with upstream(turns(slowly(text, 20, never), reply(completion(), JSON))) as server, \
            llm(server, route=route, more='timeouts: { first_byte: 100ms }') as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert said.status == status
        assert len(server.seen) == (2 if status == 200 else 1)
        await quiet(gateway)


@pytest.mark.parametrize('limit', ['deadline: 300ms', 'retries: 2'])
@run
async def test_a_refusal_that_comes_byte_by_byte_has_no_more_time_than_another_reply(limit):
    """Its route has a deadline, or its upstream a timeout, which is not begun anew with each byte."""
    async def trickle(wire, message):
        await wire.send(b'HTTP/1.1 429 Too Many Requests\r\nContent-Length: 10000\r\nretry-after: 3600\r\n\r\n')
        while True:
            await wire.send(b' ')
            await asyncio.sleep(0.05)
    first_byte = '300ms' if limit == 'retries: 2' else '60s'
    async with upstream(trickle) as server, \
            llm(server, route=limit, more=f'timeouts: {{ first_byte: {first_byte} }}') as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert (said.status, json.loads(said.body)['type']) == (504, 'urn:weir:upstream-timeout')
        lane = (await gateway.counts('gpt-4o', 'llm'))['lanes'][0]
        assert lane['paused_ms'] > 0  # the head has been heard
        await quiet(gateway)


@pytest.mark.parametrize('route, status', [('', 200), ('retries: 0', 502)])
@run
async def test_a_refusal_that_is_cut_is_tried_again_or_answered(route, status):
    async def cut(wire):
        await wire.send(refusal('429 Too Many Requests', 'retry-after-ms: 5')[:-5])
        wire.close()
    async with upstream(turns(cut, reply(completion(), JSON))) as server, llm(server, route=route) as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert said.status == status
        if status == 502:
            assert json.loads(said.body)['type'] == 'urn:weir:upstream-unreachable'
        await quiet(gateway)


@run
async def test_a_refusal_that_ends_with_its_connection_does_not_end_the_clients():
    async def refuse(wire):
        await wire.send(b'HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nretry-after-ms: 5\r\n\r\n{}')
        wire.close()
    async with upstream(turns(refuse, reply(completion(), JSON))) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):
                await wire.send(post(chat()))
                said = await wire.message('POST')
                assert (said.status, said.one('connection')) == (200, 'keep-alive')
        assert len(server.seen) == 3


# ---- bodies

@pytest.mark.parametrize('framing', ['length', 'chunks'])
@run
async def test_what_follows_a_body_leaves_room_for_changes_in_it(framing):
    """Two of the longest bodies that are held, one behind the other: both are for an upstream that knows the model by a
    longer name."""
    empty = len(json.dumps(chat(text='', stream=True)))
    body = json.dumps(chat(text='x' * ((1 << 20) - empty), stream=True)).encode()
    one = post(body) if framing == 'length' else request(
        CHAT, JSON, 'Transfer-Encoding: chunked', method='POST') + chunked(body) + b'0\r\n\r\n'
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, more=f'models: {{ gpt-4o: {"m" * 255} }}') as gateway, connect(gateway.port) as wire:
        await wire.send(one, one)
        for _ in range(2):
            assert (await wire.message('POST')).status == 200
        for message in server.seen:
            assert json.loads(message.body) == {**json.loads(body), 'model': 'm' * 255,
                                                'stream_options': {'include_usage': True}}


@run
async def test_a_length_that_is_only_claimed_costs_nobody_else_anything():
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, gate='line: { timeout: 5s }') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request(CHAT, JSON, f'Content-Length: {2 ** 62}', 'X-Tenant: a', method='POST'), b'{')
            # No model reads more than that, and 128 tokens of output are expected.
            await gateway.until('default', 'llm', active=1, reserved=2 ** 20 + 128)
        await quiet(gateway, 'default')
        for _ in range(5):
            assert (await ask(gateway.port, post(b'no JSON', 'X-Tenant: b'), 'POST')).status == 200
        await quiet(gateway, 'default')


@run
async def test_an_encoding_that_the_upstream_is_to_be_asked_for_is_asked_for_once():
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        await gateway.reload(('headers: {', 'headers: { Accept-Encoding: br,'))
        await ask(gateway.port, post(chat(), 'Accept-Encoding: gzip'), 'POST')
        assert server.seen[0].all('accept-encoding') == ['br']


# ---- the program ends

@run
async def test_a_client_whose_body_is_still_read_when_the_grace_is_over_is_told_so():
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        await gateway.reload(('grace: 5s', 'grace: 100ms'))
        async with connect(gateway.port) as wire:
            await wire.send(post(chat())[:-1])
            await until_still(gateway.process.pid)
            gateway.terminate()
            said = await wire.message('POST')
            assert (said.status, json.loads(said.body)['type']) == (503, 'urn:weir:draining')
        assert server.seen == []
