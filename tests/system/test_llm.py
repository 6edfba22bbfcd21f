"""Routes to LLMs: what reaches the provider, what reaches the client, and what happens in between."""
import asyncio
import contextlib
import gzip
import json
import re

import pytest
from raw import ask, connect, reply, request, run, upstream
from weir import until, weir

SECRET = 'sk-provider-secret'
CHAT = '/v1/chat/completions'
JSON = 'Content-Type: application/json'
SSE = 'Content-Type: text/event-stream'


@contextlib.asynccontextmanager
async def llm(*servers, gate='', route='', more='', dialect='openai', top='', threads=1, listen='127.0.0.1:0',
              **start):
    """A gateway for an LLM whose lanes are these servers; `more` goes to each upstream, or one text to each."""
    each = more if isinstance(more, (list, tuple)) else [more] * len(servers)
    upstreams = ''.join(f'''
  lane{i}:
    url: "{server.url}"
    headers: {{ Authorization: "Bearer {SECRET}" }}
    {text}''' for i, (server, text) in enumerate(zip(servers, each)))
    config = f'''
listen: {listen}
api: 127.0.0.1:0
threads: {threads}
grace: 5s
{top}
upstreams:{upstreams}
gates: {{ llm: {{ {gate} }} }}
routes:
  - match: /
    llm: {dialect}
    key: "{{model}}"
    tenant: header:X-Tenant
    gate: llm
    upstream: [{', '.join(f'lane{i}' for i in range(len(servers)))}]
    {route}
'''
    async with weir(config, **start) as gateway:
        yield gateway


def post(body, *fields, target=CHAT):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return request(target, JSON, f'Content-Length: {len(body)}', *fields, method='POST', body=body)


def chat(model='gpt-4o', text='Hello there', **more):
    return {'model': model, 'messages': [{'role': 'user', 'content': text}], **more}


def completion(**usage):
    return json.dumps({'id': 'c', 'object': 'chat.completion', 'model': 'gpt-4o', 'choices': [
        {'index': 0, 'message': {'role': 'assistant', 'content': 'Hi'}, 'finish_reason': 'stop'}],
        'usage': usage or {'prompt_tokens': 9, 'completion_tokens': 2, 'total_tokens': 11}}).encode()


def event(document):
    text = document if isinstance(document, str) else json.dumps(document)
    return f'data: {text}\n\n'.encode()


def chunk(text=None, **more):
    choices = [] if text is None else [{'index': 0, 'delta': {'content': text}, 'finish_reason': None}]
    return event({'id': 'c', 'object': 'chat.completion.chunk', 'choices': choices, 'usage': None, **more})


USAGE = chunk(usage={'prompt_tokens': 9, 'completion_tokens': 3, 'total_tokens': 12})
TEXTS = [chunk('One'), chunk(' two'), chunk(' thrée')]
DONE = event('[DONE]')


def shown(*events):
    """What a client sees of them that has not asked for the usage."""
    return b''.join(event.replace(b', "usage": null', b'') for event in events)


def chunked(*parts):
    return b''.join(f'{len(part):x}\r\n'.encode() + part + b'\r\n' for part in parts)


def stream_head(*fields, status='200 OK'):
    return '\r\n'.join([f'HTTP/1.1 {status}', SSE, 'Transfer-Encoding: chunked', *fields]).encode() + b'\r\n\r\n'


def streams(*parts):
    """An answer with these events, each in a chunk of its own."""
    return stream_head() + chunked(*parts) + b'0\r\n\r\n'


async def quiet(gateway, key='gpt-4o'):
    """Waits until nothing is held, reserved or waited for."""
    await gateway.until(key, 'llm', active=0, waiting=0, reserved=0)


# ---- what reaches the provider

@run
async def test_a_request_goes_on_byte_by_byte_with_the_providers_credentials():
    body = b'{ "messages":[{"role":"user","content":"H\\u00e9llo"}],\n\t"model" : "gpt-4o" , "x":1e2 }'
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        said = await ask(gateway.port, post(
            body, 'Authorization: Bearer weir_client', 'x-api-key: weir_a', 'api-key: weir_b', 'x-goog-api-key: weir_c',
            'Cookie: a=b', 'Accept-Encoding: gzip, br', 'OpenAI-Beta: x', 'X-Forwarded-For: 192.0.2.1'))
        assert said.status == 200 and said.body == completion()
        seen = server.seen[0]
        assert seen.target == CHAT and seen.body == body
        assert seen.all('authorization') == [f'Bearer {SECRET}']
        assert seen.all('accept-encoding') == ['identity']
        assert [seen.one(name) for name in ('x-api-key', 'api-key', 'x-goog-api-key', 'cookie')] == [None] * 4
        assert seen.one('openai-beta') == 'x'
        # Nor is it told where its clients are, although this one is believed.
        assert '127.0.0.1' not in str([value for name, value in seen.fields if name != 'host'])
        assert '192.0.2.1' not in str(seen.fields)
        await quiet(gateway)


@run
async def test_the_model_is_the_key_and_a_body_without_one_has_the_default_key():
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, route='default_key: others') as gateway:
        await ask(gateway.port, post(chat('gpt-4o')))
        await ask(gateway.port, post(chat('o3/mini "x"')))
        await ask(gateway.port, post({'input': 'x'}, target='/v1/responses'))
        await ask(gateway.port, post(b'no json', target='/v1/files'))
        await ask(gateway.port, request('/v1/models'))
        _, said = await gateway.ask_api('/gates/llm')
        assert {key['key']: key['entered'] for key in said['keys']} == {
            'gpt-4o': 1, 'o3/mini "x"': 1, 'others': 3}
        assert [message.body for message in server.seen][3] == b'no json'


