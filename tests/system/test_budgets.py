"""Budgets of tenants and of API keys: what is reserved, who waits, who is refused, and what a crash leaves."""
import asyncio
import json

from raw import ask, reply, request, run, upstream
from test_clients import line_of, node
from test_llm import JSON, chat, completion, llm, post, quiet
from test_llm_tenants import account, field, make_keys
from weir import until


def used(prompt, output):
    """A completion whose provider states so many tokens."""
    return completion(prompt_tokens=prompt, completion_tokens=output, total_tokens=prompt + output)


def kind(said):
    return json.loads(said.body)['type'].removeprefix('urn:weir:')


async def spent(gateway, tenant):
    """Tokens of a tenant, of all models and days."""
    _, usage = await gateway.ask_api(f'/usage?tenant={tenant}')
    return sum(row['input_tokens'] + row['output_tokens'] for row in usage['usage'])


@run
async def test_fifty_requests_at_once_spend_at_most_one_request_more_than_the_budget():
    top = 'tenants: { acme: { tokens_per_day: 1000 } }'
    async with upstream(reply(used(600, 400), JSON)) as server, llm(server, top=top) as gateway:
        said = await asyncio.gather(*(ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST') for _ in range(50)))
        assert sorted(each.status for each in said) == [200] + [429] * 49
        assert {kind(each) for each in said if each.status == 429} == {'budget-spent'}
        refused = next(each for each in said if each.status == 429)
        assert 'tokens_per_day 1000 and has spent 1000' in json.loads(refused.body)['detail']
        assert refused.one('x-should-retry') == 'false' and int(refused.one('retry-after')) >= 1
        assert len(server.seen) == 1 and await spent(gateway, 'acme') == 1000


@run
async def test_requests_that_fit_together_go_together_and_the_others_wait_until_those_have_settled():
    """Reserved is what max_tokens allows: of 100 tokens each, three fit into 350, and what they leave is used."""
    go_on = asyncio.Event()
    inside = 0
    most = 0

    async def serve(wire, message):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await go_on.wait()
        inside -= 1
        await wire.send(reply(used(5, 10), JSON))
    async with upstream(serve) as server, llm(server, top='tenants: { acme: { tokens_per_day: 350 } }') as gateway:
        tasks = [asyncio.create_task(ask(gateway.port, post(chat(max_tokens=90), 'X-Tenant: acme'), 'POST'))
                 for _ in range(12)]
        await gateway.until('gpt-4o', 'llm', active=3, waiting=0)
        other = asyncio.create_task(ask(gateway.port, post(chat(), 'X-Tenant: other'), 'POST'))
        await gateway.until('gpt-4o', 'llm', active=4, waiting=0)  # whom it does not concern
        go_on.set()
        assert [(await task).status for task in tasks] == [200] * 12  # 15 tokens each
        assert (await other).status == 200
        assert most <= 5 and await spent(gateway, 'acme') == 180
        await quiet(gateway)


@run
async def test_what_fails_is_given_back_and_clients_that_leave_free_their_place():
    go_on = asyncio.Event()
    statuses = iter(['400 Bad Request'] * 2 + ['200 OK'] * 9)

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(used(5, 10), JSON, status=next(statuses)))
    async with upstream(serve) as server, llm(server, top='tenants: { acme: { tokens_per_day: 100 } }') as gateway:
        tasks = [asyncio.create_task(ask(gateway.port, post(chat(max_tokens=90), 'X-Tenant: acme'), 'POST'))
                 for _ in range(6)]
        await gateway.until('gpt-4o', 'llm', active=1, waiting=0)
        for task in tasks[2:4]:
            task.cancel()
        await asyncio.gather(*tasks[2:4], return_exceptions=True)
        go_on.set()
        said = [await task for task in (*tasks[:2], *tasks[4:])]
        assert sorted(each.status for each in said) == [200, 200, 400, 400]
        await until(lambda: spent_is(gateway, 30), 'two have used 15 tokens each')
        assert len(server.seen) == 4


async def spent_is(gateway, tokens):
    return await spent(gateway, 'acme') == tokens


@run
async def test_without_max_tokens_the_largest_output_of_the_day_is_reserved():
    top = 'tenants: { acme: { tokens_per_day: 6000 } }'
    go_on = asyncio.Event()
    go_on.set()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(used(5, 1000), JSON))
    async with upstream(serve) as server, llm(server, top=top) as gateway:
        async def at_once(count):
            """How many of so many are under way together."""
            go_on.clear()
            tasks = [asyncio.create_task(ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')) for _ in range(4)]
            await gateway.until('gpt-4o', 'llm', active=count, waiting=0)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            go_on.set()
            await quiet(gateway)
        await at_once(1)  # 4096 each
        assert (await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')).status == 200
        await at_once(4)  # 1000 each, of 5000


@run
async def test_who_waits_for_a_budget_waits_as_long_as_for_a_line():
    top = 'tenants: { acme: { tokens_per_day: 100 } }'
    go_on = asyncio.Event()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(used(5, 5), JSON))
    async with upstream(serve) as server, llm(server, top=top, gate='line: { timeout: 300ms }') as gateway:
        first = asyncio.create_task(ask(gateway.port, post(chat(max_tokens=99), 'X-Tenant: acme'), 'POST'))
        await gateway.until('gpt-4o', 'llm', active=1)
        late = await ask(gateway.port, post(chat(max_tokens=99), 'X-Tenant: acme'), 'POST')
        assert (late.status, kind(late)) == (429, 'line-timeout') and late.one('retry-after') == '1'
        assert 'have reserved the rest' in json.loads(late.body)['detail'] and late.one('x-should-retry') is None
        go_on.set()
        assert (await first).status == 200


@run
async def test_who_waits_for_a_budget_may_wait_for_ever():
    top = 'tenants: { acme: { tokens_per_day: 100 } }'
    go_on = asyncio.Event()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(used(5, 5), JSON))
    async with upstream(serve) as server, llm(server, top=top, gate='line: { timeout: none }') as gateway:
        tasks = []
        for tenant, active in ('acme', 1), ('acme', 1), ('other', 2):
            body = post(chat(max_tokens=99), f'X-Tenant: {tenant}')
            tasks.append(asyncio.create_task(ask(gateway.port, body, 'POST')))
            await gateway.until('gpt-4o', 'llm', active=active)
        assert not tasks[1].done()
        go_on.set()
        assert [(await task).status for task in tasks] == [200] * 3


@run
async def test_who_waits_for_a_budget_waits_as_long_as_the_line_of_its_model_says():
    top = 'tenants: { acme: { tokens_per_day: 100 } }'
    gate = 'line: { timeout: 60s }, keys: { gpt-4o: { line: { timeout: 300ms } } }'
    go_on = asyncio.Event()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(used(5, 5), JSON))
    async with upstream(serve) as server, llm(server, top=top, gate=gate) as gateway:
        first = asyncio.create_task(ask(gateway.port, post(chat(max_tokens=99), 'X-Tenant: acme'), 'POST'))
        await gateway.until('gpt-4o', 'llm', active=1)
        late = await ask(gateway.port, post(chat(max_tokens=99), 'X-Tenant: acme'), 'POST')
        assert (late.status, kind(late)) == (429, 'line-timeout') and late.one('retry-after') == '1'
        go_on.set()
        assert (await first).status == 200


