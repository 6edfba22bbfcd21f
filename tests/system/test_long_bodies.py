"""Bodies that are too long for memory, on routes that read all of a body: in a file while they wait, and read by their
model, tenant and key like short ones."""
import asyncio
import contextlib
import json
import os

import pytest
from raw import ask, connect, reply, request, run, upstream
from test_bodies import problem_of
from test_llm import CHAT, JSON, chat, chunked, completion, llm, post, quiet, refusal
from weir import until, weir

MIB = 1 << 20


def picture(megabytes=5, model='gpt-4o', last=False, **more):
    """A request with a picture of that size, which names its model in front of that or behind it."""
    url = 'data:image/png;base64,' + 'iVBO' * (megabytes * MIB // 4)
    rest = {'messages': [{'role': 'user', 'content': [{'type': 'text', 'text': 'What is this?'},
                                                      {'type': 'image_url', 'image_url': {'url': url}}]}], **more}
    return {**rest, 'model': model} if last else {'model': model, **rest}


def in_chunks(body, size=100_000):
    return request(CHAT, JSON, 'Transfer-Encoding: chunked', method='POST') + \
        b'3e8;part=1\r\n' + body[:1000] + b'\r\n' + \
        chunked(*(body[i:i + size] for i in range(1000, len(body), size))) + b'0;last\r\nX-Sum: 1\r\n\r\n'


async def keys_of(gateway):
    _, said = await gateway.ask_api('/gates/llm')
    return sorted(key['key'] for key in said['keys'])


def spooled(gateway):
    """The sizes of the files without a name that the gateway has open."""
    sizes = []
    for fd in os.listdir(folder := f'/proc/{gateway.process.pid}/fd'):
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            if os.readlink(f'{folder}/{fd}').endswith(' (deleted)'):
                sizes.append(os.stat(f'{folder}/{fd}').st_size)
    return sizes


async def until_spooled(gateway, count):
    """Waits until there is one such file, with all but the last piece of so many bytes."""
    async def is_there():
        sizes = spooled(gateway)
        return len(sizes) == 1 and count - 65536 <= sizes[0] <= count
    await until(is_there, f'a file of {count} bytes is there')


async def nothing_left(gateway):
    async def is_gone():
        return spooled(gateway) == []
    await until(is_gone, 'no file is left')


# ---- read and sent

@run
@pytest.mark.parametrize('framing', ['length', 'chunks'])
@pytest.mark.parametrize('last', [False, True])
async def test_a_long_body_has_its_model_its_line_and_its_cost(framing, last):
    body = json.dumps(picture(2, last=last)).encode()
    go_on = asyncio.Event()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(completion(), JSON))
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(body) if framing == 'length' else in_chunks(body))
            await gateway.until('gpt-4o', 'llm', active=1)
            assert (await gateway.counts('gpt-4o', 'llm'))['reserved'] < 1000  # a picture is no text
            go_on.set()
            assert (await wire.message('POST')).status == 200
            await wire.send(post(chat()))  # and the connection goes on
            assert (await wire.message('POST')).status == 200
        assert server.seen[0].body == body
        assert server.seen[0].trailers == []
        assert await keys_of(gateway) == ['gpt-4o']
        await quiet(gateway)
        await nothing_left(gateway)


@run
@pytest.mark.parametrize('last', [False, True])
async def test_each_lane_gets_a_long_body_with_its_own_name_for_the_model(last):
    body = picture(2, last=last, stream=True)
    async with upstream(refusal(429)) as first, upstream(reply(completion(), JSON)) as second, \
            llm(first, second, more=['models: { gpt-4o: one }', 'models: { gpt-4o: a-much-longer-name }']) as gateway:
        assert (await ask(gateway.port, post(body), 'POST')).status == 200
        for server, name in (first, 'one'), (second, 'a-much-longer-name'):
            [message] = server.seen
            assert json.loads(message.body) == {**body, 'model': name, 'stream_options': {'include_usage': True}}
            assert message.one('content-length') == str(len(message.body))
        await nothing_left(gateway)


@run
async def test_a_long_body_is_sent_again_after_a_refusal():
    refusals = 2

    async def serve(wire, message):
        nonlocal refusals
        refusals -= 1
        await wire.send(reply(completion(), JSON) if refusals < 0 else refusal(429, 'Retry-After: 0'))
    body = json.dumps(picture(3)).encode()
    async with upstream(serve) as server, llm(server) as gateway:
        assert (await ask(gateway.port, post(body), 'POST')).status == 200
        assert [message.body == body for message in server.seen] == [True] * 3


@run
async def test_a_tenant_may_use_the_models_that_it_may_use_with_long_bodies_too():
    top = 'tenants: { small: { models: ["gpt-4o-mini"] } }'
    async with upstream(reply(completion(), JSON)) as server, llm(server, top=top) as gateway:
        for model, status in ('gpt-4o-mini', 200), ('gpt-4o', 403):
            assert (await ask(gateway.port, post(picture(2, model), 'X-Tenant: small'), 'POST')).status == status
        assert len(server.seen) == 1
        await nothing_left(gateway)


@run
async def test_what_is_no_json_passes_as_it_is_however_long():
    body = os.urandom(3 * MIB)
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        assert (await ask(gateway.port, post(body), 'POST')).status == 200
        assert server.seen[0].body == body
        assert await keys_of(gateway) == ['default']