@run
@pytest.mark.parametrize('dialect', ['openai', 'custom\n    custom: { model: model }'])
async def test_models_that_the_path_names_are_read(dialect):
    gemini, azure = '/v1beta/models/gemini-x', '/openai/deployments/gpt-x/chat/completions'
    route = 'models: { gemini-x: "other x/1", gpt-x: longer-than-gpt-x }'
    async with upstream(reply(completion(), JSON)) as server, upstream(reply(completion(), JSON)) as named, \
            llm(server, dialect=dialect) as gateway, llm(named, dialect=dialect, more=route) as renaming:
        for target, key in ((f'{gemini}:generateContent', 'gemini-x'),
                            (f'{gemini}:streamGenerateContent?alt=sse&key=weir_1', 'gemini-x'),
                            (f'{gemini}%3AgenerateContent?key=weir_1', 'gemini-x'),
                            (f'{azure}?api-version=1', 'gpt-x')):
            for one in gateway, renaming:
                assert (await ask(one.port, post(chat(model='not-this'), target=target), 'POST')).status == 200
                await quiet(one, key)
                _, said = await one.ask_api('/gates/llm')
                assert key in [each['key'] for each in said['keys']]
                assert 'default' not in [each['key'] for each in said['keys']]
        assert [message.start.split()[1] for message in server.seen] == [
            f'{gemini}:generateContent', f'{gemini}:streamGenerateContent?alt=sse', f'{gemini}%3AgenerateContent',
            f'{azure}?api-version=1']
        assert [message.start.split()[1] for message in named.seen] == [
            '/v1beta/models/other%20x/1:generateContent', '/v1beta/models/other%20x/1:streamGenerateContent?alt=sse',
            '/v1beta/models/other%20x/1%3AgenerateContent',
            '/openai/deployments/longer-than-gpt-x/chat/completions?api-version=1']
        assert {json.loads(message.body)['model'] for message in server.seen + named.seen} == {'not-this'}


@run
async def test_lanes_have_their_own_names_for_a_model_in_the_path():
    async with upstream(refusal(429)) as first, upstream(reply(completion(), JSON)) as second, \
            llm(first, second, more=['models: { m: a-long-name }', '']) as gateway:
        assert (await ask(gateway.port, post(chat(), target='/v1beta/models/m:generateContent'), 'POST')).status == 200
        for server, name in (first, 'a-long-name'), (second, 'm'):
            assert [message.start.split()[1] for message in server.seen] == [f'/v1beta/models/{name}:generateContent']


@run
async def test_a_tenant_may_use_the_models_in_paths_that_it_may_use():
    top = 'tenants: { small: { models: ["gemini-x"] } }'
    async with upstream(reply(completion(), JSON)) as server, llm(server, top=top) as gateway:
        for target, status in (('/v1beta/models/gemini-x:generateContent', 200),
                               ('/v1beta/models/gemini-y:generateContent', 403),
                               ('/v1beta/models/gemini-y%3AgenerateContent', 403),
                               ('/openai/deployments/gemini-y/chat/completions', 403)):
            # The body does not count.
            asked = post(chat(model='gemini-x'), 'X-Tenant: small', target=target)
            assert (await ask(gateway.port, asked, 'POST')).status == status
        assert len(server.seen) == 1


@run
async def test_one_after_the_other_nobody_waits_for_a_server_that_states_no_limits():
    """However much they ask for: nobody has refused anything yet, and nothing is under way."""
    usage = {'prompt_tokens': 25000, 'completion_tokens': 100, 'total_tokens': 25100}
    async with upstream(reply(completion(**usage), JSON)) as server, llm(server) as gateway:
        for _ in range(5):
            said = await ask(gateway.port, post(chat(text='weir ' * 20000)))
            assert said.status == 200
        said = (await ask(gateway.api_port, request('/metrics'))).body.decode()
        [waited] = re.findall(r'^weir_gate_wait_seconds_sum{gate="llm"[^}]*} (\S+)$', said, re.MULTILINE)
        assert float(waited) < 1


@run
async def test_a_model_with_too_long_a_name_is_refused_where_it_makes_the_key():
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, route='default_key: "d"') as gateway:
        said = await ask(gateway.port, post(chat('m' * 256)))
        assert said.status == 200  # nobody can have a key of that name: it is one of the others
        said = await ask(gateway.port, post(chat('m' * 255)))
        assert said.status == 200
        _, said = await gateway.ask_api('/gates/llm')
        assert sorted(len(key['key']) for key in said['keys']) == [1, 255]


@run
async def test_a_body_in_chunks_goes_on_with_its_length():
    body = json.dumps(chat(text='x' * 5000)).encode()
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            for size in (1, 7, 4096):
                parts = [body[i:i + size] for i in range(0, len(body), size)]
                await wire.send(request(CHAT, JSON, 'Transfer-Encoding: chunked', method='POST'),
                                chunked(*parts), b'0\r\nX-Trailer: 1\r\n\r\n')
                assert (await wire.message('POST')).status == 200
        assert [message.body for message in server.seen] == [body] * 3
        assert [message.one('content-length') for message in server.seen] == [str(len(body))] * 3
        assert server.seen[0].trailers == []


@run
async def test_a_client_that_expects_to_be_told_to_go_on_is():
    body = json.dumps(chat()).encode()
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request(CHAT, JSON, f'Content-Length: {len(body)}', 'Expect: 100-continue',
                                    method='POST'))
            assert (await wire.head()).status == 100
            await wire.send(body)
            assert (await wire.message('POST')).status == 200
        assert server.seen[0].one('expect') is None and server.seen[0].body == body


@run
async def test_requests_may_follow_each_other_at_once():
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        bodies = [json.dumps(chat(text=f'number {i}')).encode() for i in range(5)]
        async with connect(gateway.port) as wire:
            await wire.send(*(post(body) for body in bodies))
            for _ in bodies:
                assert (await wire.message('POST')).body == completion()
        assert [message.body for message in server.seen] == bodies


@run
async def test_the_longest_body_that_is_kept_in_memory_is_read():
    empty = len(json.dumps(chat(text='')))
    body = json.dumps(chat(text='x' * ((1 << 20) - empty))).encode()
    assert len(body) == 1 << 20
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        assert (await ask(gateway.port, post(body))).status == 200
        assert server.seen[0].body == body
        _, said = await gateway.ask_api('/gates/llm')
        assert [key['key'] for key in said['keys']] == ['gpt-4o']


@run
async def test_a_client_that_goes_while_its_body_is_read_leaves_nothing():
    async with upstream(reply(completion(), JSON)) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(request(CHAT, JSON, 'Content-Length: 100000', method='POST'), b'{"model":"')
        assert (await ask(gateway.port, post(chat()))).status == 200
        assert len(server.seen) == 1


# ---- streams

def usage_of(body):
    options = json.loads(body).get('stream_options')
    return options and options.get('include_usage')


