"""GET /metrics: what Prometheus reads, against what the API says and what has happened."""
import asyncio
import contextlib
import json
import mmap
import os
import pathlib
import re
import subprocess
import sys
import time
import urllib.parse

import pytest
from raw import ask, connect, front, open_narrow_wire, request, run, upstream
from weir import PATIENCE, PROGRAM, functions, until, weir

REMEMBERED = 'limit: 10, rate: 1000/d'  # a bucket that is not full keeps a key from being forgotten
BOUNDS = ['0.005', '0.01', '0.02', '0.05', '0.1', '0.2', '0.5', '1', '2', '5', '10', '30', '60', '120',
          '300', '600', '+Inf']
ENDS = {'left', 'timeout', 'cancelled', 'refused', 'displaced', 'lapsed'}
PLAIN = not any(word in PROGRAM for word in ('asan', 'tsan'))  # whose times mean something
TURNS = pathlib.Path(PROGRAM).parent / 'tests' / 'libweir_turns.so'

LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (-?\d+(?:\.\d+)?)')
LABEL = re.compile(r'([a-z]+)="((?:[^"\\\n]|\\["\\n])*)"')


def unescape(text):
    return text if '\\' not in text else re.sub(r'\\(.)', lambda match: '\n' if match[1] == 'n' else match[1], text)


class Metrics:
    """The samples, by name and labels. Reading them is strict: each family once and together, after
    its help and its type, and no sample twice."""

    def __init__(self, body):
        assert body.endswith(b'\n')
        self.samples = {}
        self.types = {}
        family = None
        for line in body.decode('utf-8', 'strict')[:-1].split('\n'):
            if line.startswith('# HELP '):
                family = line.split(' ')[2]
                assert family not in self.types
            elif line.startswith('# TYPE '):
                assert line.split(' ')[2] == family
                self.types[family] = line.split(' ')[3]
            else:
                self._add(line, family)

    def _add(self, line, family):
        match = LINE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        base = re.sub('_(bucket|sum|count)$', '', name) if self.types[family] == 'histogram' else name
        assert base == family, line
        where = (name, frozenset((key, unescape(text)) for key, text in LABEL.findall(labels or '')))
        assert where not in self.samples, line
        self.samples[where] = float(value)

    def get(self, name, **labels):
        return self.samples.get((name, frozenset(labels.items())))

    def all(self, name):
        return {tuple(sorted(labels)): value for (key, labels), value in self.samples.items() if key == name}

    def keys(self, gate='functions'):
        return {dict(labels)['key'] for name, labels in self.samples
                if name == 'weir_gate_active' and dict(labels)['gate'] == gate}

    def buckets(self, **labels):
        return [self.get('weir_gate_wait_seconds_bucket', le=bound, **labels) for bound in BOUNDS]


async def fetch(gateway):
    message = await ask(gateway.api_port, request('/metrics'))
    assert message.status == 200
    assert message.one('content-type') == 'text/plain; version=0.0.4; charset=utf-8'
    return message.body


async def read(gateway):
    return Metrics(await fetch(gateway))


def check_with_promtool(body):
    done = subprocess.run(['promtool', 'check', 'metrics'], input=body, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b'', b'')


def check_histograms(metrics):
    """Each has all of its bounds; what is up to one is also up to the next."""
    for where in metrics.all('weir_gate_wait_seconds_count'):
        labels = dict(where)
        buckets = metrics.buckets(**labels)
        assert None not in buckets
        assert buckets == sorted(buckets)
        assert buckets[-1] == metrics.get('weir_gate_wait_seconds_count', **labels)
        assert metrics.get('weir_gate_wait_seconds_sum', **labels) is not None


async def check_gate(gateway, metrics, gate='functions'):
    """That the metrics say what the API says, while nothing changes."""
    _, said = await gateway.ask_api(f'/gates/{gate}')
    assert metrics.keys(gate) == {entry['key'] for entry in said['keys']}
    for entry in said['keys']:
        labels = {'gate': gate, 'key': entry['key']}
        for name in ('active', 'waiting', 'limit', 'reserved'):
            assert metrics.get(f'weir_gate_{name}', **labels) == entry[name], (name, entry)
        assert metrics.get('weir_gate_entered_total', **labels) == entry['entered']
        ended = {end: metrics.get('weir_gate_tickets_total', end=end, **labels) for end in ENDS}
        assert ended == entry['ended']


