"""The FIFO function throttle of reference 000, over real HTTP, and what a proxy must do besides."""
import asyncio

import aiohttp
from weir import PATIENCE, functions, until, weir


def run(test):
    asyncio.run(asyncio.wait_for(test, 3 * PATIENCE))


async def ask(client, path, **more):
    async with client.get(path, **more) as reply:
        return reply.status, reply.headers, await reply.json(content_type=None)


def test_requests_pass_in_the_order_in_which_they_came():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client):
            tasks = []
            for waiting, name in enumerate('abc'):
                tasks.append(asyncio.create_task(ask(client, f'/functions/f?hold&id={name}')))
                await gateway.until('f', active=1, waiting=waiting)
            for name in 'abc':
                await until(lambda n=name: upstream.inside == [n], f'{name} is inside')
                upstream.open(name)
            assert [status for status, _, _ in await asyncio.gather(*tasks)] == [200] * 3
            assert upstream.came == ['a', 'b', 'c']
            assert upstream.most == 1
    run(test())


def test_whoever_waits_too_long_is_told_why_and_what_to_do():
    async def test():
        async with functions(limit=1, timeout='100ms') as (_, upstream, client):
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            status, headers, problem = await ask(
                client, '/functions/f?id=b', headers={'X-Tenant': 'acme', 'X-Flow': 'flow-7'})
            assert status == 429
            assert headers['Content-Type'] == 'application/problem+json'
            assert problem['type'] == 'urn:weir:line-timeout'
            assert problem['gate'] == 'functions'
            assert problem['key'] == 'f'
            assert problem['tenant'] == 'acme'
            assert problem['flow'] == 'flow-7'
            assert problem['active'] == 1
            assert problem['waiting'] == 0
            assert problem['limit'] == 1
            assert problem['timeout_ms'] == 100
            assert problem['waited_ms'] >= 100
            assert 'Retry-After' in problem['detail']
            upstream.open('a')
            assert (await first)[0] == 200
            assert upstream.came == ['a']
    run(test())


def test_a_client_that_goes_away_in_line_is_not_served_and_nobody_is_held_up():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client):
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            gone = asyncio.create_task(ask(client, '/functions/f?id=b'))
            await gateway.until('f', waiting=1)
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            await gateway.until('f', waiting=0)
            last = asyncio.create_task(ask(client, '/functions/f?id=c'))
            await gateway.until('f', waiting=1)
            upstream.open('a')
            assert (await first)[0] == 200
            assert (await last)[0] == 200
            assert upstream.came == ['a', 'c']
    run(test())


def test_a_client_that_goes_away_when_admitted_gives_its_permit_back():
    async def test():
        async with functions(limit=1) as (_, upstream, client):
            gone = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)
            assert (await ask(client, '/functions/f?id=b'))[0] == 200
            assert upstream.came == ['a', 'b']
    run(test())


def test_functions_do_not_wait_for_each_other():
    async def test():
        async with functions(limit=1) as (_, upstream, client):
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            assert (await ask(client, '/functions/g?id=b'))[0] == 200
            upstream.open('a')
            assert (await first)[0] == 200
    run(test())


def test_the_upstream_never_sees_more_than_the_limit():
    async def test():
        async with functions(limit=3) as (_, upstream, client):
            replies = await asyncio.gather(
                *(ask(client, f'/functions/f?id={i}') for i in range(200)))
            assert {status for status, _, _ in replies} == {200}
            assert len(upstream.came) == 200
            assert upstream.most <= 3
    run(test())


def test_a_full_line_refuses_at_once():
    async def test():
        async with functions(limit=1, line_max=1) as (_, upstream, client):
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            replies = [asyncio.create_task(ask(client, '/functions/f?id=b')) for _ in range(2)]
            done, waiting = await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
            status, _, problem = done.pop().result()
            assert (status, problem['type']) == (429, 'urn:weir:line-full')
            upstream.open('a')
            assert (await waiting.pop())[0] == 200
            assert (await first)[0] == 200
    run(test())


def test_bodies_of_any_size_and_framing_arrive_whole():
    async def test():
        async with functions(limit=4) as (_, upstream, client):
            async def chunks():
                for i in range(300):
                    yield bytes([i % 251]) * 7001
            body = bytes(range(256)) * 20000
            async with client.post('/functions/f?id=whole', data=body) as reply:
                assert (await reply.json())['bytes'] == len(body)
            async with client.post('/functions/f?id=parts', data=chunks()) as reply:
                assert (await reply.json())['bytes'] == 300 * 7001
            assert upstream.bodies['whole'] == body
            assert upstream.bodies['parts'] == b''.join([part async for part in chunks()])
    run(test())


def test_events_pass_on_as_they_come():
    async def test():
        async with functions(limit=1) as (_, upstream, client):
            async with client.get('/functions/stream') as reply:
                for part in ('one', 'two', 'three'):
                    upstream.open(part)
                    assert await reply.content.readline() == f'data: {part}\n'.encode()
                    assert await reply.content.readline() == b'\n'
                assert await reply.content.read() == b''
    run(test())


