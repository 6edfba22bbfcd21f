"""The line protocol of jobs against a real server: every answer, order, bounds, and clients that misbehave."""
import asyncio
import contextlib
import hashlib
import os
import random
import tempfile

from raw import open_wire, run
from weir import PATIENCE, PROGRAM, until, until_still, weir

CONFIG = '''
api: 127.0.0.1:0
protocol: { address: 127.0.0.1:0, timeouts: { head: 300ms, stall: 300ms, idle: 30s } }
data: ./data
threads: 2
queues:
  echo: { run: ["cat", "{in}"], workers: 4, attempts: 3 }
  keep: { line: { max: 20000 }, body: 4MiB }
  small: { line: { max: 2 }, body: 3B }
  narrow: { line: { max: 2 } }
  patient: { line: { max: 1, full: wait } }
  slow: { tenants: { default: { rate: 1/h } } }
  held: { run: ["sh", "-c", "read path; while ! test -e $path; do sleep 0.01; done"] }
  dying: { run: ["sh", "-c", "echo no >&2; exit 3"], attempts: 1 }
'''


class Session:
    """One connection; lines in, lines out."""

    def __init__(self, wire):
        self.wire = wire

    async def send(self, *parts):
        await self.wire.send(*parts)

    async def line(self):
        line = await asyncio.wait_for(self.wire.reader.readline(), PATIENCE)
        assert line.endswith(b'\n'), line
        return line.decode().removesuffix('\n')

    async def lines(self, count):
        return [await self.line() for _ in range(count)]

    async def ask(self, *parts):
        await self.send(*parts)
        return await self.line()

    async def submit(self, name, body=b'', more='', end='\n'):
        return await self.ask(submission(name, body, more, end))

    async def rest(self):
        """All lines until the server closes."""
        return (await self.wire.rest()).decode().splitlines()


def submission(name, body=b'', more='', end='\n'):
    return f'SUBMIT {name} {len(body)}{" " if more else ""}{more}{end}'.encode() + body + end.encode()


class Server:
    def __init__(self, gateway):
        self.gateway = gateway
        [self.port] = [int(text.rsplit(':', 1)[1]) for text in gateway.addresses['protocol']]

    async def open(self):
        return Session(await open_wire(self.port))

    async def ask(self, *parts):
        """On a connection of its own: all lines that come back."""
        session = await self.open()
        await session.send(*parts, b'QUIT\n')
        return await session.rest()

    async def status(self, name):
        return (await self.gateway.ask_api(f'/status/{name}'))[1]

    async def until_state(self, name, state):
        async def holds():
            return (await self.status(name)).get('state') == state
        await until(holds, f'{name} is {state}')

    async def result(self, name):
        async with self.gateway._session.get(f'{self.gateway.api}/result/{name}') as reply:
            assert reply.status == 200
            return await reply.read()

    async def cancel(self, name):
        async with self.gateway._session.post(f'{self.gateway.api}/cancel/{name}') as reply:
            assert reply.status == 200

    async def queue(self, name):
        [queue] = [queue for queue in (await self.gateway.ask_api('/capacity'))[1]['queues'] if queue['queue'] == name]
        return queue


@contextlib.asynccontextmanager
async def serving(config=CONFIG):
    async with weir(config) as gateway:
        yield Server(gateway)


def with_server(test):
    @run
    async def wrapper():
        async with serving() as server:
            await test(server)
    wrapper.__name__ = test.__name__
    return wrapper


# ---- answers

@with_server
async def test_a_job_is_accepted_run_and_told_of(server):
    session = await server.open()
    assert await session.submit('a', b'hello') == 'ACCEPTED a'
    assert await session.submit('b', b'hello\r\n', 'queue=echo priority=high key=a%20b+c tenant=acme', '\r\n') == 'ACCEPTED b'
    for name, body in (('a', b'hello'), ('b', b'hello\r\n')):
        await server.until_state(name, 'done')
        assert await server.result(name) == body
    status = await server.status('b')
    assert (status['tenant'], status['priority'], status['key']) == ('acme', 'high', 'a b c')
    assert await session.ask('STATUS b\r\n') == (
        'STATUS b done queue=echo tenant=acme priority=high attempts=1 attempts_max=3 result_bytes=7')
    assert await session.ask('STATUS none\n') == 'UNKNOWN none'
    assert await session.ask('STATUS ../../etc\n') == 'UNKNOWN ../../etc'


