"""The emulated providers, asked by the providers' own clients."""
import asyncio
import json

from raw import run
from test_clients import line_of, node
from test_mock_llm import QUICK, provider
from weir import PATIENCE

OPENAI = '''
const OpenAI = require('openai');
const client = new OpenAI({baseURL: process.argv[1] + '/v1', apiKey: 'secret', maxRetries: 0});
const say = text => process.stdout.write(JSON.stringify(text) + '\\n');
const asked = {model: 'm', messages: [{role: 'user', content: 'hello'}]};
const tools = [{type: 'function', function: {name: 'look', parameters: {type: 'object', properties: {}}}}];
const wrong = async promise => {
    try { say({none: await promise}); }
    catch (error) { say([error.constructor.name, error.status, error.code ?? null]); }
};
(async () => {
    const whole = await client.chat.completions.create(asked);
    say(whole.choices[0].message.content);
    let text = '', usage;
    for await (const part of await client.chat.completions.create(
            {...asked, stream: true, stream_options: {include_usage: true}})) {
        text += part.choices[0]?.delta.content ?? '';
        usage = part.usage ?? usage;
    }
    say([text, usage.completion_tokens]);

    const runner = client.chat.completions.runTools({...asked, tools: [{type: 'function', function: {
        ...tools[0].function, parse: JSON.parse, function: given => { say(given); return 'seen'; }}}]});
    say(await runner.finalContent());
    const called = client.chat.completions.stream({...asked, tools});
    say((await called.finalChatCompletion()).choices[0].message.tool_calls[0].function);

    say((await client.responses.create({model: 'm', input: 'hello'})).output_text);
    const response = client.responses.stream({model: 'm', input: 'hello'});
    let deltas = '';
    response.on('response.output_text.delta', event => { deltas += event.delta; });
    const final = await response.finalResponse();
    say([deltas, final.output[0].content[0].text, final.usage.output_tokens]);
    const call = await client.responses.create({model: 'm', input: 'hello',
        tools: [{type: 'function', name: 'look', parameters: {}, strict: false}]});
    say([call.output[0].type, call.output[0].name, JSON.parse(call.output[0].arguments)]);

    say((await client.embeddings.create({model: 'm', input: ['a', 'b']})).data.map(each => each.embedding));
    say((await client.completions.create({model: 'm', prompt: 'hello'})).choices[0].text);
    say((await client.models.list()).data.map(model => model.id));

    await wrong(client.chat.completions.create({...asked, messages: undefined}));
    await wrong(client.withOptions({apiKey: 'other'}).chat.completions.create(asked));
    await wrong(client.chat.completions.create(asked, {headers: {'X-Mock-Fault': 'refuse'}}));
    await wrong(client.chat.completions.create(asked, {headers: {'X-Mock-Fault': 'fail'}}));
    await wrong(client.post('/nothing'));
    await wrong((async () => {
        for await (const part of await client.chat.completions.create(
            {...asked, stream: true}, {headers: {'X-Mock-Fault': 'error-event'}})) {}
    })());
    const start = Date.now();
    await client.chat.completions.create(asked, {maxRetries: 1, headers: {'X-Mock-Fault': 'refuse'}})
        .catch(() => say(Date.now() - start));
})().catch(error => { console.error(error); process.exit(1); });
'''


async def hear_openai(client, stranger):
    """What its client says, from first to last; `stranger` looks at what becomes of another key."""
    async def said():
        return await line_of(client)
    text = await said()
    assert len(text) == 40
    assert await said() == [text, 10]
    assert await said() == {'mock': True}
    assert await said() == text  # after the tool
    called = await said()
    assert called['name'] == 'look' and json.loads(called['arguments']) == {'mock': True}
    assert await said() == text
    assert await said() == [text, text, 10]
    assert await said() == ['function_call', 'look', {'mock': True}]
    assert await said() == [[0.5] * 4] * 2
    assert await said() == text
    assert await said() == ['mock-small', 'mock-large']
    assert await said() == ['BadRequestError', 400, None]
    stranger(await said(), text)
    assert await said() == ['RateLimitError', 429, 'rate_limit_exceeded']
    assert await said() == ['InternalServerError', 503, None]
    assert await said() == ['NotFoundError', 404, None]
    assert (await said())[0] == 'APIError'
    assert await said() >= 1000  # it has waited as Retry-After says
    assert await asyncio.wait_for(client.wait(), PATIENCE) == 0


