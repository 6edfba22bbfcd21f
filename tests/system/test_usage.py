"""What tenants have used: GET /usage and `weir usage`, and that nobody is told of another."""
import json

import pytest
import yarl
from raw import ask, reply, run, upstream
from test_cli import Cli
from test_keys import Keys
from test_llm import JSON, chat, completion, llm, post
from test_openapi import validate
from weir import until, weir

CONFIG = '''
api: 127.0.0.1:0
threads: 2
data: %s
%s
'''
TOKENS = '''
api_tokens:
  reader: { token: "${WEIR_TEST_READER}", scopes: [read] }
  acme: { token: "${WEIR_TEST_ACME}", scopes: [read], tenant: acme }
  worker: { token: "${WEIR_TEST_WORKER}", scopes: [work] }
'''
SECRETS = {'reader': 'a-secret-of-the-reader', 'acme': 'a-secret-of-acme', 'worker': 'a-secret-of-the-worker'}
ROWS = [('2025-08-20', 'acme', 'gpt-4o', 1, 0, 10, 1, 0), ('2025-08-20', 'beta', 'gpt-4o', 2, 0, 20, 2, 0),
        ('2025-08-21', 'acme', 'gpt-4o', 4, 1, 40, 4, 30), ('2025-08-21', 'acme', 'claude 3 & more', 8, 0, 80, 8, 0),
        ('2025-08-21', '', 'gpt-4o', 16, 0, 160, 16, 0), ('2025-08-22', 'beta', 'gpt-4o', 32, 0, 320, 32, 0)]
NUMBERS = ('requests', 'refused', 'input', 'output', 'cached')
SHOWN = ('requests', 'refused', 'input_tokens', 'output_tokens', 'cached_tokens')


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    for name, secret in SECRETS.items():
        monkeypatch.setenv(f'WEIR_TEST_{name.upper()}', secret)


def keep(folder, rows):
    """Puts rows where a gateway finds them."""
    (folder / 'usage').mkdir(parents=True, exist_ok=True)
    for day in {row[0] for row in rows}:
        lines = [dict(zip(('tenant', 'model', *NUMBERS), row[1:])) for row in rows if row[0] == day]
        documents = [{'weir': 'usage', 'version': 1, 'day': day}, *lines, {'rows': len(lines)}]
        (folder / 'usage' / day).write_text(''.join(json.dumps(each) + '\n' for each in documents))


def shown(rows):
    return [{**dict(zip(('day', 'tenant', 'model', *SHOWN), row)), 'cache_written_tokens': 0, 'money': 0}
            for row in rows]


class Api:
    def __init__(self, gateway):
        self.gateway = gateway

    async def __call__(self, path, secret=None, **headers):
        headers = {**headers, **({} if secret is None else {'Authorization': f'Bearer {secret}'})}
        url = yarl.URL(self.gateway.api + path, encoded=True)
        async with self.gateway._session.get(url, headers=headers) as reply:
            return reply.status, await reply.json(content_type=None)

    async def rows(self, query='', secret=None):
        status, said = await self(f'/usage{query}', secret)
        assert status == 200, said
        validate(said, {'$ref': '#/components/schemas/Usage'})
        return said['usage']


def with_usage(tokens='', rows=tuple(ROWS)):
    def decorate(test):
        @run
        async def wrapper(tmp_path):
            keep(tmp_path, rows)
            async with weir(CONFIG % (tmp_path, tokens)) as gateway:
                await test(Api(gateway), gateway, tmp_path)
        wrapper.__name__ = test.__name__
        return wrapper
    return decorate


@with_usage()
async def test_usage_is_told_by_tenant_model_and_day(api, gateway, folder):
    assert await api.rows() == shown(ROWS)
    for query, wanted in (('?tenant=acme', lambda row: row[1] == 'acme'), ('?tenant=', lambda row: row[1] == ''),
                          ('?model=gpt-4o', lambda row: row[2] == 'gpt-4o'),
                          ('?model=claude+3+%26%20more', lambda row: row[2].startswith('claude')),
                          ('?day=2025-08-21', lambda row: row[0] == '2025-08-21'),
                          ('?from=2025-08-21', lambda row: row[0] >= '2025-08-21'),
                          ('?to=2025-08-21', lambda row: row[0] <= '2025-08-21'),
                          ('?from=2025-08-21&to=2025-08-21&tenant=acme&model=gpt-4o', lambda row: row == ROWS[2]),
                          ('?from=2025-08-22&to=2025-08-20', lambda row: False), ('?tenant=nobody', lambda row: False),
                          ('?day=1999-01-01', lambda row: False), ('?tenant=acm', lambda row: False)):
        assert await api.rows(query) == shown([row for row in ROWS if wanted(row)]), query