@with_server
async def test_the_same_again_is_the_same_job_and_another_body_a_conflict(server):
    session = await server.open()
    for expected in ('ACCEPTED', 'EXISTS', 'EXISTS'):
        assert await session.submit('a', b'one', 'queue=keep') == f'{expected} a'
    assert await session.submit('a', b'two', 'queue=keep') == 'CONFLICT a'
    assert await session.submit('a', b'one', 'queue=keep tenant=other') == 'CONFLICT a'
    assert (await server.queue('keep'))['waiting'] == 1
    assert await session.ask('STATUS a\n') == (
        'STATUS a queued queue=keep priority=normal attempts=0 attempts_max=5 position=1')


@with_server
async def test_capacity_is_told_queue_by_queue(server):
    session = await server.open()
    await session.submit('a', b'', 'queue=keep')
    lines = await server.ask('CAPACITY\n')
    assert [line.split()[1] for line in lines[:-1]] == [f'queue={name}' for name in (
        'echo', 'keep', 'small', 'narrow', 'patient', 'slow', 'held', 'dying')]
    assert lines[-1] == 'END'
    assert lines[1] == 'CAPACITY queue=keep workers=0 running=0 free=0 waiting=1 delayed=0 max=20000 dead=0'


@run
async def test_capacity_tells_why_nothing_is_accepted():
    async with serving(CONFIG.replace('attempts: 1', 'attempts: 1, dead: 1')) as server:
        session = await server.open()
        await session.submit('a', b'', 'queue=dying')
        await server.until_state('a', 'failed')
        assert (await session.submit('b', b'', 'queue=dying')).startswith('ERROR queue-blocked')
        lines = await server.ask('CAPACITY\n')
        [dying] = [line for line in lines if 'wrong' in line]
        assert dying.startswith('CAPACITY queue=dying ')
        assert dying.endswith(' dead=1 wrong=the%20limit%20of%20dead%20letters%20is%20reached')
        gate = server.gateway.path.parent / 'gate'
        await session.submit('c', f'{gate}\n'.encode(), 'queue=held')
        await server.until_state('c', 'running')
        server.gateway.terminate()

        async def drains():
            lines = await session.ask('CAPACITY\n'), *await session.lines(8)
            return all(line.endswith(' wrong=the%20server%20is%20shutting%20down') for line in lines[:-1])
        await until(drains, 'every queue tells so')
        gate.touch()


@with_server
async def test_a_full_queue_is_busy_and_the_connection_goes_on(server):
    session = await server.open()
    for name in 'ab':
        assert await session.submit(name, b'x', 'queue=small') == f'ACCEPTED {name}'
    for _ in range(2):
        assert await session.submit('c', b'x', 'queue=small') == 'BUSY retry=5'
    assert await session.submit('d', b'', 'queue=slow') == 'ACCEPTED d'
    busy = await session.submit('e', b'x' * 1000, 'queue=slow')
    assert busy.startswith('BUSY retry=') and 3500 < int(busy.removeprefix('BUSY retry=')) <= 3600
    assert await session.ask('STATUS e\n') == 'UNKNOWN e'


@with_server
async def test_what_is_there_already_needs_no_room(server):
    long = b'x' * 100000
    session = await server.open()
    for name, body in (('a', b'x'), ('b', long)):
        assert await session.submit(name, body, 'queue=narrow') == f'ACCEPTED {name}'
    assert await session.submit('p', b'x', 'queue=patient') == 'ACCEPTED p'
    # Without waiting for each other, and mixed with what is new.
    await session.send(*[submission(name, body, 'queue=' + queue) for name, body, queue in
                         (('a', b'x', 'narrow'), ('b', long, 'narrow'), ('a', b'y', 'narrow'), ('c', b'x', 'narrow'),
                          ('b', long[1:], 'narrow'), ('p', b'x', 'patient'), ('p', b'y', 'patient'))])
    assert await session.lines(7) == ['EXISTS a', 'EXISTS b', 'CONFLICT a', 'BUSY retry=5', 'CONFLICT b', 'EXISTS p', 'CONFLICT p']
    assert await session.ask('STATUS c\n') == 'UNKNOWN c'
    for _ in range(10):  # whoever goes away while it is looked up leaves nothing
        other = await server.open()
        await other.send(submission('a', b'x', 'queue=narrow'), submission('d', b'x', 'queue=patient'))
        other.wire.reset()
    assert await session.submit('a', b'x', 'queue=narrow') == 'EXISTS a'