@run
async def test_a_long_form_has_its_model_wherever_that_stands():
    part = b'\r\n--bOuNdArY\r\nContent-Disposition: form-data; name="model"\r\n\r\nwhisper-1\r\n--bOuNdArY--\r\n'
    begin = b'--bOuNdArY\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n'
    piece = 65536 - 1600  # what is written and read at once
    async with upstream(reply(b'{}', JSON)) as server, llm(server) as gateway:
        for over in -1000, 0, 1, 2, 20, 60, 70, 75, len(part) - 1, len(part), 1000:
            sound = os.urandom(20 * piece - over - len(begin))
            body = begin + sound + part
            asked = request('/v1/audio/transcriptions', 'Content-Type: multipart/form-data; boundary=bOuNdArY',
                            f'Content-Length: {len(body)}', method='POST', body=body)
            assert (await ask(gateway.port, asked, 'POST')).status == 200
            assert server.seen[-1].body == body
        assert await keys_of(gateway) == ['whisper-1']


# ---- before the line

@run
@pytest.mark.parametrize('expects', [False, True])
async def test_a_long_body_that_comes_slowly_holds_no_permit(expects):
    body = json.dumps(picture(2)).encode()
    async with upstream(reply(completion(), JSON)) as server, llm(server, gate='limit: 1') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request(CHAT, JSON, f'Content-Length: {len(body)}', *['Expect: 100-continue'] * expects,
                                    method='POST'))
            if expects:
                assert (await wire.message('POST')).status == 100
            await wire.send(body[:MIB + 7])
            await until_spooled(gateway, MIB + 7)
            for _ in range(3):
                assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
            assert len(spooled(gateway)) == 1
            await wire.send(body[MIB + 7:])
            assert (await wire.message('POST')).status == 200
        assert server.seen[-1].body == body


@run
async def test_a_client_that_goes_in_the_middle_of_a_long_body_leaves_nothing():
    body = json.dumps(picture(4)).encode()
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        for sent in 100_000, MIB, 3 * MIB:
            async with connect(gateway.port) as wire:
                await wire.send(post(body)[:sent])
                wire.reset()
        await nothing_left(gateway)
        assert (await ask(gateway.port, post(body), 'POST')).status == 200
        assert len(server.seen) == 1


@run
async def test_a_kill_leaves_no_file():
    body = json.dumps(picture(4)).encode()
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(body)[:3 * MIB])
            await until_spooled(gateway, 3 * MIB)
            await gateway.kill()
        assert not list((gateway.path.parent / 'weir-data').rglob('*body*'))
    assert server.seen == []


# ---- bounds

@run
async def test_a_body_beyond_max_body_is_refused():
    async with upstream(reply(completion(), JSON)) as server, llm(server, route='max_body: 2MiB') as gateway, \
            llm(server) as usual:
        assert (await ask(gateway.port, request(CHAT, f'Content-Length: {2 * MIB + 1}', method='POST'))).status == 413
        body = json.dumps(picture(3)).encode()
        assert (await ask(gateway.port, in_chunks(body))).status == 413
        assert (await ask(usual.port, request(CHAT, f'Content-Length: {64 * MIB + 1}', method='POST'))).status == 413
        await nothing_left(gateway)
        assert server.seen == []


@run
@pytest.mark.parametrize('framing', ['length', 'chunks'])
async def test_all_long_bodies_together_have_a_bound(framing):
    body = json.dumps(picture(2)).encode()
    async with upstream(reply(completion(), JSON)) as server, llm(server, top='spool_max: 3MiB') as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(body)[:2 * MIB])
            await until_spooled(gateway, 2 * MIB)
            message = await ask(gateway.port, post(body) if framing == 'length' else in_chunks(body), 'POST')
            assert (message.status, message.one('retry-after')) == (503, '5')
            assert problem_of(message)['type'] == 'urn:weir:spool-full'
            await until_spooled(gateway, 2 * MIB)  # the room of the other one is free
            await wire.send(post(body)[2 * MIB:])
            assert (await wire.message('POST')).status == 200
        await nothing_left(gateway)
        assert (await ask(gateway.port, post(body), 'POST')).status == 200


@run
@pytest.mark.parametrize('route', ['json_rpc: true', 'key: "json:method"', 'a2a: true'])
async def test_a_reply_that_goes_on_does_not_hold_the_room_of_its_request(route):
    held = asyncio.Event()

    async def serve(wire, message):
        await wire.send(b'HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n')
        await held.wait()
    body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': 'message/stream',
                       'params': {'text': 'x' * 3 * MIB}}).encode()
    asked = request('/mcp', JSON, f'Content-Length: {len(body)}', method='POST', body=body)
    async with upstream(serve) as server, weir(f'''
listen: {{ address: "127.0.0.1:0", public_url: "https://agents.example.com" }}
api: 127.0.0.1:0
spool_max: 4MiB
upstreams: {{ tools: {{ url: "{server.url}" }} }}
gates: {{ tools: {{ limit: 2 }} }}
routes: [ {{ match: /, upstream: tools, gate: tools, {route} }} ]
''') as gateway:
        async with connect(gateway.port) as first, connect(gateway.port) as second:
            for wire in first, second:
                await wire.send(asked)
                assert (await wire.head()).status == 200
                await nothing_left(gateway)
            held.set()
        assert [message.body == body for message in server.seen] == [True, True]
