"""Lanes whose servers answer with a failure or a refusal: the client gets another lane's reply, on its first request."""
import asyncio

import pytest
from raw import ask, connect, reply, request, run, upstream
from test_lanes import lanes, paused
from test_llm import JSON, chat, completion, llm, post, quiet, refusal
from weir import until

FAILURES = ['429 Too Many Requests', '500 Oh', '502 Bad Gateway', '503 Service Unavailable', '504 Gateway Timeout',
            '529 Overloaded']


def failing(status, *fields):
    return reply(b'not here', *fields, status=status)


# ---- the first request, with default settings

@pytest.mark.parametrize('status', FAILURES)
@pytest.mark.parametrize('gate', ['', 'limit: 8'])
@run
async def test_an_llm_request_gets_the_other_lanes_reply(status, gate):
    async with upstream(refusal(status)) as first, upstream(reply(completion(), JSON)) as second, \
            llm(first, second, gate=gate) as gateway:
        for _ in range(20):
            said = await ask(gateway.port, post(chat()), 'POST')
            assert said.status == 200 and said.body == completion()
        assert len(second.seen) == 20 and 1 <= len(first.seen) <= 20
        await quiet(gateway)


@pytest.mark.parametrize('status', FAILURES)
@pytest.mark.parametrize('gate', ['limit: 8', 'limit: { start: 4 }'])
@run
async def test_a_plain_request_gets_the_other_lanes_reply(status, gate):
    async with upstream(failing(status)) as first, upstream(reply(b'second')) as second, \
            lanes(first, second, gate=gate) as gateway:
        for _ in range(20):
            assert (await ask(gateway.port, request())).body == b'second'
        assert len(second.seen) == 20 and len(first.seen) >= 1
        await gateway.until('f', active=0, waiting=0)


@run
async def test_of_many_at_once_all_get_the_other_lanes_reply():
    async def slow(wire, _):
        await asyncio.sleep(0.02)
        await wire.send(reply(b'second'))
    async with upstream(failing('500 Oh')) as first, upstream(slow) as second, \
            lanes(first, second, gate='limit: 8', threads=2) as gateway:
        said = await asyncio.gather(*(ask(gateway.port, request()) for _ in range(60)))
        assert {message.body for message in said} == {b'second'}
        assert len(second.seen) == 60 and len(first.seen) < 60
        await gateway.until('f', active=0, waiting=0)


@run
async def test_a_lane_that_keeps_failing_is_passed_over():
    """Three failures in a row, without any setting."""
    async with upstream(failing('500 Oh')) as first, upstream(reply(b'second')) as second, \
            lanes(first, second) as gateway:
        for count in range(4):
            assert await paused(gateway) == [count == 3, False] if count else True
            assert (await ask(gateway.port, request())).body == b'second'
        assert (len(first.seen), len(second.seen)) == (3, 4)


# ---- what may go twice

@run
async def test_a_body_goes_to_the_other_lane_whole():
    body = bytes(range(256)) * 250  # 64,000 bytes: a buffer is as large
    for fields, method, changes in (((), 'PUT', True), ((), 'POST', False), (('Idempotency-Key: a',), 'POST', True)):
        async with upstream(failing('503 Busy')) as first, upstream(reply(b'second')) as second, \
                lanes(first, second) as gateway:
            text = request('/functions/f', *fields, f'Content-Length: {len(body)}', method=method, body=body)
            said = await ask(gateway.port, text, method)
            assert said.body == (b'second' if changes else b'not here')
            assert [message.body for message in first.seen] == [body]
            assert [message.body for message in second.seen] == [body] * changes
            await gateway.until('f', active=0, waiting=0)


@run
async def test_chunks_go_to_the_other_lane_and_the_connection_goes_on():
    chunks = b'5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n'
    async with upstream(failing('500 Oh')) as first, upstream(reply(b'second')) as second, \
            lanes(first, second) as gateway, connect(gateway.port) as wire:
        for _ in range(2):
            await wire.send(request('/functions/f', 'Transfer-Encoding: chunked', method='PUT', body=chunks))
            assert (await wire.message()).body == b'second'
        assert [message.body for message in second.seen] == [b'hello world'] * 2
        assert {message.body for message in first.seen} == {b'hello world'}


@run
async def test_a_long_body_that_has_left_the_buffer_gets_the_first_lanes_reply():
    body = b'x' * 200_000
    async with upstream(failing('500 Oh')) as first, upstream(reply(b'second')) as second, \
            lanes(first, second) as gateway:
        said = await ask(gateway.port, request('/functions/f', f'Content-Length: {len(body)}', method='PUT', body=body),
                         'PUT')
        assert said.status == 500 and len(first.seen) == 1 and not second.seen