@with_server
async def test_what_fails_is_told_with_the_error(server):
    session = await server.open()
    await session.submit('a', b'', 'queue=dying')
    await server.until_state('a', 'failed')
    line = await session.ask('STATUS a\n')
    assert line.startswith('STATUS a failed queue=dying ') and ' error=' in line and line.count(' ') == 7, line


@with_server
async def test_a_wrong_submission_is_refused_and_its_body_passed_over(server):
    session = await server.open()
    for words, expected in (('.a 1', 'bad-request The id'), ('a/b 1', 'bad-request The id'),
                            ('x' * 129 + ' 1', 'bad-request The id'), ('a 1 colour=red', 'bad-request colour is unknown'),
                            ('a 1 queue=nowhere', 'not-found There is no queue called nowhere'),
                            ('a 1 priority=urgent', 'bad-request priority'), ('a 1 delay=soon', 'bad-request delay'),
                            ('a 1 queue=keep queue=keep', 'bad-request queue is given twice'),
                            ('a 1 delay=5s run_at=1800000000000', 'bad-request run_at excludes'),
                            ('a 1 key', 'bad-request Parameters follow'), ('a 1 key=%zz', 'bad-request Parameters follow'),
                            ('a 1 =x', 'bad-request Parameters follow'), ('a 1 key=a&b=c', 'bad-request Parameters follow')):
        line = await session.ask(f'SUBMIT {words}\nX\n')
        assert line.startswith(f'ERROR {expected}'), line
    assert (await session.ask(b'SUBMIT a 4 queue=small\nfour\n')).startswith('ERROR body-too-large The body exceeds')
    assert await session.submit('a', b'fit', 'queue=small') == 'ACCEPTED a'
    assert await session.submit('later', b'', 'queue=keep delay=1h attempts=7 timeout=5s cost=2s') == 'ACCEPTED later'
    assert (await server.queue('keep'))['delayed'] == 1 and (await server.status('later'))['attempts_max'] == 7


# ---- bodies

@with_server
async def test_bodies_of_every_size_arrive_as_they_are(server):
    generator = random.Random(7)
    session = await server.open()
    sizes = (0, 1, 2047, 2048, 2049, 16384, 65535, 65536, 65537, 131072, 131073, 1 << 20, (4 << 20) - 1, 4 << 20)
    for size in sizes:
        body = generator.randbytes(size)
        assert await session.submit(f'b{size}', body, 'queue=keep') == f'ACCEPTED b{size}'
        assert await session.submit(f'b{size}', body, 'queue=keep') == f'EXISTS b{size}'
        assert await session.submit(f'e{size}', body, 'queue=echo') == f'ACCEPTED e{size}'
        await server.until_state(f'e{size}', 'done')
        assert hashlib.sha256(await server.result(f'e{size}')).digest() == hashlib.sha256(body).digest()
    files = len(os.listdir(server.gateway.path.parent / 'data' / 'bodies'))
    assert files >= 6  # those of `keep`; and nothing of what was there already was written anew
    await session.send(submission('z', bytes(100000), 'queue=keep')[:50000])
    session.wire.reset()
    await until(lambda: len(os.listdir(server.gateway.path.parent / 'data' / 'bodies')) == files, 'nothing is left')


@with_server
async def test_a_long_body_that_is_refused_ends_the_connection_after_the_answer(server):
    session = await server.open()
    await session.send(submission('ok', b'x', 'queue=keep'), b'SUBMIT a 5000000 queue=keep\n', b'x' * 100000)
    assert await session.rest() == ['ACCEPTED ok', 'ERROR body-too-large The body exceeds the queue\'s limit of 4194304 bytes.']
    session = await server.open()  # one that can be thrown away does not
    assert (await session.submit('a', b'x' * 1000000, 'queue=small')).startswith('ERROR body-too-large')
    assert await session.submit('a', b'x', 'queue=small') == 'ACCEPTED a'