@with_usage()
async def test_what_is_no_question_is_told(api, gateway, folder):
    for query, part in (('?tennant=acme', 'tenant, model, day, from, to'), ('?day=yesterday', 'Write it as 2025-08-21'),
                        ('?from=2025-02-30', 'is not a day'), ('?to=', 'is not a day'), ('?day=2025-8-1', 'is not a day'),
                        ('?tenant=%', 'an escape'), ('?day', 'is not a day')):
        status, said = await api(f'/usage{query}')
        assert (status, said['type']) == (400, 'urn:weir:bad-request') and part in said['detail'], said
    assert (await api('/usage/acme'))[0] == 404
    assert (await api('/usage?tenant=' + 'x' * 900))[0] == 200
    assert (await api('/usage?tenant=' + 'x' * 3100))[0] == 414


@with_usage(TOKENS)
async def test_a_token_with_a_tenant_is_told_of_no_other(api, gateway, folder):
    own = shown([row for row in ROWS if row[1] == 'acme'])
    assert await api.rows(secret=SECRETS['reader']) == shown(ROWS)
    assert await api.rows(secret=SECRETS['acme']) == own
    assert await api.rows('?tenant=acme', SECRETS['acme']) == own
    assert await api.rows('?model=gpt-4o&day=2025-08-22', SECRETS['acme']) == []
    for query in ('?tenant=beta', '?tenant=', '?tenant=acme2', '?tenant=acme&tenant=beta', '?tenant=%61cm'):
        status, said = await api(f'/usage{query}', SECRETS['acme'])
        assert (status, said['type']) == (403, 'urn:weir:forbidden'), query
        assert 'beta' not in json.dumps(said)
    assert (await api('/usage'))[0] == 401
    assert (await api('/usage', SECRETS['worker']))[0] == 403


@pytest.mark.parametrize('tokens', ['', TOKENS])
def test_a_tenant_s_own_key_shows_its_own_usage_and_nothing_else(tmp_path, tokens):
    @with_usage(tokens)
    async def test(api, gateway, folder):
        keys = Keys(folder)
        acme, other = await keys.add('acme'), await keys.add('other')

        async def known():
            return (await api('/usage', other))[0] == 200 and (await api('/usage', acme))[0] == 200
        await until(known, 'the keys are taken up')
        own = shown([row for row in ROWS if row[1] == 'acme'])
        for _ in range(10):  # on connections to both threads
            assert await api.rows(secret=acme) == own
            assert await api.rows(secret=other) == []
        assert (await api('/usage', **{'X-Api-Key': acme}))[1] == {'usage': own}
        assert await api.rows('?day=2025-08-21&model=gpt-4o', acme) == shown([ROWS[2]])
        for query in ('?tenant=beta', '?tenant=', '?tenant=acme2'):
            assert (await api(f'/usage{query}', acme))[0] == 403
        for path in ('/gates', '/metrics', '/events', '/gates/g/k', '/gates/g/k/line'):
            status, said = await api(path, acme)
            assert (status, said['type']) == (403, 'urn:weir:forbidden'), path
        async with gateway._session.post(gateway.api + '/reload', headers={'Authorization': f'Bearer {acme}'}) as reply:
            assert reply.status == 403
        async with gateway._session.get(gateway.api + '/healthz', headers={'Authorization': f'Bearer {acme}'}) as reply:
            assert reply.status == 200
        wrong = acme[:-1] + ('0' if acme[-1] != '0' else '1')
        for path in ('/usage', '/gates'):
            status, said = await api(path, wrong)
            assert (status, said['type']) == (401, 'urn:weir:unauthorized')
        assert (await api('/usage', acme, **{'X-Api-Key': other}))[0] == 401
        await keys.good('revoke', acme.split('_')[1])

        async def gone():
            return (await api('/usage', acme))[0] == 401
        await until(gone, 'the key is revoked')
    test(tmp_path)


MANY = tuple((f'2025-01-{day:02}', f'tenant-{number}', 'm' * 200, number, 0, 0, 0, 0)
             for day in range(1, 11) for number in range(1000))