@run
async def test_a_connection_that_is_lost_before_the_reply_leads_to_the_other_lane():
    async def hang_up(wire, _):
        wire.writer.close()
    async with upstream(hang_up) as first, upstream(reply(b'second')) as second, lanes(first, second) as gateway:
        assert (await ask(gateway.port, request())).body == b'second'
        assert len(first.seen) >= 1
    async with upstream(hang_up) as first, upstream(reply(completion(), JSON)) as second, llm(first, second) as gateway:
        assert (await ask(gateway.port, post(chat()), 'POST')).body == completion()


@run
async def test_a_server_that_fails_later_than_the_line_may_wait_hands_the_request_on():
    async def slow(wire, _):
        await asyncio.sleep(0.4)
        await wire.send(failing('504 Slow'))
    async with upstream(slow) as first, upstream(reply(b'second')) as second, \
            lanes(first, second, gate='limit: 10, line: { timeout: 200ms }') as gateway:
        assert (await ask(gateway.port, request())).body == b'second'


@run
async def test_a_client_that_offers_another_protocol_is_helped_as_well():
    offer = ('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA')
    async with upstream(failing('500 Oh')) as first, upstream(reply(b'second')) as second, \
            lanes(first, second) as gateway:
        assert (await ask(gateway.port, request('/functions/f', *offer))).body == b'second'


@run
async def test_requests_in_one_packet_keep_their_bodies():
    body = b'z' * 20000
    async with upstream(failing('500 Oh')) as first, upstream(reply(b'second')) as second, \
            lanes(first, second) as gateway, connect(gateway.port) as wire:
        await wire.send(request('/functions/f', f'Content-Length: {len(body)}', method='PUT', body=body) * 5 + request())
        for _ in range(6):
            assert (await wire.message()).body == b'second'
        assert [len(message.body) for message in second.seen] == [20000] * 5 + [0]


@run
async def test_calls_of_an_llms_api_that_make_something_go_to_one_server():
    async with upstream(failing('500 Oh')) as first, upstream(reply(b'{}', JSON)) as second, \
            llm(first, second) as gateway:
        for path in ('/v1/batches', '/v1/fine_tuning/jobs'):
            assert (await ask(gateway.port, post({'input_file_id': 'x'}, target=path), 'POST')).status == 500
        assert len(first.seen) == 2 and not second.seen


@run
async def test_a_websocket_through_one_of_several_lanes_has_no_end():
    accept = (b'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n'
              b'Sec-WebSocket-Accept: x\r\n\r\n')

    async def serve(wire, _):
        await wire.send(accept)
        assert await wire.exactly(200_000) == b'y' * 200_000
        await wire.send(b'done')
    async with upstream(serve) as server, lanes(server, server, route='websocket: true') as gateway, \
            connect(gateway.port) as wire:
        await wire.send(request('/functions/f', 'Connection: Upgrade', 'Upgrade: websocket',
                                'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='))
        await wire.head()
        for _ in range(200):
            await wire.send(b'y' * 1000)
        assert await wire.exactly(4) == b'done'


@run
async def test_a_reply_that_cannot_be_read_hands_the_request_on():
    async with upstream(b'garbage\r\n\r\n') as first, upstream(reply(b'second')) as second, \
            lanes(first, second) as gateway:
        assert (await ask(gateway.port, request())).body == b'second'
        assert len(first.seen) == 1


# ---- where there is no way out

@run
async def test_if_all_lanes_fail_the_last_answer_comes_and_each_was_asked_once():
    async with upstream(failing('500 Oh')) as first, upstream(failing('503 Busy')) as second, \
            upstream(failing('502 Bad')) as third, lanes(first, second, third) as gateway:
        said = await ask(gateway.port, request())
        assert (said.status, said.body) == (502, b'not here')
        assert [len(server.seen) for server in (first, second, third)] == [1, 1, 1]
        await gateway.until('f', active=0, waiting=0)


@run
async def test_one_request_reaches_at_most_four_servers():
    async with upstream(failing('500 Oh')) as server, lanes(*[server] * 6) as gateway:
        assert (await ask(gateway.port, request())).status == 500
        assert len(server.seen) == 4


@run
async def test_other_statuses_and_single_lanes_change_nothing():
    for status in ('404 No', '501 Never', '400 Bad', '401 Who'):
        async with upstream(failing(status)) as first, upstream(reply(b'second')) as second, \
                lanes(first, second) as gateway:
            assert (await ask(gateway.port, request())).body == b'not here'
            assert not second.seen
    async with upstream(failing('500 Oh')) as server, lanes(server) as gateway:
        assert (await ask(gateway.port, request())).status == 500 and len(server.seen) == 1