@with_server
async def test_everything_may_come_byte_by_byte(server):
    session = await server.open()
    for byte in submission('a', b'hi\n', 'queue=keep', '\r\n') + b'STATUS a\nCAPACITY\n':
        await session.send(bytes([byte]))
    assert await session.line() == 'ACCEPTED a'
    assert (await session.line()).startswith('STATUS a queued')
    assert (await session.lines(9))[-1] == 'END'


# ---- order

@with_server
async def test_a_thousand_submissions_without_waiting_are_answered_in_order(server):
    session = await server.open()
    parts, expected = [], []
    for number in range(1000):
        parts.append(submission(f'j{number}', f'body {number}'.encode(), 'queue=keep'))
        expected.append(f'ACCEPTED j{number}')
        if number % 100 == 50:
            parts.append(f'STATUS j{number}\nSTATUS x{number}\n'.encode())
            expected += [f'STATUS j{number} queued', f'UNKNOWN x{number}']
    task = asyncio.create_task(session.send(b''.join(parts)))
    lines = await session.lines(len(expected))
    await task
    assert [' '.join(line.split()[:3 if line.startswith('STATUS') else 2]) for line in lines] == expected
    assert (await server.queue('keep'))['waiting'] == 1000


@with_server
async def test_who_does_not_read_its_answers_is_not_read_either(server):
    session = await server.open()
    session.wire.reader._transport.pause_reading()
    wire = session.wire
    sent = 0
    with contextlib.suppress(asyncio.TimeoutError, ConnectionError):  # it is left when it has taken too long
        while sent < 400 << 20:
            wire.writer.write(b'CAPACITY\n' * 10000)
            await asyncio.wait_for(wire.writer.drain(), 2)
            sent += 90000
    assert sent < 100 << 20
    assert (await server.ask(submission('a', b'', 'queue=keep'))) == ['ACCEPTED a']  # nobody else suffers
    wire.abort()


@with_server
async def test_connections_do_not_disturb_each_other(server):
    async def submit(connection):
        session = await server.open()
        await session.send(*(submission(f'c{connection}-{n}', b'x' * n, 'queue=keep') for n in range(50)))
        assert await session.lines(50) == [f'ACCEPTED c{connection}-{n}' for n in range(50)]
        session.wire.close()
    await asyncio.gather(*(submit(connection) for connection in range(20)))
    assert (await server.queue('keep'))['waiting'] == 1000


@with_server
async def test_a_queue_that_waits_leaves_the_body_unread(server):
    session, other = await server.open(), await server.open()
    assert await session.submit('a', b'1', 'queue=patient') == 'ACCEPTED a'
    await other.send(submission('b', b'2', 'queue=patient'), 'STATUS a\n')
    waits = asyncio.create_task(other.line())
    assert await session.ask('STATUS b\n') == 'UNKNOWN b'
    assert not waits.done()
    await server.cancel('a')
    assert await waits == 'ACCEPTED b'
    assert (await other.line()).startswith('STATUS a cancelled')
    third = await server.open()  # who waits may go, though what it has sent as a whole may still be accepted
    await third.send(submission('c', b'3', 'queue=patient'))
    third.wire.reset()
    await server.cancel('b')
    last = asyncio.create_task(session.submit('d', b'4', 'queue=patient'))

    async def accepted():
        if (await server.status('c')).get('state') == 'queued':
            await server.cancel('c')
        return last.done()
    await until(accepted, 'the place is free again')
    assert await last == 'ACCEPTED d'


@run
async def test_a_queue_that_is_taken_out_during_a_submission_is_not_there():
    async with serving(CONFIG.replace('300ms', '30s')) as server:
        session, other = await server.open(), await server.open()
        assert await session.submit('a', b'1', 'queue=patient') == 'ACCEPTED a'
        await other.send(submission('b', b'2', 'queue=patient'))
        await session.send('SUBMIT c 2 queue=keep\n1')
        await until_still(server.gateway.process.pid)
        lines = server.gateway.path.read_text().splitlines(True)
        gone = [line for line in lines if line.startswith(('  patient:', '  keep:'))]
        assert len(gone) == 2
        await server.gateway.reload(*[(line, '') for line in gone])
        assert (await other.line()).startswith('ERROR not-found There is no queue called patient.')
        assert (await session.ask('2\n')).startswith('ERROR not-found There is no queue called keep.')


