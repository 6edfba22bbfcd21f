"""Streams with and without Weir: the same request to two emulated providers that are alike, to one of them through a
gateway. What the two clients get is the same, byte for byte, but for the usage that only Weir had asked for."""
import asyncio
import contextlib
import gzip
import json

import pytest
from raw import ask, run
from test_llm import CHAT, post
from test_mock import mock
from weir import weir

# Replies of different lengths in events of two tokens, which come one by one.
ACCOUNT = ('--first-token=1ms', '--pace=2000/s', '--output=40', '--chunk=2', '--seed=7')
MESSAGES = {'model': 'm', 'messages': [{'role': 'user', 'content': 'Wie schön! \u2713'}]}
TOOLS = {'tools': [{'type': 'function', 'function': {'name': 'look', 'parameters': {'type': 'object', 'properties': {}}}}]}
USED = {'stream_options': {'include_usage': True}}


@contextlib.asynccontextmanager
async def pair(dialect, *flags):
    """Two that are alike, and the gateway in front of the second."""
    async with mock('--llm', dialect, *ACCOUNT, *flags) as alone, mock('--llm', dialect, *ACCOUNT, *flags) as behind:
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
upstreams: {{ provider: {{ url: "{behind.url}" }} }}
gates: {{ llm: {{}} }}
routes: [ {{ match: /, llm: {dialect}, key: "{{model}}", gate: llm, upstream: provider, retries: 0 }} ]
'''
        async with weir(config) as gateway:
            gateway.provider = behind
            yield alone, gateway


def port_of(server):
    return int(server.url.rsplit(':', 1)[1])


def moment(body):
    """Where a reply says when it was made: what follows is a second, which may differ."""
    for name in (b'"created":', b'"created_at":'):
        if name in body:
            return body.split(name)[1][:10]
    return None


async def both(alone, gateway, path, body, *fields, direct=None):
    """What the two clients are told, in the same second; the first one asks for `direct`, if that is something else. Since
    each is asked as often as the other, their numbers and what chance decides are the same."""
    for _ in range(10):
        first, second = await asyncio.gather(ask(port_of(alone), post(direct or body, *fields, target=path), 'POST'),
                                             ask(gateway.port, post(body, *fields, target=path), 'POST'))
        if moment(first.body) == moment(second.body):
            return first, second
    raise AssertionError('ten times in a row the second was over in between')


async def used_as_told(gateway):
    """What Weir has read of the replies is what the provider has counted."""
    await gateway.until('m', 'llm', active=0, waiting=0, reserved=0)
    books = await gateway.provider.stats()
    row, = (await gateway.ask_api('/usage'))[1]['usage']
    assert (row['requests'], row['input_tokens'], row['output_tokens']) == (
        books['served'], books['tokens_input'], books['tokens_output'])


def events_of(body):
    """The events of a stream, each with its empty line."""
    assert body.endswith(b'\n\n')
    return [event + b'\n\n' for event in body.split(b'\n\n')[:-1]]


def is_usage(event):
    text = event.removeprefix(b'data: ')
    return text != b'[DONE]\n\n' and json.loads(text)['choices'] == []


@pytest.mark.parametrize('dialect, path, body', [
    ('openai', CHAT, {**MESSAGES, 'stream': True, **USED}),
    ('openai', CHAT, {**MESSAGES, 'stream': True, **USED, **TOOLS}),
    ('openai', CHAT, MESSAGES),
    ('openai', '/v1/completions', {'model': 'm', 'prompt': 'Hi', 'stream': True}),
    ('openai', '/v1/responses', {'model': 'm', 'input': 'Hi', 'stream': True}),
    ('openai', '/v1/responses', {'model': 'm', 'input': 'Hi'}),
    ('openai', '/v1/embeddings', {'model': 'm', 'input': ['a', 'b']}),
    ('anthropic', '/v1/messages', {**MESSAGES, 'max_tokens': 100, 'stream': True}),
    ('anthropic', '/v1/messages', {**MESSAGES, 'max_tokens': 100})])
@run
async def test_what_asks_for_no_change_is_the_same_with_and_without_weir(dialect, path, body):
    async with pair(dialect) as (alone, gateway):
        for _ in range(5):
            first, second = await both(alone, gateway, path, body)
            assert (first.status, second.status) == (200, 200)
            assert second.body == first.body
            assert second.one('content-type') == first.one('content-type')
            assert 'stream' not in body or len(events_of(second.body)) > 5
        await used_as_told(gateway)


@pytest.mark.parametrize('more', [{}, {'stream_options': None}, {'stream_options': {}}, TOOLS,
                                  {'stream_options': {'include_usage': False}}])
@run
async def test_a_stream_whose_client_does_not_ask_for_usage_is_the_same_though_weir_has_asked(more):
    body = {**MESSAGES, 'stream': True, **more}
    async with pair('openai') as (alone, gateway):
        for _ in range(5):
            first, second = await both(alone, gateway, CHAT, body)
            assert not any(is_usage(event) for event in events_of(first.body)) and b'usage' not in first.body
            assert second.body == first.body
            assert len(events_of(second.body)) > 4
        await used_as_told(gateway)


@pytest.mark.parametrize('fault', ['half-event', 'error-event', 'two-usages', 'no-usage', 'gzip', 'refuse', 'fail'])
@pytest.mark.parametrize('dialect, path, body', [
    ('openai', CHAT, {**MESSAGES, 'stream': True, **USED}),
    ('openai', '/v1/responses', {'model': 'm', 'input': 'Hi', 'stream': True}),
    ('anthropic', '/v1/messages', {**MESSAGES, 'max_tokens': 100, 'stream': True})])
@run
async def test_what_a_provider_spoils_reaches_the_client_as_it_is(dialect, path, body, fault):
    async with pair(dialect) as (alone, gateway):
        first, second = await both(alone, gateway, path, body, f'X-Mock-Fault: {fault}')
        assert (second.status, second.one('content-encoding')) == (first.status, first.one('content-encoding'))
        unpack = gzip.decompress if fault == 'gzip' else bytes  # its blocks depend on when the events came
        assert unpack(second.body) == unpack(first.body)
        await gateway.until('m', 'llm', active=0, waiting=0, reserved=0)


@pytest.mark.parametrize('fault', ['error-event', 'two-usages', 'no-usage', 'refuse', 'fail'])
@run
async def test_what_a_provider_spoils_is_the_same_though_weir_has_asked(fault):
    """Unlike what is compressed, or where half an event is: that is half of a longer one."""
    async with pair('openai') as (alone, gateway):
        first, second = await both(alone, gateway, CHAT, {**MESSAGES, 'stream': True}, f'X-Mock-Fault: {fault}')
        assert (second.status, second.body) == (first.status, first.body)
        await gateway.until('m', 'llm', active=0, waiting=0, reserved=0)