@run
async def test_a_fail_over_spends_no_retries():
    """Lane a fails always; of lane b the first reply is a refusal, for which the one retry is left."""
    refused = []

    async def serve(wire, _):
        refused.append(len(refused))
        await wire.send(reply(completion(), JSON) if len(refused) > 1 else refusal('429 Slow', 'retry-after-ms: 5'))
    async with upstream(refusal('500 Oh')) as first, upstream(serve) as second, \
            llm(first, second, route='retries: 1') as gateway:
        assert (await ask(gateway.port, post(chat()), 'POST')).body == completion()
        assert len(second.seen) == 2


@pytest.mark.parametrize('status', FAILURES)
@run
async def test_what_failed_is_not_charged(status):
    async with upstream(refusal(status)) as first, upstream(reply(completion(), JSON)) as second, \
            llm(first, second, gate='limit: 8, tokens: { rate: 1/h, burst: 100000 }') as gateway:
        assert (await ask(gateway.port, post(chat()), 'POST')).status == 200
        await quiet(gateway)
        lane = (await gateway.counts('gpt-4o', 'llm'))['lanes'][0]
        assert lane['buckets'] == [100000]


@run
async def test_a_lane_gets_a_request_at_most_twice_while_the_other_is_full():
    """It rests for a moment, then tries once more, whatever `retries` says."""
    go_on = asyncio.Event()

    async def hold(wire, _):
        await go_on.wait()
        await wire.send(reply(completion(), JSON))
    async with upstream(refusal('429 Slow')) as first, upstream(hold) as second, \
            llm(first, second, gate='limit: 1', route='retries: 0') as gateway:
        holder = asyncio.create_task(ask(gateway.port, post(chat()), 'POST'))
        await until(lambda: second.seen, 'the second lane is full')
        before = len(first.seen)
        assert (await ask(gateway.port, post(chat()), 'POST')).status == 429
        assert len(first.seen) - before <= 2
        go_on.set()
        assert (await holder).status == 200


# ---- Retry-After

@run
async def test_one_users_refusal_stops_no_plain_lane_also_where_its_limit_is_learned():
    for gate in ('limit: 8', 'limit: { start: 4 }'):
        async with upstream(failing('429 Slow', 'retry-after: 3600')) as server, lanes(server, gate=gate) as gateway:
            await ask(gateway.port, request())
            lane, = (await gateway.counts('f'))['lanes']
            assert lane.get('paused_ms', 0) <= 1000  # the controller's own


@pytest.mark.parametrize('gate', ['limit: 8', 'limit: 8, tokens: 100000/s', ''])
@run
async def test_retry_after_pauses_the_lane_of_an_llm_also_where_its_limit_is_fixed(gate):
    async with upstream(refusal('429 Too Many Requests', 'retry-after: 3600')) as server, \
            llm(server, gate=f'{gate}{", " if gate else ""}line: {{ timeout: 50ms }}', route='retries: 0') as gateway:
        assert (await ask(gateway.port, post(chat()), 'POST')).status == 429
        for _ in range(10):
            said = await ask(gateway.port, post(chat()), 'POST')
            assert said.status == 429 and int(said.one('retry-after')) > 60 and b'urn:weir:' in said.body
        assert len(server.seen) == 1


@run
async def test_max_concurrent_requests_does_not_turn_an_llm_gate_deaf(monkeypatch):
    monkeypatch.setenv('MAX_CONCURRENT_REQUESTS', '5')
    async with upstream(refusal('503 Busy', 'retry-after: 3600')) as server, \
            llm(server, gate='line: { timeout: 50ms }', route='retries: 0') as gateway:
        for _ in range(10):
            assert (await ask(gateway.port, post(chat()), 'POST')).status in (429, 503)
        assert len(server.seen) == 1


@run
async def test_retry_after_pauses_a_plain_lane_at_the_second_refusal_in_a_second_and_not_for_long():
    for field, least, most in (('retry-after: 3600', 25_000, 30_000), ('retry-after: 20', 15_000, 20_000)):
        async with upstream(failing('429 Slow', field)) as server, \
                lanes(server, gate='limit: 8, line: { timeout: 50ms }') as gateway, connect(gateway.port) as wire:
            for _ in range(10):  # one after the other, within a second even on a slow machine, or two of them are
                await wire.send(request())
                await wire.message()
            sent = len(server.seen)
            await until(lambda: paused(gateway), 'the lane is known')
            lane, = (await gateway.counts('f'))['lanes']
            assert sent < 10 and least <= lane['paused_ms'] <= most
    async with upstream(failing('429 Slow', 'retry-after: 3600')) as server, \
            lanes(server, gate='limit: 8', route='retry_after_max: 0s') as gateway:
        for _ in range(10):
            await ask(gateway.port, request())
        assert len(server.seen) == 10