# ---- gates

@run
async def test_it_is_valid_and_agrees_with_what_the_api_says():
    async with functions(limit=2, gate='lease: 1h') as (gateway, server, client):
        check_with_promtool(await fetch(gateway))  # without any key
        tasks = [asyncio.create_task(client.get(f'/functions/{key}?id={key}{i}&hold=1'))
                 for key, count in (('a', 5), ('b', 1), ('c', 2)) for i in range(count)]
        await gateway.until('a', active=2, waiting=3)
        await gateway.until('b', active=1)
        await gateway.until('c', active=2)
        body = await fetch(gateway)
        check_with_promtool(body)
        metrics = Metrics(body)
        assert metrics.keys() == {'a', 'b', 'c'}
        await check_gate(gateway, metrics)
        check_histograms(metrics)
        assert metrics.get('weir_gate_wait_seconds_count', gate='functions', key='a') == 2
        for key in 'abc':
            for i in range(5):
                server.open(f'{key}{i}')
        assert {(await task).status for task in tasks} == {200}
        metrics = await read(gateway)
        await check_gate(gateway, metrics)
        assert metrics.get('weir_gate_tickets_total', gate='functions', key='a', end='left') == 5
        assert metrics.get('weir_gate_wait_seconds_count', gate='functions', key='a') == 5


@run
async def test_a_key_without_a_limit_has_none():
    async with upstream() as server, front(server, gate='limit: none, rate: 1000/d') as gateway:
        assert (await ask(gateway.port, request())).status == 200
        metrics = await read(gateway)
        assert metrics.get('weir_gate_active', gate='functions', key='f') == 0
        assert metrics.all('weir_gate_limit') == {}
        assert metrics.types['weir_gate_limit'] == 'gauge'


async def acquire(gateway, key, gate='g', **wish):
    path = f'/gates/{gate}/{urllib.parse.quote(key, safe="")}/acquire'
    body = json.dumps(wish).encode()
    message = await ask(gateway.api_port, request(path, f'Content-Length: {len(body)}', method='POST', body=body))
    return message.status, json.loads(message.body)


async def release(gateway, key, permit, gate='g'):
    path = f'/gates/{gate}/{urllib.parse.quote(key, safe="")}/release'
    body = json.dumps({'permit': permit}).encode()
    message = await ask(gateway.api_port, request(path, f'Content-Length: {len(body)}', method='POST', body=body))
    assert message.status == 200


@run
async def test_every_end_is_counted_and_only_who_was_admitted_has_waited():
    config = '''
api: 127.0.0.1:0
threads: 2
gates:
  g: { limit: 1, rate: 100000/d, line: { timeout: 20s, max: 1 } }
'''
    async with weir(config) as gateway:
        async def ends():
            metrics = await read(gateway)
            check_histograms(metrics)
            counted = {end: metrics.get('weir_gate_tickets_total', gate='g', key='k', end=end) for end in ENDS}
            return ({end: count for end, count in counted.items() if count},
                    metrics.get('weir_gate_wait_seconds_count', gate='g', key='k'))
        _, held = await acquire(gateway, 'k')
        assert await ends() == ({}, 1)
        assert (await acquire(gateway, 'k', timeout_ms=20))[0] in (429, 503)
        assert await ends() == ({'timeout': 1}, 1)
        waiting = asyncio.create_task(acquire(gateway, 'k'))
        await gateway.until('k', 'g', waiting=1)
        assert (await acquire(gateway, 'k'))[0] in (429, 503)
        assert await ends() == ({'timeout': 1, 'refused': 1}, 1)
        waiting.cancel()
        await gateway.until('k', 'g', waiting=0)
        assert await ends() == ({'timeout': 1, 'refused': 1, 'cancelled': 1}, 1)
        await release(gateway, 'k', held['permit'])
        assert await ends() == ({'timeout': 1, 'refused': 1, 'cancelled': 1, 'left': 1}, 1)
        assert (await acquire(gateway, 'k', lease_ms=20))[0] == 200
        await gateway.until('k', 'g', active=0)
        assert await ends() == ({'timeout': 1, 'refused': 1, 'cancelled': 1, 'left': 1, 'lapsed': 1}, 2)