# ---- the end

@with_server
async def test_quit_and_a_closed_side_still_get_all_answers(server):
    assert await server.ask(*(submission(f'a{n}', b'x', 'queue=keep') for n in range(100))) == [
        f'ACCEPTED a{n}' for n in range(100)]
    session = await server.open()
    await session.send(submission('b', b'x', 'queue=keep'), 'STATUS b\n')
    session.wire.finish()
    assert [line.split()[0] for line in await session.rest()] == ['ACCEPTED', 'STATUS']
    session = await server.open()
    await session.send('QUIT\nSTATUS b\n')
    assert await session.rest() == []


@with_server
async def test_what_is_no_line_ends_the_connection_and_nothing_else_is_done(server):
    smuggled = submission('evil', b'x', 'queue=keep')
    for garbage in (b'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n', b'POST /x HTTP/1.1\r\n', b'\n', b'status a\n', b'STATUS\n',
                    b'STATUS a b\n', b'STATUS  a\n', b'SUBMIT a\n', b'SUBMIT a x\n', b'SUBMIT a -1\n', b'SUBMIT a 01\n',
                    b'\x00\xff\n', b'STATUS \xc3\xbc\n', b'x' * 4096, b'SUBMIT a 1\nxx\n', b'QUIT now\n'):
        session = await server.open()
        await session.send(submission('good', b'x', 'queue=keep'), garbage, smuggled)
        lines = await session.rest()
        assert lines[0] in ('ACCEPTED good', 'EXISTS good')
        assert lines[-1].startswith('ERROR protocol '), (garbage, lines)
        assert len(lines) == 2
    assert await server.ask('STATUS evil\n', 'STATUS a\n') == ['UNKNOWN evil', 'UNKNOWN a']


@with_server
async def test_lines_may_have_4096_bytes_and_no_more(server):
    session = await server.open()
    assert (await session.ask(b'STATUS ' + b'x' * 4088 + b'\n')).startswith('UNKNOWN xxx')
    await session.send(b'STATUS ' + b'x' * 4089 + b'\n')
    assert await session.rest() == ['ERROR protocol a line has at most 4096 bytes']


@with_server
async def test_who_is_slow_in_the_middle_of_something_is_told_and_left(server):
    for half in (b'STATUS', b'SUBMIT a 10 queue=keep\n', b'SUBMIT a 10 queue=keep\nhello', b'SUBMIT a 5 queue=keep\nhello',
                 b'SUBMIT a 200000 queue=keep\n' + bytes(100000), b'SUBMIT a 10 queue=nowhere\nhello'):
        session = await server.open()
        await session.send(half)
        assert (await session.rest())[-1] == 'ERROR timeout no more input came in time'
    session = await server.open()
    assert await session.submit('b', b'', 'queue=keep') == 'ACCEPTED b'
    await asyncio.sleep(0.6)  # who has said all may take its time; there is nothing to wait for
    assert await session.submit('b', b'', 'queue=keep') == 'EXISTS b'
    assert await session.ask('STATUS a\n') == 'UNKNOWN a'
    assert (await server.queue('keep'))['waiting'] == 1


@with_server
async def test_a_line_that_comes_drop_by_drop_does_not_win_time(server):
    session = await server.open()

    async def drip():
        with contextlib.suppress(ConnectionError):
            while True:  # until the line is too long
                await session.send(b'x')
                await asyncio.sleep(0.002)
    task = asyncio.create_task(drip())
    assert await session.rest() == ['ERROR timeout no more input came in time']
    task.cancel()