@run
async def test_openais_client_works_with_it():
    def stranger(said, _):
        assert said == ['AuthenticationError', 401, 'invalid_api_key']
    async with provider('openai', *QUICK, '--key=secret', '--chunk=3') as (server, _):
        async with node(OPENAI, 'openai', server.url) as client:
            await hear_openai(client, stranger)
        assert (await server.stats())['unauthorized'] == 1


ANTHROPIC = '''
const Anthropic = require('@anthropic-ai/sdk');
const client = new Anthropic({baseURL: process.argv[1], apiKey: 'secret', maxRetries: 0});
const say = text => process.stdout.write(JSON.stringify(text) + '\\n');
const asked = {model: 'm', max_tokens: 100, messages: [{role: 'user', content: 'hello'}]};
const tools = [{name: 'look', input_schema: {type: 'object', properties: {}}}];
const wrong = async promise => {
    try { say({none: await promise}); }
    catch (error) { say([error.constructor.name, error.status ?? null, error.error?.error?.type ?? null]); }
};
(async () => {
    say((await client.messages.create(asked)).content[0].text);
    const stream = client.messages.stream(asked);
    let text = '';
    stream.on('text', piece => { text += piece; });
    const final = await stream.finalMessage();
    say([text, final.content[0].text, final.usage.output_tokens, final.usage.input_tokens, final.stop_reason]);
    const called = await client.messages.create({...asked, tools});
    say([called.stop_reason, called.content[0].name, called.content[0].input]);
    const streamed = await client.messages.stream({...asked, tools}).finalMessage();
    say(streamed.content[0].input);
    const after = await client.messages.create({...asked, tools, messages: [...asked.messages,
        {role: 'assistant', content: called.content},
        {role: 'user', content: [{type: 'tool_result', tool_use_id: called.content[0].id, content: 'seen'}]}]});
    say([after.stop_reason, after.content[0].text]);
    say((await client.models.list()).data.map(model => model.id));

    await wrong(client.messages.create({...asked, model: undefined}));
    await wrong(new Anthropic({baseURL: process.argv[1], apiKey: 'other', maxRetries: 0}).messages.create(asked));
    await wrong(client.messages.create(asked, {headers: {'X-Mock-Fault': 'refuse'}}));
    await wrong(client.messages.create(asked, {headers: {'X-Mock-Fault': 'fail'}}));
    await wrong(client.messages.stream(asked, {headers: {'X-Mock-Fault': 'error-event'}}).finalMessage());
})().catch(error => { console.error(error); process.exit(1); });
'''


async def hear_anthropic(client, stranger):
    """What the client of Anthropic says, from first to last."""
    async def said():
        return await line_of(client)
    text = await said()
    assert len(text) == 40
    assert await said() == [text, text, 10, 3, 'end_turn']
    assert await said() == ['tool_use', 'look', {'mock': True}]
    assert await said() == {'mock': True}
    assert await said() == ['end_turn', text]
    assert await said() == ['mock-small', 'mock-large']
    assert await said() == ['BadRequestError', 400, 'invalid_request_error']
    stranger(await said(), text)
    assert await said() == ['RateLimitError', 429, 'rate_limit_error']
    assert await said() == ['OverloadedError', 529, 'overloaded_error']
    assert (await said())[2] == 'overloaded_error'
    assert await asyncio.wait_for(client.wait(), PATIENCE) == 0


@run
async def test_anthropics_client_works_with_it():
    def stranger(said, _):
        assert said == ['AuthenticationError', 401, 'authentication_error']
    async with provider('anthropic', *QUICK, '--key=secret', '--chunk=3') as (server, _):
        async with node(ANTHROPIC, '@anthropic-ai/sdk', server.url) as client:
            await hear_anthropic(client, stranger)
        assert (await server.stats())['unauthorized'] == 1
