"""API keys: made and revoked by a command, asked for by a route, and taken up by a gateway that runs."""
import asyncio
import json
import re
import stat

import aiohttp
from raw import run
from test_cli import Cli, ended
from weir import Upstream, until, weir

CONFIG = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
data: %s
upstreams: { u: { url: "http://127.0.0.1:%d" } }
gates: { g: { limit: 10 } }
routes:
  - { match: /closed, tenant: api_key, gate: g, key: "{tenant}", upstream: u }
  - { match: /open, tenant: header:X-Tenant, gate: g, key: "k-{tenant}", upstream: u }
'''
FORM = r'weir_[0-9a-f]{12}_[0-9a-f]{64}'


class Keys:
    """The command, for the data folder of a gateway, or for the one that a config names."""

    def __init__(self, folder, config=None):
        self.folder = folder
        self.cli = Cli(None)
        self.where = ('--data', str(folder)) if config is None else ('--config', str(config))

    async def __call__(self, *words):
        return await self.cli('keys', *words, *self.where)

    async def good(self, *words):
        return await self.cli.good('keys', *words, *self.where)

    async def add(self, tenant, *words):
        return (await self.good('add', '--tenant', tenant, *words)).out.strip()


class Caller:
    """A client of the gateway, each request on a connection of its own, so that all threads are asked."""

    def __init__(self, gateway):
        self.url = gateway.url

    async def __call__(self, path='/closed', **headers):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            fields = {name.replace('_', '-'): value for name, value in headers.items()}
            async with session.get(self.url + path, headers=fields) as reply:
                return reply.status, reply.headers, await reply.json(content_type=None)

    async def everywhere(self, status, **headers):
        """Whether twenty requests in a row, which reach both threads, are answered so."""
        return [(await self(**headers))[0] for _ in range(20)] == [status] * 20


def with_keys(test):
    """Runs a test with the command, a gateway, its upstream and a caller."""
    @run
    async def wrapper(tmp_path):
        upstream = Upstream()
        folder = tmp_path / 'data'
        async with upstream.serve() as port, weir(CONFIG % (folder, port)) as gateway:
            await test(Keys(folder), gateway, upstream, Caller(gateway))
    wrapper.__name__ = test.__name__
    return wrapper


def bearer(key):
    return {'Authorization': f'Bearer {key}'}


# ---- a route that asks for keys

@with_keys
async def test_a_route_that_asks_for_a_key_lets_nobody_else_through(keys, gateway, upstream, caller):
    status, headers, problem = await caller()
    assert (status, problem['type'], headers['WWW-Authenticate']) == (401, 'urn:weir:unauthorized', 'Bearer')
    assert 'Authorization: Bearer' in problem['detail'] and 'weir_' in problem['detail']
    key = await keys.add('acme')
    await until(lambda: caller.everywhere(200, **bearer(key)), 'the key is taken up')
    for wrong in (key[:-1], key + '0', key.upper(), key[:-1] + ('0' if key[-1] != '0' else '1')):
        status, headers, problem = await caller(**bearer(wrong))
        assert (status, problem['type']) == (401, 'urn:weir:unauthorized'), wrong
        assert wrong not in json.dumps(problem)
    for nothing in ('Basic YTpi', 'Bearer sk-123', key):
        assert (await caller(Authorization=nothing))[0] == 401
    # Whoever is believed elsewhere is not believed here.
    assert (await caller(X_Tenant='acme'))[0] == 401
    other = await keys.add('other')
    await until(lambda: caller.everywhere(200, **bearer(other)), 'the other key is taken up')
    assert (await caller(**bearer(key), x_api_key=other))[0] == 401


@with_keys
async def test_a_key_says_who_the_tenant_is_and_goes_no_further(keys, gateway, upstream, caller):
    key = await keys.add('acme')
    await until(lambda: caller.everywhere(200, **bearer(key)), 'the key is taken up')
    for number, fields in enumerate(({'Authorization': f'bearer {key}'}, {'X-Api-Key': key}, {'Api-Key': key},
                                     {**bearer(key), 'X-Api-Key': key})):
        status, _, said = await caller(f'/closed?id={number}', **{'X-Tenant': 'other', **fields})
        assert (status, said['id']) == (200, str(number))
        assert key not in json.dumps(upstream.headers[str(number)])
        assert upstream.headers[str(number)]['X-Tenant'] == 'other'
    assert (await gateway.ask_api('/gates/g/acme'))[0] == 200
    assert (await gateway.ask_api('/gates/g/other'))[0] == 404
    # What is no key of ours passes on, and so does one where nobody asks for it.
    assert (await caller('/closed?id=x', **{'Authorization': 'Bearer sk-1', 'X-Api-Key': key}))[0] == 200
    assert upstream.headers['x']['Authorization'] == 'Bearer sk-1' and 'X-Api-Key' not in upstream.headers['x']
    assert (await caller('/open?id=y', **bearer(key)))[0] == 200
    assert upstream.headers['y']['Authorization'] == f'Bearer {key}'


@with_keys
async def test_a_revoked_key_stops_working_by_itself(keys, gateway, upstream, caller):
    first, second = await keys.add('acme'), await keys.add('acme')
    await until(lambda: caller.everywhere(200, **bearer(first)), 'the keys are taken up')
    await keys.good('revoke', first.split('_')[1])
    await until(lambda: caller.everywhere(401, **bearer(first)), 'the key stops working')
    assert await caller.everywhere(200, **bearer(second))
    assert 'revoked' in (await caller(**bearer(first)))[2]['detail']
    (keys.folder / 'keys').unlink()
    await until(lambda: caller.everywhere(401, **bearer(second)), 'without a file there are no keys')


@with_keys
async def test_a_reload_takes_keys_up_before_it_answers(keys, gateway, upstream, caller):
    cli = Cli(f'127.0.0.1:{gateway.api_port}')
    for _ in range(3):
        key = await keys.add('acme')
        await cli.good('reload')
        assert await caller.everywhere(200, **bearer(key))


@with_keys
async def test_a_file_that_is_damaged_changes_nothing_and_is_told_once(keys, gateway, upstream, caller):
    key = await keys.add('acme')
    await until(lambda: caller.everywhere(200, **bearer(key)), 'the key is taken up')
    path = keys.folder / 'keys'
    good = path.read_text()
    path.write_text(good + 'nonsense\n')
    await until(lambda: 'the API keys stay as they were' in gateway.complaints(), 'it is told')
    assert f'{path}:2: not a key' in gateway.complaints()
    assert await caller.everywhere(200, **bearer(key))
    said = await keys('add', '--tenant', 'x')
    assert said.complained(1, ':2: not a key')
    path.chmod(0o666)
    await until(lambda: 'can be written by others' in gateway.complaints(), 'that is told, too')
    assert gateway.complaints().count('not a key') == 1
    path.chmod(0o600)
    path.write_text(good)
    other = await keys.add('other')
    await until(lambda: caller.everywhere(200, **bearer(other)), 'it goes on')


def test_a_damaged_file_keeps_a_gateway_from_starting(tmp_path):
    (tmp_path / 'keys').write_text('nonsense\n')
    (tmp_path / 'weir.yaml').write_text(f'api: 127.0.0.1:0\ndata: {tmp_path}\n')

    @run
    async def test():
        said = await Cli(None)('serve', str(tmp_path / 'weir.yaml'))
        assert said.complained(1, 'weir: keys: ', 'keys:1: not a key', 'Restore the file')
    test()


@with_keys
async def test_keys_hold_through_a_storm_of_changes(keys, gateway, upstream, caller):
    """Requests with a key that stays pass, whatever is made and revoked meanwhile."""
    stays = await keys.add('acme')
    await until(lambda: caller.everywhere(200, **bearer(stays)), 'the key is taken up')
    cli, over = Cli(f'127.0.0.1:{gateway.api_port}'), False

    async def ask():
        count = 0
        while not over:
            assert (await caller(**bearer(stays)))[0] == 200
            count += 1
        return count
    tasks = [asyncio.create_task(ask()) for _ in range(4)]
    for _ in range(10):
        key = await keys.add('other')
        await cli.good('reload')
        assert (await caller(**bearer(key)))[0] == 200
        await keys.good('revoke', key.split('_')[1])
        await cli.good('reload')
        assert (await caller(**bearer(key)))[0] == 401
    over = True
    assert min(await asyncio.gather(*tasks)) > 0


# ---- the command

def with_command(test):
    @run
    async def wrapper(tmp_path):
        config = tmp_path / 'weir.yaml'
        config.write_text(f'api: 127.0.0.1:0\ndata: "{tmp_path}/a folder"\n')
        await test(Keys(tmp_path / 'a folder', config))
    wrapper.__name__ = test.__name__
    return wrapper


@with_command
async def test_a_key_is_shown_once_and_only_its_hash_is_kept(keys):
    key = await keys.add('acme', '--name', 'ci of "acme"')
    assert re.fullmatch(FORM, key)
    path = keys.folder / 'keys'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(keys.folder.stat().st_mode) == 0o700
    secret = key.split('_')[2]
    assert secret not in path.read_text()
    said = await keys.good('list')
    assert secret not in said.out
    assert [(row['ID'], row['TENANT'], row['NAME'], row['REVOKED']) for row in said.rows] == [
        (key.split('_')[1], 'acme', 'ci of "acme"', '-')]
    assert re.fullmatch(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ', said.rows[0]['CREATED'])
    document = (await keys.good('list', '--json')).documents[0]
    assert set(document['keys'][0]) == {'id', 'tenant', 'name', 'created', 'revoked'}
    made = (await keys.good('add', '--tenant', 'b', '--json')).documents[0]
    assert re.fullmatch(FORM, made['key']) and made['id'] == made['key'].split('_')[1] and made['tenant'] == 'b'


@with_command
async def test_a_revoked_key_stays_in_the_list(keys):
    key_id = (await keys.add('acme')).split('_')[1]
    assert key_id in (await keys.good('revoke', key_id)).out
    revoked = (await keys.good('list', '--json')).documents[0]['keys'][0]['revoked']
    assert revoked > 0
    assert (await keys.good('revoke', key_id, '--json')).documents == [{'revoked': key_id}]
    assert (await keys.good('list', '--json')).documents[0]['keys'][0]['revoked'] == revoked


@with_command
async def test_writers_that_come_at_once_lose_nothing(keys):
    made = await asyncio.gather(*(keys.add(f't{i}') for i in range(20)))
    assert len(set(made)) == 20
    listed = (await keys.good('list', '--json')).documents[0]['keys']
    assert {key['id'] for key in listed} == {key.split('_')[1] for key in made}
    await asyncio.gather(*(keys.good('revoke', key.split('_')[1]) for key in made[:10]))
    listed = (await keys.good('list', '--json')).documents[0]['keys']
    assert sum(key['revoked'] is not None for key in listed) == 10
    assert {path.name for path in keys.folder.iterdir()} == {'keys', 'keys.lock'}


@with_command
async def test_a_config_may_say_where_the_keys_are(keys):
    keys.folder.mkdir()
    path = keys.folder / 'weir.yaml'
    path.write_text(f'api: 127.0.0.1:0\ndata: "{keys.folder}/deep/er"\n')
    cli = Cli(None)
    key = (await cli.good('keys', 'add', '--tenant', 'a', '--config', str(path))).out.strip()
    assert key.split('_')[1] in (keys.folder / 'deep/er/keys').read_text()
    # Who makes keys need not have the provider's.
    path.write_text(path.read_text() + '''
