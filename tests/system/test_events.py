"""Events: each type as the page describes it, live and in a file, and readers of every kind."""
import asyncio
import contextlib
import json
import os
import pathlib
import signal
import socket
import tempfile
import time

import aiohttp
from raw import ask as ask_raw
from raw import front, open_narrow_wire, open_wire, request, run, upstream
from test_permits import Agents
from weir import PATIENCE, until, weir

CONFIG = '''
api: 127.0.0.1:0
threads: 2
EVENTS
gates:
  agents: { limit: 3, line: { timeout: 30s }, lease: 10m, events: a2a }
  quick: { limit: 1, line: { timeout: 30s }, lease: 50ms }
  narrow: { limit: 1, line: { timeout: 30s, max: 1 } }
  fair: { limit: 1, line: { timeout: 30s, max: 2 } }
'''
TICKET = {'gate', 'key', 'flow', 'tenant', 'priority', 'cost', 'active', 'waiting', 'limit', 'timestamp',
          'type'}


class Reader:
    """Somebody who reads /events."""

    def __init__(self, reply):
        self.reply = reply

    async def next(self):
        line = await asyncio.wait_for(self.reply.content.readline(), PATIENCE)
        assert line.endswith(b'\n')
        event = json.loads(line)
        assert abs(event['timestamp'] - time.time() * 1000) < 1000 * 1000
        del event['timestamp']
        return event

    async def until(self, kind):
        """The next one of that type."""
        while (event := await self.next())['type'] != kind:
            pass
        return event


@contextlib.asynccontextmanager
async def reader(gateway, query=''):
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(timeout=timeout, read_bufsize=1 << 16) as session:
        async with session.get(f'{gateway.api}/events{query}') as reply:
            assert reply.status == 200
            assert reply.content_type == 'application/x-ndjson'
            yield Reader(reply)


@contextlib.asynccontextmanager
async def gateway_of(events=''):
    async with weir(CONFIG.replace('EVENTS', events)) as gateway:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            yield Agents(gateway, session)


def with_reader(query=''):
    """Runs a test with a gateway's agents, and somebody who reads along."""
    def decorate(test):
        @run
        async def wrapper():
            async with gateway_of() as agents, reader(agents.gateway, query) as follower:
                await test(agents, follower)
        wrapper.__name__ = test.__name__
        return wrapper
    return decorate


# ---- what is told

@with_reader()
async def test_the_fourth_flow_of_three_is_throttled_and_told_in_both_languages(agents, follower):
    for flow in 'abc':
        await agents.acquire(flow=flow)
    waits = [agents.later(flow='d', tenant='acme', priority='low', cost=2)]
    await agents.until(waiting=1)
    waits.append(agents.later(flow='e'))
    await agents.until(waiting=2)
    assert await follower.next() == {
        'type': 'gate.throttle', 'gate': 'agents', 'key': 'b', 'flow': 'd', 'tenant': 'acme',
        'priority': 'low', 'cost': 2, 'active': 3, 'waiting': 0, 'limit': 3}
    assert await follower.next() == {
        'type': 'a2a.concurrency.throttle', 'agentId': 'b', 'flowId': 'd', 'activeCount': 3,
        'queuedCount': 0, 'maxConcurrentFlows': 3}
    assert (await follower.until('gate.throttle'))['waiting'] == 1
    assert await follower.next() == {
        'type': 'a2a.concurrency.throttle', 'agentId': 'b', 'flowId': 'e', 'activeCount': 3,
        'queuedCount': 1, 'maxConcurrentFlows': 3}
    for flow in 'abcde':
        await until(lambda: agents.call('release', flow=flow), 'released')
    await asyncio.gather(*waits)


