"""`weir mock --llm`, the emulated provider: over real HTTP, and with the clients that people use."""
import asyncio
import contextlib
import gzip
import json
import pathlib
import re
import time

import aiohttp
import pytest
from raw import run
from test_mock import call, mock
from weir import until

# Replies at once, all of them alike: what is not tested does not play a part.
QUICK = ('--first-token=0', '--pace=none', '--output=10', '--output-spread=0')

# Streams that have begun and do not end by themselves: an event, and the next in an hour.
STUCK = ('--first-token=0', '--pace=1/h', '--output=100', '--output-spread=0', '--chunk=1')

CHAT = '/v1/chat/completions'
RESPONSES = '/v1/responses'
MESSAGES = '/v1/messages'

HELLO = {'model': 'm', 'messages': [{'role': 'user', 'content': 'x' * 396}]}  # 100 tokens, with its role


@contextlib.asynccontextmanager
async def provider(dialect, *flags):
    async with mock('--llm', dialect, *flags) as server:
        async with aiohttp.ClientSession(server.url, connector=aiohttp.TCPConnector(limit=0)) as client:
            yield server, client


async def ask(client, path=CHAT, headers=None, **more):
    """The status, the headers and the document of a reply."""
    async with client.post(path, json={**HELLO, **more}, headers=headers) as reply:
        return reply.status, reply.headers, await reply.json()


async def events(reply):
    """What a stream says, as pairs of a name or None and a document; [DONE] as a text."""
    pairs = []
    for block in (await reply.text()).split('\n\n')[:-1]:
        match = re.fullmatch(r'(?:event: (\S+)\n)?data: (.*)', block)
        assert match, block
        pairs.append((match[1], match[2] if match[2] == '[DONE]' else json.loads(match[2])))
    return pairs


async def stream(client, path=CHAT, headers=None, **more):
    async with client.post(path, json={**HELLO, 'stream': True, **more}, headers=headers) as reply:
        assert reply.status == 200
        assert reply.content_type == 'text/event-stream'
        return await events(reply)


async def set_rules(client, words):
    async with client.post('/mock/set?' + words) as reply:
        assert reply.status == 204


@contextlib.asynccontextmanager
async def stuck(client, server, path=CHAT, count=1, **more):
    """Streams that are under way until the block ends."""
    async with contextlib.AsyncExitStack() as stack:
        for i in range(count):
            reply = await stack.enter_async_context(
                client.post(path, json={**HELLO, 'stream': True, **more}))
            assert reply.status == 200, await reply.text()
        await server.until_stats(active=count)
        yield


async def level(server, name='tokens'):
    return (await server.stats())['levels'][name]['level']


# ---- OpenAI

@run
async def test_a_chat_is_answered_with_its_usage():
    async with provider('openai', *QUICK) as (server, client):
        status, headers, said = await ask(client)
        assert status == 200
        assert said['object'] == 'chat.completion'
        assert said['model'] == 'm'
        assert abs(said['created'] - time.time()) < 60
        choice, = said['choices']
        assert choice['finish_reason'] == 'stop'
        assert choice['message']['role'] == 'assistant'
        assert len(choice['message']['content']) == 40
        assert said['usage']['prompt_tokens'] == 100
        assert said['usage']['completion_tokens'] == 10
        assert said['usage']['total_tokens'] == 110
        assert re.fullmatch(r'req_[0-9a-f]{16}', headers['x-request-id'])
        assert headers['openai-organization'] and int(headers['openai-processing-ms']) >= 0
        assert not any(name.lower().startswith('x-ratelimit') for name in headers)  # there are no limits
        _, _, said = await ask(client, max_completion_tokens=3)
        assert said['choices'][0]['finish_reason'] == 'length'
        assert said['usage']['completion_tokens'] == 3
        stats = await server.stats()
        assert (stats['served'], stats['tokens_input'], stats['tokens_output']) == (2, 200, 13)