def test_what_is_told_to_the_upstream_about_the_client():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client):
            _, headers, _ = await ask(client, '/functions/f?id=a', headers={
                'Connection': 'x-private', 'X-Private': '1', 'X-Request-Id': 'mine'})
            seen = upstream.headers['a']
            assert 'X-Private' not in seen
            assert seen['x-request-id'] == 'mine'
            assert seen['Via'] == '1.1 weir'
            assert seen['X-Forwarded-For'] == '127.0.0.1'
            assert seen['X-Forwarded-Host'] == f'127.0.0.1:{gateway.port}'
            assert headers['Server-Timing'].startswith('line;dur=')
            assert 'upstream;dur=' in headers['Server-Timing']
    run(test())


def test_what_leads_nowhere_or_cannot_be_read_gets_an_answer_that_says_so():
    async def test():
        async with functions() as (gateway, _, client):
            status, _, problem = await ask(client, '/nowhere')
            assert (status, problem['type']) == (404, 'urn:weir:no-route')
            for request, answer in (
                    (b'GET /functions/../x HTTP/1.1\r\nHost: localhost\r\n\r\n', b'HTTP/1.1 400 '),
                    (b'GET /functions/f HTTP/1.1\nHost: localhost\n\n', b'HTTP/1.1 400 '),
                    (b'GET /functions/f HTTP/2.0\r\nHost: localhost\r\n\r\n', b'HTTP/1.1 505 '),
                    (b'CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n', b'HTTP/1.1 501 ')):
                reader, writer = await asyncio.open_connection('127.0.0.1', gateway.port)
                writer.write(request)
                assert (await reader.readline()).startswith(answer), request
                writer.close()
    run(test())


def test_who_is_not_trusted_cannot_speak_for_others():
    async def test():
        said = {'X-Tenant': 'acme', 'X-Forwarded-For': '9.9.9.9', 'X-Forwarded-Host': 'elsewhere'}
        for top, tenant, forwarded in (('', 'acme', '9.9.9.9, 127.0.0.1'),
                                       ('trusted: [127.0.0.1/32]', 'acme', '9.9.9.9, 127.0.0.1'),
                                       ('trusted: [10.0.0.0/8]', '', '127.0.0.1')):
            async with functions(limit=1, timeout='50ms', top=top) as (_, upstream, client):
                first = asyncio.create_task(ask(client, '/functions/f?hold&id=a', headers=said))
                await until(lambda u=upstream: u.inside == ['a'], 'a is inside')
                _, _, problem = await ask(client, '/functions/f?id=b', headers=said)
                assert problem['tenant'] == tenant, top
                assert upstream.headers['a']['X-Forwarded-For'] == forwarded, top
                upstream.open('a')
                assert (await first)[0] == 200
    run(test())


def test_a_function_cannot_be_reached_past_its_limit_by_another_spelling():
    async def test():
        async with functions(limit=1, timeout='100ms') as (gateway, upstream, client):
            async def raw(path):
                reader, writer = await asyncio.open_connection('127.0.0.1', gateway.port)
                writer.write(f'GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
                status = (await reader.readline()).split()[1]
                writer.close()
                return status
            first = asyncio.create_task(ask(client, '/functions/%C3%A9?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            assert await raw('/functions/%c3%a9') == b'429'
            for path in ('//functions//%c3%a9', '/%66unctions/%C3%a9', '/functions/%C3%A9/x;y'):
                assert await raw(path) == b'429', path
            assert await raw('/functions/%C3%A9;x') == b'400'
            upstream.open('a')
            assert (await first)[0] == 200
            assert upstream.came == ['a']
    run(test())


def test_requests_in_one_packet_are_answered_in_order():
    async def test():
        async with functions(limit=2) as (gateway, upstream, _):
            reader, writer = await asyncio.open_connection('127.0.0.1', gateway.port)
            names = [str(i) for i in range(50)]
            writer.write(b''.join(
                f'GET /functions/f?id={n} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode() for n in names))
            for name in names:
                head = await reader.readuntil(b'\r\n\r\n')
                length = int(head.lower().split(b'content-length: ')[1].split(b'\r\n')[0])
                assert f'"id": "{name}"'.encode() in await reader.readexactly(length)
            assert upstream.came == names
            writer.close()
    run(test())


def test_an_upstream_that_is_not_there_is_a_502():
    async def test():
        async with weir('''
listen: 127.0.0.1:0
upstreams: { gone: { url: "http://127.0.0.1:1" } }
gates: { g: { limit: 1 } }
routes: [ { match: /, key: all, gate: g, upstream: gone } ]
''') as alone:
            async with aiohttp.ClientSession(alone.url) as session:
                for _ in range(3):  # the permit comes back each time
                    status, _, problem = await ask(session, '/')
                    assert (status, problem['type']) == (502, 'urn:weir:upstream-unreachable')
    run(test())


def test_a_draining_gateway_serves_what_it_has_and_exits_cleanly():
    async def test():
        async with functions(limit=1) as (gateway, upstream, client):
            first = asyncio.create_task(ask(client, '/functions/f?hold&id=a'))
            await until(lambda: upstream.inside == ['a'], 'a is inside')
            gateway.terminate()
            upstream.open('a')
            status, headers, _ = await first
            assert status == 200
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0
    run(test())