@with_reader('?gate=agents')
async def test_a_timeout_tells_who_waited_how_long_for_what(agents, follower):
    for flow in 'abc':
        await agents.acquire(flow=flow)
    status, problem = await agents.call('acquire', flow='d', timeout_ms=40)
    assert (status, problem['active'], problem['flow']) == (429, 3, 'd')
    event = await follower.until('gate.timeout')
    assert 40 <= event.pop('waited_ms') <= problem['waited_ms'] + 1
    assert event == {
        'type': 'gate.timeout', 'gate': 'agents', 'key': 'b', 'flow': 'd', 'tenant': '',
        'priority': 'normal', 'cost': 1, 'active': 3, 'waiting': 0, 'limit': 3, 'timeout_ms': 40}
    assert await follower.next() == {
        'type': 'a2a.concurrency.timeout', 'agentId': 'b', 'flowId': 'd', 'activeCount': 3,
        'queueTimeoutMs': 40}
    await agents.call('acquire', flow='e', timeout_ms=0)
    event = await follower.next()
    assert (event['type'], event['waited_ms'], event['timeout_ms']) == ('gate.timeout', 0, 0)
    assert (await follower.next())['type'] == 'a2a.concurrency.timeout'


@with_reader('?gate=narrow&type=gate.refused')
async def test_a_full_line_is_a_refusal(agents, follower):
    await agents.acquire('k', 'narrow', flow='a')
    first = agents.later('k', 'narrow', flow='b')
    await agents.until('k', 'narrow', waiting=1)
    status, problem = await agents.call('acquire', 'k', 'narrow', flow='c')
    assert (status, problem['type']) == (429, 'urn:weir:line-full')
    assert await follower.next() == {
        'type': 'gate.refused', 'gate': 'narrow', 'key': 'k', 'flow': 'c', 'tenant': '',
        'priority': 'normal', 'cost': 1, 'active': 1, 'waiting': 1, 'limit': 1, 'reason': 'line-full',
        'waited_ms': 0}
    await agents.call('release', 'k', 'narrow', flow='a')
    assert (await first)[0] == 200


@with_reader('?gate=fair&type=gate.refused')
async def test_a_ticket_that_loses_its_place_is_told_with_the_reason(agents, follower):
    await agents.acquire('k', 'fair', flow='a', tenant='one')
    waits = []
    for waiting, flow in enumerate('bc'):
        waits.append(agents.later('k', 'fair', flow=flow, tenant='one'))
        await agents.until('k', 'fair', waiting=waiting + 1)
    waits.append(agents.later('k', 'fair', flow='d', tenant='two'))
    event = await follower.next()
    assert event.pop('waited_ms') >= 0
    assert event == {
        'type': 'gate.refused', 'gate': 'fair', 'key': 'k', 'flow': 'c', 'tenant': 'one',
        'priority': 'normal', 'cost': 1, 'active': 1, 'waiting': 1, 'limit': 1, 'reason': 'displaced'}
    for flow in 'abd':
        await until(lambda: agents.call('release', 'k', 'fair', flow=flow), 'released')
        await asyncio.sleep(0)
    await asyncio.gather(*waits)


@with_reader('?type=gate.cancelled')
async def test_whoever_leaves_the_line_is_told(agents, follower):
    await agents.acquire('k', 'fair', flow='a')
    waiting = agents.later('k', 'fair', flow='b')
    await agents.until('k', 'fair', waiting=1)
    waiting.cancel()
    event = await follower.next()
    assert event.pop('after_ms') >= 0
    assert event == {
        'type': 'gate.cancelled', 'gate': 'fair', 'key': 'k', 'flow': 'b', 'tenant': '',
        'priority': 'normal', 'cost': 1, 'active': 1, 'waiting': 0, 'limit': 1}


@with_reader('?gate=quick&type=lease.expired')
async def test_a_lease_that_is_over_is_told(agents, follower):
    await agents.acquire('k', 'quick', flow='a', tenant='acme')
    event = await follower.next()
    assert event.pop('held_ms') >= 50
    assert event == {
        'type': 'lease.expired', 'gate': 'quick', 'key': 'k', 'flow': 'a', 'tenant': 'acme',
        'priority': 'normal', 'cost': 1, 'active': 0, 'waiting': 0, 'limit': 1}


@with_reader('?type=gate.limit')
async def test_a_limit_that_changes_is_told_with_the_one_before(agents, follower):
    await agents.acquire(flow='a')
    await agents.gateway.reload(('limit: 3', 'limit: 5'), )
    assert await follower.next() == {
        'type': 'gate.limit', 'gate': 'agents', 'key': 'b', 'active': 1, 'waiting': 0, 'limit': 5,
        'lane': 0, 'before': 3, 'reason': 'set'}
    await agents.gateway.reload(('limit: 5', 'limit: none'))
    event = await follower.next()
    assert (event['limit'], event['before']) == (None, 5)