@with_server
async def test_what_is_not_whole_is_not_submitted(server):
    whole = submission('cut', b'hello' * 20000, 'queue=narrow')
    places = [submission('cut', b'hello', 'queue=narrow')[:n] for n in range(1, 30)]
    for number, part in enumerate([*places, whole[:50000], whole[:99000], whole[:-1]]):
        session = await server.open()
        await session.send(part)
        if number % 3 == 0:
            session.wire.reset()
        elif number % 3 == 1:
            session.wire.close()
        else:
            session.wire.finish()
            await session.rest()

    async def settled():
        status = await server.gateway.ask_api('/status/cut')
        return status[0] == 404
    await until(settled, 'nothing is there')
    assert (await server.queue('narrow'))['waiting'] == 0

    for name in 'ab':  # and no place was lost
        async def accepted(name=name):
            return await server.ask(submission(name, b'x', 'queue=narrow')) == [f'ACCEPTED {name}']
        await until(accepted, f'there is room for {name}')


@with_server
async def test_whoever_vanishes_loses_nothing_that_was_accepted(server):
    for number in range(30):
        session = await server.open()
        await session.send(*(submission(f'v{number}-{n}', b'x' * 10000, 'queue=keep') for n in range(40)))
        if number % 2:
            await session.line()
        session.wire.reset()
    session = await server.open()
    for number in range(30):  # each is there as a whole or not at all, and can be submitted again
        await session.send(*(submission(f'v{number}-{n}', b'x' * 10000, 'queue=keep') for n in range(40)))
        for n in range(40):
            assert await session.line() in (f'ACCEPTED v{number}-{n}', f'EXISTS v{number}-{n}')
    assert (await server.queue('keep'))['waiting'] == 1200


# ---- who may

def test_tokens_say_who_may(monkeypatch):
    for name in ('all', 'reader', 'acme'):
        monkeypatch.setenv(f'SECRET_{name.upper()}', f'a-long-secret-of-{name}')
    config = CONFIG + '''
api_tokens:
  all: { token: "${SECRET_ALL}", scopes: [submit, read] }
  reader: { token: "${SECRET_READER}", scopes: [read] }
  acme: { token: "${SECRET_ACME}", scopes: [submit], tenant: acme }
'''

    @run
    async def test():
        async with weir(config) as gateway:
            server = Server(gateway)
            session = await server.open()
            for line in ('STATUS a\n', 'CAPACITY\n', 'SUBMIT a 1\nx\n'):
                assert (await session.ask(line)).startswith('ERROR unauthorized Authenticate')
            assert (await session.ask('AUTH a-long-secret-of-nobody\n')).startswith('ERROR unauthorized')
            assert (await session.ask('STATUS a\n')).startswith('ERROR unauthorized')
            assert await session.ask('AUTH a-long-secret-of-reader\n') == 'OK'
            assert await session.ask('STATUS a\n') == 'UNKNOWN a'
            assert (await session.submit('a', b'x', 'queue=keep')).startswith('ERROR forbidden The token')
            assert await session.ask('AUTH a-long-secret-of-acme\n') == 'OK'
            assert await session.submit('a', b'x', 'queue=keep') == 'ACCEPTED a'
            assert ' tenant=acme ' in await session.ask('STATUS a\n')
            assert (await session.submit('b', b'x', 'queue=keep tenant=other')).startswith('ERROR forbidden This caller')
            assert await session.ask('AUTH a-long-secret-of-all\n') == 'OK'
            assert await session.submit('o', b'x', 'queue=keep tenant=other') == 'ACCEPTED o'
            assert await session.submit('a', b'x', 'queue=keep') == 'CONFLICT a'
            assert await session.ask('AUTH a-long-secret-of-acme\n') == 'OK'
            assert await session.ask('STATUS o\n') == 'UNKNOWN o'
            await session.send('STATUS o\nAUTH nonsense\n')  # who asked is who counts, whoever speaks afterwards
            assert await session.line() == 'UNKNOWN o'
            assert (await session.line()).startswith('ERROR unauthorized')
            await session.send('AUTH a-long-secret-of-acme\nSTATUS o\nAUTH a-long-secret-of-all\nAUTH a-long-secret-of-acme\n')
            assert await session.lines(4) == ['OK', 'UNKNOWN o', 'OK', 'OK']
            await gateway.reload(('scopes: [submit], tenant: acme', 'scopes: [read], tenant: acme'))
            assert (await session.submit('c', b'x', 'queue=keep')).startswith('ERROR forbidden The token')
    test()


