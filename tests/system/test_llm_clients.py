"""The official clients of OpenAI and Anthropic, unchanged but for their base URL, through Weir to the emulated provider."""
import contextlib
import json

import pytest
from raw import reply, run, upstream
from test_clients import line_of, node
from test_llm import JSON, completion, llm, refusal, turns
from test_mock import mock
from test_mock_llm import QUICK, STUCK
from test_mock_llm_clients import ANTHROPIC, OPENAI, hear_anthropic, hear_openai
from weir import weir

CREDENTIALS = {'openai': 'Authorization: "Bearer provider"', 'anthropic': 'X-Api-Key: provider'}


@contextlib.asynccontextmanager
async def behind_weir(dialect, *flags, route='retries: 0', top='', gate=''):
    """A provider with a key of its own, and the gateway that knows it."""
    async with mock('--llm', dialect, '--key=provider', *flags) as server:
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
grace: 5s
{top}
upstreams: {{ provider: {{ url: "{server.url}", headers: {{ {CREDENTIALS[dialect]} }} }} }}
gates: {{ llm: {{ {gate} }} }}
routes: [ {{ match: /, llm: {dialect}, key: "{{model}}", gate: llm, upstream: provider, {route} }} ]
'''
        async with weir(config) as gateway:
            yield gateway, server


@run
async def test_openais_client():
    def stranger(said, text):  # whatever key it has
        assert said['none']['choices'][0]['message']['content'] == text
    async with behind_weir('openai', *QUICK, '--chunk=3') as (gateway, server), \
            node(OPENAI, 'openai', gateway.url) as client:
        await hear_openai(client, stranger)
        assert (await server.stats())['unauthorized'] == 0
        for key in ('m', 'default'):
            await gateway.until(key, 'llm', active=0, waiting=0, reserved=0)


@run
async def test_anthropics_client():
    def stranger(said, text):  # whatever key it has
        assert said['none']['content'][0]['text'] == text
    async with behind_weir('anthropic', *QUICK, '--chunk=3') as (gateway, server), \
            node(ANTHROPIC, '@anthropic-ai/sdk', gateway.url) as client:
        await hear_anthropic(client, stranger)
        assert (await server.stats())['unauthorized'] == 0
        for key in ('m', 'default'):
            await gateway.until(key, 'llm', active=0, waiting=0, reserved=0)


ABORTS = '''
const say = text => process.stdout.write(JSON.stringify(text) + '\\n');
const asked = {model: 'm', max_tokens: 100, messages: [{role: 'user', content: 'hello'}], stream: true};
const Client = require(process.argv[2]);
const client = new Client({baseURL: process.argv[1], apiKey: 'any', maxRetries: 0});
const begin = () => client.messages ? client.messages.create(asked) : client.chat.completions.create(asked);
(async () => {
    const streams = await Promise.all(Array.from({length: 8}, begin));
    for (const stream of streams) {
        const events = stream[Symbol.asyncIterator]();
        await events.next();
    }
    say('begun');
    for (const stream of streams) stream.controller.abort();
    say('aborted');
    setTimeout(() => {}, 60000);
})().catch(error => { console.error(error); process.exit(1); });
'''


async def abort_streams(dialect, package, path):
    async with behind_weir(dialect, *STUCK, gate='limit: { start: 8 }') as (gateway, server), \
            node(ABORTS, package, gateway.url + path, package) as client:
        assert await line_of(client) == 'begun'  # all eight, and it goes on at once
        assert await line_of(client) == 'aborted'
        await gateway.until('m', 'llm', active=0, waiting=0, reserved=0)
        await server.until_stats(active=0, gone=8)


@run
async def test_streams_that_openais_client_aborts_give_everything_back():
    await abort_streams('openai', 'openai', '/v1')


@run
async def test_streams_that_anthropics_client_aborts_give_everything_back():
    await abort_streams('anthropic', '@anthropic-ai/sdk', '')


@pytest.mark.parametrize('dialect, package, path', [('openai', 'openai', '/v1'), ('anthropic', '@anthropic-ai/sdk', '')])
@run
async def test_what_weir_does_not_try_again_the_client_does(dialect, package, path):
    """A refusal that reaches it is one to its own retries as well, and tells it when to come again."""
    script = '''
const Client = require(process.argv[2]);
const client = new Client({baseURL: process.argv[1], apiKey: 'any', maxRetries: 2});
const asked = {model: 'm', max_tokens: 9, messages: [{role: 'user', content: 'x'}]};
const said = client.messages ? client.messages.create(asked) : client.chat.completions.create(asked);
said.then(reply => process.stdout.write(JSON.stringify(reply.id) + '\\n'));
'''
    good = {'openai': completion(), 'anthropic': json.dumps(
        {'id': 'c', 'type': 'message', 'role': 'assistant', 'model': 'm', 'content': [{'type': 'text', 'text': 'Hi'}],
         'stop_reason': 'end_turn', 'usage': {'input_tokens': 3, 'output_tokens': 1}}).encode()}[dialect]
    answers = turns(refusal('429 Too Many Requests', 'retry-after: 1'), reply(good, JSON))
    async with upstream(answers) as server, llm(server, dialect=dialect, route='retries: 0') as gateway, \
            node(script, package, gateway.url + path, package) as client:
        assert await line_of(client) == 'c'
        assert [message.one('x-stainless-retry-count') for message in server.seen] == ['0', '1']


@run
async def test_what_weir_tries_again_the_client_does_not_see():
    script = '''
