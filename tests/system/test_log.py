"""The log: what an operator sees of the process itself, as text and as JSON, in a file that can be moved away."""
import asyncio
import json
import os
import re
import signal

import pytest
from raw import ask, connect, reply, request, run, upstream
from weir import functions, until, weir

LINE = re.compile(r'(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (debug|info|warn|error) ([a-z_]+): (.*)')


def lines_of(path):
    """The log's lines as objects; a line that is none fails."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def logged(path, event, **names):
    """Waits for a line of that event with those names."""
    def found():
        return [line for line in lines_of(path)
                if line['event'] == event and all(line.get(name) == value for name, value in names.items())]
    return (await until(found, f'{event} is logged'))[-1]


CONFIG = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
grace: 5s
log: {{ level: info, format: {format}, file: {file} }}
{top}
upstreams: {{ functions: {{ url: "http://127.0.0.1:{port}", health: {{ failures: 2, pause: 100ms }} }} }}
gates: {{ functions: {{ {gate} }} }}
routes: [ {{ match: /functions, key: f, gate: functions, upstream: functions{route} }} ]
'''


def config(path, server, format='json', top='', gate='limit: 100', route='', port=None):
    return CONFIG.format(file=path, format=format, top=top, gate=gate, route=route, port=port or server.port)


def test_a_life_is_logged_in_a_file_that_can_be_moved_away(tmp_path):
    path = tmp_path / 'weir.log'

    @run
    async def test():
        async with upstream() as server, weir(config(path, server)) as gateway:
            assert (await logged(path, 'start'))['level'] == 'info'
            assert (await logged(path, 'listening', listener=f'127.0.0.1:{gateway.port}'))
            await gateway.reload(('limit: 100', 'limit: 101'))
            assert 'reloaded' in (await logged(path, 'reloaded'))['message'].lower()
            path.rename(tmp_path / 'moved')
            gateway.process.send_signal(signal.SIGUSR1)
            await logged(path, 'reopened')
            gateway.path.write_text(gateway.path.read_text().replace('limit: 101', 'limit: many'))
            gateway.process.send_signal(signal.SIGHUP)
            await until(lambda: len([line for line in lines_of(path) if line['event'] == 'config_refused']) == 2,
                        'each mistake has its line')
            refused = [line for line in lines_of(path) if line['event'] == 'config_refused']
            assert re.search(r'weir\.yaml:\d+:\d+: ', refused[0]['message']) and refused[0]['level'] == 'error'
            assert refused[1]['message'] == 'reload: everything goes on as before'
            assert (await ask(gateway.port, request())).status == 200
            assert gateway.complaints() == ''
        assert [line['event'] for line in lines_of(path)][-2:] == ['draining', 'end']
        assert [line['event'] for line in lines_of(tmp_path / 'moved')][0] == 'start'
        for line in lines_of(path):
            assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', line['time'])
    test()


def test_the_log_goes_where_a_new_config_says(tmp_path):
    first, second = tmp_path / 'first.log', tmp_path / 'second.log'

    @run
    async def test():
        async with upstream() as server, weir(config(first, server, 'text')) as gateway:
            await gateway.reload((f'{first}', f'{second}'), ('format: text', 'format: json'))
            await logged(second, 'reloaded')
            assert all(LINE.fullmatch(line) for line in first.read_text().splitlines())
            await gateway.reload(('level: info', 'level: warn'))
            gateway.path.write_text(gateway.path.read_text().replace(f'{second}', f'{tmp_path}/no/such.log'))
            gateway.process.send_signal(signal.SIGHUP)
            refused = await logged(second, 'config_refused')
            assert (await ask(gateway.port, request())).status == 200
            assert 'reload: everything' in refused['message']
            assert any('such.log cannot be opened: No such file' in line['message'] for line in lines_of(second))
            assert [line['event'] for line in lines_of(second)].count('reloaded') == 1
    test()


@run
async def test_without_a_section_only_warnings_go_to_stderr():
    async with functions(upstream_more=', timeouts: { connect: 5s }') as (gateway, _, client):
        async with client.get('/functions/f?id=1') as said:
            assert said.status == 200
        await gateway.reload()  # by then the log is written
        assert gateway.complaints() == ''


def test_a_server_that_goes_and_comes_back_has_a_line_each(tmp_path):
    path = tmp_path / 'weir.log'

    @run
    async def test():
        async with upstream() as server:
            port = server.port
        async with weir(config(path, None, port=port)) as gateway:
            async def refused():
                assert (await ask(gateway.port, request())).status == 502
                return [line for line in lines_of(path) if line['event'] == 'upstream_down']
            line = (await until(refused, 'it is down'))[0]
            assert line['upstream'] == 'functions' and line['address'] == f'127.0.0.1:{port}'
            assert 'Connection refused' in line['message'] and line['level'] == 'warn'
            back = await asyncio.start_server(answer, '127.0.0.1', port)

            async def answered():  # by the thread that has found it down
                await ask(gateway.port, request())
                return [line for line in lines_of(path) if line['event'] == 'upstream_up']
            assert (await until(answered, 'it is up again'))[0]['upstream'] == 'functions'
            back.close()
            await back.wait_closed()
        assert len([line for line in lines_of(path) if line['event'] == 'upstream_down']) == 1
    test()


async def answer(reader, writer):
    await reader.readuntil(b'\r\n\r\n')
    writer.write(reply(b'ok', 'Connection: close'))
    await writer.drain()
    writer.close()


@pytest.mark.parametrize('gate, status, retry, reason', [
    ('limit: 8, breaker: { failures: 2, pause: 10s }', '500 Oh', (), 'breaker'),
    ('limit: 8', '429 Too Many Requests', ('Retry-After: 20',), 'asked for a pause')])
def test_a_lane_that_is_paused_has_a_line(tmp_path, gate, status, retry, reason):
    path = tmp_path / 'weir.log'

    @run
    async def test():
        async with upstream(reply(b'no', *retry, status=status)) as server, \
                weir(config(path, server, gate=gate + ', line: { timeout: 100ms }')) as gateway:
            for _ in range(2):
                await ask(gateway.port, request())
            line = await logged(path, 'lane_paused', gate='functions', key='f', upstream='functions')
            assert reason in line['message']
    test()


def test_wrong_keys_and_tokens_have_one_line_a_minute(tmp_path):
    path = tmp_path / 'weir.log'

    @run
    async def test():
        top = f'data: {tmp_path}\napi_tokens: {{ a: {{ token: "${{WEIR_TEST_TOKEN}}", scopes: [read] }} }}'
        async with upstream() as server, \
                weir(config(path, server, top=top, route=', tenant: api_key'),
                     env={**os.environ, 'WEIR_TEST_TOKEN': 'geheim-geheim-geheim'}) as gateway:
            for number in range(20):
                said = await ask(gateway.port, request('/functions/f', f'X-Request-Id: try-{number}',
                                                       'Authorization: Bearer weir_00000000_nonsense'))
                assert said.status == 401
                async with connect(gateway.api_port) as wire:
                    await wire.send(request('/gates', 'Authorization: Bearer not-geheim'))
                    assert (await wire.message()).status == 401
            line = await logged(path, 'wrong_key', request_id='try-0', client='127.0.0.1')
            assert line['route'] == '/functions' and line['level'] == 'warn'
            await logged(path, 'wrong_token', client='127.0.0.1')
            events = [line['event'] for line in lines_of(path)]
            assert events.count('wrong_key') == events.count('wrong_token') == 1
            assert 'nonsense' not in path.read_text() and 'geheim' not in path.read_text()
    test()


def test_a_spent_budget_has_a_line(tmp_path):
    path = tmp_path / 'weir.log'

    @run
    async def test():
        top = f'data: {tmp_path}\ntenants: {{ acme: {{ tokens_per_day: 0 }} }}'
        async with upstream() as server, \
                weir(config(path, server, top=top, route=', llm: openai, tenant: acme')) as gateway:
            body = b'{"model":"gpt-4o","messages":[]}'
            message = (b'POST /functions/v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: mine\r\n'
                       b'Content-Type: application/json\r\nContent-Length: %d\r\n\r\n' % len(body) + body)
            assert (await ask(gateway.port, message)).status == 429
            line = await logged(path, 'budget_spent', tenant='acme', request_id='mine')
            assert line['level'] == 'warn' and '429' in line['message']
    test()


def test_a_full_disk_costs_lines_and_no_request():
    """/dev/full takes nothing."""
    @run
    async def test():
        async with upstream() as server, weir(config('/dev/full', server)) as gateway:
            await until(lambda: 'the log cannot be written: No space left' in gateway.complaints(), 'it is said')
            assert (await ask(gateway.port, request())).status == 200
            await gateway.reload(('limit: 100', 'limit: 101'))
            assert gateway.complaints().count('\n') == 1
    test()
