"""One message in another, and what comes beyond one: whatever is sent, nobody is given what is not theirs."""
import asyncio
import contextlib
import json
import socket
import tempfile

import pytest
from storm_raw import RawUpstream, behind, dial, request
from test_attacks import answer, echo_length, ok, run, under_attack
from weir import until, until_still


def test_what_an_upstream_sends_beyond_its_reply_reaches_nobody():
    async def test():
        poison = b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'
        passed, sent = asyncio.Event(), asyncio.Event()

        async def at_once(_head, _reader, writer):
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok' + poison)
            return True

        async def chunked(_head, _reader, writer):
            writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n' + poison)
            return True

        async def bodiless(_head, _reader, writer):
            writer.write(b'HTTP/1.1 204 No Content\r\n\r\n' + poison)
            return True

        async def head_only(_head, _reader, writer):  # a body to HEAD, as broken servers send it
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' % (len(poison), poison))
            return True

        async def later(_head, _reader, writer):
            writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')
            await writer.drain()
            await passed.wait()  # and nobody uses the connection any more
            writer.write(poison)
            sent.set()
            return True

        async def ask(gateway, name, method, body):
            async with dial(gateway.port) as wire:
                await wire.send(request(f'/functions/{name}', method=method))
                status, _, said = await wire.reply(method=method)
                assert status in (200, 204)
                assert said == body
                if name == 'later':
                    await gateway.until(name, active=0)
                    passed.set()
                    await until(sent.is_set, 'it has been sent')
                    await until_still(gateway.process.pid)  # it has arrived
                await wire.send(request('/functions/ok'))
                status, _, said = await wire.reply()
                assert (status, said) == (200, b'ok'), name

        upstream = RawUpstream(ok=ok, at_once=at_once, chunked=chunked, bodiless=bodiless,
                               head=head_only, later=later)
        async with under_attack(upstream) as (gateway, _):
            for _ in range(10):
                await ask(gateway, 'at_once', 'GET', b'ok')
                await ask(gateway, 'chunked', 'GET', b'ok')
                await ask(gateway, 'bodiless', 'GET', b'')
                await ask(gateway, 'head', 'HEAD', b'')
        # What comes when the connection has its next user cannot be told from a reply; so nobody
        # else may be there here.
        async with behind(upstream) as gateway:
            for _ in range(3):
                passed.clear()
                sent.clear()
                await ask(gateway, 'later', 'GET', b'ok')
    run(test())


@pytest.mark.parametrize('head', [
    b'X: a\rSet-Cookie: b=1\r\n', b'X: a\nSet-Cookie: b=1\r\n', b'X: a\r\n Set-Cookie: b=1\r\n',
    b'X: a\0b\r\n', b'X : a\r\n', b': a\r\n', b'X\r\n', b'X: a\r\r\n',
    b'Content-Length: 2\r\nContent-Length: 3\r\n', b'Content-Length: +2\r\n', b'Content-Length: 2,2\r\n',
    b'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', b'Transfer-Encoding: gzip\r\n',
    b'Transfer-Encoding: chunked, chunked\r\n', b'Connection: content-length\r\nContent-Length: 2\r\n',
], ids=repr)
def test_a_reply_that_could_be_split_is_a_502(head):
    async def test():
        async def split(_head, _reader, writer):
            writer.write(b'HTTP/1.1 200 OK\r\n' + head + b'\r\nok')
            return False

        async with behind(RawUpstream(split=split, ok=ok)) as gateway:
            async with dial(gateway.port) as wire:
                await wire.send(request('/functions/split'))
                status, fields, body = await wire.reply()
                assert status == 502, body
                assert b'set-cookie' not in fields
                await wire.send(request('/functions/ok'))
                assert (await wire.reply())[0] == 200
    run(test())