@run
async def test_a_chat_streams_in_chunks_with_its_usage_last():
    async with provider('openai', *QUICK, '--chunk=4') as (_, client):
        said = await stream(client, stream_options={'include_usage': True})
        assert [name for name, _ in said] == [None] * len(said)
        *chunks, usage, done = [document for _, document in said]
        assert done == '[DONE]'
        assert usage['choices'] == []
        assert usage['usage']['completion_tokens'] == 10
        assert all(chunk['usage'] is None for chunk in chunks)
        assert len({chunk['id'] for chunk in chunks}) == 1
        deltas = [chunk['choices'][0]['delta'] for chunk in chunks]
        assert deltas[0] == {'role': 'assistant', 'content': '', 'refusal': None}
        assert [len(delta['content']) for delta in deltas[1:-1]] == [16, 16, 8]
        assert deltas[-1] == {}
        assert [chunk['choices'][0]['finish_reason'] for chunk in chunks] == [None] * 4 + ['stop']
        _, _, whole = await ask(client)
        assert ''.join(delta.get('content', '') for delta in deltas) == whole['choices'][0]['message']['content']
        for _, chunk in (await stream(client))[:-1]:
            assert 'usage' not in chunk and chunk['choices']


@run
async def test_a_response_streams_by_events():
    async with provider('openai', *QUICK, '--chunk=4') as (_, client):
        body = {'messages': None, 'input': 'hello'}
        said = await stream(client, RESPONSES, **body)
        assert [name for name, _ in said] == [
            'response.created', 'response.in_progress', 'response.output_item.added',
            'response.content_part.added', *['response.output_text.delta'] * 3, 'response.output_text.done',
            'response.content_part.done', 'response.output_item.done', 'response.completed']
        assert all(name == document['type'] for name, document in said)
        assert [document['sequence_number'] for _, document in said] == list(range(len(said)))
        response = said[-1][1]['response']
        assert response['status'] == 'completed'
        assert response['usage']['input_tokens'] == 2 and response['usage']['output_tokens'] == 10
        text = response['output'][0]['content'][0]['text']
        assert ''.join(document.get('delta', '') for _, document in said) == text
        assert said[0][1]['response']['usage'] is None
        _, _, whole = await ask(client, RESPONSES, **body)
        assert whole['output'][0]['content'][0]['text'] == text
        _, _, whole = await ask(client, RESPONSES, **body, max_output_tokens=2)
        assert whole['status'] == 'incomplete'
        assert whole['incomplete_details'] == {'reason': 'max_output_tokens'}


@run
async def test_completions_embeddings_and_models():
    async with provider('openai', *QUICK) as (server, client):
        _, _, said = await ask(client, '/v1/completions', prompt='four', messages=None)
        assert said['object'] == 'text_completion' and len(said['choices'][0]['text']) == 40
        said = await stream(client, '/v1/completions', prompt='four', messages=None)
        assert ''.join(chunk['choices'][0]['text'] for _, chunk in said[:-1]) and said[-1][1] == '[DONE]'
        _, _, said = await ask(client, '/v1/embeddings', input=['four', 'eight888'], messages=None)
        assert [each['index'] for each in said['data']] == [0, 1]
        assert said['usage'] == {'prompt_tokens': 3, 'total_tokens': 3}
        async with client.get('/v1/models') as reply:
            assert 'mock-small' in [each['id'] for each in (await reply.json())['data']]
        assert (await server.stats())['tokens_output'] == 20  # embeddings have none


@run
async def test_what_is_no_request_is_told_in_the_dialects_form():
    for dialect, path in ('openai', CHAT), ('anthropic', MESSAGES):
        async with provider(dialect, *QUICK) as (server, client):
            async def wrong(path, body, method='POST', status=400):
                async with client.request(method, path, data=body) as reply:
                    assert reply.status == status
                    said = await reply.json()
                assert said['error']['message']
                return said['error']['type']
            for body in b'', b'{', b'[]', b'{"messages":[]}', b'{"model":"m"}':
                assert await wrong(path, body) == 'invalid_request_error'
            await wrong('/v1/nothing', b'{}', status=404)
            await wrong(path, None, method='GET', status=405)
            other = MESSAGES if dialect == 'openai' else CHAT
            await wrong(other, b'{}', status=404)
            stats = await server.stats()
            assert (stats['requests'], stats['invalid'], stats['accepted']) == (5, 5, 0)