@run
async def test_the_usage_that_the_client_did_not_ask_for_is_asked_for_and_hidden():
    async with upstream(streams(*TEXTS, USAGE, DONE)) as server, llm(server) as gateway:
        sent = chat(stream=True)
        said = await ask(gateway.port, post(sent), 'POST')
        assert said.status == 200 and said.body == shown(*TEXTS, DONE)
        assert json.loads(server.seen[0].body) == {**sent, 'stream_options': {'include_usage': True}}
        await quiet(gateway)


@run
async def test_a_client_that_asks_for_usage_sees_it():
    async with upstream(streams(*TEXTS, USAGE, DONE)) as server, llm(server) as gateway:
        body = json.dumps(chat(stream=True, stream_options={'include_usage': True})).encode()
        said = await ask(gateway.port, post(body), 'POST')
        assert said.body == b''.join([*TEXTS, USAGE, DONE])
        assert server.seen[0].body == body


@pytest.mark.parametrize('size', [1, 2, 3, 50, 1000])
@run
async def test_what_is_hidden_does_not_depend_on_how_it_comes(size):
    whole = b''.join([*TEXTS, USAGE, DONE])
    parts = [whole[i:i + size] for i in range(0, len(whole), size)]
    async with upstream(streams(*parts)) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(3):  # the connection goes on
                await wire.send(post(chat(stream=True)))
                assert (await wire.message('POST')).body == shown(*TEXTS, DONE)
        assert server.connections == 1


@run
async def test_a_stream_that_ends_with_its_connection_hides_it_too():
    async def serve(wire, message):
        await wire.send(f'HTTP/1.1 200 OK\r\n{SSE}\r\nConnection: close\r\n\r\n', *TEXTS, USAGE, DONE)
        wire.close()
    async with upstream(serve) as server, llm(server) as gateway:
        said = await ask(gateway.port, post(chat(stream=True)), 'POST')
        assert said.body == shown(*TEXTS, DONE)


@pytest.mark.parametrize('size', [1, 100, 100000])
@run
async def test_a_stream_whose_length_is_named_beforehand_hides_it_too(size):
    whole = b''.join([*TEXTS, USAGE, DONE])
    parts = [whole[i:i + size] for i in range(0, len(whole), size)]

    async def serve(wire, message):
        await wire.send(f'HTTP/1.1 200 OK\r\n{SSE}\r\nContent-Length: {len(whole)}\r\n\r\n')
        for part in parts:
            await wire.send(part)
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            for _ in range(2):  # the connection goes on
                await wire.send(post(chat(stream=True)))
                said = await wire.message('POST')
                assert (said.body, said.one('content-length')) == (shown(*TEXTS, DONE), None)
                assert said.one('transfer-encoding') == 'chunked'
            # Who asks for its usage gets the reply as it is.
            await wire.send(post(chat(stream=True, stream_options={'include_usage': True})))
            said = await wire.message('POST')
            assert (said.body, said.one('content-length')) == (whole, str(len(whole)))
        assert server.connections == 1
        # HTTP/1.0 has no chunks: it ends with the connection.
        said = await ask(gateway.port, post(chat(stream=True)).replace(b'HTTP/1.1', b'HTTP/1.0'), 'POST')
        assert (said.body, said.one('content-length')) == (shown(*TEXTS, DONE), None)
        assert (said.one('transfer-encoding'), said.one('connection')) == (None, 'close')
        await quiet(gateway)


@pytest.mark.parametrize('version', ['HTTP/1.0', 'HTTP/1.1'])
@run
async def test_a_stream_that_ends_before_its_length_does_not_look_whole(version):
    async def serve(wire, message):
        await wire.send(f'HTTP/1.1 200 OK\r\n{SSE}\r\nContent-Length: 10000\r\n\r\n', *TEXTS)
        wire.close()
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(stream=True)).replace(b'HTTP/1.1', version.encode()))
            assert (await wire.head()).status == 200
            if version == 'HTTP/1.0':
                with pytest.raises(ConnectionResetError):
                    await wire.reader.read(-1)
            else:
                assert not (await wire.reader.read(-1)).endswith(b'0\r\n\r\n')
        await quiet(gateway)


@run
async def test_events_pass_as_they_come():
    step = asyncio.Queue()

    async def serve(wire, message):
        await wire.send(stream_head())
        for part in [*TEXTS, USAGE, DONE]:
            await step.get()
            await wire.send(chunked(part))
        await wire.send(b'0\r\n\r\n')
    async with upstream(serve) as server, llm(server) as gateway, connect(gateway.port) as wire:
        await wire.send(post(chat(stream=True)))
        assert (await wire.head()).status == 200
        for part in TEXTS:
            step.put_nowait(1)
            assert await wire.exactly(len(chunked(shown(part)))) == chunked(shown(part))
        step.put_nowait(1)
        step.put_nowait(1)
        assert await wire.exactly(len(chunked(DONE)) + 5) == chunked(DONE) + b'0\r\n\r\n'


@run
async def test_a_stream_that_is_aborted_gives_back_what_it_had_reserved():
    gone = asyncio.Event()

    async def serve(wire, message):
        await wire.send(stream_head(), chunked(*TEXTS))
        await wire.ended()
        gone.set()
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(stream=True)))
            await wire.head()
            await wire.exactly(10)
            await gateway.until('gpt-4o', 'llm', active=1)
        await gone.wait()
        await quiet(gateway)


# ---- what reaches the client

PROVIDERS = ['x-ratelimit-limit-requests: 500', 'x-ratelimit-remaining-requests: 499',
             'x-ratelimit-reset-requests: 120ms', 'openai-organization: acme-inc',
             'anthropic-ratelimit-tokens-limit: 5', 'anthropic-organization-id: 7', 'set-cookie: s=1']


@run
async def test_a_client_does_not_see_the_accounts_limits_and_names():
    async with upstream(reply(completion(), JSON, *PROVIDERS, 'x-request-id: r', 'openai-version: 2')) as server, \
            llm(server) as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        names = {name for name, _ in said.fields}
        assert not names & {line.split(':')[0] for line in PROVIDERS}
        assert said.one('x-request-id') == 'r' and said.one('openai-version') == '2'
        assert SECRET not in str(said.fields)