upstreams: { u: { url: http://u, headers: { A: "Bearer ${NOT_SET_ANYWHERE}" } } }
api_tokens: { t: { token: "${NOT_SET_ANYWHERE}", scopes: [read] } }
''')
    assert key.split('_')[1] in (await cli.good('keys', 'list', '--config', str(path))).out
    assert 'NOT_SET_ANYWHERE' in (await cli('check', str(path))).err
    path.write_text('apj: 127.0.0.1:0\n')
    said = await cli('keys', 'list', '--config', str(path))
    assert said.status == 1 and 'did you mean api?' in said.err


@run
async def test_a_folder_that_no_gateway_uses_is_refused(tmp_path):
    cli, folder = Cli(None), tmp_path / 'data'
    for words in (['add', '--tenant', 'a'], ['list'], ['revoke', '0123456789ab']):
        for where in ([], ['--data', str(folder)]):
            process = await cli.start('keys', *words, *where, cwd=tmp_path)
            said = await ended(process)
            assert said.complained(1, where[1] if where else './weir-data', 'no weir serve has used it', '--config FILE')
    assert list(tmp_path.iterdir()) == []
    config = CONFIG % (folder, 9)
    async with weir(config):
        key = (await cli.good('keys', 'add', '--tenant', 'a', '--data', str(folder))).out
    # Neither a restart nor another folder changes what it is.
    assert key.split('_')[1] in (await cli.good('keys', 'list', '--data', str(folder))).out
    async with weir(config):
        assert key.split('_')[1] in (await cli.good('keys', 'list', '--data', str(folder))).out


@run
async def test_a_gateway_that_keeps_nothing_makes_no_folder(tmp_path):
    async with weir('api: 127.0.0.1:0\n') as gateway:
        folder = gateway.path.parent / 'weir-data'
        assert not folder.exists()
        gateway.path.write_text('''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams: { u: { url: "http://127.0.0.1:9" } }
routes: [ { match: /, tenant: api_key, upstream: u } ]
''')
        await Cli(f'127.0.0.1:{gateway.api_port}').good('reload')
        assert {path.name for path in folder.iterdir()} >= {'gateway'}


@with_command
async def test_a_key_that_cannot_be_shown_is_revoked(keys):
    for more in ((), ('--json',)):
        with open('/dev/full', 'wb') as full:
            process = await keys.cli.start('keys', 'add', '--tenant', 'a', *keys.where, *more, stdout=full)
        said = await ended(process)
        assert said.status == 1 and 'cannot be written' in said.err
    assert all(key['revoked'] for key in (await keys.good('list', '--json')).documents[0]['keys'])


@with_command
async def test_what_is_wrong_with_a_call_is_told(keys):
    for words, part in ((['frob'], 'add, list or revoke'), (['add'], '--tenant NAME'), (['revoke'], 'the ID of a key'),
                        (['list', 'x'], 'an ID is for revoke'), (['add', 'x', '--tenant', 'a'], 'an ID is for revoke'),
                        (['list', '--tenant', 'a'], '--tenant is for add'),
                        (['revoke', 'x', '--name', 'y'], '--name is for add'),
                        (['revoke', 'weir_0123456789ab_00'], 'between the two _'),
                        (['list', '--data', 'x'], 'expected one of them')):
        said = await keys(*words)
        assert said.complained(2, part)
    said = await keys('revoke', '0123456789ab')
    assert said.complained(1, 'has no key with the id 0123456789ab')
    said = await keys('add', '--tenant', 'a\nb')
    assert said.complained(1, 'without control characters')
    said = await Cli(None)('keys', 'add', '--tenant', 'a', '--data', '/dev/null/x')
    assert said.complained(1, '/dev/null/x')