@run
async def test_the_key_must_be_known():
    for dialect, path, name, value in (('openai', CHAT, 'Authorization', 'Bearer secret'),
                                       ('anthropic', MESSAGES, 'x-api-key', 'secret')):
        async with provider(dialect, *QUICK, '--key=secret', '--tokens=1000/d') as (server, client):
            for headers in {}, {name: value + 'x'}, {name: value[:-1]}, {name: 'Bearer'}, {name: 'Weaver secret'}:
                status, _, said = await ask(client, path, headers=headers)
                assert status == 401
                assert said['error']['type'] in ('invalid_request_error', 'authentication_error')
            assert (await ask(client, path, headers={name: value}))[0] == 200
            async with client.get('/v1/models') as reply:
                assert reply.status == 401
            stats = await server.stats()
            assert (stats['unauthorized'], stats['served']) == (5, 1)
            assert stats['levels']['tokens']['level'] == 890  # who is not known is not charged


# ---- Anthropic

@run
async def test_a_message_is_answered_and_streamed():
    async with provider('anthropic', *QUICK, '--chunk=4') as (_, client):
        status, headers, said = await ask(client, MESSAGES, max_tokens=100)
        assert status == 200 and re.fullmatch(r'req_[0-9a-f]{16}', headers['request-id'])
        assert said['type'] == 'message' and said['stop_reason'] == 'end_turn'
        assert said['usage']['input_tokens'] == 100 and said['usage']['output_tokens'] == 10
        pieces = await stream(client, MESSAGES, max_tokens=5)
        assert [name for name, _ in pieces] == [
            'message_start', 'content_block_start', 'ping', *['content_block_delta'] * 2,
            'content_block_stop', 'message_delta', 'message_stop']
        assert all(name == document['type'] for name, document in pieces)
        assert pieces[0][1]['message']['usage'] == {
            'input_tokens': 100, 'cache_creation_input_tokens': 0, 'cache_read_input_tokens': 0,
            'output_tokens': 1}
        assert ''.join(document['delta']['text'] for _, document in pieces[3:5]) == said['content'][0]['text'][:20]
        assert pieces[6][1]['delta']['stop_reason'] == 'max_tokens'
        assert pieces[6][1]['usage'] == {'output_tokens': 5}


@run
async def test_anthropic_states_input_and_output_apart():
    async with provider('anthropic', *QUICK, '--requests=10/m', '--input-tokens=50000/m',
                        '--output-tokens=500/d') as (server, client):
        status, headers, _ = await ask(client, MESSAGES, max_tokens=50)
        assert status == 200
        named = {name.lower(): value for name, value in headers.items()
                 if name.lower().startswith('anthropic-ratelimit')}
        moment = r'20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ'
        assert named.keys() == {f'anthropic-ratelimit-{of}-{what}'
                                for of in ('requests', 'input-tokens', 'output-tokens')
                                for what in ('limit', 'remaining', 'reset')}
        assert named['anthropic-ratelimit-requests-remaining'] == '9'
        assert named['anthropic-ratelimit-input-tokens-remaining'] == '50000'  # to the nearest thousand
        assert named['anthropic-ratelimit-output-tokens-remaining'] == '0'
        assert all(re.fullmatch(moment, value) for name, value in named.items() if name.endswith('reset'))
        await set_rules(client, 'output-tokens=5/d')
        assert (await ask(client, MESSAGES, max_tokens=50))[0] == 200  # it is full
        status, headers, said = await ask(client, MESSAGES, max_tokens=50)
        assert status == 429 and said['error']['type'] == 'rate_limit_error'
        assert 'output tokens' in said['error']['message']
        assert int(headers['retry-after']) > 86400 and 'retry-after-ms' not in headers
        assert headers['request-id'] == said['request_id']


# ---- limits

