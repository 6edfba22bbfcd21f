"""What requests cost: prices of a file, budgets of money, and npm's @pydantic/genai-prices as an oracle.

The shipped prices come from that package, so the oracle checks our arithmetic and the conversion, not the prices."""
import asyncio
import json
import os

from raw import ask, reply, run, upstream
from test_budgets import kind
from test_clients import line_of, node
from test_cli import Cli
from test_llm import JSON, chat, completion, llm, post
from test_llm_tenants import account, field, make_keys

SHIPPED = os.path.join(os.path.dirname(__file__), '..', '..', 'share', 'prices.json')
ORACLE = '''
{
    const {calcPrice} = require('@pydantic/genai-prices');
    const cases = JSON.parse(process.argv[1]);
    const cost = ([provider, model, usage]) => calcPrice(
        usage, model, {providerId: provider, timestamp: new Date('2026-11-20T12:00:00Z')}).total_price;
    process.stdout.write(JSON.stringify(cases.map(cost)) + '\\n');
}
'''
MODELS = [('openai', 'gpt-4o'), ('openai', 'gpt-4o-mini-2024-07-18'), ('openai', 'gpt-5.4'), ('openai', 'o3'),
          ('anthropic', 'claude-sonnet-4-6'), ('anthropic', 'claude-opus-4-1-20250805'), ('google', 'gemini-2.5-pro'),
          ('google', 'gemini-2.5-flash'), ('mistral', 'mistral-small-latest'), ('deepseek', 'deepseek-chat')]
USAGES = [{'input_tokens': 12345, 'output_tokens': 678}, {'input_tokens': 250001, 'output_tokens': 9},
          {'input_tokens': 4740, 'cache_read_tokens': 1003, 'output_tokens': 255}]
WRITES = {'input_tokens': 4740, 'cache_read_tokens': 5, 'cache_write_tokens': 4001, 'output_tokens': 255}


def stated(provider, usage):
    """The reply of a provider that states this usage in its own words."""
    cached, written = usage.get('cache_read_tokens', 0), usage.get('cache_write_tokens', 0)
    if provider == 'anthropic':
        return json.dumps({'id': 'm', 'type': 'message', 'content': [{'type': 'text', 'text': 'Hi'}], 'usage': {
            'input_tokens': usage['input_tokens'] - cached - written, 'output_tokens': usage['output_tokens'],
            'cache_read_input_tokens': cached, 'cache_creation_input_tokens': written}}).encode()
    return completion(prompt_tokens=usage['input_tokens'], completion_tokens=usage['output_tokens'],
                      prompt_tokens_details={'cached_tokens': cached})


async def rows(gateway, tenant):
    return (await gateway.ask_api(f'/usage?tenant={tenant}'))[1]['usage']


@run
async def test_ten_models_cost_what_the_oracle_says():
    cases = [(provider, model, usage) for provider, model in MODELS for usage in USAGES]
    cases += [(provider, model, WRITES) for provider, model in MODELS if provider == 'anthropic']
    replies = iter([stated(provider, usage) for provider, _, usage in cases])

    async def serve(wire, message):
        await wire.send(reply(next(replies), JSON))
    async with node(ORACLE, '@pydantic/genai-prices', json.dumps(cases)) as client, \
            upstream(serve) as server, llm(server, top=f'prices: {SHIPPED}') as gateway:
        costs = await line_of(client)
        for i, (provider, model, _) in enumerate(cases):
            target = '/v1/messages' if provider == 'anthropic' else '/v1/chat/completions'
            assert (await ask(gateway.port, post(chat(model), f'X-Tenant: {i}', target=target), 'POST')).status == 200
        for i, case in enumerate(cases):
            row, = await rows(gateway, i)
            # Rounded up to a billionth, from numbers that the oracle adds up as doubles.
            assert -1e-12 <= row['money'] - costs[i] <= 1.001e-9, (case, row, costs[i])
        assert len(costs) == len(MODELS) * 3 + 2


PRICES = {'gpt-4o': {'input_cost_per_token': 0.001, 'output_cost_per_token': 0.01},
          'gratis': {'input_cost_per_token': 0, 'output_cost_per_token': 0}}


def write(path, prices):
    path.write_text(json.dumps(prices))
    return path