@run
async def test_a_breaker_that_trips_is_told_as_a_pause():
    async def serve(wire):
        await wire.message()
        wire.reset()

    async with upstream(serve) as server:
        gate = 'limit: 5, breaker: { failures: 1, pause: 20s }'
        async with front(server, gate=gate) as gateway, reader(gateway) as follower:
            reply = await ask_raw(gateway.port, request('/functions/f'))
            assert reply.status == 502
            event = await follower.until('gate.paused')
            assert 19000 <= event.pop('for_ms') <= 20000
            assert event == {'type': 'gate.paused', 'gate': 'functions', 'key': 'f', 'active': 0,
                             'waiting': 0, 'limit': 5, 'lane': 0, 'reason': 'breaker'}


@with_reader()
async def test_names_of_any_bytes_are_told_as_json(agents, follower):
    for name in 'x"\\\n\x7fü', 'a' * 255, '\x01' * 255:
        await agents.call('acquire', 'k', 'fair', flow='first', timeout_ms=0)
        status, _ = await agents.call('acquire', 'k', 'fair', flow=name, tenant=name, timeout_ms=0)
        event = await follower.until('gate.timeout')
        assert (event['flow'], event['tenant']) == (name, name)
        await agents.call('release', 'k', 'fair', flow='first')


# ---- who asks for what

@with_reader('?gate=fair&gate=quick&type=gate.timeout&type=lease.expired')
async def test_filters_are_of_several_gates_and_several_types(agents, follower):
    for flow in 'abcd':
        await agents.call('acquire', flow=flow, timeout_ms=0)  # of another gate
    await agents.acquire('k', 'fair', flow='a')
    waits = agents.later('k', 'fair', flow='b', timeout_ms=20)  # is throttled first, which is not told
    assert (await follower.next())['type'] == 'gate.timeout'
    await waits
    await agents.acquire('k', 'quick', flow='a')
    event = await follower.next()
    assert (event['type'], event['gate']) == ('lease.expired', 'quick')


@with_reader()
async def test_a_question_that_makes_no_sense_is_answered_as_such(agents, follower):
    gates = '&'.join(['gate=fair'] * 17)
    for query, status, word in [
            ('gate=nope', 404, 'called "nope"'), ('gate=', 404, 'called ""'), ('gate=', 404, 'without the parameter'),
            ('=b', 400, 'Unknown parameter ""'), ('type=', 400, 'called ""'), ('type=gate.admit', 400, 'gate.throttle'),
            ('key=b', 400, 'gate, type'), ('gate=%4', 400, 'escape'), (gates, 400, '16'),
            ('type=' + 'x' * 5000, 414, 'query')]:
        reply = await ask_raw(agents.gateway.api_port, request('/events?' + query))
        assert reply.status == status, reply.body
        assert word in json.loads(reply.body)['detail']
    assert (await agents.session.post(f'{agents.gateway.api}/events')).status == 405
    reply = await agents.session.head(f'{agents.gateway.api}/events')
    assert reply.status == 200
    await agents.call('acquire', 'k', 'fair', flow='1')
    await agents.call('acquire', 'k', 'fair', flow='2', timeout_ms=0)
    assert (await follower.next())['flow'] == '2'


@run
async def test_with_tokens_it_needs_the_scope_to_read():
    config = CONFIG.replace('EVENTS', 'api_tokens: { eye: { token: "${WEIR_EYE}", scopes: [read] }, '
                                      'hand: { token: "${WEIR_HAND}", scopes: [work] } }')
    os.environ.update(WEIR_EYE='e' * 32, WEIR_HAND='h' * 32)
    async with weir(config) as gateway, aiohttp.ClientSession() as session:
        for token, status in (('h' * 32, 403), ('x' * 32, 401), ('e' * 32, 200)):
            fields = {'Authorization': f'Bearer {token}'}
            async with session.get(f'{gateway.api}/events', headers=fields) as reply:
                assert reply.status == status


# ---- readers

LONG = 'n' * 255