@run
async def test_the_providers_key_is_in_no_answer_of_ours():
    async with upstream(reply(completion(), JSON)) as server, \
            llm(server, gate='limit: 1, line: { timeout: 1ms }') as gateway:
        texts = [gateway.complaints()]
        for path in ('/gates', '/gates/llm', '/metrics'):
            async with gateway._session.get(gateway.api + path) as said:
                texts.append(await said.text())
        texts.append((await ask(gateway.port, b'POST / HTTP/9.9\r\n\r\n')).body.decode())
        assert SECRET not in ''.join(texts)


# ---- other attempts

def turns(*answers):
    """An upstream that gives these answers in turn, the last one for ever."""
    left = list(answers)

    async def serve(wire, message):
        answer = left.pop(0) if len(left) > 1 else left[0]
        if callable(answer):
            await answer(wire)
        else:
            await wire.send(answer)
    return serve


def refusal(status='429 Too Many Requests', *fields, body=b'{"error":{"message":"slow down"}}'):
    return reply(body, JSON, *fields, status=status)


@pytest.mark.parametrize('status', ['429 Too Many Requests', '503 Service Unavailable', '529 Overloaded'])
@run
async def test_a_refusal_is_tried_again_on_the_same_connection(status):
    async with upstream(turns(refusal(status, 'retry-after-ms: 5'), reply(completion(), JSON))) as server, \
            llm(server) as gateway:
        body = json.dumps(chat(stream=True)).encode()
        said = await ask(gateway.port, post(body), 'POST')
        assert said.status == 200 and said.body == completion()
        assert len(server.seen) == 2 and server.seen[0].body == server.seen[1].body
        assert server.connections == 1
        await quiet(gateway)


@run
async def test_after_two_retries_the_refusal_reaches_the_client():
    async with upstream(refusal('429 Too Many Requests', 'retry-after-ms: 5', *PROVIDERS)) as server, \
            llm(server) as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert said.status == 429 and said.body == b'{"error":{"message":"slow down"}}'
        assert not {name for name, _ in said.fields} & {line.split(':')[0] for line in PROVIDERS}
        assert len(server.seen) == 3
        await quiet(gateway)


@pytest.mark.parametrize('fields, route', [(['x-should-retry: false'], ''), (['retry-after: 3600'], ''),
                                           ([], 'retries: 0')])
@run
async def test_what_shall_or_can_not_be_tried_again_is_not(fields, route):
    async with upstream(refusal('429 Too Many Requests', *fields)) as server, llm(server, route=route) as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert said.status == 429
        assert len(server.seen) == 1


@pytest.mark.parametrize('status', ['400 Bad Request', '401 Unauthorized', '500 Internal Server Error'])
@run
async def test_other_errors_reach_the_client_at_once(status):
    async with upstream(refusal(status)) as server, llm(server) as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert said.status == int(status[:3]) and len(server.seen) == 1
        await quiet(gateway)