const OpenAI = require('openai');
const client = new OpenAI({baseURL: process.argv[1] + '/v1', apiKey: 'any', maxRetries: 0});
client.chat.completions.create({model: 'm', messages: [{role: 'user', content: 'x'}]})
    .then(said => process.stdout.write(JSON.stringify(said.choices.length) + '\\n'));
'''
    # With this seed the first one fails, the second does not.
    async with behind_weir('openai', *QUICK, '--fail=50', '--seed=1', route='retries: 2') as (gateway, server), \
            node(script, 'openai', gateway.url) as client:
        assert await line_of(client) == 1
        stats = await server.stats()
        assert (stats['failed'], stats['served']) == (1, 1)


@run
async def test_a_client_shows_what_weir_says():
    script = '''
const Client = require(process.argv[2]);
const client = new Client({baseURL: process.argv[1], apiKey: 'any', maxRetries: 0});
const asked = {model: 'forbidden', max_tokens: 9, messages: [{role: 'user', content: 'x'}]};
const said = client.messages ? client.messages.create(asked) : client.chat.completions.create(asked);
said.catch(error => process.stdout.write(JSON.stringify([error.constructor.name, error.message]) + '\\n'));
'''
    for dialect, package, path in (('openai', 'openai', '/v1'), ('anthropic', '@anthropic-ai/sdk', '')):
        async with behind_weir(dialect, *QUICK, top='tenants: { default: { models: [m] } }') as (gateway, _), \
                node(script, package, gateway.url + path, package) as client:
            kind, text = await line_of(client)
            assert kind == 'PermissionDeniedError' and 'This tenant may not use this model' in text


@pytest.mark.parametrize('dialect, package, path', [('openai', 'openai', '/v1'), ('anthropic', '@anthropic-ai/sdk', '')])
@run
async def test_a_spent_budget_is_an_error_at_once(dialect, package, path):
    """With the clients' own settings for retries: they would sleep for as long as Retry-After says."""
    script = '''
const Client = require(process.argv[2]);
const client = new Client({baseURL: process.argv[1], apiKey: 'any'});
const asked = {model: 'm', max_tokens: 9, messages: [{role: 'user', content: 'x'}]};
const said = client.messages ? client.messages.create(asked) : client.chat.completions.create(asked);
said.catch(error => process.stdout.write(JSON.stringify([error.constructor.name, error.status]) + '\\n'));
'''
    async with behind_weir(dialect, *QUICK, top='tenants: { default: { tokens_per_day: 0 } }') as (gateway, _), \
            node(script, package, gateway.url + path, package) as client:
        assert await line_of(client) == ['RateLimitError', 429]


# ---- pictures and documents

PICTURE = '''
const say = text => process.stdout.write(JSON.stringify(text) + '\\n');
const data = Buffer.alloc(5 * 1024 * 1024, 'picture').toString('base64');
(async () => {
    if (process.argv[2] === 'openai') {
        const OpenAI = require('openai');
        const client = new OpenAI({baseURL: process.argv[1] + '/v1', apiKey: 'secret', maxRetries: 0});
        const asked = {model: 'gpt-4o', messages: [{role: 'user', content: [{type: 'text', text: 'What is this?'},
            {type: 'image_url', image_url: {url: 'data:image/png;base64,' + data}}]}]};
        say((await client.chat.completions.create(asked)).choices[0].message.content);
        let text = '';
        for await (const part of await client.chat.completions.create({...asked, stream: true}))
            text += part.choices[0]?.delta.content ?? '';
        say(text);
    } else {
        const Anthropic = require('@anthropic-ai/sdk');
        const client = new Anthropic({baseURL: process.argv[1], apiKey: 'secret', maxRetries: 0});
        const asked = {model: 'claude-x', max_tokens: 100, messages: [{role: 'user', content: [
            {type: 'image', source: {type: 'base64', media_type: 'image/png', data}},
            {type: 'document', source: {type: 'base64', media_type: 'application/pdf', data}},
            {type: 'text', text: 'What is this?'}]}]};
        say((await client.messages.create(asked)).content[0].text);
        say((await client.messages.stream(asked).finalMessage()).content[0].text);
    }
})().catch(error => { console.error(error); process.exit(1); });
'''


@run
@pytest.mark.parametrize('dialect, package, model', [('openai', 'openai', 'gpt-4o'),
                                                     ('anthropic', '@anthropic-ai/sdk', 'claude-x')])
async def test_pictures_of_5_mb(dialect, package, model):
    async with behind_weir(dialect, *QUICK) as (gateway, server), \
            node(PICTURE, package, gateway.url, dialect) as client:
        assert await line_of(client)
        assert await line_of(client)
        _, said = await gateway.ask_api('/gates/llm')
        assert [key['key'] for key in said['keys']] == [model]
        await gateway.until(model, 'llm', active=0, waiting=0, reserved=0)
        assert (await server.stats())['served'] == 2
