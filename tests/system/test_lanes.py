"""Lanes whose upstream cannot be reached: requests of which nothing was sent go through another one."""
import asyncio
import contextlib
import json
import socket

import pytest
from raw import ask, connect, reply, request, run, upstream
from test_llm import JSON, USAGE, chat, chunk, completion, llm, post, quiet, refusal, shown, streams
from weir import PATIENCE, until, weir


@contextlib.contextmanager
def nobody():
    """A port of ours at which nobody listens: connections are refused."""
    with socket.socket() as bound:
        bound.bind(('127.0.0.1', 0))
        yield Nobody(bound)


class Nobody:
    def __init__(self, bound):
        self.bound = bound
        self.url = 'http://127.0.0.1:%d' % bound.getsockname()[1]


@contextlib.asynccontextmanager
async def lanes(*servers, gate='limit: 10', route='', more='health: { pause: 10m, pause_max: 10m }', threads=1):
    """A gateway for /functions/{function} through one lane for each server; `more` goes to each upstream."""
    upstreams = ''.join(f'\n  lane{i}: {{ url: "{getattr(server, "url", server)}", {more} }}'
                        for i, server in enumerate(servers))
    config = f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: {threads}
grace: 5s
upstreams:{upstreams}
gates: {{ functions: {{ {gate} }} }}
routes:
  - match: /functions/{{function}}
    key: "{{function}}"
    flow: header:X-Flow
    gate: functions
    upstream: [{', '.join(f'lane{i}' for i in range(len(servers)))}]
    {route}