async def make_events(gateway, count, key=LONG):
    """Has that many tickets time out at once, in order: their flows are their numbers."""
    wire = await open_wire(gateway.api_port)
    body = json.dumps({'hold': True, 'flow': 'holder'})
    await wire.send(f'POST /gates/fair/{key}/acquire HTTP/1.1\r\nHost: localhost\r\n'
                    f'Content-Length: {len(body)}\r\n\r\n{body}')
    await wire.head()
    other = await open_wire(gateway.api_port)
    for start in range(0, count, 200):
        texts = []
        numbers = range(start, min(start + 200, count))
        for i in numbers:
            body = json.dumps({'timeout_ms': 0, 'flow': f'{i:0255}', 'tenant': LONG})
            texts.append(f'POST /gates/fair/{key}/acquire HTTP/1.1\r\nHost: localhost\r\n'
                         f'Content-Length: {len(body)}\r\n\r\n{body}')
        await other.send(*texts)
        replies = b''
        while replies.count(b'}\n') < len(numbers):
            replies += await asyncio.wait_for(other.reader.read(1 << 20), PATIENCE)
        assert replies.count(b'HTTP/1.1 429 ') == len(numbers)
    wire.close()
    other.close()
    await gateway.until(key, 'fair', active=0)


@run
async def test_a_reader_that_stops_is_told_what_it_missed_and_costs_no_memory(monkeypatch):
    count = 12000  # of 900 bytes each: more than the ring and the sockets on the way hold
    # Else what ASan keeps of memory that was freed would look as if it were used.
    options = os.environ.get('ASAN_OPTIONS', '')
    monkeypatch.setenv('ASAN_OPTIONS', options + ':quarantine_size_mb=1:thread_local_quarantine_size_kb=16')
    patient = 'api: { address: 127.0.0.1:0, timeouts: { stall: 1h } }'
    config = CONFIG.replace('EVENTS', '').replace('api: 127.0.0.1:0', patient)
    async with weir(config) as gateway, reader(gateway) as quick:
        async def read_all():
            seen = 0
            while seen < count:
                event = await quick.next()
                seen += event['count'] if event['type'] == 'events.missed' else 'flow' in event
            return seen

        slow = await open_narrow_wire(gateway.api_port)
        await slow.send(request('/events?type=gate.timeout'))
        assert (await slow.head()).status == 200
        reads = asyncio.create_task(read_all())
        await make_events(gateway, count)
        before = resident_bytes(gateway)
        assert await asyncio.wait_for(reads, PATIENCE) == count
        await make_events(gateway, 2000, 'other')
        assert resident_bytes(gateway) - before < 4 << 20
        expected, missed, longest = 0, 0, 0
        while expected < count:
            event = json.loads(await read_chunked_line(slow))
            longest = max(longest, len(slow.kept))
            if event['type'] == 'events.missed':
                missed += event['count']
                expected += event['count']
            else:
                assert int(event['flow']) == expected
                expected += 1
        assert 0 < missed < count
        assert longest > 12 * 1024  # what has to catch up is sent in pieces as long as there is room
        slow.close()


def resident_bytes(gateway):
    with open(f'/proc/{gateway.process.pid}/statm') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


async def read_chunked_line(wire):
    """The next line of a chunked body; the rest of its chunk is kept with the wire."""
    kept = getattr(wire, 'kept', b'')
    while b'\n' not in kept:
        size = int(await asyncio.wait_for(wire.reader.readuntil(b'\r\n'), PATIENCE), 16)
        assert size > 0
        kept += await wire.exactly(size)
        assert await wire.exactly(2) == b'\r\n'
    line, wire.kept = kept.split(b'\n', 1)
    return line


@run
async def test_readers_come_and_go_at_any_time_and_nothing_is_left():
    async with weir(CONFIG.replace('EVENTS', '')) as gateway:
        descriptors = f'/proc/{gateway.process.pid}/fd'
        await gateway.counts('k', 'fair')  # the connection by which the test itself asks
        before = len(os.listdir(descriptors))
        ending = asyncio.Event()

        async def make():
            while not ending.is_set():
                await make_events(gateway, 200, 'k')

        making = asyncio.create_task(make())
        for i in range(150):
            wire = await open_wire(gateway.api_port)
            await wire.send(request('/events'))
            if i % 3 > 0:
                await wire.head()
            if i % 3 > 1:
                await read_chunked_line(wire)
                wire.reset()
            wire.abort()
        ending.set()
        await making
        await until(lambda: len(os.listdir(descriptors)) <= before, 'all connections are closed')