async def keys(server, *words):
    """What `weir keys` says."""
    process = await asyncio.create_subprocess_exec(PROGRAM, 'keys', *words, '--data', str(server.gateway.path.parent / 'data'),
                                                   stdout=asyncio.subprocess.PIPE)
    said = (await process.communicate())[0].decode().strip()
    assert process.returncode == 0
    return said


@with_server
async def test_an_api_key_speaks_for_its_tenant_until_it_is_revoked(server):
    session = await server.open()
    key = await keys(server, 'add', '--tenant', 'acme')

    async def is_known(answer):
        return (await session.ask(f'AUTH {key}\n')).startswith(answer)
    await until(lambda: is_known('OK'), 'the key is taken up')
    assert await session.submit('mine', b'x', 'queue=keep') == 'ACCEPTED mine'
    assert ' tenant=acme ' in await session.ask('STATUS mine\n')
    assert (await session.submit('other', b'x', 'queue=keep tenant=other')).startswith('ERROR forbidden This caller')
    other = await server.open()
    assert await other.submit('theirs', b'x', 'queue=keep') == 'ACCEPTED theirs'
    assert await session.ask('STATUS theirs\n') == 'UNKNOWN theirs'
    assert await session.submit('theirs', b'x', 'queue=keep') == 'CONFLICT theirs'
    assert (await session.ask('CAPACITY\n')).startswith('CAPACITY queue=echo')
    assert (await session.lines(8))[-1] == 'END'
    await keys(server, 'revoke', key.split('_')[1])
    await until(lambda: is_known('ERROR unauthorized'), 'the key is forgotten')
    for line in ('STATUS mine\n', 'CAPACITY\n', 'SUBMIT a 1 queue=keep\nx\n'):
        assert (await session.ask(line)).startswith('ERROR unauthorized'), line


@run
async def test_a_tenant_is_believed_only_from_who_is_trusted():
    async with serving(CONFIG + 'trusted: [10.0.0.0/8]\n') as server:
        session = await server.open()
        assert (await session.submit('a', b'x', 'queue=keep tenant=acme')).startswith('ERROR forbidden This caller')
        assert await session.submit('a', b'x', 'queue=keep') == 'ACCEPTED a'


@run
async def test_a_priority_is_at_most_the_tenants():
    async with serving(CONFIG + 'tenants: { default: { priority: normal } }\n') as server:
        session = await server.open()
        assert await session.submit('a', b'x', 'queue=keep priority=high') == 'ACCEPTED a'
        assert ' priority=normal ' in await session.ask(b'STATUS a\n')


@run
async def test_it_is_served_on_a_unix_socket_and_beside_others():
    with tempfile.TemporaryDirectory() as folder:
        path = f'unix:{folder}/jobs'
        config = CONFIG.replace('address: 127.0.0.1:0', f'address: "{path}"')
        async with weir(config) as gateway:
            assert gateway.addresses['protocol'] == [path]
            session = Session(await open_wire(path))
            assert await session.submit('a', b'x', 'queue=keep') == 'ACCEPTED a'


@run
async def test_without_queues_there_is_nothing_to_submit_to():
    config = 'api: 127.0.0.1:0\nprotocol: 127.0.0.1:0\ngates: { a: {} }\n'
    async with serving(config) as server:
        assert await server.ask(submission('a', b'x'), 'STATUS a\n', 'CAPACITY\n') == [
            'ERROR not-found No queues are configured.', 'UNKNOWN a', 'END']


@with_server
async def test_a_server_that_drains_accepts_nothing_more(server):
    session, waiting = await server.open(), await server.open()
    go = server.gateway.path.parent / 'go'
    await session.submit('a', f'{go}\n'.encode(), 'queue=held')
    await session.submit('p', b'x', 'queue=patient')
    await waiting.send(submission('q', b'x', 'queue=patient'))
    await server.until_state('a', 'running')
    await until_still(server.gateway.process.pid)
    server.gateway.terminate()
    assert (await waiting.line()).startswith('ERROR draining')

    async def drains():
        return (await session.submit('b', b'x', 'queue=keep')).startswith('ERROR draining')
    await until(drains, 'it drains')
    assert (await session.ask('STATUS a\n')).startswith('STATUS a running')
    go.touch()
    assert await session.rest() == []
