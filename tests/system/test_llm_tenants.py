"""A provider's account for tenants with keys of Weir's own: what each may use, what it is told, and what nobody is told."""
import asyncio
import contextlib
import json

from raw import ask, connect, reply, request, run, upstream
from test_cli import Cli
from test_keys import Keys, bearer
from test_llm import CHAT, DONE, JSON, PROVIDERS, SECRET, TEXTS, USAGE, chat, completion, post, refusal, streams, turns
from weir import until, weir

LIMITS = [f'x-ratelimit-{kind}-tokens: {number}' for kind, number in (
    ('limit', 7654321), ('remaining', 7654320), ('reset', '12ms'))] + ['RateLimit-Policy: "p";q=7654321;w=60',
                                                                       'RateLimit: "p";r=7654320;t=9']


@contextlib.asynccontextmanager
async def account(folder, *servers, top='', gate='', more=''):
    """A gateway whose tenants have keys, and the command that makes them."""
    upstreams = ''.join(f'''
  lane{i}: {{ url: "{server.url}", headers: {{ Authorization: "Bearer {SECRET}", X-Own: "{SECRET}" }}{more} }}'''
                        for i, server in enumerate(servers))
    config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
data: {folder}/data
{top}
upstreams: {upstreams}
gates: {{ llm: {{ {gate} }} }}
routes:
  - match: /
    llm: openai
    key: "{{model}}"
    tenant: api_key
    gate: llm
    upstream: [{', '.join(f'lane{i}' for i in range(len(servers)))}]