@run
async def test_a_budget_of_money_holds_and_is_told_with_its_point(tmp_path):
    """A request costs 0.009 + 0.02; with max_tokens 2 it reserves about as much."""
    top = f'prices: {write(tmp_path / "p.json", PRICES)}\ntenants: {{ acme: {{ money_per_month: 0.05 }} }}'
    async with upstream(reply(completion(), JSON)) as server, llm(server, top=top) as gateway:
        async def ask_for(model, tenant='acme'):
            return await ask(gateway.port, post(chat(model, max_tokens=2), f'X-Tenant: {tenant}'), 'POST')
        said = await asyncio.gather(*(ask_for('gpt-4o') for _ in range(20)))
        assert sorted(each.status for each in said) == [200] * 2 + [429] * 18
        refused = next(each for each in said if each.status == 429)
        assert kind(refused) == 'budget-spent'
        assert 'money_per_month 0.05 and has spent 0.058.' in json.loads(refused.body)['detail']
        assert (await ask_for('gratis')).status == 200  # what costs nothing needs no money
        row, = [row for row in await rows(gateway, 'acme') if row['model'] == 'gpt-4o']
        assert row['money'] == 0.058 and row['requests'] == 2
        cli = Cli(f'127.0.0.1:{gateway.api_port}')
        assert (await cli.good('usage', '--model', 'gpt-4o')).out.splitlines()[1].split()[-1] == '0.058'
        assert len(server.seen) == 3


@run
async def test_a_model_without_a_price_is_refused_where_money_counts_or_as_configured(tmp_path):
    prices = write(tmp_path / 'p.json', PRICES)
    top = f'prices: {prices}\nunpriced: UNPRICED\ntenants: {{ acme: {{ money_per_day: 100 }} }}'

    async def statuses(gateway):
        return [(await ask(gateway.port, post(chat('new-model'), f'X-Tenant: {tenant}'), 'POST')).status
                for tenant in ('acme', 'other')]
    async with upstream(reply(completion(), JSON)) as server:
        async with llm(server, top=top.replace('unpriced: UNPRICED', '')) as gateway:
            assert await statuses(gateway) == [403, 200]
            said = await ask(gateway.port, post(chat('new-model'), 'X-Tenant: acme'), 'POST')
            assert kind(said) == 'forbidden' and 'No price is known of the model `new-model`' in str(said.body)
        for unpriced, expected in (('refuse', [403, 403]), ('free', [200, 200])):
            async with llm(server, top=top.replace('UNPRICED', unpriced)) as gateway:
                assert await statuses(gateway) == expected


@run
async def test_new_prices_change_no_past_and_bad_ones_nothing(tmp_path):
    prices = write(tmp_path / 'p.json', PRICES)
    async with upstream(reply(completion(), JSON)) as server, llm(server, top=f'prices: {prices}') as gateway:
        async def money():
            assert (await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')).status == 200
            row, = await rows(gateway, 'acme')
            return row['money']
        assert await money() == 0.029
        for bad, part in (('{', 'is no JSON object'), ('{"gpt-4o": {"input_cost_per_token": "1"}}', 'gpt-4o has a price')):
            prices.write_text(bad)
            said = await Cli(f'127.0.0.1:{gateway.api_port}')('reload')
            assert said.status == 1 and part in said.err, said.err
            assert (await Cli(None)('check', str(gateway.path))).status == 1
        assert await money() == 0.058
        write(prices, {'gpt-4o': {'input_cost_per_token': 0, 'output_cost_per_token': 0.5}})
        await Cli(f'127.0.0.1:{gateway.api_port}').good('reload')
        assert await money() == 1.058


@run
async def test_a_key_has_a_budget_of_money(tmp_path):
    top = f'prices: {write(tmp_path / "p.json", PRICES)}'
    async with upstream(reply(completion(), JSON)) as server, account(tmp_path, server, top=top) as (gateway, keys):
        key = await keys.add('acme', '--money-per-day', '0.03', '--name', 'a')
        await make_keys(gateway, keys, 'other')

        async def said():
            return await ask(gateway.port, post(chat(), field(key)), 'POST')
        assert [(await said()).status for _ in range(3)] == [200, 200, 429]
        assert 'This API key has money_per_day 0.03 and has spent 0.058.' in json.loads((await said()).body)['detail']
        assert 'money_per_day=0.03' in (await keys.good('list')).out
        listed = (await keys.good('list', '--json')).documents[0]['keys']
        assert [each.get('money_per_day') for each in listed] == [0.03, None]
