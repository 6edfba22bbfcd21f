"""A gate's table of keys when it is full: invented names shut out no new one, and an operator is told."""
import asyncio

from test_functions import ask, run
from weir import functions, until


def lines_about(gateway, text):
    return [line for line in gateway.complaints().splitlines() if text in line]


def test_invented_names_shut_out_no_new_one():
    async def test():
        async with functions(limit=2, gate='max_keys: 20') as (gateway, upstream, client):
            held = asyncio.create_task(ask(client, '/functions/held?hold&id=held'))
            await until(lambda: upstream.inside == ['held'], 'it is inside')
            for start in range(0, 1000, 10):
                names = [f'/functions/invented-{number}' for number in range(start, start + 10)]
                replies = await asyncio.gather(*(ask(client, name) for name in names))
                assert [status for status, _, _ in replies] == [200] * 10
            assert (await ask(client, '/functions/new'))[0] == 200
            _, listed = await gateway.ask_api('/gates/functions')
            keys = [key['key'] for key in listed['keys']]
            assert len(keys) <= 20 and {'held', 'new'} <= set(keys)
            assert (await gateway.counts('held'))['active'] == 1
            upstream.open('held')
            assert (await held)[0] == 200
            lines = await until(lambda: lines_about(gateway, 'gate functions'), 'the operator is told')
            assert len(lines) == 1
            assert lines[0].split('Z ', 1)[1] == (
                'warn gate_keys_full: gate functions: its table of keys is full (max_keys: 20), and the keys unused '
                'for longest are forgotten before their time; raise max_keys, or let the route make fewer keys '
                'gate=functions')
    run(test())


def test_a_new_key_is_refused_while_all_keys_are_in_use_and_told_the_truth():
    async def test():
        async with functions(limit=1, gate='max_keys: 2') as (gateway, upstream, client):
            tasks = [asyncio.create_task(ask(client, f'/functions/{name}?hold&id={name}')) for name in 'ab']
            await until(lambda: sorted(upstream.inside) == ['a', 'b'], 'both are inside')
            for _ in range(3):
                status, headers, problem = await ask(client, '/functions/c?id=c')
                assert (status, problem['type']) == (503, 'urn:weir:too-many-keys')
                assert headers['Retry-After'] == '1'
                assert problem['detail'].startswith('All 2 keys of gate functions (max_keys) are held, waited for')
            async with gateway._session.post(gateway.api + '/gates/functions/c/acquire') as reply:
                assert (reply.status, reply.headers['Retry-After']) == (503, '1')
                assert (await reply.json())['type'] == 'urn:weir:too-many-keys'
            upstream.open('a')
            assert (await tasks[0])[0] == 200

            async def passes():
                return (await ask(client, '/functions/c?id=c'))[0] == 200
            await until(passes, 'the key that came to rest has made room')
            upstream.open('b')
            assert (await tasks[1])[0] == 200
            lines = await until(lambda: lines_about(gateway, 'was refused'), 'the operator is told')
            assert len(lines) == 1
            assert 'gate functions: a request with a new key was refused, because all 2 keys (max_keys) are held' \
                in lines[0]
    run(test())


def test_debts_are_remembered_and_the_refusal_says_until_when():
    async def test():
        gate = 'max_keys: 2\n    rate: { rate: 1/m, burst: 1 }'
        async with functions(gate=gate) as (gateway, _, client):
            for name in 'ab':
                assert (await ask(client, f'/functions/{name}'))[0] == 200

            async def refused():
                status, headers, problem = await ask(client, '/functions/c')
                assert (status, problem['type']) == (503, 'urn:weir:too-many-keys')
                return 50 <= int(headers['Retry-After']) <= 60
            # Until no request, nor a look of the API, pins one of the keys any more, this cannot be known.
            await until(refused, 'it is told when the first debt is paid')
            await gateway.reload(('max_keys: 2', 'max_keys: 3'))
            assert (await ask(client, '/functions/c'))[0] == 200
    run(test())


def test_a_key_with_settings_of_its_own_comes_back_with_them():
    async def test():
        gate = 'max_keys: 3\n    keys: { special: { limit: 7 } }'
        async with functions(limit=2, gate=gate) as (gateway, _, client):
            assert (await ask(client, '/functions/special'))[0] == 200
            assert (await gateway.counts('special'))['limit'] == 7

            async def forgotten():
                for number in range(5):
                    assert (await ask(client, f'/functions/other-{number}'))[0] == 200
                return (await gateway.ask_api('/gates/functions/special'))[0] == 404
            await until(forgotten, 'the key has made room')
            assert (await ask(client, '/functions/special'))[0] == 200
            assert (await gateway.counts('special'))['limit'] == 7
    run(test())


def test_a_key_at_rest_is_forgotten_after_the_time_that_the_gate_names():
    async def test():
        async with functions(gate='forget: 1s') as (gateway, _, client):
            assert (await ask(client, '/functions/f'))[0] == 200
            assert (await gateway.ask_api('/gates/functions/f'))[0] == 200

            async def forgotten():
                _, listed = await gateway.ask_api('/gates/functions')
                return listed['keys'] == []
            await until(forgotten, 'the key is forgotten')
            await gateway.reload()  # by then the log is written
            assert lines_about(gateway, 'gate functions') == []
    run(test())
