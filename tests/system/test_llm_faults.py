"""Routes to LLMs when somebody misbehaves: clients that go, providers that say odd things at odd times, and memory that
runs out. Whatever happens has a defined answer, and nothing stays held."""
import asyncio
import contextlib
import json

import pytest
from raw import ask, connect, open_narrow_wire, reply, request, run, upstream
from storm_raw import INSTRUMENTED, descriptors, memory
from test_edges import LONG_HINTS, SLACK, stands_still
from test_llm import (CHAT, DONE, JSON, TEXTS, USAGE, chat, chunked, completion, llm, post, quiet, refusal,
                      shown, stream_head, streams, turns)
from weir import until, until_still


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

    async def refuse(upstream_wire):
        nonlocal sent
        while not await stands_still(gateway, wire, sent):
            await upstream_wire.send(LONG_HINTS)
            sent += len(LONG_HINTS)
        # The gateway has a part of the last one.
        await upstream_wire.send(refusal('429 Too Many Requests', 'retry-after-ms: 5'))
    async with upstream(turns(refuse, reply(completion(), JSON))) as server, llm(server) as gateway:
        wire = await open_narrow_wire(gateway.port)
        wire.writer.transport.pause_reading()
        await wire.send(post(chat()))
        await until(lambda: len(server.seen) == 1, 'the first attempt')
        await gateway.until('gpt-4o', 'llm', active=0)
        wire.writer.transport.resume_reading()
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
    async with upstream(reply(completion(), JSON)) as server, llm(server, route='max_body: none') as gateway:
        async with connect(gateway.port) as wire, connect(gateway.port) as other:
            await wire.send(request(CHAT, JSON, f'Content-Length: {2 ** 62}', method='POST'), b'{' * 20_000)
            assert (await wire.message('POST')).status == 503  # it would not find room in any file
            await other.send(request(CHAT, JSON, f'Content-Length: {3 << 30}', method='POST'), b'{' * 200_000)
            for _ in range(5):
                assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
            long = json.dumps(chat(text='x' * (2 << 20)))
            assert (await ask(gateway.port, post(long.encode()), 'POST')).status == 200
        await quiet(gateway)


@run
async def test_of_long_bodies_256_are_held_in_memory_at_once_and_others_in_files():
    go_on = asyncio.Event()
    body = json.dumps(chat(text='x' * 70000)).encode()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(completion(), JSON))

    async def held():
        return {key['key']: key['active'] + key['waiting'] for key in (await gateway.ask_api('/gates/llm'))[1]['keys']}
    async with upstream(serve) as server, llm(server, gate='limit: 1, line: { max: 1000 }') as gateway:
        before = memory(gateway.process.pid)
        tasks = [asyncio.create_task(ask(gateway.port, post(body), 'POST')) for _ in range(260)]

        async def is_full():
            return await held() == {'gpt-4o': 260}
        await until(is_full, 'all of them are there')
        go_on.set()
        assert {said.status for said in await asyncio.gather(*tasks)} == {200}
        assert {message.body for message in server.seen} == {body}
        await quiet(gateway)
        assert INSTRUMENTED or memory(gateway.process.pid) - before < 8 << 20  # of 18 MB that were held


@run
async def test_an_encoding_that_the_upstream_is_to_be_asked_for_is_asked_for_once():
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        await gateway.reload(('headers: {', 'headers: { Accept-Encoding: br,'))
        await ask(gateway.port, post(chat(), 'Accept-Encoding: gzip'), 'POST')
        assert server.seen[0].all('accept-encoding') == ['br']


# ---- streams

@run
async def test_readers_that_do_not_read_cost_little_while_their_streams_are_written_anew():
    readers = 8
    sent = 0

    async def serve(wire, message):
        nonlocal sent
        part = chunked(b''.join(TEXTS * 20))
        await wire.send(stream_head())
        while sent < 1_000_000_000:
            await wire.send(part)
            sent += len(part)
    async with upstream(serve) as server, llm(server, gate=f'limit: {readers}') as gateway:
        before = memory(gateway.process.pid)
        wires = [await open_narrow_wire(gateway.port) for _ in range(readers)]
        for wire in wires:
            wire.writer.transport.pause_reading()
            await wire.send(post(chat(stream=True)))
        await until(lambda: len(server.seen) == readers, 'all streams have begun')

        async def stands_still():
            was = sent
            await until_still(gateway.process.pid)
            return sent == was
        await until(stands_still, 'nobody takes any more')
        assert sent < 1_000_000_000
        assert memory(gateway.process.pid) - before < SLACK + readers * (160 << 10)
        for wire in wires:
            wire.reset()
        await quiet(gateway)
        await until(lambda: server.ended == readers, 'the streams have ended')