@run
async def test_a_wait_is_in_the_bucket_of_its_length():
    config = 'api: 127.0.0.1:0\nthreads: 2\ngates: { g: { limit: 1, rate: 100000/d, line: { timeout: 20s } } }\n'
    async with weir(config) as gateway:
        _, held = await acquire(gateway, 'k')
        metrics = await read(gateway)
        assert metrics.buckets(gate='g', key='k') == [1] * len(BOUNDS)  # who did not wait
        assert metrics.get('weir_gate_wait_seconds_sum', gate='g', key='k') == 0
        waiting = asyncio.create_task(acquire(gateway, 'k'))
        await gateway.until('k', 'g', waiting=1)
        await asyncio.sleep(0.12)  # the wait itself is what is measured
        await release(gateway, 'k', held['permit'])
        status, said = await waiting
        assert status == 200
        metrics = await read(gateway)
        check_histograms(metrics)
        seconds = metrics.get('weir_gate_wait_seconds_sum', gate='g', key='k')
        assert 0.11 < seconds < 20
        assert abs(said['waited_ms'] - seconds * 1000) < 500  # the call hears of it in its own loop
        expected = [1 + (seconds <= float(bound)) for bound in BOUNDS]
        assert metrics.buckets(gate='g', key='k') == expected
        assert expected[4:5] == [1] and expected[-1] == 2


# ---- names

@run
async def test_hostile_names_are_labels_and_nothing_else():
    named = ['"', '\\', '\n', '\\n', '\\"', 'a",end="left', '"} 1\nweir_gate_active{gate="g",key="x"} 7\n',
             '# HELP x', '\r', '\t', ' ', '\x01', '\x7f', '\xe9\u4e2d\U0001f600', '\ufffd', '{}', '_others',
             'x' * 255, '\\' * 255, '\n' * 255]
    summed = [b'_other', b'\xff', b'\xfe', b'a\xc3', b'\xed\xa0\x80', b'\xf4\x90\x80\x80', b'\x80' * 255]
    config = 'api: 127.0.0.1:0\ngates: { g: { limit: 3 } }\n'
    async with weir(config) as gateway:
        for key in named + summed:
            assert (await acquire(gateway, key))[0] == 200, key
        body = await fetch(gateway)
        check_with_promtool(body)
        metrics = Metrics(body)
        assert metrics.keys('g') == {*named, '_other'}
        for key in named:
            assert metrics.get('weir_gate_active', gate='g', key=key) == 1
            assert metrics.get('weir_gate_wait_seconds_bucket', gate='g', key=key, le='+Inf') == 1
        assert metrics.get('weir_gate_active', gate='g', key='_other') == len(summed)
        assert metrics.get('weir_gate_limit', gate='g', key='_other') == 3 * len(summed)
        check_histograms(metrics)


async def make_keys(gateway, first, count, gate='functions'):
    """Uses keys of the gate: each gives a permit, which nobody gives back."""
    async with connect(gateway.api_port) as wire:
        for start in range(first, first + count, 500):
            batch = range(start, min(start + 500, first + count))
            await wire.send(b''.join(request(f'/gates/{gate}/key-{i}/acquire', 'Content-Length: 0', method='POST')
                                     for i in batch))
            text = b''
            while text.count(b'}\n') < len(batch):
                text += await asyncio.wait_for(wire.reader.read(1 << 20), PATIENCE)
            assert text.count(b'HTTP/1.1 200 ') == len(batch)


@run
async def test_of_a_thousand_keys_each_is_named_and_the_rest_are_summed():
    async with upstream() as server, front(server, gate=REMEMBERED, threads=2) as gateway:
        total = 0
        for count in (1000, 1, 501):
            await make_keys(gateway, total, count)
            total += count
            body = await fetch(gateway)
            metrics = Metrics(body)
            check_histograms(metrics)
            names = metrics.keys()
            assert len(names) == min(total, 1000) + (total > 1000)
            assert ('_other' in names) == (total > 1000)
            entered = metrics.all('weir_gate_entered_total')
            assert sum(entered.values()) == total
            assert metrics.get('weir_gate_entered_total', gate='functions', key='_other') in (None, total - 1000)
            assert sum(metrics.all('weir_gate_limit').values()) == 10 * total
            assert sum(metrics.all('weir_gate_wait_seconds_count').values()) == total
        check_with_promtool(body)


