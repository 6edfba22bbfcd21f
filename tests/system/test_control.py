"""What lanes have learned, as the API, the events and the commands tell it."""
import asyncio
import contextlib
import json
import pathlib
import tempfile
import time

import aiohttp
from raw import ask, front, reply, request, run, upstream
from test_cli import Cli, Said
from test_events import reader
from weir import PROGRAM, until, weir

ADAPTIVE = 'limit: { start: 4, min: 1, max: 64 }'


@contextlib.asynccontextmanager
async def mock(*flags):
    """`weir mock` with these flags; its address."""
    process = await asyncio.create_subprocess_exec(PROGRAM, 'mock', '--listen', '127.0.0.1:0', *flags,
                                                   stdout=asyncio.subprocess.PIPE)
    try:
        line = (await process.stdout.readline()).decode()
        yield 'http://' + line.split(' on ')[1].strip()
    finally:
        process.terminate()
        await process.wait()


async def lanes_of(gateway, key='f', gate='functions'):
    status, said = await gateway.ask_api(f'/gates/{gate}/{key}')
    assert status == 200
    return said['lanes']


async def send_many(gateway, count, at_once):
    """So many requests, as many at once as they say; the statuses that came."""
    connector = aiohttp.TCPConnector(limit=at_once)
    async with aiohttp.ClientSession(gateway.url, connector=connector) as session:
        async def one():
            async with session.get('/functions/f') as answer:
                await answer.read()
                return answer.status
        return await asyncio.gather(*(one() for _ in range(count)))


@run
async def test_a_lane_tells_what_it_has_learned_of_a_limit_on_how_many_at_once():
    # Long enough that more than six overlap, however slowly this process gets to send them.
    async with mock('--concurrency', '6', '--latency', '100ms') as url, front(url, gate=ADAPTIVE, threads=2) as gateway:
        statuses = await send_many(gateway, 80, 40)
        [lane] = await lanes_of(gateway)
        control = lane['control']
        assert lane['upstream'] == 'functions'
        assert control['controller'] == 'learned'
        assert control['refused'] == statuses.count(429) > 0
        assert control['sent'] == statuses.count(200)
        assert 1 <= control['window'] <= 64 and lane['limit'] == int(control['window'])
        assert control['lost'] == 0 and control['failure_share'] == 0
        assert control['cost_mean'] == 1 and control['quotas'] == []
        assert control['rate_active'] is True and control['first_token_ms'] > 0  # of the whole reply
        assert (control['rate'] is None) == (control['bucket'] is None)


@run
async def test_a_rate_is_told_only_where_there_is_one():
    tokens = ', tokens: { rate: { start: 700/s, min: 50/s, max: 5000/s } }'
    for more, rate in (('', None), (tokens, 700)):
        async with upstream() as server, front(server, gate=ADAPTIVE + more) as gateway:
            assert (await ask(gateway.port, request())).status == 200
            [lane] = await lanes_of(gateway)
            assert lane['control']['rate'] == rate
            assert (lane['control']['bucket'] is None) == (rate is None)


@run
async def test_errors_are_counted_and_have_a_share():
    async with mock('--fail', '100') as url, front(url, gate=ADAPTIVE) as gateway:
        assert await send_many(gateway, 3, 1) == [503, 503, 503]
        [lane] = await lanes_of(gateway)
        assert lane['control']['lost'] == 3
        assert lane['control']['failure_share'] == 0.271  # 1 - 0.9 ** 3


@run
async def test_each_lane_has_a_controller_of_its_own_and_names_its_upstream():
    refusal = reply(b'', 'Retry-After: 30', status='429 Too Many Requests')
    async with upstream(refusal) as busy, upstream() as free:
        config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
upstreams: {{ busy: {{ url: "{busy.url}" }}, free: {{ url: "{free.url}" }} }}
gates: {{ functions: {{ {ADAPTIVE}, controller: aimd }} }}
routes:
  - {{ match: "/functions/{{f}}", key: "{{f}}", gate: functions, upstream: [busy, free] }}
  - {{ match: "/others/{{f}}", key: "{{f}}", gate: functions, upstream: free }}