def test_what_clients_say_cannot_leave_the_place_where_it_is_repeated():
    async def test():
        gone = asyncio.Event()

        async def hold(_head, _reader, _writer):
            await gone.wait()
            return False

        names = ['"},"status":200,"x":{"', 'back\\slash\\', '\u00e9\xff' * 200, '<script>alert(1)</script>',
                 'tab\tinside', '%0d%0aSet-Cookie:%20a=1', 'a' * 300, '\xc3', '\xf0\x9f\x98']
        async with behind(RawUpstream(hold=hold), limit=1, line='timeout: 20ms') as gateway:
            async with dial(gateway.port) as first:
                await first.send(request('/functions/hold'))
                await gateway.until('hold', active=1)
                for name in names:
                    async with dial(gateway.port) as wire:
                        await wire.send(request('/functions/hold?%0d%0aSet-Cookie:a', f'X-Flow: {name}',
                                                f'X-Tenant: {name}'))
                        status, fields, body = await wire.reply()
                        assert status == 429
                        problem = json.loads(body.decode('utf-8'))
                        assert problem['status'] == 429
                        assert isinstance(problem['flow'], str)
                        assert not {b'set-cookie', b'x-flow', b'x-tenant'} & fields.keys()
                gone.set()
    run(test())


SMUGGLED = request('/functions/smuggled')


@pytest.mark.parametrize('data', [
    request('/functions/ok', 'Content-Length: 5', 'Transfer-Encoding: chunked', method='POST')
    + b'0\r\n\r\n' + SMUGGLED,
    request('/functions/ok', 'Transfer-Encoding: chunked', 'Content-Length: 5', method='POST')
    + b'0\r\n\r\n' + SMUGGLED,
    request('/functions/ok', 'Transfer-Encoding: xchunked', method='POST') + b'0\r\n\r\n' + SMUGGLED,
    request('/functions/ok', 'Transfer-Encoding : chunked', method='POST') + b'0\r\n\r\n' + SMUGGLED,
    request('/functions/ok', 'Content-Length: 0', 'Content-Length: 44', method='POST') + SMUGGLED,
    request('/functions/ok', 'Transfer-Encoding: chunked', method='POST') + b'1\r\nab\r\n' + SMUGGLED,
    request('/functions/ok', 'Transfer-Encoding: chunked', method='POST')
    + b'0\nX: y\r\n\r\n' + SMUGGLED,
    b'GET /functions/ok HTTP/1.1\r\nHost: localhost\r\nX: y\n\n' + SMUGGLED,
], ids=range(8))
def test_a_request_in_a_request_is_not_served(data):
    async def test():
        async def drink(_head, reader, writer):
            await reader.read(1000)
            return await answer(b'ok', writer)

        upstream = RawUpstream(ok=drink, smuggled=ok)
        async with behind(upstream) as gateway, dial(gateway.port) as wire:
            await wire.send(data)
            status, _, _ = await wire.reply()
            assert 400 <= status < 600
            assert await wire.until_closed() == b''
            assert not any(b'smuggled' in head for head in upstream.heads)
    run(test())


class Deaf:
    """An upstream that takes connections and reads nothing, until it closes all of them. Behind a Unix
    socket, whose buffers do not grow."""

    def __init__(self):
        self.listener = socket.socket(socket.AF_UNIX)

    @contextlib.asynccontextmanager
    async def serve(self):
        with tempfile.TemporaryDirectory() as folder:
            self.listener.bind(f'{folder}/deaf')
            self.listener.listen(1000)
            with self.listener:
                yield f'unix:{folder}/deaf'

    def close_all(self, count):
        for connection in [self.listener.accept()[0] for _ in range(count)]:
            connection.close()