# ---- the proxy

@run
async def test_requests_and_connections_are_counted_over_all_threads_and_across_a_reload():
    async with upstream() as server:
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
upstreams:
  live: {{ url: "{server.url}" }}
  dead: {{ url: "http://127.0.0.1:1" }}
gates: {{ functions: {{ limit: 50 }} }}
routes:
  - {{ match: "/functions/{{f}}", key: "{{f}}", gate: functions, upstream: live }}
  - {{ match: "/dead/{{f}}", key: "{{f}}", gate: functions, upstream: dead }}
'''
        async with weir(config) as gateway, contextlib.AsyncExitStack() as stack:
            wires = [await stack.enter_async_context(connect(gateway.port)) for _ in range(20)]
            for wire in wires:
                for target in ('/functions/a', '/functions/b', '/dead/a', '/nowhere'):
                    await wire.send(request(target))
                    await wire.message()
            body = await fetch(gateway)
            check_with_promtool(body)

            def requests(metrics, route):
                found = {dict(labels)['code']: value for labels, value in metrics.all('weir_requests_total').items()
                         if dict(labels)['route'] == route}
                assert set(found) == {'none', '1xx', '2xx', '3xx', '4xx', '5xx'}
                return {code: value for code, value in found.items() if value}
            metrics = Metrics(body)
            assert requests(metrics, '/functions/{f}') == {'2xx': 40}
            assert requests(metrics, '/dead/{f}') == {'5xx': 20}
            assert requests(metrics, '_none') == {'4xx': 20}
            listener = f'127.0.0.1:{gateway.port}'
            assert metrics.get('weir_client_connections', listener=listener) == 20
            assert metrics.get('weir_client_connections', listener=f'127.0.0.1:{gateway.api_port}') >= 1
            assert metrics.get('weir_upstream_connections', upstream='live', state='active') == 0
            assert metrics.get('weir_upstream_connections', upstream='live', state='idle') == \
                server.connections - server.ended
            assert metrics.get('weir_upstream_failures_total', upstream='live') == 0
            failures = metrics.get('weir_upstream_failures_total', upstream='dead')
            assert 0 < failures <= 40

            await gateway.reload(('limit: 50', 'limit: 60'), ('"/dead/', '"/gone/'))
            await wires[0].send(request('/functions/a'))
            await wires[0].message()
            metrics = await read(gateway)
            assert requests(metrics, '/functions/{f}') == {'2xx': 41}
            assert metrics.get('weir_requests_total', route='/dead/{f}', code='5xx') is None
            assert requests(metrics, '/gone/{f}') == {}
            assert metrics.get('weir_upstream_failures_total', upstream='dead') == failures
            await until_idle(gateway, 1)


async def until_idle(gateway, count):
    async def holds():
        metrics = await read(gateway)
        return metrics.get('weir_upstream_connections', upstream='live', state='idle') == count
    await until(holds, f'{count} connections are idle')


@run
async def test_who_is_inside_has_a_connection_and_who_went_away_no_reply():
    async with functions(limit=5) as (gateway, server, client):
        tasks = [asyncio.create_task(client.get(f'/functions/a?id={i}&hold=1')) for i in range(3)]
        await until(lambda: len(server.inside) == 3, 'three are inside')
        metrics = await read(gateway)
        assert metrics.get('weir_upstream_connections', upstream='functions', state='active') == 3
        tasks[0].cancel()
        await gateway.until('a', active=2)
        for i in (1, 2):
            server.open(str(i))
            assert (await tasks[i]).status == 200

        async def counted():
            metrics = await read(gateway)
            route = '/functions/{function}'
            return (metrics.get('weir_requests_total', route=route, code='none') == 1 and
                    metrics.get('weir_requests_total', route=route, code='2xx') == 2 and
                    metrics.get('weir_upstream_connections', upstream='functions', state='active') == 0)
        await until(counted, 'one without a reply, two with one')


# ---- the process

@run
async def test_the_process_is_told_of_by_the_usual_names():
    async with upstream() as server, front(server) as gateway:
        metrics = await read(gateway)
        pid = gateway.process.pid
        assert len(metrics.all('weir_build_info')) == 1
        [((name, version),)] = metrics.all('weir_build_info')
        said = subprocess.run([PROGRAM, 'version'], capture_output=True, text=True, check=True).stdout
        assert (name, f'weir {version}\n') == ('version', said)
        assert 0 < metrics.get('process_cpu_seconds_total') < 30
        with open(f'/proc/{pid}/statm', encoding='ascii') as file:
            resident = int(file.read().split()[1]) * os.sysconf('SC_PAGESIZE')
        assert 0.5 < metrics.get('process_resident_memory_bytes') / resident < 2
        assert abs(metrics.get('process_open_fds') - len(os.listdir(f'/proc/{pid}/fd'))) <= 2
        with open(f'/proc/{pid}/limits', encoding='ascii') as file:
            limit = re.search(r'Max open files\s+(\d+)', file.read())[1]
        assert metrics.get('process_max_fds') == int(limit)
        started = metrics.get('process_start_time_seconds')
        assert time.time() - 60 < started <= time.time()
        assert (await read(gateway)).get('process_start_time_seconds') == started


# ---- who may ask, and how

@run
async def test_it_asks_for_the_scope_read_and_for_get(monkeypatch):
    config = '''