@run
async def test_an_http_1_0_reader_gets_lines_until_the_end():
    async with gateway_of() as agents:
        wire = await open_wire(agents.gateway.api_port)
        await wire.send(request('/events', version='1.0'))
        head = await wire.head()
        assert head.one('transfer-encoding') is None
        await agents.acquire('k', 'fair', flow='1')
        await agents.call('acquire', 'k', 'fair', flow='2', timeout_ms=0)
        line = await asyncio.wait_for(wire.reader.readline(), PATIENCE)
        assert json.loads(line)['flow'] == '2'
        wire.close()


# ---- the file

@contextlib.contextmanager
def event_folder():
    with tempfile.TemporaryDirectory() as folder:
        yield pathlib.Path(folder)


def flows_in(text):
    """The numbers of the tickets that timed out."""
    lines = [json.loads(line) for line in text.splitlines()]
    return [int(line['flow']) for line in lines if line['type'] == 'gate.timeout']


def flows_of(*files):
    """The flows of timeouts in files that nobody writes any more, whose lines are all whole."""
    return [flow for file in files for flow in flows_in(file.read_text())]


def flows_so_far(file):
    """The flows of timeouts in a file that is being written, without a last line that may be a part of one."""
    return flows_in(file.read_text().rpartition('\n')[0]) if file.exists() else []


async def until_written(file, count):
    await until(lambda: len(flows_so_far(file)) == count, f'{count} are in {file}')