@run
async def test_limits_are_stated_as_they_are_left_and_kept():
    async with provider('openai', *QUICK, '--tokens=250/d', '--requests=60/m') as (server, client):
        for i, left in enumerate(('140', '30')):
            status, headers, _ = await ask(client)
            assert status == 200
            assert headers['x-ratelimit-limit-tokens'] == '250'
            assert headers['x-ratelimit-remaining-tokens'] == left
            assert re.fullmatch(r'\d+h\d+m[\d.]+s', headers['x-ratelimit-reset-tokens'])
            assert headers['x-ratelimit-limit-requests'] == '60'
            assert headers['x-ratelimit-remaining-requests'] == str(59 - i)
            assert re.fullmatch(r'[\d.]+m?s', headers['x-ratelimit-reset-requests'])
        status, headers, said = await ask(client)
        assert status == 429
        assert (said['error']['type'], said['error']['code']) == ('tokens', 'rate_limit_exceeded')
        assert headers['x-ratelimit-remaining-tokens'] == '30'
        wait_s = 80 * 86400 / 250
        assert wait_s - 60 < int(headers['retry-after']) <= wait_s + 1
        assert wait_s - 60 < int(headers['retry-after-ms']) / 1000 <= wait_s + 1
        stats = await server.stats()
        assert (stats['accepted'], stats['refused'], stats['refused_full']) == (2, 1, 0)


@run
async def test_retry_after_is_true():
    async with provider('openai', *QUICK, '--requests=4/s', '--burst=250ms') as (_, client):
        assert (await ask(client))[0] == 200
        status, headers, said = await ask(client)
        assert status == 429 and said['error']['type'] == 'requests'
        assert headers['retry-after'] == '1'
        assert 1 <= int(headers['retry-after-ms']) <= 250
        await asyncio.sleep(int(headers['retry-after-ms']) / 1000)  # what the reply told to do
        assert (await ask(client))[0] == 200


@run
async def test_a_silent_provider_says_nothing():
    for dialect, path in ('openai', CHAT), ('anthropic', MESSAGES):
        async with provider(dialect, *QUICK, '--tokens=110/d', '--headers=off', '--retry-after=off') as (_, client):
            for status in 200, 429:
                got, headers, _ = await ask(client, path, max_tokens=10)
                assert got == status
                assert not [name for name in headers if 'ratelimit' in name.lower() or 'retry' in name.lower()]
            await set_rules(client, 'retry-after=on')
            assert int((await ask(client, path, max_tokens=10))[1]['retry-after']) > 3600


@pytest.mark.parametrize('charge, at_first, in_the_end', [
    ('estimate', 200, 101), ('max', 180, 101), ('max_kept', 180, 180), ('end', 0, 101)])
@run
async def test_each_rule_charges_when_it_says(charge, at_first, in_the_end):
    """100 tokens of input, 100 of output as they are expected, 80 at most, one that was said."""
    async with provider('openai', *STUCK, '--tokens=1000/d', f'--charge={charge}') as (server, client):
        most = {'max_tokens': 80} if charge.startswith('max') else {}
        async with stuck(client, server, **most):
            assert await level(server) == 1000 - at_first
        stats = await server.until_stats(active=0, gone=1)
        assert stats['levels']['tokens']['level'] == 1000 - in_the_end
        assert stats['tokens_charged'] - stats['tokens_returned'] == in_the_end
        assert (stats['tokens_input'], stats['tokens_output']) == (100, 1)


@run
async def test_a_quota_of_a_day_is_counted_and_not_stated():
    async with provider('openai', *QUICK, '--quota=150/d') as (server, client):
        status, headers, _ = await ask(client)
        assert status == 200 and not any('ratelimit' in name.lower() for name in headers)
        status, headers, said = await ask(client)
        assert status == 429 and 'quota' in said['error']['message']
        assert 86000 < int(headers['retry-after']) <= 86400
        assert await level(server, 'quota') == 40