def test_the_rest_of_a_body_that_could_not_be_sent_is_no_request():
    async def test():
        # The kernel takes some 100 KiB for such a connection, the gateway at least 2 KiB more. So of bodies that
        # differ by less, some are all in the gateway when their end cannot leave it.
        sizes = range(60_000, 260_000, 700)
        upstream = Deaf()
        closing = asyncio.Event()
        ends = {b'keep-alive': 0, b'close': 0}

        async def post(size):
            body = (SMUGGLED * (size // len(SMUGGLED) + 1))[-size:]
            async with dial(gateway.port) as wire:
                wire.writer.write(request('/functions/deaf', method='POST', body=body))
                await closing.wait()
                status, fields, _ = await wire.reply()
                assert status == 502
                ends[fields[b'connection']] += 1
                if fields[b'connection'] == b'keep-alive':
                    await wire.send(request('/nowhere'))  # this is the next request, and no other
                    assert (await wire.reply())[0] == 404, size
                else:
                    assert await wire.until_closed() == b'', size

        async with behind(upstream) as gateway:
            posts = [asyncio.create_task(post(size)) for size in sizes]
            await gateway.until('deaf', active=len(sizes))
            await until_still(gateway.process.pid)
            closing.set()
            await asyncio.to_thread(upstream.close_all, len(sizes))
            await asyncio.gather(*posts)
        print(f'bodies that were read to their end, and others: {ends}')
        assert ends[b'keep-alive'] > 3
        assert ends[b'close'] > 3
    run(test())


def test_a_reply_that_comes_before_the_body_was_read_says_truly_whether_the_connection_goes_on():
    async def test():
        async def early(_head, _reader, writer):
            writer.write(b'HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok')
            return False

        kept = 0
        async with under_attack(RawUpstream(early=early, ok=ok)) as (gateway, _):
            async def post(body):
                nonlocal kept
                async with dial(gateway.port) as wire:
                    with contextlib.suppress(ConnectionError):
                        await wire.send(request('/functions/early', method='POST', body=body))
                    status, fields, _ = await wire.reply()
                    assert status in (200, 502)
                    if fields[b'connection'] == b'keep-alive':
                        kept += 1
                        await wire.send(request('/functions/ok'))
                        assert (await wire.reply())[0] == 200
                    else:
                        assert await wire.until_closed() == b''
            for _ in range(10):
                await asyncio.gather(*(post(b'b' * size) for size in (1, 1000, 15_000, 30_000) * 10))
            print(f'{kept} of 400 connections went on')
    run(test())


def test_expectations_are_met_or_refused_and_never_block_others():
    async def test():
        async def impatient(_head, _reader, writer):  # says no before it has seen the body
            writer.write(b'HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno')
            return True

        async def patient(head, reader, writer):
            if b'100-continue' in head.lower():
                writer.write(b'HTTP/1.1 100 Continue\r\n\r\n')
                await writer.drain()
            return await echo_length(head, reader, writer)

        async def breaks(_head, reader, writer):  # promises to go on, and does not
            writer.write(b'HTTP/1.1 100 Continue\r\n\r\n')
            await writer.drain()
            await reader.readexactly(3)
            return False

        upstream = RawUpstream(impatient=impatient, patient=patient, breaks=breaks, smuggled=ok)
        expect = 'Expect: 100-continue'
        async with under_attack(upstream) as (gateway, _):
            async with dial(gateway.port) as wire:  # as it should be, twice
                for _ in range(2):
                    interim = []
                    await wire.send(request('/functions/patient', expect, 'Content-Length: 3', method='POST'))
                    assert (await wire.reader.readuntil(b'\r\n\r\n')).startswith(b'HTTP/1.1 100 ')
                    await wire.send(b'abc')
                    status, _, body = await wire.reply(interim=interim)
                    assert (status, body) == (200, b'3')
            async with dial(gateway.port) as wire:  # without waiting
                await wire.send(request('/functions/patient', expect, method='POST', body=b'abcd'))
                status, _, body = await wire.reply()
                assert (status, body) == (200, b'4')
            async with dial(gateway.port) as wire:  # refused, but the body comes all the same
                await wire.send(request('/functions/impatient', expect,
                                        f'Content-Length: {len(SMUGGLED)}', method='POST'))
                assert (await wire.reply())[0] == 413
                with contextlib.suppress(ConnectionError):
                    await wire.send(SMUGGLED)
                assert await wire.until_closed() == b''
                assert not any(b'smuggled' in head for head in upstream.heads)
            async with dial(gateway.port) as wire:  # unknown
                await wire.send(request('/functions/patient', 'Expect: the-unexpected', method='POST', body=b'a'))
                assert (await wire.reply())[0] == 417
            async with dial(gateway.port) as wire:  # nothing to continue with
                await wire.send(request('/functions/patient', expect))
                status, _, body = await wire.reply()
                assert (status, body) == (200, b'0')
            async with dial(gateway.port) as wire:  # the upstream's end after its 100 is an answer, too
                await wire.send(request('/functions/breaks', expect, 'Content-Length: 3', method='POST'))
                assert (await wire.reader.readuntil(b'\r\n\r\n')).startswith(b'HTTP/1.1 100 ')
                await wire.send(b'abc')
                assert (await wire.reply())[0] == 502
            async with contextlib.AsyncExitStack() as stack:  # many that never send it
                for _ in range(100):
                    wire = await stack.enter_async_context(dial(gateway.port))
                    await wire.send(request('/functions/patient', expect, 'Content-Length: 3', method='POST'))
                await gateway.until('patient', active=100)
    run(test())