'''
        async with weir(config) as gateway:
            assert (await ask(gateway.port, request('/functions/f'))).status == 200  # of the second lane
            first, second = await lanes_of(gateway)
            assert (first['upstream'], second['upstream']) == ('busy', 'free')
            assert first['control']['controller'] == second['control']['controller'] == 'aimd'
            assert (first['control']['refused'], second['control']['refused']) == (1, 0)
            assert first['control']['window'] == 2.8 and second['control']['window'] == 4  # times 0.7
            # What the key remembers is where its last request went.
            assert (await ask(gateway.port, request('/others/f'))).status in (200, 429)
            assert [lane['upstream'] for lane in await lanes_of(gateway)] == ['free', 'free']


@run
async def test_what_does_not_learn_has_no_control_and_what_comes_by_the_api_leads_nowhere():
    async with upstream() as server, front(server, gate='limit: 3, rate: 1000/d') as gateway:
        async with gateway._session.post(f'{gateway.api}/gates/functions/k/acquire', json={}) as answer:
            assert answer.status == 200
        [lane] = await lanes_of(gateway, 'k')
        assert not {'control', 'upstream'} & lane.keys()
        assert (await ask(gateway.port, request('/functions/k'))).status == 200
        [lane] = await lanes_of(gateway, 'k')
        assert lane['upstream'] == 'functions' and 'control' not in lane
        async with gateway._session.post(f'{gateway.api}/gates/functions/k/acquire', json={}) as answer:
            assert answer.status == 200
        [lane] = await lanes_of(gateway, 'k')
        assert lane['upstream'] == 'functions'  # the API's do not make it forget


@run
async def test_the_bucket_fills_while_nobody_comes():
    gate = ADAPTIVE + ', controller: aimd, tokens: { rate: { start: 100/s, min: 50/s, max: 5000/s }, burst: 2000 }'
    async with upstream() as server, front(server, gate=gate) as gateway:
        async with gateway._session.post(f'{gateway.api}/gates/functions/k/acquire', json={'cost': 1500}) as answer:
            assert answer.status == 200

        async def bucket():
            return (await lanes_of(gateway, 'k'))[0]['control']['bucket']
        before = await bucket()
        assert 500 <= before < 2000
        async def has_filled():
            return await bucket() >= min(before + 5, 2000)
        await until(has_filled, 'the bucket fills')


# ---- events

def check_chain(events):
    """Each tells of what the one before has left, and there is at most one a second of each lane."""
    for before, after in zip(events, events[1:]):
        assert after['before'] == before['limit'] != after['limit']
        assert after['timestamp'] >= before['timestamp'] + 999  # rounded down


@run
async def test_a_window_that_grows_and_falls_is_told_in_the_file_and_live_but_once_a_second():
    refusals = 0

    async def serve(wire, _):
        nonlocal refusals
        refusals -= 1
        await asyncio.sleep(0.1)  # what limits it is not its processor, so more at once are served
        await wire.send(reply(b'', status='429 Too Many Requests') if refusals >= 0 else reply())
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / 'events'
        async with upstream(serve) as server, \
                front(server, gate=ADAPTIVE, threads=2, top=f'events: {{ file: "{file}" }}') as gateway, \
                reader(gateway, '?type=gate.limit') as follower:
            start = time.monotonic()
            assert set(await send_many(gateway, 1000, 100)) == {200}
            first = await follower.next()
            first.pop('active')
            first.pop('waiting')
            assert first == {'type': 'gate.limit', 'gate': 'functions', 'key': 'f', 'limit': 5, 'lane': 0, 'before': 4,
                             'reason': 'grown'}
            [lane] = await lanes_of(gateway)
            assert 4 < lane['limit'] <= 64
            if lane['limit'] != first['limit']:
                while (await follower.next())['limit'] != lane['limit']:  # also if nobody comes any more
                    pass
            refusals = 64
            assert 429 in await send_many(gateway, 100, 100)
            while (event := await follower.next())['reason'] != 'refused':
                pass
            assert event['limit'] < event['before']
            seconds = time.monotonic() - start
        written = [json.loads(line) for line in file.read_text().splitlines()]
        limits = [event for event in written if event['type'] == 'gate.limit']
        assert 3 <= len(limits) <= seconds + 2
        check_chain(limits)


# ---- the commands

def tables(said):
    """The tables that a command printed, each a list of rows."""
    return [Said(0, part.encode(), b'').rows for part in said.out.split('\n\n')]


@run
async def test_a_key_that_learns_is_shown_with_what_it_has_learned():
    async with mock('--fail', '100') as url, front(url, gate=ADAPTIVE) as gateway:
        await send_many(gateway, 3, 1)
        cli = Cli(f'127.0.0.1:{gateway.api_port}')
        _, [lane], [learned] = tables(await cli.good('gates', 'functions', 'f'))
        assert lane == {'LANE': '0', 'UPSTREAM': 'functions', 'ACTIVE': '0', 'LIMIT': '4', 'RESERVED': '0',
                        'PAUSED FOR': '-', 'STATE': 'open'}
        assert learned == {'LANE': '0', 'CONTROLLER': 'learned', 'WINDOW': '4', 'RATE/S': '-', 'LEFT': '-', 'OWED': '0',
                           'FIRST MS': '-', 'USUALLY': '-', 'SENT': '0', 'REFUSED': '0', 'LOST': '3'}


QUOTAS = [{'unit': 'cost', 'limit': 30000, 'level': -12.5, 'target': 300.25, 'refill': 500, 'rate': 481.06,
           'window_seconds': 60, 'window_known': True, 'reset': 'full'},
          {'unit': 'requests', 'limit': 500, 'level': 20, 'target': 5, 'refill': 8.333, 'rate': 8,
           'window_seconds': 60, 'window_known': False, 'reset': 'window'}]
CONTROL = {'controller': 'learned', 'window': 14.35, 'rate': 512.5, 'rate_active': False, 'bucket': 7, 'debt': 0,
           'measured': None, 'first_token_ms': 320.125, 'baseline_ms': 300, 'failure_share': 0, 'refused': 1,
           'lost': 0, 'sent': 41, 'cost_mean': 800, 'quotas': QUOTAS}
LANE = {'lane': 0, 'upstream': 'openai', 'active': 14, 'limit': 14, 'reserved': 5, 'probing': False, 'buckets': []}


@contextlib.asynccontextmanager
async def pretender(lanes, binding='bucket'):
    """An API that tells of these lanes, and of one who waits."""
    entry = {'position': 1, 'flow': 'f', 'tenant': '', 'waited_ms': 1249, 'binding': binding, 'ahead': 0,
             'ahead_own': 0, 'start_in_ms': None, 'timeout_in_ms': None}
    key = {'gate': 'g', 'key': 'k', 'active': 14, 'waiting': 1, 'limit': 14, 'ended': {}, 'lanes': lanes}
    line = {'gate': 'g', 'key': 'k', 'active': 14, 'waiting': 1, 'limit': 14, 'line': [entry]}

    async def answer(wire, message):
        assert message.target in ('/gates/g/k', '/gates/g/k/line')
        await wire.send(reply(json.dumps(line if message.target.endswith('/line') else key).encode()))
    async with upstream(answer) as server:
        yield Cli(server.authority)


@run
async def test_stated_quotas_are_a_table_and_where_they_rule_there_is_no_rate():
    async with pretender([{**LANE, 'control': CONTROL}, {**LANE, 'lane': 1, 'upstream': 'plain'}]) as cli:
        _, lanes, [learned], quotas = tables(await cli.good('gates', 'g', 'k'))
        assert [lane['UPSTREAM'] for lane in lanes] == ['openai', 'plain']
        assert learned == {'LANE': '0', 'CONTROLLER': 'learned', 'WINDOW': '14.3', 'RATE/S': '-', 'LEFT': '-', 'OWED': '0',
                           'FIRST MS': '320.1', 'USUALLY': '300', 'SENT': '41', 'REFUSED': '1', 'LOST': '0'}
        assert quotas == [
            {'LANE': '0', 'QUOTA': 'cost', 'OF': '30000', 'LEFT': '-12.5', 'AIM': '300.2', 'REFILL/S': '500',
             'RATE/S': '481.1', 'WINDOW S': '60'},
            {'LANE': '0', 'QUOTA': 'requests', 'OF': '500', 'LEFT': '20', 'AIM': '5', 'REFILL/S': '8.3',
             'RATE/S': '8', 'WINDOW S': '60'}]


@run
async def test_who_waits_for_what_is_learned_is_told_what_that_is():
    learned = {**LANE, 'control': CONTROL}
    paced = {**LANE, 'lane': 1, 'upstream': '', 'control': {**CONTROL, 'rate_active': True, 'quotas': []}}
    free = {**paced, 'lane': 2, 'control': {**paced['control'], 'rate': None}}
    sentence = ('Lane 0 to openai has learned to let 14.3 in at once; of its stated quota, 30000 of cost, about -12.5 are '
                'left; of its stated quota, 500 of requests, about 20 are left. Lane 1 has learned to let 14.3 in at '
                'once, and a cost of 512.5 per second. Lane 2 has learned to let 14.3 in at once. It has waited 1.2 s')
    for binding, told in (('bucket', True), ('limit', True), ('turn', False), ('tenant_limit', False)):
        async with pretender([learned, paced, free], binding) as cli:
            said = (await cli.good('explain', 'g', 'k')).out
            assert (sentence in said) == told, said
            assert 'It has waited 1.2 s' in said
            [document] = (await cli.good('explain', 'g', 'k', '--json')).documents
            assert 'line' in document