'''
    async with weir(config) as gateway:
        yield gateway


async def paused(gateway, key='f', gate='functions'):
    """Which lanes are."""
    return ['paused_ms' in lane for lane in (await gateway.counts(key, gate))['lanes']]


@run
async def test_who_is_refused_a_connection_goes_through_the_next_lane():
    with nobody() as first:
        async with upstream(reply(b'second')) as second, lanes(first, second) as gateway:
            for _ in range(3):
                assert (await ask(gateway.port, request())).body == b'second'
            assert len(second.seen) == 3
            assert await paused(gateway) == [True, False]
            counts = await gateway.counts('f')
            assert (counts['active'], counts['ended']['left']) == (0, 4)  # the first has left twice


@run
async def test_the_events_tell_why_the_lane_is_closed():
    with nobody() as first:
        async with upstream() as second, lanes(first, second) as gateway, connect(gateway.api_port) as events:
            await events.send(request('/events?type=gate.paused', version='1.0'))
            await events.head()
            assert (await ask(gateway.port, request())).status == 200
            told = json.loads(await asyncio.wait_for(events.reader.readline(), PATIENCE))
            assert (told['type'], told['key'], told['lane'], told['reason']) == ('gate.paused', 'f', 0, 'unreachable')
            assert 0 < told['for_ms'] <= 600000


@run
async def test_a_body_that_has_only_begun_goes_there_whole_whatever_the_method():
    with nobody() as first:
        async with upstream(reply(b'second')) as second, lanes(first, second) as gateway, connect(gateway.port) as wire:
            begun = 'a' * 0x5000  # more than is read before the line
            await wire.send(request('/functions/f', 'Transfer-Encoding: chunked', method='POST'),
                            f'5000\r\n{begun}\r\n')
            await until(lambda: second.connections == 1, 'it is on its way')
            await wire.send('2\r\nde\r\n0\r\n\r\n')
            assert (await wire.message()).body == b'second'
            assert second.seen[0].start == 'POST /functions/f HTTP/1.1' and second.seen[0].body == begun.encode() + b'de'


@run
async def test_all_urls_of_a_lane_are_tried_before_the_next_lane():
    with nobody() as first:
        async with upstream(reply(b'other')) as other, upstream(reply(b'second')) as second, \
                lanes(first, second) as gateway:
            await gateway.reload((f'"{first.url}"', f'["{first.url}", "{other.url}"]'))
            for _ in range(4):
                assert (await ask(gateway.port, request())).body == b'other'
            assert second.seen == []


@run
async def test_without_an_open_lane_it_is_a_502_at_once():
    with nobody() as first, nobody() as second:
        async with lanes(first, second) as gateway:
            for _ in range(3):
                said = await ask(gateway.port, request())
                assert said.status == 502
                assert json.loads(said.body)['type'] == 'urn:weir:upstream-unreachable'
            assert await paused(gateway) == [True, True]  # the second lane's breaker has tripped now
            assert (await gateway.counts('f'))['active'] == 0


@run
async def test_sockets_that_are_not_there_are_passed_over_one_by_one(tmp_path):
    missing = [f'unix:{tmp_path}/{i}' for i in range(20)]
    async with upstream(reply(b'last')) as last, lanes(*missing, last) as gateway:
        assert (await ask(gateway.port, request())).body == b'last'
        assert await paused(gateway) == [True] * 20 + [False]
        await gateway.until('f', active=0, waiting=0)


@run
async def test_a_connection_that_does_not_stand_in_time_leads_to_the_next_lane_as_well():
    async with upstream() as plain, upstream(reply(b'second')) as second, \
            lanes(plain.url.replace('http', 'https'), second, more='timeouts: { connect: 100ms }') as gateway:
        assert (await ask(gateway.port, request())).body == b'second'  # the first does not shake hands
        assert (plain.connections, plain.seen) == (1, [])


@run
async def test_a_lane_that_can_be_reached_again_is_taken_again():
    with nobody() as first:
        async with upstream(reply(b'second')) as second, \
                lanes(first, second, more='health: { pause: 50ms }') as gateway:
            assert (await ask(gateway.port, request())).body == b'second'
            async with upstream(reply(b'first'), bound=first.bound):
                async def first_answers():
                    return (await ask(gateway.port, request())).body == b'first'
                await until(first_answers, 'the first lane is taken again')


@run
async def test_where_the_next_lane_is_full_it_waits_and_tries_the_first_again_meanwhile():
    held = asyncio.Event()

    async def serve(wire, message):
        await held.wait()
        await wire.send(reply())
    with nobody() as first:
        async with upstream(serve) as second, lanes(first, second, gate='limit: 1', more='health: { pause: 5ms, '
                                                    'pause_max: 5ms }') as gateway:
            holder = asyncio.create_task(ask(gateway.port, request()))
            await until(lambda: len(second.seen) == 1, 'the second lane is held')
            waiter = asyncio.create_task(ask(gateway.port, request()))

            async def has_tried():
                return (await gateway.counts('f'))['ended']['left'] >= 5
            await until(has_tried, 'the first lane has been tried several times')
            assert len(second.seen) == 1 and not waiter.done()
            held.set()
            assert (await waiter).status == (await holder).status == 200


@run
async def test_who_goes_away_while_it_waits_for_the_next_lane_is_forgotten():
    held = asyncio.Event()

    async def serve(wire, message):
        await held.wait()
        await wire.send(reply())
    with nobody() as first:
        async with upstream(serve) as second, lanes(first, second, gate='limit: 1') as gateway:
            holder = asyncio.create_task(ask(gateway.port, request()))
            await until(lambda: len(second.seen) == 1, 'the second lane is held')
            async with connect(gateway.port) as wire:
                await wire.send(request())
                await gateway.until('f', waiting=1)
            await gateway.until('f', active=1, waiting=0)
            held.set()
            assert (await holder).status == 200
            assert len(second.seen) == 1


@run
async def test_a_flow_keeps_the_lane_that_it_has():
    with nobody() as first:
        async with upstream() as second, lanes(first, second, route='permit: flow') as gateway:
            assert (await ask(gateway.port, request('/functions/f', 'X-Flow: a'))).status == 502
            assert second.seen == []
            assert (await ask(gateway.port, request())).status == 200  # without a flow


@run
async def test_what_was_sent_is_not_sent_to_another_lane():
    async def serve(wire):
        await wire.message()
        wire.abort()
    async with upstream(serve) as first, upstream() as second, lanes(first, second) as gateway:
        assert (await ask(gateway.port, request(method='POST'), 'POST')).status == 502
        assert second.seen == []


@run
async def test_of_many_at_once_who_stay_all_get_through_and_every_permit_comes_back():
    async def come_and_go(gateway, number):
        async with connect(gateway.port) as wire:
            await wire.send(request(f'/functions/{number % 3}', 'Content-Length: 4', method='POST', body=b'four'))
            return number % 5 == 0 or (await wire.message()).status
    with nobody() as first, nobody() as second:
        async with upstream() as third, lanes(first, second, third, gate='limit: 2', threads=4,
                                              more='health: { pause: 2ms, pause_max: 20ms }') as gateway:
            said = await asyncio.gather(*(come_and_go(gateway, number) for number in range(300)))
            assert set(said) == {True, 200}
            for key in range(3):
                await gateway.until(key, active=0, waiting=0, reserved=0)


# ---- LLMs

# What must not be left in what goes to the next lane.
DEAD = '''prefix: /dead
    models: { gpt-4o: dead }
    health: { pause: 10m, pause_max: 10m }'''


@pytest.mark.parametrize('retries', [0, 2])
@run
async def test_an_llm_is_asked_through_the_next_lane_and_it_counts_as_one_request(retries):
    with nobody() as first:
        async with upstream(reply(completion(), JSON)) as second, \
                llm(first, second, route=f'retries: {retries}',
                    more=[DEAD, '']) as gateway:
            for _ in range(3):
                assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
            assert [message.body for message in second.seen] == [json.dumps(chat()).encode()] * 3
            await quiet(gateway)
            assert await paused(gateway, 'gpt-4o', 'llm') == [True, False]
            usage, = (await gateway.ask_api('/usage'))[1]['usage']
            assert (usage['requests'], usage['refused'], usage['output_tokens']) == (3, 0, 6)


@run
async def test_a_stream_comes_through_the_next_lane():
    with nobody() as first:
        async with upstream(streams(chunk('One'), USAGE)) as second, llm(first, second) as gateway:
            said = await ask(gateway.port, post(chat(stream=True)), 'POST')
            assert (said.status, said.body) == (200, shown(chunk('One')))
            await quiet(gateway)


@run
async def test_a_detour_leaves_all_retries_for_what_is_refused():
    answers = iter([refusal('503 Service Unavailable')] * 2 + [reply(completion(), JSON)])

    async def serve(wire, message):
        await wire.send(next(answers))
    with nobody() as first:
        async with upstream(serve) as second, llm(first, second) as gateway:
            assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
            assert len(second.seen) == 3
            await quiet(gateway)


@run
async def test_an_llm_without_an_open_lane_is_a_502_that_its_clients_understand():
    with nobody() as first, nobody() as second:
        async with llm(first, second) as gateway:
            said = await ask(gateway.port, post(chat()), 'POST')
            assert said.status == 502 and json.loads(said.body)['error']['code'] == 'upstream-unreachable'
            await quiet(gateway)


# ---- what a 502 says

@run
async def test_a_502_names_the_upstream_the_address_and_the_systems_error(tmp_path):
    path = tmp_path / 'nobody'
    with nobody() as first:
        port = first.url.rsplit(':', 1)[1]
        for server, error in ((first, f'connect to 127.0.0.1:{port}: Connection refused.'),
                              (f'http://localhost:{port}', f':{port}: Connection refused.'),
                              (f'unix:{path}', f'connect to unix:{path}: No such file or directory.')):
            async with lanes(server) as gateway:
                for _ in range(2):
                    said = await ask(gateway.port, request())
                    detail = json.loads(said.body)['detail']
                    assert said.status == 502 and detail.startswith('Upstream `lane0` is unreachable: connect to ')
                    assert error in detail


@run
async def test_a_502_of_a_server_that_hangs_up_speaks_of_no_address():
    async def hang_up(wire, _):
        wire.writer.close()
    async with upstream(hang_up) as server, lanes(server) as gateway:
        said = await ask(gateway.port, request(method='POST'), 'POST')
        assert said.status == 502 and 'connect to' not in json.loads(said.body)['detail']