@with_usage(rows=MANY)
async def test_a_long_report_comes_whole(api, gateway, folder):
    said = await api.rows()
    assert len(said) == len(MANY) and said == shown(MANY)
    assert len(await api.rows('?tenant=tenant-999')) == 10
    assert await api.rows('?tenant=nobody') == []


@with_usage(TOKENS)
async def test_the_command_prints_a_table(api, gateway, folder):
    cli = Cli(f'127.0.0.1:{gateway.api_port}', WEIR_TOKEN=SECRETS['reader'])
    said = await cli.good('usage', '--tenant', 'acme')
    assert said.out == (
        'DAY         TENANT  MODEL            REQUESTS  REFUSED  INPUT  OUTPUT  CACHED  MONEY\n'
        '2025-08-20  acme    gpt-4o                  1        0     10       1       0   0.00\n'
        '2025-08-21  acme    gpt-4o                  4        1     40       4      30   0.00\n'
        '2025-08-21  acme    claude 3 & more         8        0     80       8       0   0.00\n'
        'all                                        13        1    130      13      30   0.00\n')
    assert '2025-08-21  -       gpt-4o ' in (await cli.good('usage')).out  # nobody in particular
    one = await cli.good('usage', '--model', 'claude 3 & more', '--from', '2025-08-20', '--to', '2025-08-22')
    assert one.out.count('\n') == 2
    assert (await cli.good('usage', '--day', '2025-08-22', '--json')).documents == [{'usage': shown(ROWS[5:])}]
    assert (await cli.good('usage', '--day', '2024-08-22')).out.count('\n') == 1
    assert (await cli('usage', '--day', 'today')).complained(1, 'Write it as 2025-08-21')
    assert (await cli('usage', '--day', '2025-08-21', '--to', '2025-08-22')).complained(2, 'use either')
    own = Cli(f'127.0.0.1:{gateway.api_port}', WEIR_TOKEN=SECRETS['acme'])
    assert (await own.good('usage')).out == said.out
    assert (await own('usage', '--tenant', 'beta')).complained(1, 'belong to another tenant')


@run
async def test_what_was_used_is_known_after_a_restart_and_after_a_kill(tmp_path):
    """Budgets go on, too: who has spent its day has spent it."""
    top = f'data: {tmp_path}\ntenants: {{ acme: {{ tokens_per_day: 20 }} }}'
    asked = [('acme', 'gpt-4o'), ('beta', 'gpt-4o'), ('beta', 'o3')]
    every = {('acme', 'gpt-4o'): 11, ('beta', 'gpt-4o'): 11, ('beta', 'o3'): 11}

    async def ask_for(gateway, *who):
        return [(await ask(gateway.port, post(chat(model), f'X-Tenant: {tenant}'), 'POST')).status
                for tenant, model in who]

    async def tokens(gateway):
        return {(row['tenant'], row['model']): row['input_tokens'] + row['output_tokens']
                for row in await Api(gateway).rows()}

    def saved():
        """How many tokens the files know of."""
        lines = [json.loads(line) for path in (tmp_path / 'usage').glob('20??-??-??') for line in path.open()]
        return sum(line.get('input', 0) + line.get('output', 0) for line in lines)
    async with upstream(reply(completion(), JSON)) as server:
        async with llm(server, top=top) as gateway:
            assert await ask_for(gateway, *asked) == [200] * 3
            assert await tokens(gateway) == every
        async with llm(server, top=top) as gateway:  # it was ended as people end it
            assert await tokens(gateway) == every
            assert await ask_for(gateway, *asked) == [200] * 3
            await until(lambda: saved() == 66, 'all of it is on disk')
            await gateway.kill()
        async with llm(server, top=top) as gateway:
            assert await tokens(gateway) == {name: 22 for name in every}
            assert await ask_for(gateway, *asked) == [429, 200, 200]


@run
async def test_a_damaged_day_is_told_and_the_others_are_there(tmp_path):
    keep(tmp_path, ROWS)
    (tmp_path / 'usage/2025-08-21').write_text('nonsense\n')
    async with weir(CONFIG % (tmp_path, '')) as gateway:
        assert await Api(gateway).rows() == shown([row for row in ROWS if row[0] != '2025-08-21'])
        assert 'usage/2025-08-21 is damaged and moved aside' in gateway.complaints()
    assert (tmp_path / 'usage/2025-08-21.damaged').read_text() == 'nonsense\n'
    async with weir(CONFIG % (tmp_path, '')) as gateway:
        assert len(await Api(gateway).rows()) == 3
        assert 'damaged' not in gateway.complaints()
