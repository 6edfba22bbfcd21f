"""Clients that go away, half or whole, with a request in line, under way or unread."""
import asyncio
import contextlib

import pytest
from raw import connect, front, open_wire, reply, request, run, upstream
from weir import until


@contextlib.asynccontextmanager
async def half_closing(mode):
    """A gateway with one permit for a client that speaks in bytes."""
    go = asyncio.Event()

    async def serve(wire, message):
        if message.target.endswith('hold'):
            held = asyncio.create_task(go.wait())
            gone = asyncio.create_task(wire.reader.read(1))
            await asyncio.wait({held, gone}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                held.cancel()
                raise ConnectionError
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
        await wire.send(reply())
    listen = f'{{ address: "127.0.0.1:0", half_close: {mode} }}'
    async with upstream(serve) as server, front(server, listen=listen, gate='limit: 1') as gateway:
        yield gateway, server, go


@run
async def test_a_client_that_has_closed_its_side_has_left_the_line():
    async with half_closing('close') as (gateway, server, go):
        async with connect(gateway.port) as first, connect(gateway.port) as second:
            await first.send(request('/functions/f/hold'))
            await gateway.until('f', active=1)
            await second.send(request())
            await gateway.until('f', waiting=1)
            second.finish()
            await gateway.until('f', waiting=0, active=1)
            assert await second.rest() == b''
            go.set()
            assert (await first.message()).status == 200
            assert len(server.seen) == 1


@run
async def test_a_client_that_has_closed_its_side_has_left_the_upstream():
    async with half_closing('close') as (gateway, server, _):
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f/hold'))
            await until(lambda: len(server.seen) == 1, 'it has come')
            wire.finish()
            await gateway.until('f', active=0)
            await until(lambda: server.ended == 1, 'the upstream is told')
            assert await wire.rest() == b''


@run
async def test_with_keep_a_client_that_has_closed_its_side_waits_for_its_reply():
    async with half_closing('keep') as (gateway, server, go):
        async with connect(gateway.port) as first, connect(gateway.port) as second:
            await first.send(request('/functions/f/hold'))
            await gateway.until('f', active=1)
            first.finish()
            await second.send(request())
            second.finish()
            await gateway.until('f', active=1, waiting=1)
            go.set()
            for wire in (first, second):
                assert (await wire.message()).status == 200
                assert await wire.rest() == b''  # and then it is closed
            assert len(server.seen) == 2


@run
async def test_with_keep_requests_that_came_before_the_close_are_all_served():
    async with half_closing('keep') as (gateway, server, _):
        async with connect(gateway.port) as wire:
            await wire.send(request() * 5)
            wire.finish()
            for _ in range(5):
                assert (await wire.message()).status == 200
            assert await wire.rest() == b''
            assert len(server.seen) == 5


@run
async def test_with_keep_a_body_that_ends_too_soon_is_not_served_as_if_it_were_whole():
    async with half_closing('keep') as (gateway, server, _):
        async with connect(gateway.port) as wire:
            await wire.send(request('/functions/f', 'Content-Length: 10', method='POST', body=b'abc'))
            wire.finish()
            await wire.ended()
        await gateway.until('f', active=0)
        assert server.seen == []


@run
@pytest.mark.parametrize('mode', ['close', 'keep'])
async def test_a_reset_is_the_end_whatever_a_close_means(mode):
    async with half_closing(mode) as (gateway, server, go):
        first = await open_wire(gateway.port)
        await first.send(request('/functions/f/hold'))
        await gateway.until('f', active=1)
        second = await open_wire(gateway.port)
        await second.send(request())
        await gateway.until('f', waiting=1)
        second.reset()
        await gateway.until('f', waiting=0)
        first.reset()
        await gateway.until('f', active=0)
        await until(lambda: server.ended == 1, 'the upstream is told')
        assert len(server.seen) == 1


@run
@pytest.mark.parametrize('how, size', [('abort', 40_000), ('reset', 40_000), ('reset', 10_000_000)])
async def test_a_client_that_goes_away_with_its_body_unread_leaves_the_line(how, size):
    """The FIN of one that has more to send than there is room for never comes, as TCP has it."""
    async with half_closing('close') as (gateway, server, go):
        async with connect(gateway.port) as first:
            await first.send(request('/functions/f/hold'))
            await gateway.until('f', active=1)
            gone = await open_wire(gateway.port)
            gone.writer.write(request('/functions/f', f'Content-Length: {size}', method='POST'))
            gone.writer.write(b'x' * size)
            await gateway.until('f', waiting=1)
            getattr(gone, how)()
            await gateway.until('f', waiting=0)
            go.set()
            assert (await first.message()).status == 200
            assert len(server.seen) == 1
            assert server.connections == 1
