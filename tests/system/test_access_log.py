"""The access log: a line for each exchange, also for those that end before their reply; no secret, nothing that
breaks out of a line."""
import asyncio
import json
import re
import signal

import pytest
from raw import ask, connect, reply, request, run, upstream
from test_llm import JSON, chat, completion, post
from weir import until, weir

CONFIG = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
grace: 5s
access_log: {{ file: {file}, format: {format}{log} }}
{top}
upstreams: {{ functions: {{ url: "http://127.0.0.1:{port}" }} }}
gates: {{ functions: {{ {gate} }} }}
routes: [ {{ match: "/functions/{{f}}", key: "{{f}}", tenant: header:X-Tenant, gate: functions,
             upstream: functions{route} }} ]
'''


def config(path, server, format='json', top='', gate='limit: 100', route='', log=''):
    return CONFIG.format(file=path, format=format, top=top, gate=gate, route=route, log=log, port=server.port)


async def lines(path, count):
    """The first lines of the log, once there are so many; as objects, in the order of their ends."""
    await until(lambda: path.exists() and path.read_text().count('\n') >= count, f'{count} lines are there')
    found = path.read_text().splitlines()
    assert len(found) == count
    return [json.loads(line) for line in found]


def test_a_line_says_all_that_is_known_of_an_exchange(tmp_path):
    path = tmp_path / 'access.log'

    @run
    async def test():
        async with upstream(reply(b'hello', 'X-Request-Id: req_1')) as server, weir(config(path, server)) as gateway:
            await ask(gateway.port, request('/functions/resize?secret=1', 'X-Request-Id: mine', 'X-Tenant: acme',
                                            'User-Agent: "curl"\\8'))
            line, = await lines(path, 1)
            for name in ('line_ms', 'upstream_ms', 'total_ms'):
                assert 0 <= line.pop(name) < 60000
            assert re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z', line.pop('time'))
            assert line.pop('bytes') > 100
            assert line == {
                'request_id': 'mine', 'upstream_request_id': 'req_1', 'client': '127.0.0.1', 'tenant': 'acme',
                'route': '/functions/{f}', 'gate': 'functions', 'key': 'resize', 'lane': 'functions',
                'method': 'GET', 'path': '/functions/resize', 'status': 200, 'end': 'complete', 'request_bytes': 0,
                'attempts': 1, 'user_agent': '"curl"\\8'}
    test()


def test_refusals_have_a_line_and_so_have_requests_that_cannot_be_read(tmp_path):
    path = tmp_path / 'access.log'

    @run
    async def test():
        async with upstream() as server, weir(config(path, server)) as gateway:
            await ask(gateway.port, request('/nowhere'))
            line, = await lines(path, 1)
            assert (line['status'], line['problem'], line['path']) == (404, 'no-route', '/nowhere')
            assert 'route' not in line and 'lane' not in line and 'upstream_ms' not in line
            await ask(gateway.port, b'GET /x HTTP/1.1\r\nA\r\n\r\n')
            _, line = await lines(path, 2)
            assert (line['status'], line['problem']) == (400, 'bad-request') and 'path' not in line
            async with connect(gateway.port) as wire:  # what it had no time for is one line a request
                await wire.send(request(), request(), request())
                for _ in range(3):
                    await wire.message()
            assert len(await lines(path, 5)) == 5
    test()


def test_exchanges_that_are_cut_have_a_line(tmp_path):
    path = tmp_path / 'access.log'

    async def half(wire, _):
        await wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf')
        wire.writer.close()

    @run
    async def test():
        held = asyncio.Event()

        async def hold(wire, _):
            await held.wait()
            await wire.send(reply(b'late'))
        async with upstream(hold) as server, \
                weir(config(path, server, gate='limit: 1, line: { timeout: 60s }')) as gateway:
            async with connect(gateway.port) as inside:
                await inside.send(request('/functions/f', 'X-Request-Id: inside'))
                await gateway.until('f', active=1)
                async with connect(gateway.port) as waiting:
                    await waiting.send(request('/functions/f', 'X-Request-Id: waiting'))
                    await gateway.until('f', waiting=1)
                await gateway.until('f', waiting=0)
                line, = await lines(path, 1)
                assert (line['request_id'], line['status'], line['end']) == ('waiting', 499, 'client_gone')
                assert line['line_ms'] > 0 and line['attempts'] == 0 and line['key'] == 'f' and line['bytes'] == 0
            _, line = await lines(path, 2)
            assert (line['request_id'], line['status'], line['end']) == ('inside', 499, 'client_gone')
            assert line['attempts'] == 1 and line['lane'] == 'functions'
            held.set()
        async with upstream(half) as server:
            async with weir(config(path, server)) as gateway:
                async with connect(gateway.port) as wire:
                    await wire.send(request('/functions/f', 'X-Request-Id: half'))
                    await wire.rest()
                line = (await lines(path, 3))[2]
                assert (line['request_id'], line['status'], line['end']) == ('half', 200, 'reply_cut')
    test()


def test_a_body_and_a_wait_in_line_are_measured(tmp_path):
    path = tmp_path / 'access.log'

    @run
    async def test():
        doors = [asyncio.Event(), asyncio.Event()]

        async def slow(wire, message):
            await doors[len(message.body) % 2].wait()
            await wire.send(reply(b'ok'))
        async with upstream(slow) as server, weir(config(path, server, gate='limit: 1')) as gateway:
            tasks = []
            for body in (b'xx', b'xxx'):
                message = (b'POST /functions/f HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: %b\r\n'
                           b'Content-Length: %d\r\n\r\n%b' % (body, len(body), body))
                tasks.append(asyncio.create_task(ask(gateway.port, message)))
                await gateway.until('f', active=1, waiting=len(tasks) - 1)
            await asyncio.sleep(0.02)
            doors[0].set()
            await tasks[0]
            doors[1].set()
            await tasks[1]
            # Two threads write, so the lines come in either order.
            found = {line['request_id']: line for line in await lines(path, 2)}
            first, second = found['xx'], found['xxx']
            assert (first['request_bytes'], second['request_bytes']) == (2, 3)
            assert first['line_ms'] == 0 and second['line_ms'] >= 15
            assert second['total_ms'] >= second['line_ms'] + second['upstream_ms'] - 0.01
    test()


def test_an_exchange_with_an_llm_has_its_tokens_and_what_they_cost(tmp_path):
    path = tmp_path / 'access.log'
    prices = tmp_path / 'prices.json'
    prices.write_text(json.dumps({chat()['model']: {'input_cost_per_token': 1e-6, 'output_cost_per_token': 2.5e-6}}))

    @run
    async def test():
        async with upstream(reply(completion(), JSON)) as server, \
                weir(config(path, server, top=f'data: {tmp_path}\nprices: {prices}', route=', llm: openai')) as gateway:
            message = post(chat()).replace(b' /', b' /functions/f/', 1)
            assert (await ask(gateway.port, message, 'POST')).status == 200
            line, = await lines(path, 1)
            usage = json.loads(completion())['usage']
            assert line['input_tokens'] == usage['prompt_tokens']
            assert line['output_tokens'] == usage['completion_tokens']
            assert abs(line['money'] - usage['prompt_tokens'] / 1e6 - usage['completion_tokens'] * 2.5 / 1e6) < 1e-12
            assert line['cached_tokens'] == 0 and line['model'] == chat()['model']
    test()


def test_a_line_names_the_gate_at_which_the_exchange_stood(tmp_path):
    """On a JSON-RPC route that is the route's, that of sessions, or none."""
    path = tmp_path / 'access.log'
    more = ', json_rpc: true, sessions: { gate: streams }'

    @run
    async def test():
        async with upstream() as server, \
                weir(config(path, server, route=more).replace('gates: {', 'gates: { streams: {},')) as gateway:
            for count, method in enumerate(('ping', 'tools/call'), 1):
                body = json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method}).encode()
                await ask(gateway.port, request('/functions/a', f'Content-Length: {len(body)}', method='POST', body=body))
                await lines(path, count)  # before the next, which another thread may take
            await ask(gateway.port, request('/functions/a', 'Accept: text/event-stream'))
            found = await lines(path, 3)
        assert [line.get('gate') for line in found] == [None, 'functions', 'streams']
    test()


SECRETS = ('key=geheim', 'api_key=geheim', 'API-KEY=geheim', 'token=geheim', 'access_token=geheim',
           'signature=geheim', 'X-Amz-Signature=geheim', 'k%65y=geheim', 'a[key]=geheim', 'x=1&key=geheim&y=2',
           'x;token=geheim', 'accessToken=geheim', 'client%53ecret=geheim', 'pwd=geheim')


@pytest.mark.parametrize('format', ['json', 'combined'])
def test_no_secret_is_in_a_line(tmp_path, format):
    path = tmp_path / 'access.log'

    @run
    async def test():
        async with upstream() as server, \
                weir(config(path, server, format, log=', query: true')) as gateway:
            for query in SECRETS:
                await ask(gateway.port, request(f'/functions/f?{query}', 'Authorization: Bearer geheim',
                                                'X-Api-Key: geheim', 'Cookie: geheim', 'X-Secret: geheim',
                                                'Referer: http://a/b?key=geheim'))
            await ask(gateway.port, request('/functions/f?monkey=1&b=2'))
            await until(lambda: path.read_text().count('\n') == len(SECRETS) + 1, 'all are there')
            text = path.read_text()
            assert 'geheim' not in text and 'key=***' in text and 'x=1&key=***&y=2' in text
            assert 'monkey=1&b=2' in text
        plain = tmp_path / 'plain.log'
        async with upstream() as server, weir(config(plain, server, format)) as gateway:
            await ask(gateway.port, request('/functions/f?a=geheim'))
            await until(lambda: plain.exists() and plain.read_text(), 'it is there')
            assert 'geheim' not in plain.read_text() and '?' not in plain.read_text()
    test()


COMBINED = re.compile(r'(\S+) - (\S+) \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d \+0000\] '
                      r'"(\S+) (\S+) HTTP/1\.[01]" (\d{3}) (\d+) "([^"]*)" "([^"]*)" "([^"]*)"')


def test_the_combined_format_is_what_programs_know_and_nothing_breaks_out_of_it(tmp_path):
    path = tmp_path / 'access.log'

    @run
    async def test():
        async with upstream() as server, weir(config(path, server, 'combined')) as gateway:
            await ask(gateway.port, request('/functions/f?a=1', 'X-Tenant: a b"c', 'User-Agent: a" "b\\',
                                            'Referer: http://a/b?c=d', 'X-Request-Id: a "b"'))
            await until(lambda: path.exists() and path.read_text().count('\n') == 1, 'it is there')
            await ask(gateway.port, request('/functions/a%0ab'))
            await until(lambda: path.read_text().count('\n') == 2, 'both are there')
            await ask(gateway.port, b'GET /x HTTP/1.1\r\nA\r\n\r\n')
            await until(lambda: path.read_text().count('\n') == 3, 'they are there')
            first, second, third = (COMBINED.fullmatch(line) for line in path.read_text().splitlines())
            assert first.groups()[:5] == ('127.0.0.1', r'a\x20b\x22c', 'GET', '/functions/f', '200')
            assert first.groups()[6:] == ('http://a/b', r'a\x22 \x22b\x5c', r'a \x22b\x22')
            assert second[4] == '/functions/a%0ab' and third[4] == '-' and third[5] == '400'
    test()


def test_what_is_long_is_cut_and_bytes_that_are_no_text_are_replaced(tmp_path):
    path = tmp_path / 'access.log'

    @run
    async def test():
        async with upstream() as server, weir(config(path, server, log=', query: true')) as gateway:
            long = 'x' * 3000
            await ask(gateway.port, request(f'/functions/{long}?{long}', f'User-Agent: {long}', f'Referer: {long}',
                                            f'X-Tenant: {long}'))
            await lines(path, 1)
            await ask(gateway.port, b'GET /functions/f HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Tenant: \xff\xfe\r\n\r\n')
            first, second = await lines(path, 2)
            assert len(first['path']) == len(first['query']) == 1024 and len(first['user_agent']) == 256
            assert len(first['tenant']) == 255 and second['tenant'] == '\ufffd\ufffd'
    test()


def test_the_file_can_be_moved_away_changed_and_left_out(tmp_path):
    path, moved, other = tmp_path / 'access.log', tmp_path / 'access.log.1', tmp_path / 'other.log'

    @run
    async def test():
        async with upstream() as server, weir(config(path, server)) as gateway:
            await ask(gateway.port, request('/functions/one'))
            await lines(path, 1)
            path.rename(moved)
            gateway.process.send_signal(signal.SIGUSR1)
            await until(path.exists, 'it is opened again')
            asked = 0

            async def is_taken_up():  # a request that ends meanwhile is in the old one
                nonlocal asked
                asked += 1
                await ask(gateway.port, request('/functions/two'))
                await until(lambda: (moved.read_text() + path.read_text()).count('\n') == 1 + asked, 'it is in one')
                return path.read_text()
            await until(is_taken_up, 'lines go to the new one')
            line, = await lines(path, 1)
            assert line['key'] == 'two'
            await gateway.reload((f'{path}', f'{other}'))
            await ask(gateway.port, request('/functions/three'))
            assert (await lines(other, 1))[0]['key'] == 'three'
            gateway.path.write_text(gateway.path.read_text().replace(f'{other}', f'{tmp_path}/no/such.log'))
            gateway.process.send_signal(signal.SIGHUP)
            await until(lambda: 'such.log cannot be opened: No such file' in gateway.complaints(), 'it is refused')
            await ask(gateway.port, request('/functions/four'))
            assert (await lines(other, 2))[1]['key'] == 'four'
            text = re.sub('access_log: .*', '', gateway.path.read_text())
            gateway.path.write_text(text)
            await gateway.reload()
            await ask(gateway.port, request('/functions/five'))
            await gateway.reload(('limit: 100', 'limit: 101'))
            assert len(await lines(other, 2)) == 2 and len(await lines(path, 1)) == 1
    test()


def test_a_full_disk_costs_lines_and_no_request():
    @run
    async def test():
        async with upstream() as server, weir(config('/dev/full', server)) as gateway:
            for _ in range(50):
                assert (await ask(gateway.port, request())).status == 200
            await until(lambda: 'access_log_failed' in gateway.complaints(), 'it is said')
            assert gateway.complaints().count('\n') == 1
    test()


def test_a_storm_of_clients_that_leave_has_a_line_for_each_exchange(tmp_path):
    path = tmp_path / 'access.log'

    @run
    async def test():
        async with upstream() as server, weir(config(path, server, gate='limit: 2')) as gateway:
            async def visit(number):
                async with connect(gateway.port) as wire:
                    await wire.send(request(f'/functions/f{number % 3}'))
                    if number % 2:
                        await wire.message()
            await asyncio.gather(*(visit(number) for number in range(200)))
            await gateway.until('f0', active=0, waiting=0)
        found = [json.loads(line) for line in path.read_text().splitlines()]
        assert len({line['request_id'] for line in found}) == len(found) >= 100
        assert {line['end'] for line in found} <= {'complete', 'client_gone', 'closed'}
    test()