api: 127.0.0.1:0
gates: { g: { limit: 1 } }
api_tokens:
  reader: { token: "${WEIR_TEST_READER}", scopes: [read] }
  worker: { token: "${WEIR_TEST_WORKER}", scopes: [work] }
'''
    monkeypatch.setenv('WEIR_TEST_READER', 'a-secret-of-the-reader')
    monkeypatch.setenv('WEIR_TEST_WORKER', 'a-secret-of-the-worker')
    async with weir(config) as gateway:
        for token, status in (('reader', 200), ('worker', 403), ('nobody', 401)):
            field = f'Authorization: Bearer a-secret-of-the-{token}'
            assert (await ask(gateway.api_port, request('/metrics', field))).status == status
        assert (await ask(gateway.api_port, request('/metrics'))).status == 401
    async with upstream() as server, front(server) as gateway:
        for target, method, status in (('/metrics', 'POST', 405), ('/metrics/', 'GET', 404),
                                       ('/metrics/x', 'GET', 404), ('/metrics', 'HEAD', 200)):
            assert (await ask(gateway.api_port, request(target, method=method), method)).status == status
        message = await ask(gateway.api_port, request('/metrics', version='1.0'))
        assert message.one('transfer-encoding') is None
        check_with_promtool(message.body)


# ---- ten thousand keys

def cpu_seconds(pid):
    with open(f'/proc/{pid}/stat', encoding='ascii') as file:
        fields = file.read().rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


class Turns:
    """How long a loop of the gateway computes at most before it looks after everybody else again."""

    def __init__(self, folder):
        path = folder / 'turns'
        path.write_bytes(bytes(8))
        with open(path, 'r+b') as file:
            self._number = mmap.mmap(file.fileno(), 8)
        self.environment = {**os.environ, 'LD_PRELOAD': str(TURNS), 'WEIR_TURNS': str(path)} if PLAIN else None

    def forget(self):
        self._number[:] = bytes(8)

    def longest_ms(self):
        return int.from_bytes(self._number[:], sys.byteorder) / 1e6


@pytest.mark.parametrize('gates', [1, 10])
def test_ten_thousand_keys_hold_up_nobody(gates, tmp_path):
    @run
    async def test():
        names = [f'gate{i}' for i in range(gates)]
        total = 10_000 if PLAIN else 2_000  # sanitizers have seen it all by then
        rules = '\n'.join(f'  {name}: {{ {REMEMBERED} }}' for name in names)
        turns = Turns(tmp_path)
        async with weir(f'api: 127.0.0.1:0\nthreads: 1\ngates:\n{rules}\n', env=turns.environment) as gateway:
            for name in names:
                await make_keys(gateway, 0, total // gates, name)
            turns.forget()
            body = await fetch(gateway)
            named = 1001 if gates == 1 else total
            assert body.count(b'\nweir_gate_active{') == body.count(b'\nweir_gate_wait_seconds_sum{') == named
            if len(body) < 1 << 22:  # reading more of the same finds nothing more
                metrics = Metrics(body)
                assert sum(metrics.all('weir_gate_entered_total').values()) == total
                check_histograms(metrics)
            if gates == 1:
                check_with_promtool(body)
            await measure(gateway, f'{total} keys in {gates} gates, {len(body) / 1e6:.1f} MB', gates)
            print(f'the longest turn: {turns.longest_ms():.2f} ms')
            assert not PLAIN or 0 < turns.longest_ms() < 5
            await go_away(gateway)
    test()


async def measure(gateway, what, gates):
    """What a scrape costs, and how long others wait for their answers meanwhile."""
    rounds = 10 if gates == 1 else 3
    over = asyncio.Event()

    async def drain(wire):
        """Reads a reply without looking at it, so that this process is not what is slow."""
        tail = b''
        while not tail.endswith(b'0\r\n\r\n'):
            tail = (tail + await wire.reader.read(1 << 20))[-8:]

    async def ping():
        worst, count = 0, 0
        async with connect(gateway.api_port) as wire:
            while not over.is_set():
                start = time.perf_counter()
                await wire.send(request('/healthz'))
                assert (await wire.message()).body == b'ok\n'
                worst, count = max(worst, time.perf_counter() - start), count + 1
        return worst, count
    async with connect(gateway.api_port) as wire:
        before = cpu_seconds(gateway.process.pid)
        for _ in range(rounds):
            await wire.send(request('/metrics'))
            await drain(wire)
        spent = (cpu_seconds(gateway.process.pid) - before) / rounds
        pinging = asyncio.create_task(ping())
        for _ in range(rounds):
            await wire.send(request('/metrics'))
            await drain(wire)
    over.set()
    worst, count = await pinging
    print(f'\n{what}: {spent * 1000:.1f} ms of CPU a scrape; '
          f'meanwhile {count} others were answered, the slowest in {worst * 1000:.1f} ms')
    assert count >= rounds
    if PLAIN:
        assert spent < 0.05


async def go_away(gateway):
    """Callers that leave in the middle of a reply, at different places, leave nothing behind."""
    for i in range(6):
        wire = await open_narrow_wire(gateway.api_port)
        await wire.send(request('/metrics') * 2)
        if i % 3:
            assert (await wire.head()).status == 200
        (wire.reset if i % 2 else wire.abort)()
    assert (await ask(gateway.api_port, request('/healthz'))).status == 200


# ---- the dashboard

def test_the_dashboard_asks_for_what_there_is_and_in_words_that_prometheus_understands(tmp_path):
    root = pathlib.Path(__file__).resolve().parents[2]
    board = json.loads((root / 'examples/grafana.json').read_text())
    asked = [target['expr'] for panel in board['panels'] for row in (panel, *panel.get('panels', []))
             for target in row.get('targets', [])]
    assert len(asked) > 40
    ids = [panel['id'] for panel in board['panels']]
    assert len(set(ids)) == len(ids)
    told = set(re.findall(r'\{"((?:weir|llm|process)_\w+)", "\w+",', (root / 'src/api/metrics.c').read_text()))
    chosen = {variable['name'] for variable in board['templating']['list']}
    for text in asked:
        assert set(re.findall(r'=~"\$(\w+)"', text)) <= chosen, text
        for name in re.findall(r'\b(?:weir|llm|process)_\w+', text):
            assert {name, re.sub('_(bucket|sum|count)$', '', name)} & told, text
    names = {name for name in told if re.match('weir_(queue|jobs?|store)_', name)}
    assert len(names) == 17 and not {name for name in names if not any(name in text for text in asked)}
    rules = [{'record': f'panel:{i}', 'expr': re.sub(r'\$(\w+|\{\w+\})', '5m', text)} for i, text in enumerate(asked)]
    path = tmp_path / 'rules.json'  # which is YAML as well
    path.write_text(json.dumps({'groups': [{'name': 'board', 'rules': rules}]}))
    done = subprocess.run(['promtool', 'check', 'rules', path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    assert done.returncode == 0 and f'{len(asked)} rules found' in done.stdout, done.stdout


# ---- routes, keys, reloads, logs

@run
async def test_how_long_requests_take_is_counted_by_route():
    slow = asyncio.Event()

    async def serve(wire, _):
        await slow.wait()
        await wire.send(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
    async with upstream(serve) as server, front(server) as gateway:
        task = asyncio.create_task(ask(gateway.port, request('/functions/f')))
        await gateway.until('f', active=1)
        await asyncio.sleep(0.06)  # the time itself is what is measured
        slow.set()
        await task
        assert (await ask(gateway.port, request('/nowhere'))).status == 404
        metrics = await read(gateway)
        route = next(dict(labels)['route'] for labels in metrics.all('weir_request_duration_seconds_count')
                     if dict(labels)['route'].startswith('/functions'))
        buckets = [metrics.get('weir_request_duration_seconds_bucket', route=route, le=bound) for bound in BOUNDS]
        assert buckets == sorted(buckets) and buckets[-1] == 1 and buckets[3] == 0
        assert metrics.get('weir_request_duration_seconds_count', route=route) == 1
        assert metrics.get('weir_request_duration_seconds_sum', route=route) > 0.05
        assert metrics.get('weir_request_duration_seconds_count', route='_none') == 1


def test_refused_keys_reloads_and_lines_are_counted(tmp_path):
    @run
    async def test():
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
data: {tmp_path}
threads: 2
log: {{ level: info, file: {tmp_path}/weir.log }}
access_log: {{ file: /dev/full }}
api_tokens: {{ a: {{ token: "${{WEIR_TEST_TOKEN}}", scopes: [read, admin] }} }}
upstreams: {{ u: {{ url: "http://127.0.0.1:1" }} }}
routes: [ {{ match: /, upstream: u, tenant: api_key }} ]
'''
        token = 'Authorization: Bearer geheim-geheim-geheim'
        async with weir(config, env={**os.environ, 'WEIR_TEST_TOKEN': 'geheim-geheim-geheim'}) as gateway:
            async def metrics():
                message = await ask(gateway.api_port, request('/metrics', token))
                check_with_promtool(message.body)
                return Metrics(message.body)

            def refused(now, kind, reason):
                return now.get('weir_refused_keys_total', kind=kind, reason=reason)
            before = await metrics()
            assert before.get('weir_config_last_reload_successful') == 1
            started = before.get('weir_config_last_reload_success_timestamp_seconds')
            assert abs(time.time() - started) < 3600
            for fields in ((), ('Authorization: Bearer weir_00000000_x',), ('X-Api-Key: weir_1_2',)):
                assert (await ask(gateway.port, request('/', *fields))).status == 401
            for fields in ((), ('Authorization: Bearer wrong',), ('Authorization: Bearer weir_00000000_x',)):
                assert (await ask(gateway.api_port, request('/gates', *fields))).status == 401
            now = await metrics()
            assert (refused(now, 'api_key', 'missing'), refused(now, 'api_key', 'wrong')) == (1, 3)
            assert (refused(now, 'api_token', 'missing'), refused(now, 'api_token', 'wrong')) == (1, 1)

            async def dropped():
                return (await metrics()).get('weir_log_dropped_total', log='access_log') == 3
            await until(dropped, 'what the disk did not take is counted')
            assert now.get('weir_log_dropped_total', log='log') == 0
            assert now.get('weir_access_log_lines_total') == 0 and now.get('weir_log_lines_total', level='warn') >= 2
            good = gateway.path.read_text()
            gateway.path.write_text('nonsense')
            assert (await ask(gateway.api_port, request('/reload', token, method='POST'), 'POST')).status == 422
            now = await metrics()
            assert now.get('weir_config_last_reload_successful') == 0
            assert now.get('weir_config_last_reload_success_timestamp_seconds') == started
            gateway.path.write_text(good)
            await gateway.reload()
            now = await metrics()
            assert now.get('weir_config_last_reload_successful') == 1
            assert now.get('weir_config_last_reload_success_timestamp_seconds') > started
    test()
