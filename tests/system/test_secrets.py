"""Header values from files: read at start, again when they change, and kept while they cannot be read."""
import asyncio
import contextlib
import os
import resource
import subprocess

from raw import ask, connect, front, reply, request, run, upstream
from weir import PROGRAM, until, weir


def write(path, text):
    """Replaces the file as a whole."""
    fresh = path.with_suffix('.new')
    fresh.write_text(text)
    os.replace(fresh, path)


async def sent(gateway, server):
    assert (await ask(gateway.port, request('/functions/f'))).status == 200
    return server.seen[-1].one('authorization')


def header(path, prefix='Bearer '):
    return f'headers: {{ Authorization: {{ file: "{path}", prefix: "{prefix}" }}, X-Plain: as-ever }}'


@run
async def test_a_value_comes_from_a_file_and_follows_it(tmp_path):
    secret = tmp_path / 'key'
    write(secret, 'first-secret  \r\nanother line\n')
    async with upstream() as server, front(server, more=header(secret), threads=2) as gateway:
        assert await sent(gateway, server) == 'Bearer first-secret'
        assert server.seen[-1].one('x-plain') == 'as-ever'
        for value in ('a-longer-one-' + 3000 * 'x', 'third'):
            write(secret, value)

            async def follows():
                return await sent(gateway, server) == 'Bearer ' + value
            await until(follows, 'the new value is sent')
        assert gateway.complaints() == ''


@run
async def test_a_file_that_cannot_be_read_keeps_the_last_value_and_is_told_once(tmp_path):
    secret = tmp_path / 'key'
    write(secret, 'the-secret\n')
    async with upstream() as server, front(server, more=header(secret)) as gateway:
        count = 0
        for spoil in (secret.unlink, lambda: write(secret, ''), lambda: write(secret, 5000 * 'x')):
            spoil()
            count += 1
            await until(lambda: gateway.complaints().count('cannot be used') == count, 'it is said')
            assert await sent(gateway, server) == 'Bearer the-secret'
        said = gateway.complaints()
        assert str(secret) in said and 'No such file' in said and 'it is empty' in said
        assert 'the-secret' not in said and 'xxxx' not in said
        await asyncio.sleep(1.5)  # longer than one look at it
        assert gateway.complaints() == said
        write(secret, 'back')

        async def returns():
            return await sent(gateway, server) == 'Bearer back'
        await until(returns, 'it is read again')


@run
async def test_a_reload_says_once_more_which_file_cannot_be_read(tmp_path):
    secret, folder = tmp_path / 'key', tmp_path / 'folder'
    write(secret, 'old')
    async with upstream() as server, front(server, more=header(secret)) as gateway:
        def complaints():
            return gateway.complaints().count('Is a directory')
        folder.mkdir()
        os.replace(secret, tmp_path / 'away')
        secret.symlink_to(folder)
        await until(lambda: complaints() == 1, 'it is said')
        await gateway.reload(('as-ever', 'no-longer'))
        await until(lambda: complaints() == 2, 'a reload says it once more')
        await asyncio.sleep(1.5)  # longer than one look at it
        assert complaints() == 2
        assert await sent(gateway, server) == 'Bearer old'


@run
async def test_a_file_that_could_not_be_read_once_is_read_without_another_change(tmp_path):
    secret = tmp_path / 'key'
    write(secret, 'old')
    async with upstream() as server, front(server, more=header(secret)) as gateway:
        assert await sent(gateway, server) == 'Bearer old'
        limits = resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        write(secret, 'new')
        await until(lambda: 'Too many open files' in gateway.complaints(), 'it is said')
        resource.prlimit(gateway.process.pid, resource.RLIMIT_NOFILE, limits)

        async def follows():
            return await sent(gateway, server) == 'Bearer new'
        await until(follows, 'it is read again')