# ---- in the middle of it

class Stage:
    """An upstream that leaves requests in one of the states that an exchange can be in, until it may go on."""

    def __init__(self, state):
        self.state = state
        self.go_on = asyncio.Event()
        self.heads = 0

    async def serve(self, wire):
        while True:
            await wire.head()
            self.heads += 1
            if self.state == 'sending':
                await self.go_on.wait()
            await wire.reader.readuntil(b'"end"}')
            await self.answer(wire)

    async def answer(self, wire):
        text = refusal('429 Too Many Requests', 'retry-after: 1' if self.state == 'between' else 'retry-after-ms: 5')
        if self.state == 'judging' and not self.go_on.is_set():
            await slowly(text, 10, self.go_on)(wire)
        elif self.state == 'between' and not self.go_on.is_set():
            await wire.send(text)
        elif self.state == 'streaming':
            await wire.send(stream_head(), chunked(TEXTS[0], USAGE[:30]))  # half an event is undecided
            await self.go_on.wait()
            await wire.send(chunked(USAGE[30:], DONE), b'0\r\n\r\n')
        else:
            if self.state == 'line':
                await self.go_on.wait()
            await wire.send(streams(TEXTS[0], USAGE, DONE))


STATES = ['reading', 'line', 'sending', 'judging', 'between', 'streaming']


@contextlib.asynccontextmanager
async def staged(state):
    """A gateway, the stage behind it, a client whose request is in that state, and what it has not sent yet."""
    stage = Stage(state)

    async def serve(wire):
        await stage.serve(wire)
    async with upstream(serve) as server, llm(server, gate='limit: 1', threads=2) as gateway, \
            connect(gateway.port) as other, connect(gateway.port) as wire:
        text = post(chat(stream=True, text='x' * (900_000 if state == 'sending' else 10), last='end'))
        sent = len(text) - (5 if state == 'reading' else 0)
        if state == 'line':
            await other.send(text)
            await gateway.until('gpt-4o', 'llm', active=1)
        await wire.send(text[:sent])
        if state == 'line':
            await gateway.until('gpt-4o', 'llm', waiting=1)
        elif state == 'between':
            await until(lambda: stage.heads == 1, 'it has been refused')
            await gateway.until('gpt-4o', 'llm', active=0)
        elif state != 'reading':
            await gateway.until('gpt-4o', 'llm', active=1)
        await until_still(gateway.process.pid)
        yield gateway, stage, wire, text[sent:]
        stage.go_on.set()
        await quiet(gateway)


@pytest.mark.parametrize('state', STATES)
@run
async def test_a_client_may_go_at_any_time(state):
    async with staged(state) as (gateway, stage, wire, _):
        before = descriptors(gateway.process.pid)
        wire.reset()
        await until(lambda: descriptors(gateway.process.pid) < before, 'its connection is closed')
        if state == 'line':
            await gateway.until('gpt-4o', 'llm', waiting=0)
        else:
            await quiet(gateway)


@pytest.mark.parametrize('state', STATES)
@run
async def test_a_reload_changes_nothing_for_what_is_under_way(state):
    async with staged(state) as (gateway, stage, wire, rest):
        await gateway.reload(('llm: openai', 'llm: anthropic'))
        await gateway.reload(('gate: llm', 'gate: other'), ('gates: { llm', 'gates: { other'))  # it is forgotten here
        await gateway.reload(('gate: other', 'gate: llm'), ('gates: { other', 'gates: { llm'))
        stage.go_on.set()
        await wire.send(rest)
        said = await wire.message('POST')
        assert (said.status, said.body) == (200, shown(TEXTS[0], DONE))


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