@run
async def test_who_waits_goes_when_a_reload_raises_the_budget():
    top = 'tenants: { acme: { tokens_per_day: 100 } }'
    go_on = asyncio.Event()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(used(5, 5), JSON))
    async with upstream(serve) as server, llm(server, top=top) as gateway:
        tasks = []
        for tenant, active in ('acme', 1), ('acme', 1), ('other', 2):
            body = post(chat(max_tokens=99), f'X-Tenant: {tenant}')
            tasks.append(asyncio.create_task(ask(gateway.port, body, 'POST')))
            await gateway.until('gpt-4o', 'llm', active=active)
        await gateway.reload(('tokens_per_day: 100', 'tokens_per_day: 1000'))
        await gateway.until('gpt-4o', 'llm', active=3)
        go_on.set()
        assert [(await task).status for task in tasks] == [200] * 3


@run
async def test_requests_are_counted_and_a_list_of_models_is_none():
    top = 'tenants: { acme: { requests_per_day: 2 }, beta: { requests_per_month: 1 } }'
    async with upstream(reply(completion(), JSON)) as server, llm(server, top=top) as gateway:
        said = await asyncio.gather(*(ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST') for _ in range(5)))
        assert sorted(each.status for each in said) == [200, 200, 429, 429, 429]
        month = [await ask(gateway.port, post(chat(), 'X-Tenant: beta'), 'POST') for _ in range(2)]
        assert [each.status for each in month] == [200, 429]
        assert 'requests_per_month 1 and has spent 1' in json.loads(month[1].body)['detail']
        assert len(server.seen) == 3


@run
async def test_a_key_has_a_budget_beside_its_tenant_s(tmp_path):
    top = 'tenants: { acme: { tokens_per_day: 30 } }'
    async with upstream(reply(used(6, 5), JSON)) as server, account(tmp_path, server, top=top) as (gateway, keys):
        small = await keys.add('acme', '--name', 'ci', '--tokens-per-day', '10', '--requests-per-month', '7')
        large, = await make_keys(gateway, keys, 'acme')

        async def said(key):
            return await ask(gateway.port, post(chat(), field(key)), 'POST')

        async def known():
            return (await said(small)).status != 401
        await until(known, 'the gateway has read the keys')  # which spends 11
        refused = await said(small)
        assert (refused.status, kind(refused)) == (429, 'budget-spent')
        assert json.loads(refused.body)['detail'].startswith('This API key has tokens_per_day 10 and has spent 11.')
        assert [(await said(large)).status for _ in range(3)] == [200, 200, 429]
        assert (await keys('add', '--tenant', 'a', '--tokens-per-day', 'many')).complained(2, 'whole number from 0 to 2^50')
        listed = {each['name']: each for each in (await keys.good('list', '--json')).documents[0]['keys']}
        assert (listed['ci']['tokens_per_day'], listed['ci']['requests_per_month']) == (10, 7)
        assert 'tokens_per_day' not in listed['']
        assert 'tokens_per_day=10 requests_per_month=7' in (await keys.good('list')).out


@run
async def test_what_was_spent_and_what_was_reserved_is_there_after_a_crash(tmp_path):
    """A kill while one request is under way: whether the provider has served it is not known, so it counts."""
    top = f'data: {tmp_path}\ntenants: {{ acme: {{ tokens_per_day: 1000 }} }}'
    go_on = asyncio.Event()
    go_on.set()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(used(100, 100), JSON))

    def saved():
        path = tmp_path / 'usage' / 'budgets'
        rows = [json.loads(line) for line in path.open()] if path.exists() else []
        return [(row['spent_day'][0], row['reserved'][0] > 0) for row in rows if 'tenant' in row]
    async with upstream(serve) as server:
        async with llm(server, top=top) as gateway:
            assert (await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')).status == 200
            await until(lambda: saved() == [(200, False)], 'what was spent is on disk')
            go_on.clear()
            task = asyncio.create_task(ask(gateway.port, post(chat(max_tokens=790), 'X-Tenant: acme'), 'POST'))
            await until(lambda: saved() == [(200, True)], 'what is reserved is on disk')
            await gateway.kill()
            await asyncio.gather(task, return_exceptions=True)
        go_on.set()
        async with llm(server, top=top) as gateway:
            said = await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')
            left = int(said.one('ratelimit').split('r=')[1].split(';')[0])
            assert said.status == 200 and left < 10, left  # 200 and about 791 of 1000
            assert (await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')).status == 429


@run
async def test_a_budget_that_comes_and_goes_with_the_config_counts_everything(tmp_path):
    top = f'data: {tmp_path}\ntenants: {{ acme: {{ tokens_per_day: none }} }}'
    async with upstream(reply(used(6, 5), JSON)) as server, llm(server, top=top) as gateway:
        async def ask_one():
            return (await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')).status

        async def bound(before, after):
            await gateway.reload((f'tokens_per_day: {before} ', f'tokens_per_day: {after} '))
        assert [await ask_one() for _ in range(2)] == [200, 200]
        await bound('none', 30)
        assert [await ask_one() for _ in range(2)] == [200, 429]
        await bound(30, 'none')
        assert [await ask_one() for _ in range(2)] == [200, 200]
        await bound('none', 60)

        async def refused():
            return await ask_one() == 429
        await until(refused, 'what was used without a budget counts within a second')


@run
async def test_a_tenant_waits_for_its_tokens_a_minute_and_others_pass():
    """Of 20 tokens it takes 11; the next request is expected to cost more than what is left."""
    gate = 'tenants: { acme: { tokens: { rate: 1000/d, burst: 20 } } }'
    async with upstream(reply(completion(), JSON)) as server, llm(server, gate=gate) as gateway:
        assert (await ask(gateway.port, post(chat(), 'X-Tenant: acme'), 'POST')).status == 200
        await quiet(gateway)
        task = asyncio.create_task(ask(gateway.port, post(chat(text='x' * 80), 'X-Tenant: acme'), 'POST'))
        await gateway.until('gpt-4o', 'llm', active=0, waiting=1)
        assert (await ask(gateway.port, post(chat(), 'X-Tenant: other'), 'POST')).status == 200
        _, line = await gateway.ask_api('/gates/llm/gpt-4o/line')
        assert line['line'][0]['tenant'] == 'acme' and 'tenant_rate' in json.dumps(line['line'][0])
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await quiet(gateway)


@run
async def test_metrics_tell_of_budgets(tmp_path):
    top = 'tenants: { acme: { tokens_per_day: 20 }, beta: { requests_per_month: 5 } }'
    async with upstream(reply(completion(), JSON)) as server, account(tmp_path, server, top=top) as (gateway, keys):
        acme, beta = await make_keys(gateway, keys, 'acme', 'beta')
        for key in (acme, acme, acme, beta):
            await ask(gateway.port, post(chat(), field(key)), 'POST')
        lines = (await ask(gateway.api_port, request('/metrics'))).body.decode().splitlines()
        assert {line for line in lines if line.startswith('weir_budget')} == {
            'weir_budget_left{tenant="acme",bound="tokens_per_day"} 0',
            'weir_budget_left{tenant="beta",bound="requests_per_month"} 4',
            'weir_budget_refused_total{tenant="acme",bound="tokens_per_day"} 1',
            'weir_budget_refused_total{tenant="beta",bound="requests_per_month"} 0'}


FIFTY = '''
const OpenAI = require('openai');
const client = new OpenAI({baseURL: process.argv[1] + '/v1', apiKey: 'any', defaultHeaders: {'X-Tenant': 'acme'}});
const asked = {model: 'gpt-4o', messages: [{role: 'user', content: 'Hello there'}]};
const all = Array.from({length: 50}, () => client.chat.completions.create(asked).then(
    reply => reply.usage.total_tokens, error => `${error.constructor.name} ${error.status} ${error.code}`));
Promise.all(all).then(said => process.stdout.write(JSON.stringify(said) + '\\n'));
'''


@run
async def test_openais_client_asks_fifty_times_at_once_and_raises_its_error_at_once():
    """With its own retries on: what a spent budget refuses is not tried again."""
    top = 'tenants: { acme: { tokens_per_day: 1000 } }'
    async with upstream(reply(used(600, 400), JSON)) as server, llm(server, top=top) as gateway, \
            node(FIFTY, 'openai', gateway.url) as client:
        said = await line_of(client)
        assert sorted(map(str, said)) == ['1000'] + ['RateLimitError 429 budget-spent'] * 49
        assert len(server.seen) == 1 and await spent(gateway, 'acme') == 1000