@run
async def test_more_at_once_than_it_has_places_for_are_refused():
    for status in 429, 503:
        async with provider('openai', *STUCK, '--concurrency=2', f'--full={status}') as (server, client):
            async with stuck(client, server, count=2):
                got, headers, said = await ask(client)
                assert got == status
                assert '2 requests at once' in said['error']['message']
                assert 'retry-after' not in headers
                stats = await server.stats()
                assert (stats['refused'], stats['refused_full'], stats['most']) == (1, 1, 2)
                await set_rules(client, 'concurrency=3')
                async with client.post(CHAT, json={**HELLO, 'stream': True}) as third:
                    assert third.status == 200
            await server.until_stats(active=0, gone=3)


# ---- trouble

@run
async def test_a_share_fails_and_costs_nothing():
    for dialect, path, usual in ('openai', CHAT, 503), ('anthropic', MESSAGES, 529):
        async with provider(dialect, *QUICK, '--fail=100', '--tokens=1000/d', '--requests=1000/d') as (server, client):
            status, _, said = await ask(client, path)
            assert status == usual
            assert said['error']['type'] in ('server_error', 'overloaded_error')
            await set_rules(client, 'fail-status=500')
            assert (await ask(client, path))[0] == 500
            stats = await server.stats()
            assert (stats['failed'], stats['accepted'], stats['tokens_input']) == (2, 2, 0)
            assert {name: each['level'] for name, each in stats['levels'].items()} == {
                'tokens': 1000, 'requests': 1000}