@run
async def test_a_request_in_line_sends_the_value_of_the_moment_also_after_a_reload(tmp_path):
    secret = tmp_path / 'key'
    write(secret, 'old')
    go = asyncio.Event()

    async def serve(wire, _):
        await go.wait()
        await wire.send(reply())
    async with upstream(serve) as server, front(server, more=header(secret), gate='limit: 1') as gateway:
        tasks = [asyncio.create_task(ask(gateway.port, request('/functions/f'))) for _ in range(2)]
        await gateway.until('f', active=1, waiting=1)
        await gateway.reload(('as-ever', 'no-longer'))
        write(secret, 'new')
        assert await gateway.process.stdout.readline() == f'weir: read {secret} again\n'.encode()
        go.set()
        assert [(await task).status for task in tasks] == [200, 200]
        assert [message.one('authorization') for message in server.seen] == ['Bearer old', 'Bearer new']


@run
async def test_a_reload_keeps_a_value_whose_file_is_gone_and_refuses_a_file_that_never_was(tmp_path):
    secret = tmp_path / 'key'
    write(secret, 'kept')
    async with upstream() as server, front(server, more=header(secret)) as gateway:
        secret.unlink()
        await gateway.reload(('as-ever', 'no-longer'))
        assert await sent(gateway, server) == 'Bearer kept'
        gateway.path.write_text(gateway.path.read_text().replace(str(secret), str(secret) + '-not'))
        message = await ask(gateway.api_port, request('/reload', method='POST'))
        assert message.status == 422
        assert b'headers.Authorization: the file' in message.body and b'No such file' in message.body
        assert await sent(gateway, server) == 'Bearer kept'


@run
async def test_it_does_not_start_without_its_file(tmp_path):
    config = f'''listen: 127.0.0.1:0
upstreams: {{ u: {{ url: "http://127.0.0.1:9", {header(tmp_path / 'none')} }} }}
routes: [{{ match: /, key: a, upstream: u }}]
'''
    path = tmp_path / 'weir.yaml'
    path.write_text(config)
    done = subprocess.run([PROGRAM, 'serve', str(path)], capture_output=True, text=True)
    assert done.returncode != 0
    assert 'upstreams.u.headers.Authorization: the file' in done.stderr and 'No such file' in done.stderr


def test_mistakes_in_the_config_and_what_is_printed(tmp_path):
    path = tmp_path / 'weir.yaml'

    def check(value, *flags):
        path.write_text(f'''listen: 127.0.0.1:0
upstreams: {{ u: {{ url: "http://127.0.0.1:9", headers: {{ Authorization: {value} }} }} }}
routes: [{{ match: /, key: a, upstream: u }}]
''')
        return subprocess.run([PROGRAM, 'check', *flags, str(path)], capture_output=True, text=True)
    for value, said in (('{ prefix: "Bearer " }', 'has no file'), ('{ file: /x, prefx: a }', 'prefx'),
                        ('{ file: /x, prefix: "a\\nb" }', 'printable'), ('{ file: "" }', 'file'),
                        (f'{{ file: /x, prefix: "{256 * "x"}" }}', 'at most 255')):
        done = check(value)
        assert done.returncode == 1 and said in done.stderr, (value, done.stderr)
    done = check('{ file: /run/secrets/openai, prefix: "Top-Secret " }', '--print')
    assert done.returncode == 0, done.stderr
    assert '{file: "/run/secrets/openai", prefix:' in done.stdout and 'Top-Secret' not in done.stdout


@run
async def test_values_that_change_all_the_time_are_never_torn(tmp_path):
    """Two threads send while the file is replaced by values of one letter each, of different lengths."""
    secret = tmp_path / 'key'
    write(secret, 'a')
    async with upstream() as server, front(server, more=header(secret), threads=2, gate='limit: 100') as gateway:
        done = asyncio.Event()

        async def client():
            async with connect(gateway.port) as wire:
                while not done.is_set():
                    await wire.send(request('/functions/f'))
                    assert (await wire.message()).status == 200
        clients = [asyncio.create_task(client()) for _ in range(8)]
        for number in range(3):
            write(secret, 'bcd'[number] * [2000, 1, 4000][number])
            assert b'again' in await asyncio.wait_for(gateway.process.stdout.readline(), 20)
        done.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*clients)
        values = {message.one('authorization').removeprefix('Bearer ') for message in server.seen}
        assert values <= {'a', 2000 * 'b', 'c', 4000 * 'd'}
        assert len(values) >= 3