@run
async def test_googles_word_on_when_to_come_back_is_in_the_body():
    body = json.dumps({'error': {'code': 429, 'details': [
        {'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '3600s'}]}}).encode()
    text = stream_head(status='429 Too Many').replace(SSE.encode(), JSON.encode()) + \
        chunked(body[:20], body[20:]) + b'0\r\n\r\n'
    async with upstream(text) as server, llm(server) as gateway:
        assert (await ask(gateway.port, post(chat()), 'POST')).status == 429
        assert len(server.seen) == 1  # an hour is longer than it may wait


@pytest.mark.parametrize('route', ['', 'retries: 0'])
@run
async def test_googles_violated_quotas_are_the_lanes(route):
    body = json.dumps([{'error': {'code': 429, 'status': 'RESOURCE_EXHAUSTED', 'details': [
        {'@type': 'type.googleapis.com/google.rpc.QuotaFailure', 'violations': [
            {'quotaId': 'GenerateRequestsPerDayPerProjectPerModel-FreeTier', 'quotaValue': '50'},
            {'quotaId': 'GenerateContentInputTokensPerModelPerMinute-FreeTier', 'quotaValue': '250000'}]},
        {'@type': 'type.googleapis.com/google.rpc.RetryInfo', 'retryDelay': '34.5s'}]}}]).encode()
    async with upstream(refusal('429 Too Many Requests', body=body)) as server, llm(server, route=route) as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert (said.status, said.body) == (429, body)
        lane, = (await gateway.counts('gpt-4o', 'llm'))['lanes']
        quotas = {(quota['unit'], quota['limit'], quota['level'], quota['window_seconds'])
                  for quota in lane['control']['quotas']}
        assert quotas == {('requests', 50, 0, 86400), ('input', 250000, 0, 60)}
        assert 30_000 < lane['paused_ms'] <= 34_500
        assert len(server.seen) == 1  # it may wait for less than that


@run
async def test_a_server_that_does_not_answer_in_time_is_asked_again():
    async def hang(wire):
        await wire.ended()
    async with upstream(turns(hang, reply(completion(), JSON))) as server, \
            llm(server, more='timeouts: { first_byte: 1s }') as gateway:
        assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
        assert len(server.seen) == 2
        await quiet(gateway)


@run
async def test_a_client_that_goes_between_two_attempts_is_not_asked_for_again():
    async with upstream(refusal('429 Too Many Requests', 'retry-after: 20')) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(chat()))
            await until(lambda: len(server.seen) == 1, 'the first attempt')
        await quiet(gateway)
        assert (await gateway.ask_api('/gates/llm/gpt-4o'))[1]['ended']['cancelled'] == 0


# ---- lanes

@run
async def test_the_next_lane_is_taken_while_the_first_is_paused_and_knows_the_model_by_its_name():
    async with upstream(refusal('429 Too Many Requests', 'retry-after: 3600')) as first, \
            upstream(reply(completion(), JSON)) as second, \
            llm(first, second, more=['', 'models: { gpt-4o: "my \\"own\\" deployment" }']) as gateway:
        for _ in range(3):
            said = await ask(gateway.port, post(chat(text='again')), 'POST')
            assert said.status == 200
        assert len(first.seen) == 1 and len(second.seen) == 3
        for message in second.seen:
            assert json.loads(message.body) == chat('my "own" deployment', 'again')


@run
async def test_the_next_lane_is_taken_once_the_first_is_out_of_quota_and_nobody_is_refused_for_that():
    left = 5

    async def serve(wire, message):
        nonlocal left
        left -= 1
        if left < 0:
            await wire.send(refusal())
        else:
            await wire.send(reply(completion(), JSON, 'x-ratelimit-limit-requests: 5',
                                  f'x-ratelimit-remaining-requests: {left}', 'x-ratelimit-reset-requests: 1h0m0s'))
    async with upstream(serve) as first, upstream(reply(completion(), JSON)) as second, llm(first, second) as gateway:
        for _ in range(12):
            assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
        assert 1 <= len(first.seen) <= 5 and len(first.seen) + len(second.seen) == 12
        assert (await gateway.counts('gpt-4o', 'llm'))['lanes'][0]['control']['refused'] == 0


@run
async def test_a_retry_may_change_lanes_and_the_name_of_the_model_with_it():
    async with upstream(refusal('429 Too Many Requests', 'retry-after: 60')) as first, \
            upstream(reply(completion(), JSON)) as second, \
            llm(first, second, more=['models: { gpt-4o: one-name }', '']) as gateway:
        sent = json.dumps(chat(stream=True, stream_options={'include_usage': True})).encode()
        said = await ask(gateway.port, post(sent), 'POST')
        assert said.status == 200
        assert json.loads(first.seen[0].body)['model'] == 'one-name'
        assert second.seen[0].body == sent
        await quiet(gateway)


@run
async def test_lanes_may_have_their_apis_in_different_places():
    async with upstream(refusal('429 Too Many Requests', 'retry-after: 60')) as first, \
            upstream(refusal('429 Too Many Requests', 'retry-after: 60')) as second, \
            upstream(reply(completion(), JSON)) as third, \
            llm(first, second, third, more=['prefix: /openai', 'prefix: /a/longer/one', '']) as gateway:
        assert (await ask(gateway.port, post(chat(), target=CHAT + '?a=/b'), 'POST')).status == 200
        assert first.seen[0].target == '/openai' + CHAT + '?a=/b'
        assert second.seen[0].target == '/a/longer/one' + CHAT + '?a=/b'
        assert third.seen[0].target == CHAT + '?a=/b'
        assert third.seen[0].body == json.dumps(chat()).encode()


@run
async def test_a_quota_that_allows_nothing_is_told_with_the_time_of_its_return():
    fields = ['x-ratelimit-limit-requests: 0', 'x-ratelimit-remaining-requests: 0',
              'x-ratelimit-reset-requests: 1h0m0s', 'x-should-retry: false']
    async with upstream(refusal('429 Too Many Requests', *fields)) as server, llm(server) as gateway:
        assert (await ask(gateway.port, post(chat()), 'POST')).status == 429
        said = await ask(gateway.port, post(chat()), 'POST')
        problem = json.loads(said.body)
        assert said.status == 429 and problem['type'] == 'urn:weir:quota-spent'
        assert problem['gate'] == 'llm' and problem['key'] == 'gpt-4o'
        assert len(server.seen) == 1


# ---- providers that misbehave

@run
async def test_a_provider_that_dies_in_the_middle_of_a_stream():
    async def serve(wire, message):
        await wire.send(stream_head(), chunked(TEXTS[0], TEXTS[1][:10]))
        wire.abort()
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(stream=True)))
            assert (await wire.head()).status == 200
            assert await wire.exactly(len(chunked(shown(TEXTS[0])))) == chunked(shown(TEXTS[0]))
            await wire.ended()
        await quiet(gateway)


@run
async def test_two_usages_and_half_an_event_at_the_end():
    half = b'data: {"choices":[]'
    async with upstream(streams(TEXTS[0], USAGE, USAGE, half)) as server, llm(server) as gateway:
        said = await ask(gateway.port, post(chat(stream=True)), 'POST')
        assert said.body == shown(TEXTS[0]) + half
        await quiet(gateway)


@pytest.mark.parametrize('asked', [False, True])
@run
async def test_ten_megabytes_without_a_newline(asked):
    line = b'data: ' + b'x' * (10 << 20)
    parts = [line[i:i + 65536] for i in range(0, len(line), 65536)]
    async with upstream(streams(*parts, b'\n\n', DONE)) as server, llm(server) as gateway:
        options = {'stream_options': {'include_usage': True}} if asked else {}
        said = await ask(gateway.port, post(chat(stream=True, **options)), 'POST')
        assert said.body == line + b'\n\n' + DONE
        await quiet(gateway)


@run
async def test_a_compressed_reply_passes_as_it_is():
    body = gzip.compress(completion())
    async with upstream(reply(body, JSON, 'Content-Encoding: gzip')) as server, llm(server) as gateway:
        said = await ask(gateway.port, post(chat()), 'POST')
        assert said.body == body and said.one('content-encoding') == 'gzip'
        await quiet(gateway)


@run
async def test_a_storm_of_aborted_streams_leaves_nothing_reserved():
    async def serve(wire, message):
        await wire.send(stream_head())
        for part in TEXTS * 20:
            await wire.send(chunked(part))
            await asyncio.sleep(0)
        await wire.ended()
    async with upstream(serve) as server, \
            llm(server, gate='limit: 20, line: { max: 1000 }', threads=2) as gateway:
        async def one(number):
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                async with connect(gateway.port) as wire:
                    await wire.send(post(chat(stream=True, max_tokens=number + 1)))
                    if number % 3:
                        await wire.head()
                        await wire.exactly(number % 200)
                    if number % 2:
                        wire.reset()
        await asyncio.gather(*(one(i) for i in range(300)))
        await quiet(gateway)
        await until(lambda: server.connections == server.ended, 'all connections are closed')


# ---- other dialects

async def used(gateway):
    """The one row of what was used."""
    row, = (await gateway.ask_api('/usage'))[1]['usage']
    return row['input_tokens'], row['output_tokens'], row['cached_tokens']


@run
async def test_anthropics_streams_are_counted_from_their_first_event_to_their_last():
    def said(kind, **more):
        return f'event: {kind}\ndata: {json.dumps({"type": kind, **more})}\n\n'.encode()
    events = [said('message_start', message={'usage': {'input_tokens': 10, 'cache_read_input_tokens': 90,
                                                       'cache_creation_input_tokens': 0, 'output_tokens': 1}}),
              said('content_block_delta', index=0, delta={'type': 'text_delta', 'text': 'Hi'}),
              said('message_delta', delta={}, usage={'output_tokens': 5}),
              said('message_delta', delta={'stop_reason': 'end_turn'}, usage={'output_tokens': 7}),
              said('message_stop')]
    async with upstream(streams(*events)) as server, llm(server, dialect='anthropic') as gateway:
        sent = json.dumps({'model': 'claude', 'max_tokens': 100, 'stream': True,
                           'messages': [{'role': 'user', 'content': 'Hello'}]}).encode()
        reply_ = await ask(gateway.port, post(sent, target='/v1/messages'), 'POST')
        assert reply_.body == b''.join(events)
        assert server.seen[0].body == sent  # there is nothing to ask for
        await quiet(gateway, 'claude')
        assert await used(gateway) == (100, 7, 90)


@pytest.mark.parametrize('dialect, target', [('anthropic', '/v1/messages/count_tokens'),
                                             ('openai', '/v1/responses/input_tokens')])
@run
async def test_who_only_asks_how_many_tokens_a_request_would_have_uses_none(dialect, target):
    async with upstream(reply(b'{"input_tokens":2000}', JSON)) as server, \
            llm(server, dialect=dialect, gate='limit: 1, tokens: 1000/d', top='tenants: { acme: { models: [m] } }') as gateway:
        said = await ask(gateway.port, post(chat('m', 'word ' * 400), 'X-Tenant: acme', target=target), 'POST')
        assert (said.status, said.body) == (200, b'{"input_tokens":2000}')
        assert (await ask(gateway.port, post(chat('other'), 'X-Tenant: acme', target=target), 'POST')).status == 403
        await quiet(gateway, 'm')
        assert (await gateway.counts('m', 'llm'))['lanes'][0]['buckets'] == [999]  # as of any other call
        rows = (await gateway.ask_api('/usage'))[1]['usage']
        assert [(row['model'], row['requests'], row['input_tokens']) for row in rows] == [('m', 1, 0), ('other', 0, 0)]


@run
async def test_a_custom_api_is_read_by_the_paths_and_headers_that_the_config_names():
    custom = """custom: { model: engine.name, max_tokens: options.most, output_tokens: meta.out, input_tokens: meta.in,
                requests: { limit: X-Quota, remaining: X-Left, reset: X-Reset } }"""
    answer = json.dumps({'text': 'hi', 'meta': {'in': 3, 'out': 4}}).encode()
    async with upstream(reply(answer, JSON, 'X-Quota: 60', 'X-Left: 59', 'X-Reset: 1.000s')) as server, \
            llm(server, dialect='custom', route=custom) as gateway:
        said = await ask(gateway.port, post({'engine': {'name': 'mine'}, 'options': {'most': 9}}, target='/x'), 'POST')
        assert said.body == answer and said.one('x-quota') is None
        await quiet(gateway, 'mine')
        assert await used(gateway) == (3, 4, 0)
        lane, = (await gateway.counts('mine', 'llm'))['lanes']
        assert [(quota['unit'], quota['limit']) for quota in lane['control']['quotas']] == [('requests', 60)]


@run
async def test_what_a_stream_has_said_beyond_what_was_expected_is_charged_while_it_goes_on():
    step = asyncio.Queue()

    async def serve(wire, message):
        await wire.send(stream_head())
        for _ in range(3):
            await wire.send(chunked(chunk('word' * 250)))
            await step.get()
        await wire.send(chunked(USAGE, DONE), b'0\r\n\r\n')
    async with upstream(serve) as server, llm(server) as gateway, connect(gateway.port) as wire:
        await wire.send(post(chat(stream=True)))
        for tokens in (250, 500, 750):
            await gateway.until('gpt-4o', 'llm', reserved=4 + tokens)  # with those of the request
            step.put_nowait(1)
        assert (await wire.message('POST')).status == 200
        await quiet(gateway)
        assert (await used(gateway))[1] == 3  # what is stated counts in the end


@pytest.mark.parametrize('percent, cost', [('0%', 17), ('10%', 26), ('25%', 40), ('100%', 107)])
@run
async def test_what_comes_from_the_providers_cache_costs_its_percentage_and_is_used_in_full(percent, cost):
    answer = json.dumps({'type': 'message', 'usage': {'input_tokens': 10, 'cache_read_input_tokens': 90,
                                                      'cache_creation_input_tokens': 0, 'output_tokens': 7}}).encode()
    async with upstream(reply(answer, JSON)) as server, \
            llm(server, dialect='anthropic', gate='limit: 5, tokens: 1000/d', route=f'cache_read: {percent}') as gateway:
        await ask(gateway.port, post(chat('claude', max_tokens=100), target='/v1/messages'), 'POST')
        await quiet(gateway, 'claude')
        lane, = (await gateway.counts('claude', 'llm'))['lanes']
        assert lane['buckets'] == [1000 - cost]
        assert await used(gateway) == (100, 7, 90)


@run
async def test_an_aborted_stream_costs_what_was_seen_of_it():
    async def serve(wire, message):
        await wire.send(stream_head(), chunked(*TEXTS))
        await wire.ended()
    async with upstream(serve) as server, llm(server) as gateway:
        async with connect(gateway.port) as wire:
            await wire.send(post(chat(stream=True, max_tokens=1000)))
            await wire.head()
            await wire.exactly(len(shown(*TEXTS)))
        await quiet(gateway)
        assert (await used(gateway))[1] == 4  # for thirteen characters


@run
async def test_a_request_of_which_nothing_was_sent_costs_nothing():
    async def serve(wire):
        await wire.reader.read()  # and never shakes hands
    async with upstream(serve) as server:
        server.url = server.url.replace('http:', 'https:')
        async with llm(server, gate='limit: 1, tokens: 1000/d') as gateway:
            async with connect(gateway.port) as wire:
                await wire.send(post(chat()))
                await until(lambda: server.connections == 1, 'it is connected to')
            await quiet(gateway)
            assert (await gateway.counts('gpt-4o', 'llm'))['lanes'][0]['buckets'] == [1000]


@pytest.mark.parametrize('gate', ['limit: 1, tokens: 1000/d', 'tokens: 1000/d'])
@pytest.mark.parametrize('status', ['401 Unauthorized', '429 Too Many Requests', '500 Internal Server Error',
                                    '529 Overloaded'])
@run
async def test_a_request_that_the_provider_refuses_costs_nothing_with_a_limit_that_is_learned_or_not(status, gate):
    async with upstream(refusal(status, 'retry-after-ms: 5')) as server, llm(server, gate=gate) as gateway:
        for _ in range(3):
            assert (await ask(gateway.port, post(chat()), 'POST')).status == int(status[:3])
        await quiet(gateway)
        assert (await gateway.counts('gpt-4o', 'llm'))['lanes'][0]['buckets'] == [1000]
        assert await used(gateway) == (0, 0, 0)


# ---- tenants

@run
async def test_a_tenant_is_told_its_own_limits():
    gate = 'tenants: { acme: { limit: 4, rate: 600/m } }'
    async with upstream(reply(completion(), JSON, 'RateLimit: "provider";r=1;t=9')) as server, \
            llm(server, gate=gate) as gateway:
        said = await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')
        assert said.all('ratelimit-policy') == [
            '"concurrency";q=4;qu="concurrent-requests", "requests";q=600;w=60']
        assert said.all('ratelimit') == ['"concurrency";r=3, "requests";r=599;t=1']
        said = await ask(gateway.port, post(chat(), 'X-Tenant: other'), 'POST')
        assert said.all('ratelimit') + said.all('ratelimit-policy') == []


@run
async def test_a_tenant_may_use_the_models_that_it_may_use():
    top = 'tenants: { acme: { models: [gpt-4o, "o3*"] } }'
    async with upstream(reply(completion(), JSON)) as server, llm(server, top=top) as gateway:
        async def status(tenant, body):
            return (await ask(gateway.port, post(body, f'X-Tenant: {tenant}'), 'POST')).status
        assert await status('acme', chat('gpt-4o')) == 200
        assert await status('acme', chat('o3-mini')) == 200
        assert await status('acme', chat('gpt-4')) == 403
        assert await status('acme', b'no json') == 403
        assert await status('other', chat('gpt-4')) == 200
        said = await ask(gateway.port, post(chat('gpt-4'), 'X-Tenant: acme'), 'POST')
        problem = json.loads(said.body)
        assert problem['type'] == 'urn:weir:forbidden' and problem['error']['type'] == 'permission_error'
        assert (await ask(gateway.port, request('/v1/models', 'X-Tenant: acme'))).status == 200
        assert len(server.seen) == 4


@run
async def test_a_tenant_uses_what_it_may_use_in_a_day_and_is_told_how_much_that_is(tmp_path):
    top = f'data: {tmp_path}\ntenants: {{ acme: {{ tokens_per_day: 20 }}, shut: {{ tokens_per_day: 0 }} }}'
    async with upstream(turns(reply(completion(), JSON), streams(*TEXTS, USAGE, DONE))) as server, \
            llm(server, top=top) as gateway:
        said = await ask(gateway.port, post(chat(), 'X-Tenant: shut'), 'POST')
        assert said.status == 429 and json.loads(said.body)['type'] == 'urn:weir:budget-spent'
        assert said.one('ratelimit-policy') == '"tokens";q=0;w=86400;qu="tokens"'
        said = await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')
        assert said.one('ratelimit').startswith('"tokens";r=20;t=')
        assert said.one('ratelimit-policy') == '"tokens";q=20;w=86400;qu="tokens"'
        said = await ask(gateway.port, post(chat(stream=True), 'X-Tenant: acme'), 'POST')
        assert said.one('ratelimit').startswith('"tokens";r=9;t=')  # 9 of input and 2 of output are gone
        said = await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')
        problem = json.loads(said.body)
        assert said.status == 429 and problem['type'] == 'urn:weir:budget-spent'
        assert 1 <= int(said.one('retry-after')) <= 86400
        assert said.one('x-should-retry') == 'false'
        assert (await ask(gateway.port, post(chat(), 'X-Tenant: other'), 'POST')).status == 200
        assert len(server.seen) == 3
        _, usage = await gateway.ask_api('/usage?tenant=acme')
        row, = usage['usage']
        assert {name: row[name] for name in ('tenant', 'model', 'requests', 'refused', 'input_tokens', 'output_tokens')} == {
            'tenant': 'acme', 'model': 'gpt-4o', 'requests': 2, 'refused': 1, 'input_tokens': 18, 'output_tokens': 5}


@run
async def test_who_waits_while_the_day_is_used_up_is_refused_then():
    go_on = asyncio.Event()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(completion(), JSON))
    async with upstream(serve) as server, llm(
            server, gate='limit: 1, tokens: 1000/d', top='tenants: { acme: { tokens_per_day: 20 } }') as gateway:
        tasks = [asyncio.create_task(ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')) for _ in range(8)]
        tasks.append(asyncio.create_task(ask(gateway.port, post(chat(), 'X-Tenant: other'), 'POST')))
        await gateway.until('gpt-4o', 'llm', active=1, waiting=1)  # the others of acme wait for its budget
        go_on.set()
        *said, other = await asyncio.gather(*tasks)
        assert other.status == 200
        assert sorted(each.status for each in said) == [200] * 2 + [429] * 6  # 11 tokens each
        for each in said:
            assert each.status == 200 or json.loads(each.body)['type'] == 'urn:weir:budget-spent'
        assert len(server.seen) == 3
        await quiet(gateway)
        assert (await gateway.counts('gpt-4o', 'llm'))['lanes'][0]['buckets'] == [1000 - 3 * 11]
        row, = (await gateway.ask_api('/usage?tenant=acme'))[1]['usage']
        assert (row['requests'], row['refused'], row['input_tokens'] + row['output_tokens']) == (2, 6, 22)


# ---- gates that learn, without an LLM behind them

@run
async def test_a_plain_route_learns_how_many_the_upstream_takes_at_once():
    """It takes three at once and refuses others. Nobody says so, but the window finds out."""
    inside = 0
    most = 0
    refused = 0

    async def serve(wire, message):
        nonlocal inside, most, refused
        inside += 1
        most = max(most, inside)
        try:
            if inside > 3:
                refused += 1
                await wire.send(reply(b'full', status='429 Too Many Requests'))
                return
            await asyncio.sleep(0.01)
            await wire.send(reply(b'ok'))
        finally:
            inside -= 1
    config = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
upstreams: {{ server: {{ url: "{url}" }} }}
gates: {{ gate: {{ limit: {{ start: 4, min: 1, max: 64 }}, line: {{ max: 1000 }} }} }}
routes: [ {{ match: /, gate: gate, key: k, upstream: server }} ]
'''
    async with upstream(serve) as server, weir(config.format(url=server.url)) as gateway:
        async def one():
            async with connect(gateway.port) as wire:
                await wire.send(request('/'))
                return (await wire.message()).status
        said = await asyncio.gather(*(one() for _ in range(30)))
        await gateway.until('k', 'gate', active=0, waiting=0)
        assert refused >= 1 and said.count(429) == refused
        assert (await gateway.counts('k', 'gate'))['limit'] <= 4  # three, or one more is being tried
        assert most <= 5


@run
async def test_a_reload_may_give_a_gate_a_controller_and_take_it_away():
    held = asyncio.Event()

    async def serve(wire, message):
        if b'hold' in message.body:
            await held.wait()
        await wire.send(reply(completion(), JSON))
    kinds = ['limit: 5', 'controller: learned', 'controller: aimd', 'limit: none', 'controller: learned']
    async with upstream(serve) as server, llm(server, gate=kinds[0]) as gateway:
        async with connect(gateway.port) as wire:  # one goes on through all of them
            await wire.send(post(chat(text='hold')))
            await gateway.until('gpt-4o', 'llm', active=1)
            for before, after in zip(kinds, kinds[1:]):
                await gateway.reload((before, after))
                assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
            held.set()
            assert (await wire.message('POST')).status == 200
        await quiet(gateway)


# ---- routes by model

ROUTES = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
grace: 5s
tenants: {{ small: {{ models: ["claude-*", "gpt-4o"] }} }}
upstreams:
  a: {{ url: "{a}" }}
  b: {{ url: "{b}", models: {{ claude-opus: renamed }} }}
gates: {{ one: {{}}, two: {{}} }}
routes:
  - {{ match: "/{{who}}", llm: openai, tenant: header:X-Tenant, models: ["gpt-*", claude-3], key: "a:{{who}}:{{model}}", gate: one, upstream: a }}
  - {{ match: "/{{who}}", llm: openai, tenant: header:X-Tenant, models: ["claude-*"], key: "b:{{model}}", gate: two, upstream: b,
      strip: "/{{who}}", priority: header:X-Priority }}
  - {{ match: "/{{who}}", llm: openai, tenant: header:X-Tenant, models: ["gpt-4o-mini"], key: "mini", gate: two, upstream: b }}
'''


@contextlib.asynccontextmanager
async def by_model(more=''):
    async with upstream(reply(completion(), JSON)) as a, upstream(reply(completion(), JSON)) as b:
        async with weir(ROUTES.format(a=a.url, b=b.url) + more) as gateway:
            yield a, b, gateway


async def keys_at(gateway, gate):
    return sorted(key['key'] for key in (await gateway.ask_api(f'/gates/{gate}'))[1]['keys'])


@run
@pytest.mark.parametrize('long', [False, True])
async def test_the_model_decides_between_routes_of_one_path(long):
    text = 'x' * (2 << 20) if long else 'hello'
    async with by_model() as (a, b, gateway):
        for model, server, path in (('gpt-4o', a, '/v1/chat/completions'), ('claude-3', a, '/v1/chat/completions'),
                                    ('claude-opus', b, '/chat/completions'), ('gpt-4o-mini', b, '/v1/chat/completions')):
            before = len(server.seen)
            asked = post(chat(model=model, text=text), 'X-Tenant: t', 'X-Priority: high')
            assert (await ask(gateway.port, asked, 'POST')).status == 200
            assert len(server.seen) == before + 1
            assert server.seen[-1].start.split()[1] == path
            name = 'renamed' if model == 'claude-opus' else model
            assert json.loads(server.seen[-1].body) == chat(model=name, text=text)
        assert await keys_at(gateway, 'one') == ['a:v1:claude-3', 'a:v1:gpt-4o']
        assert await keys_at(gateway, 'two') == ['b:claude-opus', 'mini']


@run
async def test_a_request_for_whose_model_there_is_no_route_is_refused():
    async with by_model() as (a, b, gateway):
        for body, says in (chat(model='llama'), 'the model of this request'), (b'{}', 'names no model'), (b'', 'names no model'):
            message = await ask(gateway.port, post(body), 'POST')
            assert (message.status, json.loads(message.body)['type']) == (404, 'urn:weir:no-route')
            assert says in json.loads(message.body)['detail']
        assert (await ask(gateway.port, post(chat(model='claude-x'), 'X-Tenant: small'), 'POST')).status == 200
        assert (await ask(gateway.port, post(chat(model='gpt-4o-mini'), 'X-Tenant: small'), 'POST')).status == 403
        async with connect(gateway.port) as wire:  # and a connection goes on
            for model in 'claude-x', 'llama', 'gpt-4o':
                await wire.send(post(chat(model=model)))
                assert (await wire.message('POST')).status == (404 if model == 'llama' else 200)


@run
async def test_a_route_without_models_takes_the_others_and_the_path_names_models_too():
    more = '  - { match: "/{who}", llm: openai, tenant: header:X-Tenant, key: "rest:{model}", gate: two, upstream: b }\n'
    async with by_model(more) as (a, b, gateway):
        for asked in (post(chat(model='llama')), post(b''), request('/v1/models'),
                      post(b'{}', target='/v1beta/models/claude-x:generateContent'),
                      post(b'{}', target='/v1beta/models/gpt-x:generateContent')):
            assert (await ask(gateway.port, asked)).status == 200
        assert await keys_at(gateway, 'one') == ['a:v1beta:gpt-x']
        assert await keys_at(gateway, 'two') == ['b:claude-x', 'rest:default', 'rest:llama']
        assert len(b.seen) == 4


@run
async def test_clients_that_go_before_their_route_is_known_leave_nothing():
    async with by_model() as (a, b, gateway):
        for sent in 1, 100, 60_000, 1_500_000:
            async with connect(gateway.port) as wire:
                await wire.send(post(chat(model='gpt-4o', text='x' * (2 << 20)))[:sent])
                wire.reset()
        assert (await ask(gateway.port, post(chat(model='gpt-4o')), 'POST')).status == 200
        assert len(a.seen) == 1