@run
async def test_the_same_seed_means_the_same_replies():
    async def replies(*flags):
        async with provider('openai', '--first-token=0', '--pace=none', '--fail=20', '--input-noise=20',
                            *flags) as (_, client):
            said = [await ask(client) for _ in range(60)]
            return [(status, document.get('usage')) for status, _, document in said]

    first = await replies()
    assert 2 <= [status for status, _ in first].count(503) <= 28  # 12 are to be expected
    outputs = sorted(usage['completion_tokens'] for status, usage in first if status == 200)
    assert outputs[0] < 180 and outputs[-1] > 350 and 150 < outputs[len(outputs) // 2] < 400
    inputs = {usage['prompt_tokens'] for status, usage in first if status == 200}
    assert len(inputs) > 10 and 80 <= min(inputs) and max(inputs) <= 120
    assert await replies('--seed=1') == first
    assert await replies('--seed=2') != first


@run
async def test_a_reply_takes_its_time():
    flags = ('--first-token=80ms', '--first-spread=0', '--pace=100/s', '--output=13', '--output-spread=0',
             '--chunk=1')
    async with provider('openai', *flags) as (_, client):
        start = time.monotonic()
        async with client.post(CHAT, json={**HELLO, 'stream': True}) as reply:
            first = time.monotonic() - start
            assert first >= 0.08
            await reply.read()
        assert time.monotonic() - start >= 0.2
        start = time.monotonic()
        await ask(client)
        assert time.monotonic() - start >= 0.2  # all of it is there at once, and not before


@run
async def test_rules_change_at_their_moment_and_by_a_call():
    flags = ('--at=400ms:fail=100', '--at=0:requests=7/d', '--at=400ms:requests=8/d')
    async with provider('openai', *QUICK, *flags) as (server, client):
        first = await server.stats()
        if first['now_ms'] < 300:
            assert first['levels']['requests']['limit'] == 7

        async def changed():
            return (await server.stats())['levels']['requests']['limit'] == 8
        await until(changed, 'the schedule')
        assert (await server.stats())['now_ms'] >= 400
        assert (await ask(client))[0] == 503
        await set_rules(client, 'fail=0&requests=none&tokens=1000%2Fd')
        assert (await ask(client))[0] == 200
        assert list((await server.stats())['levels']) == ['tokens']
        for words in 'tokens=5', 'fail=0&nothing=1', 'concurrency=0', 'fail=%zz':
            async with client.post('/mock/set?' + words) as reply:
                assert reply.status == 400
                assert 'expected' in (await reply.json())['error']
        assert list((await server.stats())['levels']) == ['tokens']  # all of it, or nothing
        async with client.get('/mock/set?fail=0') as reply:
            assert reply.status == 405


# ---- counts

@run
async def test_counts_of_tenants_and_seconds():
    async with provider('openai', *QUICK, '--tokens=60000/m') as (server, client):
        await ask(client, user='ann')
        await ask(client, user='ann')
        await ask(client, user='ann', headers={'X-Mock-Tenant': 'bob'})
        await ask(client)
        await ask(client, user='bob', headers={'X-Mock-Fault': 'refuse'})
        stats = await server.stats()
        assert stats['tenants'] == [
            {'name': 'ann', 'requests': 2, 'refused': 0, 'served': 2, 'tokens': 220},
            {'name': 'bob', 'requests': 2, 'refused': 1, 'served': 1, 'tokens': 110}]

        async def third_second():  # without anything else being asked
            async with client.get('/mock/series') as reply:
                return len((await reply.json())['served']) >= 3
        await until(third_second, 'the third second')
        async with client.get('/mock/stats?since=2') as reply:
            said = await reply.json()
        assert (said['served'], said['since']['served'], said['since']['second']) == (4, 0, 2)
        async with client.get('/mock/series') as reply:
            series = await reply.json()
        assert series['second'] == 0
        assert sum(series['served']) == 4 and sum(series['refused']) == 1
        assert sum(series['tokens_input']) == 400
        assert series['tokens_allowed'][0] in (999, 1000) and series['tokens_allowed'][1] in (999, 1000, 1001)
        assert max(series['most']) == 1
        async with client.get('/mock/series?since=1') as reply:
            assert (await reply.json())['second'] == 1
        for path in '/mock/stats?since=x', '/mock/series?sins=1':
            async with client.get(path) as reply:
                assert reply.status == 400
            said = await server.say(f'GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n'.encode())
            assert said.count(b'HTTP/1.1') == 1
        async with client.delete('/mock/stats') as reply:
            assert reply.status == 204
        stats = await server.stats()
        assert (stats['requests'], stats['tenants']) == (0, [])


@run
async def test_a_stream_that_is_left_is_counted_and_pays_for_what_was_said():
    async with provider('openai', *STUCK) as (server, client):
        async with stuck(client, server, count=3):
            pass
        stats = await server.until_stats(active=0)
        assert (stats['gone'], stats['served'], stats['tokens_output']) == (3, 0, 3)


# ---- faults

def fault(name):
    return {'X-Mock-Fault': name}


USAGE = {'stream_options': {'include_usage': True}}


@run
async def test_a_provider_that_dies_mid_stream():
    async with provider('openai', *QUICK, '--chunk=1') as (server, client):
        for more in {'stream': True}, {}:
            async with client.post(CHAT, json={**HELLO, **more}, headers=fault('die-mid-stream')) as reply:
                assert reply.status == 200
                with pytest.raises(aiohttp.ClientPayloadError):
                    await reply.read()
        stats = await server.until_stats(active=0, gone=2)
        assert stats['served'] == 0


@run
async def test_half_an_event_and_an_error_in_the_middle():
    async with provider('openai', *QUICK, '--chunk=1') as (_, client):
        async with client.post(CHAT, json={**HELLO, 'stream': True}, headers=fault('half-event')) as reply:
            text = await reply.text()
        assert text.count('data: ') == 6  # one of the role, five of the text
        assert not text.endswith('\n') and 'DONE' not in text
        said = await stream(client, headers=fault('error-event'))
        assert said[-1][1]['error']['type'] == 'server_error'
    async with provider('anthropic', *QUICK, '--chunk=1') as (_, client):
        said = await stream(client, MESSAGES, headers=fault('error-event'))
        assert said[-1][0] == 'error' and said[-1][1]['error']['type'] == 'overloaded_error'


@run
async def test_usage_that_is_stated_twice_or_not_at_all():
    async with provider('openai', *QUICK) as (_, client):
        said = await stream(client, headers=fault('two-usages'), **USAGE)
        usages = [chunk['usage']['completion_tokens'] for _, chunk in said[:-1] if chunk['usage']]
        assert usages == [11, 10]
        said = await stream(client, headers=fault('no-usage'), **USAGE)
        assert not [chunk for _, chunk in said[:-1] if 'usage' in chunk]
        assert 'usage' not in (await ask(client, headers=fault('no-usage')))[2]
        async with client.post(CHAT, json=HELLO, headers=fault('two-usages')) as reply:
            assert (await reply.text()).count('"usage"') == 2
        said = await stream(client, RESPONSES, input='x', headers=fault('no-usage'))
        assert said[-1][1]['response']['usage'] is None
    async with provider('anthropic', *QUICK) as (_, client):
        said = await stream(client, MESSAGES, headers=fault('two-usages'))
        assert [each['usage']['output_tokens'] for name, each in said if name == 'message_delta'] == [5, 10]
        said = await stream(client, MESSAGES, headers=fault('no-usage'))
        assert not [each for _, each in said if 'usage' in json.dumps(each)]


@run
async def test_ten_megabytes_without_a_line_end():
    async with provider('openai', *QUICK) as (_, client):
        async with client.post(CHAT, json={**HELLO, 'stream': True}, headers=fault('no-newline-10mb')) as reply:
            body = await reply.read()
        assert len(body) == 6 + (10 << 20) and b'\n' not in body
        assert (await ask(client))[0] == 200  # on the same connection


@run
async def test_gzip_that_nobody_asked_for():
    async with provider('openai', *QUICK, '--chunk=1') as (_, client):
        headers = {**fault('gzip'), 'Accept-Encoding': 'identity'}
        async with aiohttp.ClientSession(client._base_url, auto_decompress=False) as plain:
            for more in {}, {'stream': True}:
                async with plain.post(CHAT, json={**HELLO, **more}, headers=headers) as reply:
                    assert reply.headers['Content-Encoding'] == 'gzip'
                    text = gzip.decompress(await reply.read()).decode()
                assert text.endswith('data: [DONE]\n\n' if more else '}')


@run
async def test_faults_that_end_a_request():
    async with provider('openai', *QUICK, '--tokens=1000/d') as (server, client):
        assert (await ask(client, headers=fault('fail')))[0] == 503
        status, headers, _ = await ask(client, headers=fault('refuse'))
        assert (status, headers['retry-after']) == (429, '1')
        status, _, said = await ask(client, headers=fault('nonsense'))
        assert status == 400 and 'X-Mock-Fault' in said['error']['message']
        with pytest.raises(aiohttp.ClientError):
            await ask(client, headers=fault('reset'))
        hung = asyncio.create_task(ask(client, headers=fault('hang')))
        await server.until_stats(active=1)
        hung.cancel()
        stats = await server.until_stats(active=0, gone=1)
        assert (stats['failed'], stats['refused'], stats['invalid']) == (2, 1, 1)
        assert stats['levels']['tokens']['level'] == 890  # the one that hung has said all, to nobody
    async with provider('openai', '--first-token=20ms', '--first-spread=0', '--output=1') as (_, client):
        start = time.monotonic()
        assert (await ask(client, headers=fault('slow')))[0] == 200
        assert time.monotonic() - start >= 0.2


# ---- bytes

@run
async def test_streams_for_http_1_0_and_one_after_the_other():
    async with provider('openai', *QUICK) as (server, _):
        body = json.dumps({**HELLO, 'stream': True}).encode()
        head = b'POST /v1/chat/completions HTTP/1.%d\r\nHost: a\r\nContent-Length: %d\r\n\r\n'
        reply = await server.say(head % (0, len(body)) + body)
        assert b'chunked' not in reply and reply.endswith(b'data: [DONE]\n\n')
        pair = (head % (1, len(body)) + body) * 2
        reply = await server.say(pair + b'GET /mock/stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')
        assert reply.count(b'data: [DONE]\n\n\r\n0\r\n\r\n') == 2
        assert b'"served":3' in reply
        pieces = b''.join(b'1\r\n%c\r\n' % byte for byte in body)
        reply = await server.say(
            b'POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n'
            + pieces + b'0\r\n\r\n')
        assert b'data: [DONE]' in reply
        reply = await server.say(
            b'POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{x\r\n')
        assert b' 400 ' in reply
        await server.until_stats(active=0, served=4)


@run
async def test_a_long_reply_comes_whole():
    async with provider('openai', '--first-token=0', '--pace=none', '--output=12000', '--output-max=12000',
                        '--output-spread=0', '--chunk=500') as (_, client):
        _, _, said = await ask(client)
        text = said['choices'][0]['message']['content']
        assert len(text) == 48000
        chunks = await stream(client)
        assert ''.join(chunk['choices'][0]['delta'].get('content', '') for _, chunk in chunks[:-1]) == text
        said = await stream(client, RESPONSES, input='x', model='\u00e9"\\' * 60)
        assert said[-1][1]['response']['output'][0]['content'][0]['text'] == text


@run
async def test_many_streams_at_once_end_alike():
    flags = ('--first-token=100ms', '--pace=400/s', '--output=80', '--output-spread=0.2', '--chunk=1')
    async with provider('openai', *flags) as (server, client):
        said = await asyncio.gather(*(stream(client, **USAGE) for _ in range(64)))
        for chunks in said:
            assert chunks[-1] == (None, '[DONE]')
            tokens = sum(len(chunk['choices'][0]['delta'].get('content', '')) // 4
                         for _, chunk in chunks[:-2])
            assert tokens == chunks[-2][1]['usage']['completion_tokens']
        stats = await server.until_stats(active=0)
        assert (stats['served'], stats['most'], stats['refused']) == (64, 64, 0)


# ---- the command line

@pytest.mark.parametrize('arguments, complaint', [
    (['--llm', 'gemini'], '--llm gemini: expected openai or anthropic'),
    (['--tokens=5/s'], '--tokens: expected together with --llm'),
    (['--llm=openai', '--latency=5ms'], '--latency: expected without --llm'),
    (['--llm=openai', '--tokens=5'], '--tokens 5: expected a rate such as 250000/m'),
    (['--llm=openai', '--charge=prompt'], 'expected estimate, max, max_kept or end'),
    (['--llm=openai', '--full=500'], 'expected 429 or 503'),
    (['--llm=openai', '--key='], 'expected a text that a header field can carry'),
    (['--llm=openai', '--at=30s'], '--at 30s: expected a moment and'),
    (['--llm=openai', '--at=30s:tokens=x'], 'expected a moment and'),
])
def test_flags_that_are_wrong_are_explained(arguments, complaint):
    done = call(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert done.stderr.count('\n') == 1


def names_in(page, heading):
    """What stands in the first column of the tables under a heading, word by word."""
    section = page.split(f'\n## {heading}\n')[1].split('\n## ')[0]
    rows = [line.split('|')[1] for line in section.splitlines() if line.startswith('| `')]
    return [name for row in rows for name in re.findall(r'`([\w-]+)', row)]


@run
async def test_the_page_lists_every_flag_every_fault_and_every_count():
    root = pathlib.Path(__file__).resolve().parents[2]
    page = (root / 'docs/reference/mock.md').read_text()
    flags = re.findall(r'^  (--[\w-]+)', call('--help').stdout, flags=re.M)
    listed = names_in(page, 'Flags') + names_in(page, 'Its flags')
    assert [name for name in listed if name.startswith('--')] == flags[:-1]
    faults = re.findall(r'^    X\(\w+, "([\w-]+)"\)', (root / 'src/lab/mock/session.h').read_text(), flags=re.M)
    assert sorted(names_in(page, 'Faults')) == sorted(faults)
    async with provider('openai', *QUICK) as (server, _):
        stats = await server.stats()
    counts = {name for name, value in stats.items() if isinstance(value, int)} - {'now_ms'}
    assert set(names_in(page, 'What it has counted')) == counts


@run
async def test_its_last_line_is_what_it_counted():
    async with provider('openai', *QUICK, '--concurrency=5', '--fail=0') as (server, client):
        await ask(client)
    assert server.last_line['served'] == 1 and server.last_line['tokens_input'] == 100