@run
async def test_events_are_appended_to_the_file_and_the_last_are_there_at_the_end():
    with event_folder() as folder:
        file = folder / 'events'
        events = f'events: {{ file: "{file}" }}'
        for count in 5, 10:  # a second start goes on where the first one ended
            async with weir(CONFIG.replace('EVENTS', events)) as gateway:
                await make_events(gateway, 5)
            assert flows_of(file) == list(range(5)) * (count // 5)
        assert file.stat().st_mode & 0o777 == 0o640


@run
async def test_the_file_is_rotated_by_size_and_so_many_are_kept():
    with event_folder() as folder:
        file = folder / 'events'
        events = f'events: {{ file: "{file}", rotate: 64KiB, keep: 3 }}'
        async with weir(CONFIG.replace('EVENTS', events)) as gateway:
            await make_events(gateway, 600)
        names = sorted(path.name for path in folder.iterdir())
        assert names == ['events', 'events.1', 'events.2', 'events.3']
        files = [folder / name for name in reversed(names)]
        assert all(path.stat().st_size <= 65536 for path in files)
        assert all(path.stat().st_size > 0 for path in files)
        flows = flows_of(*files)
        assert flows == list(range(flows[0], 600))
        assert 0 < flows[0] < 500


@run
async def test_without_any_kept_the_file_starts_anew():
    with event_folder() as folder:
        file = folder / 'events'
        events = f'events: {{ file: "{file}", rotate: 64KiB, keep: 0 }}'
        async with weir(CONFIG.replace('EVENTS', events)) as gateway:
            await make_events(gateway, 200)
        assert [path.name for path in folder.iterdir()] == ['events']
        flows = flows_of(file)
        assert flows == list(range(flows[0], 200)) and flows[0] > 0


@run
async def test_a_file_that_cannot_be_rotated_does_not_grow():
    with event_folder() as folder:
        file = folder / 'events'
        (folder / 'events.1' / 'in the way').mkdir(parents=True)
        events = f'events: {{ file: "{file}", rotate: 64KiB, keep: 1 }}'
        async with weir(CONFIG.replace('EVENTS', events)) as gateway:
            await make_events(gateway, 200)
            await until(lambda: 'cannot be rotated: Is a directory' in gateway.complaints(), 'it complains')
            await make_events(gateway, 200)
            assert file.stat().st_size <= 65536
            (folder / 'events.1' / 'in the way').rmdir()
            (folder / 'events.1').rmdir()
            await make_events(gateway, 10)
        files = sorted(folder.iterdir(), reverse=True)  # the last ten may still have had room
        assert flows_of(*files)[-10:] == list(range(10))
        assert all(path.stat().st_size <= 65536 for path in files)


@run
async def test_what_cannot_be_written_is_counted_and_told_once_it_can():
    with event_folder() as folder:
        file = folder / 'events'
        file.symlink_to('/dev/full')
        events = f'events: {{ file: "{file}" }}'
        async with weir(CONFIG.replace('EVENTS', events)) as gateway:
            await make_events(gateway, 3)
            await until(lambda: 'No space left' in gateway.complaints(), 'it complains')
            await make_events(gateway, 4)
            (folder / 'real').touch()
            file.unlink()
            file.symlink_to('real')
            await gateway.reload()
            await make_events(gateway, 2)
            await until(lambda: flows_so_far(folder / 'real')[-2:] == [0, 1], 'writing works again')
            assert gateway.complaints().count('No space left') == 1
        lines = [json.loads(line) for line in (folder / 'real').read_text().splitlines()]
        assert lines[0]['type'] == 'events.missed'
        told = len([line for line in lines if 'flow' in line])
        assert lines[0]['count'] + told == 3 + 4 + 2


@run
async def test_what_was_lost_is_told_where_there_is_room_for_it():
    with event_folder() as folder:
        file, full = folder / 'events', 65536
        events = f'events: {{ file: "{file}", rotate: 64KiB, keep: 1 }}'
        async with weir(CONFIG.replace('EVENTS', events)) as gateway:
            await make_events(gateway, 1)
            await until(lambda: flows_so_far(file) == [0], 'one is written')
            event_bytes = file.stat().st_size
            file.unlink()
            file.symlink_to('/dev/full')
            await gateway.reload()
            await make_events(gateway, 1)
            await until(lambda: 'No space left' in gateway.complaints(), 'one is lost')
            file.unlink()
            file.write_text('"' + 'x' * (full - event_bytes - 3) + '"\n')  # the next one fits, and nothing besides
            await gateway.reload()
            await make_events(gateway, 1)
        assert (folder / 'events.1').stat().st_size == full - event_bytes
        missed, *others = [json.loads(line)['type'] for line in file.read_text().splitlines()]
        assert missed == 'events.missed' and 'gate.timeout' in others


@run
async def test_a_file_that_was_moved_away_is_opened_anew_at_a_reload():
    with event_folder() as folder:
        file = folder / 'events'
        events = f'events: {{ file: "{file}", keep: 5 }}'
        async with weir(CONFIG.replace('EVENTS', events)) as gateway:
            await make_events(gateway, 3)
            await until_written(file, 3)
            file.rename(folder / 'moved')
            await gateway.reload(('keep: 5', 'keep: 6'))
            await make_events(gateway, 2)
            await until_written(file, 2)
        assert flows_of(folder / 'moved') == [0, 1, 2]


@run
async def test_a_file_that_was_cut_is_as_long_as_it_is():
    with event_folder() as folder:
        file = folder / 'events'
        events = f'events: {{ file: "{file}", rotate: 64KiB }}'
        async with weir(CONFIG.replace('EVENTS', events)) as gateway:
            for _ in range(3):  # which would not fit all at once
                await make_events(gateway, 50)
                await until_written(file, 50)
                os.truncate(file, 0)
            await make_events(gateway, 5)
            await until_written(file, 5)
        assert [path.name for path in folder.iterdir()] == ['events']


@run
async def test_a_reload_may_name_another_file_or_none_but_not_one_that_cannot_be():
    with event_folder() as folder:
        file = folder / 'events'
        before = f'events: {{ file: "{file}" }}'
        async with weir(CONFIG.replace('EVENTS', before)) as gateway:
            await make_events(gateway, 1)
            await until_written(file, 1)
            text = gateway.path.read_text()
            gateway.path.write_text(text.replace('events"', 'none/events"').replace('limit: 3', 'limit: 4'))
            gateway.process.send_signal(signal.SIGHUP)
            await until(lambda: 'as before' in gateway.complaints(), 'it is refused')
            assert 'folder of events.file does not exist' in gateway.complaints()
            await make_events(gateway, 1)
            await until_written(file, 2)
            gateway.path.write_text(text)
            await gateway.reload(('events"', 'other"'))
            await make_events(gateway, 1)
            await until_written(folder / 'other', 1)
            other = f'events: {{ file: "{folder / "other"}" }}'
            await gateway.reload((other, ''))
            await make_events(gateway, 1)
        assert len(flows_of(file)) == 2
        assert len(flows_of(folder / 'other')) == 1


def open_pipe(path):
    """The end from which the pipe of that name is read, without waiting for somebody who writes."""
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK)