'''
    async with weir(config) as gateway:
        yield gateway, Keys(folder / 'data')


async def make_keys(gateway, keys, *tenants):
    made = [await keys.add(tenant) for tenant in tenants]
    await Cli(f'127.0.0.1:{gateway.api_port}').good('reload')
    return made


def field(key):
    [(name, value)] = bearer(key).items()
    return f'{name}: {value}'


@run
async def test_each_tenant_has_its_own_models_limits_and_day(tmp_path):
    top = '''tenants:
  acme: { tokens_per_day: 20, models: [gpt-4o] }
  beta: { tokens_per_day: 1000 }'''
    gate = 'tenants: { acme: { limit: 4, rate: 600/m }, beta: { limit: 9 } }'
    async with upstream(reply(completion(), JSON, *LIMITS, *PROVIDERS)) as server, \
            account(tmp_path, server, top=top, gate=gate) as (gateway, keys):
        acme, beta = await make_keys(gateway, keys, 'acme', 'beta')

        async def said(key, model='gpt-4o'):
            return await ask(gateway.port, post(chat(model), field(key)), 'POST')
        replies = [await said(acme), await said(beta), await said(beta, 'o3')]
        assert [each.status for each in replies] == [200] * 3
        assert replies[0].one('ratelimit-policy') == (
            '"concurrency";q=4;qu="concurrent-requests", "requests";q=600;w=60, "tokens";q=20;w=86400;qu="tokens"')
        assert replies[1].one('ratelimit-policy') == (
            '"concurrency";q=9;qu="concurrent-requests", "tokens";q=1000;w=86400;qu="tokens"')
        assert '"tokens";r=989;' in replies[2].one('ratelimit')
        for each in replies:  # of the account nobody is told anything
            assert '765432' not in str(each.fields)
            assert not {name for name, _ in each.fields} & {line.split(':')[0] for line in PROVIDERS}
        forbidden = await said(acme, 'o3')
        assert (forbidden.status, json.loads(forbidden.body)['type']) == (403, 'urn:weir:forbidden')
        assert (await said(acme)).status == 200  # 22 tokens, of which there are 20
        spent = await said(acme)
        assert (spent.status, json.loads(spent.body)['type']) == (429, 'urn:weir:budget-spent')
        assert (await said(beta)).status == 200
        assert (await said('weir_0123456789ab_' + '0' * 64)).status == 401
        # The provider sees its own key, and none of ours.
        assert len(server.seen) == 5
        for message in server.seen:
            assert message.all('authorization') == [f'Bearer {SECRET}'] and 'weir_' not in str(message.fields)
        for key, rows in ((acme, {('acme', 'gpt-4o'): (2, 1), ('acme', 'o3'): (0, 1)}),
                          (beta, {('beta', 'gpt-4o'): (2, 0), ('beta', 'o3'): (1, 0)})):
            usage = json.loads((await ask(gateway.api_port, request('/usage', field(key)))).body)['usage']
            assert {(row['tenant'], row['model']): (row['requests'], row['refused']) for row in usage} == rows


@run
async def test_who_is_refused_by_weir_is_told_its_own_limits_too(tmp_path):
    top = 'tenants: { acme: { tokens_per_day: 20, models: [gpt-4o] } }'
    gate = 'limit: 1, line: { timeout: 500ms, max: 1 }, tenants: { acme: { limit: 4, rate: 600/m } }'
    go_on = asyncio.Event()

    async def serve(wire, message):
        await go_on.wait()
        await wire.send(reply(completion(), JSON, *LIMITS))
    async with upstream(serve) as server, account(tmp_path, server, top=top, gate=gate) as (gateway, keys):
        acme, other = await make_keys(gateway, keys, 'acme', 'other')
        first = asyncio.create_task(ask(gateway.port, post(chat(), field(other)), 'POST'))
        await gateway.until('gpt-4o', 'llm', active=1)
        both = await asyncio.gather(*(ask(gateway.port, post(chat(max_tokens=5), field(acme)), 'POST') for _ in range(2)))
        full, late = sorted(both, key=lambda said: json.loads(said.body)['type'])
        forbidden = await ask(gateway.port, post(chat('o3'), field(acme)), 'POST')
        go_on.set()
        assert (await first).one('ratelimit') is None  # who has no limits is told of none
        for _ in range(2):
            assert (await ask(gateway.port, post(chat(), field(acme)), 'POST')).status == 200
        spent = await ask(gateway.port, post(chat(), field(acme)), 'POST')
        day = '"tokens";q=20;w=86400;qu="tokens"'
        at_the_gate = '"concurrency";q=4;qu="concurrent-requests", "requests";q=600;w=60, ' + day
        for said, kind, policy, left in ((full, 'line-full', at_the_gate, 20), (late, 'line-timeout', at_the_gate, 20),
                                         (forbidden, 'forbidden', day, 20), (spent, 'budget-spent', day, 0)):
            assert json.loads(said.body)['type'] == f'urn:weir:{kind}'
            assert said.one('ratelimit-policy') == policy, kind
            assert f'"tokens";r={left};' in said.one('ratelimit'), kind


@run
async def test_a_tenant_of_twice_the_weight_gets_twice_as_much(tmp_path):
    order = []

    async def serve(wire, message):
        order.append(json.loads(message.body)['user'])
        if len(order) == 1:
            await go_on.wait()
        await wire.send(reply(completion(), JSON))
    go_on = asyncio.Event()
    async with upstream(serve) as server, \
            account(tmp_path, server, gate='limit: 1, line: { max: 99 }, tenants: { big: { weight: 2 } }') as (gateway, keys):
        key = dict(zip(('first', 'big', 'small'), await make_keys(gateway, keys, 'first', 'big', 'small')))
        tasks = [asyncio.create_task(ask(gateway.port, post(chat(user='first'), field(key['first'])), 'POST'))]
        await gateway.until('gpt-4o', 'llm', active=1)
        for tenant in ('small', 'big'):
            tasks += [asyncio.create_task(ask(gateway.port, post(chat(user=tenant), field(key[tenant])), 'POST'))
                      for _ in range(30)]
        await gateway.until('gpt-4o', 'llm', waiting=60)
        go_on.set()
        assert {said.status for said in await asyncio.gather(*tasks)} == {200}
        both = order[1:31]
        assert 19 <= both.count('big') <= 21, order


@run
async def test_no_secret_is_in_any_reply_event_log_or_dump(tmp_path):
    """Through everything that can go wrong: refusals, failures, silence, nonsense, an upstream that is not there."""
    async def hang(wire):
        await wire.ended()

    async def nonsense(wire):
        await wire.send(b'nonsense\r\n\r\n')
        wire.close()

    async def cut(wire):
        await wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{')
        wire.close()
    answers = [reply(completion(), JSON, *LIMITS, *PROVIDERS), streams(*TEXTS, USAGE, DONE),
               refusal('429 Too Many Requests', 'retry-after-ms: 5'), refusal('401 Unauthorized'), refusal('500 Oh'),
               hang, nonsense, cut, refusal('429 Too Many Requests', 'x-should-retry: false', 'retry-after: 1')]
    texts = []
    top = f'events: {{ file: {tmp_path}/events }}\ntenants: {{ default: {{ models: ["m*"] }} }}'
    async with upstream(turns(*answers)) as server, \
            account(tmp_path, server, top=top, gate='line: { timeout: 3s }',
                    more=', timeouts: { first_byte: 50ms }') as (gateway, keys):
        key, = await make_keys(gateway, keys, 'acme')
        async with connect(gateway.api_port) as live:
            await live.send(request('/events'))
            await live.head()
            # Each has a lane of its own to learn with, so that none waits for another.
            asked = [post(chat(f'm{number}', stream=number % 2 == 1), field(key)) for number in range(9)]
            asked += [post(chat('other'), field(key)), post(chat('m'), field(key + '0')), post(chat('m')),
                      b'POST / HTTP/9.9\r\n' + field(key).encode() + b'\r\n\r\n']
            for text in asked:
                with contextlib.suppress(asyncio.IncompleteReadError):  # of the one that is cut
                    said = await ask(gateway.port, text, 'POST')
                    texts += [str(said.fields), said.body.decode()]
            for path in ('/gates', '/gates/llm', '/gates/llm/m1', '/gates/llm/m1/line', '/metrics', '/usage', '/nothing'):
                said = await ask(gateway.api_port, request(path))
                texts += [str(said.fields), said.body.decode()]
            events = tmp_path / 'events'
            await until(lambda: events.exists() and 'gate.paused' in events.read_text(), 'it is told')
            texts += [(await live.reader.read(1 << 20)).decode(), events.read_text(), gateway.complaints()]
        dump = await Cli(None).good('check', '--print', str(gateway.path))
        assert '***' in dump.out
        texts += [dump.out, dump.err, (keys.folder / 'keys').read_text()]
        bad = tmp_path / 'bad.yaml'
        bad.write_text(gateway.path.read_text().replace('Authorization:', 'Connection:').replace('gate: llm', 'gate: none'))
        wrong = await Cli(None)('check', str(bad))
        assert wrong.status == 1
        texts += [wrong.out, wrong.err]
        assert any(message.one('authorization') == f'Bearer {SECRET}' for message in server.seen)
    everything = '\n'.join(texts)
    assert 'gate.paused' in everything and 'urn:weir:upstream-unreachable' in everything
    for secret in (SECRET, key, key.split('_')[2], key + '0'):
        assert secret not in everything


@run
async def test_a_server_that_says_back_what_it_was_sent_does_not_tell_its_key(tmp_path):
    """Which is what TRACE asks for; some servers do it unless they are told not to."""
    async def serve(wire, message):
        text = message.start + ''.join(f'\r\n{name}: {value}' for name, value in message.fields)
        await wire.send(reply(text.encode(), 'Content-Type: message/http'))
    async with upstream(serve) as server, account(tmp_path, server) as (gateway, keys):
        key, = await make_keys(gateway, keys, 'acme')
        said = await ask(gateway.port, request('/v1/models', field(key), method='TRACE'), 'TRACE')
        assert SECRET not in said.body.decode()
        assert (said.status, json.loads(said.body)['type']) == (501, 'urn:weir:bad-request')
        assert server.seen == []
        # Where there is nothing that a caller does not know, it is passed on as it is.
        gateway.path.write_text(gateway.path.read_text().replace(
            f', headers: {{ Authorization: "Bearer {SECRET}", X-Own: "{SECRET}" }}', ''))
        await Cli(f'127.0.0.1:{gateway.api_port}').good('reload')
        assert (await ask(gateway.port, request('/v1/models', field(key), method='TRACE'), 'TRACE')).status == 200