@run
async def test_a_pipe_that_nobody_empties_delays_the_end_by_its_last_words_only():
    with event_folder() as folder:
        os.mkfifo(folder / 'pipe')
        end = open_pipe(folder / 'pipe')
        async with weir(CONFIG.replace('EVENTS', f'events: {{ file: "{folder / "pipe"}" }}')) as gateway:
            await make_events(gateway, 6000)  # some 90 times what is written at once
            began = time.monotonic()
            gateway.terminate()
            await asyncio.wait_for(gateway.process.wait(), PATIENCE)
        os.close(end)
        assert time.monotonic() - began < 20


@run
async def test_whoever_reads_from_a_pipe_may_go_and_come_back():
    with event_folder() as folder:
        os.mkfifo(folder / 'pipe')
        end = open_pipe(folder / 'pipe')
        async with weir(CONFIG.replace('EVENTS', f'events: {{ file: "{folder / "pipe"}" }}')) as gateway:
            os.close(end)
            await make_events(gateway, 3)
            await until(lambda: 'Broken pipe' in gateway.complaints(), 'it complains')
            end = open_pipe(folder / 'pipe')
            await make_events(gateway, 2)
        with open(end) as pipe:
            lines = [json.loads(line) for line in pipe]
        assert lines[0]['type'] == 'events.missed'
        assert lines[0]['count'] + len(lines[1:]) == 5


async def start_in_vain(folder, file, stdout):
    """What a start with that file says on stderr; it must fail."""
    path = folder / 'weir.yaml'
    path.write_text(CONFIG.replace('EVENTS', f'events: {{ file: "{file}" }}'))
    process = await asyncio.create_subprocess_exec(
        os.environ['WEIR_PROGRAM'], 'serve', str(path), stdout=stdout, stderr=asyncio.subprocess.PIPE)
    _, errors = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert process.returncode == 1
    return errors.decode()


@run
async def test_a_start_with_a_file_that_cannot_be_says_so():
    near, far = socket.socketpair()
    with event_folder() as folder, near, far:
        os.mkfifo(folder / 'pipe')
        for file, words in (('/nowhere/at/all', 'the folder of events.file does not exist'),
                            (folder / 'pipe', 'events.file is a pipe that nobody reads'),
                            (folder, 'Is a directory'),
                            ('/dev/stdout', 'or a socket')):  # which it is under systemd
            errors = await start_in_vain(folder, file, near)
            complaint = [line for line in errors.splitlines() if ': warning: ' not in line][0]
            assert complaint.startswith('weir: events: ') and words in complaint


# ---- how many read

@run
async def test_one_reader_too_many_is_told_to_come_back():
    async with gateway_of('events: { readers: 2 }') as agents:
        gateway = agents.gateway
        async with reader(gateway) as first:
            async with reader(gateway):
                refused = await ask_raw(gateway.api_port, request('/events'))
                assert refused.status == 503
                assert refused.one('content-type') == 'application/problem+json'
                assert refused.one('retry-after') == '10'
                problem = json.loads(refused.body)
                assert problem['type'] == 'urn:weir:too-many-readers'
                assert problem['detail'].startswith('Event reader limit reached (2 connections read GET /events).')
                assert 'events.readers' in problem['detail']
                # What is no reader takes no place, nor does one that cannot be.
                assert (await ask_raw(gateway.api_port, request('/events?gate=none'))).status == 404

            async def reads_again():
                async with aiohttp.ClientSession() as session, session.get(f'{gateway.api}/events') as reply:
                    return reply.status == 200
            await until(reads_again, 'the place of the one that has left is free')
        del first
