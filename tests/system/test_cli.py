"""The commands that speak to the API, as people and scripts call them."""
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import tempfile
import termios

import pytest
import yarl
from raw import run
from weir import PATIENCE, PROGRAM, until, weir

GATES = '''
threads: 2
gates:
  agents: { limit: 3, line: { timeout: 30s }, lease: 10m }
  one: { limit: 1, line: { timeout: 30s, max: 2 }, lease: none }
  free: { limit: none, lease: none }
'''
CONFIG = 'api: 127.0.0.1:0\n' + GATES
COMMANDS = ('serve', 'check', 'gates', 'line', 'explain', 'events', 'acquire', 'release', 'renew', 'run', 'submit',
            'status', 'result', 'log', 'cancel', 'jobs', 'dlq', 'redrive', 'capacity', 'reload', 'keys', 'usage', 'mock',
            'sim', 'version', 'help')


class Said:
    """What a command that has ended said."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = (out or b'').decode()
        self.err = (err or b'').decode()

    @property
    def documents(self):
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def rows(self):
        """Of a table, each row as the names of its columns and their cells."""
        lines = self.out.split('\n\n')[0].splitlines()
        names = re.split(' {2,}', lines[0].strip())
        return [dict(zip(names, re.split(' {2,}', line.strip()), strict=True)) for line in lines[1:]]

    def complained(self, status, *words):
        """It ended so, with one line on stderr that has these words."""
        assert self.status == status, self.err
        assert self.err.count('\n') == 1 and self.err.endswith('\n'), self.err
        return all(word in self.err for word in words) or pytest.fail(self.err)


class Cli:
    """The program, with the address of a gateway in its environment."""

    def __init__(self, api, **environment):
        clean = {name: value for name, value in os.environ.items()
                 if name not in ('WEIR_API', 'WEIR_TOKEN', 'WEIR_PERMIT')}
        self.environment = {**clean, **({'WEIR_API': api} if api else {}), **environment}

    async def start(self, *words, **more):
        pipes = dict(stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                     stderr=asyncio.subprocess.PIPE)
        return await asyncio.create_subprocess_exec(PROGRAM, *words, env=self.environment,
                                                    **{**pipes, **more})

    async def __call__(self, *words, **more):
        return await ended(await self.start(*words, **more))

    async def good(self, *words):
        said = await self(*words)
        assert (said.status, said.err) == (0, '')
        return said

    async def acquire(self, gate='agents', key='b', *words):
        return (await self.good('acquire', gate, key, *words)).out.strip()


async def ended(process):
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    return Said(process.returncode, out, err)


def with_cli(test):
    """Runs a test with a gateway and the program."""
    @run
    async def wrapper():
        async with weir(CONFIG) as gateway:
            await test(Cli(f'127.0.0.1:{gateway.api_port}'), gateway)
    wrapper.__name__ = test.__name__
    return wrapper


# ---- help and wrong calls

@run
async def test_help_lists_every_command_and_each_has_its_own():
    cli = Cli(None)
    said = await cli.good('help')
    for name in COMMANDS:
        assert re.search(f'^  weir {name} ', said.out, flags=re.M), name
        own = await cli.good('help', name)
        assert own.out.startswith(f'usage: weir {name}')
        assert own.out == (await cli.good(name, '--help')).out
    for name in set(COMMANDS) - {'serve', 'check', 'keys', 'mock', 'sim', 'version', 'help'}:
        own = (await cli.good('help', name)).out
        assert '--api' in own and '--json' in own and '--help' in own
    assert (await cli.good('--help')).out == said.out
    nothing = await cli()
    assert (nothing.status, nothing.out, nothing.err) == (2, '', said.out)


@run
async def test_what_is_mistyped_is_guessed():
    cli = Cli(None)
    for words, guess in ((['gatse'], 'did you mean gates?'), (['explian'], 'did you mean explain?'),
                         (['help', 'relase'], 'did you mean release?'),
                         (['gates', '--jsno'], 'did you mean --json?'),
                         (['gates', '--wacth'], 'did you mean --watch?'),
                         (['run', '--timeuot=5s', 'true'], 'did you mean --timeout?'),
                         (['mock', '--latnecy', '5s'], 'did you mean --latency?')):
        (await cli(*words)).complained(2, guess)
    said = await cli('frobnicate')
    assert said.complained(2, 'no command frobnicate') and 'mean' not in said.err


@run
async def test_the_version_is_a_command_and_a_flag():
    cli = Cli(None)
    said = (await cli.good('version')).out
    assert re.fullmatch(r'weir \d+\.\d+\.\d+\n', said)
    assert said == (await cli.good('--version')).out == (await cli.good('-V')).out


@run
async def test_a_wrong_call_is_told_what_is_expected():
    cli = Cli('127.0.0.1:1')
    for words, word in ((['serve'], 'expected FILE'), (['serve', 'a', 'b'], 'b is one word too many'),
                        (['check', '--print'], 'expected [--print] [--strict] FILE'), (['version', 'a'], 'one word too many'),
                        (['--version', 'a'], 'one word too many'),
                        (['check', '--help=yes'], '--help yes: expected no value'),
                        (['help', 'gates', 'line'], 'line is one word too many'),
                        (['gates', 'a', 'b', 'c'], 'c is one word too many'),
                        (['gates', ''], 'not empty'), (['gates', '--interval', '1s'], '--watch'),
                        (['gates', '--watch', '--interval', '49ms'], 'at least 50ms'),
                        (['gates', '--watch', '--interval', '5'], '--interval 5: expected a duration'),
                        (['gates', '--json=yes'], '--json yes: expected no value'),
                        (['line', 'a'], 'expected GATE KEY'), (['explain', 'a'], 'expected GATE KEY'),
                        (['acquire', 'a'], 'expected GATE KEY'),
                        (['acquire', 'a', 'b', '--timeout'], '--timeout: expected a duration'),
                        (['acquire', 'a', 'b', '--flow='], '--flow : expected a text'),
                        (['acquire', 'a', 'b', '--cost', '-1'], '--cost -1: expected a whole number'),
                        (['acquire', 'a', 'b', '--cost', '1073741825'], 'from 0 to 1073741824'),
                        (['release', 'a', 'b'], 'either the permit or --flow'),
                        (['release', 'a', 'b', 'p', '--flow', 'f'], 'either the permit or --flow'),
                        (['renew', 'a', 'b'], 'either the permit or --flow'),
                        (['run', '--gate', 'a', '--key', 'b'], 'COMMAND'),
                        (['run', '--gate', 'a', '--key', 'b', '--'], 'COMMAND'),
                        (['run', '--gate', 'a', '--', 'true'], '--gate and --key')):
        (await cli(*words)).complained(2, word)


# ---- where the API is

@run
async def test_without_a_gateway_it_is_told_what_to_look_at():
    for words in (['gates'], ['line', 'a', 'b'], ['explain', 'a', 'b'], ['acquire', 'a', 'b'],
                  ['release', 'a', 'b', 'p'], ['renew', 'a', 'b', 'p'], ['gates', '--watch'], ['reload'],
                  ['run', '--gate', 'a', '--key', 'b', 'false'], ['status', 'a'], ['result', 'a'], ['log', 'a'],
                  ['jobs'], ['dlq'], ['redrive', '--all'], ['capacity']):
        said = await Cli('127.0.0.1:1')(*words)
        said.complained(1, f'weir {words[0]}: cannot connect to 127.0.0.1:1', '`weir serve` runs', '--api')
    (await Cli('unix:/nowhere/at/all')('gates')).complained(1, 'unix:/nowhere/at/all', 'weir serve')
    (await Cli('127.0.0.1:1')('gates', '--api', 'localhost:2')).complained(1, 'localhost:2')


@run
async def test_what_is_no_address_is_a_wrong_call():
    for address in ('nonsense', '127.0.0.1', ':7070', 'localhost:0', 'localhost:65536', 'https://localhost:1',
                    'http://localhost:1/gates', 'unix:', '::1:70'):
        (await Cli(address)('gates')).complained(2, f'{address} is not an API address', 'host:port')


@run
async def test_every_form_of_an_address_leads_to_the_api():
    with tempfile.TemporaryDirectory() as folder:
        path = f'unix:{folder}/api'
        config = f'api: ["{path}", "[::1]:0", "127.0.0.1:0"]\n' + GATES
        async with weir(config) as gateway:
            assert gateway.addresses['api'] == [path]
            lines = [await asyncio.wait_for(gateway.process.stdout.readline(), PATIENCE) for _ in range(2)]
            six, four = (line.decode().removeprefix('weir: api on ').strip() for line in lines)
            port = four.rsplit(':', 1)[1]
            both = '::1' in (found[4][0] for found in socket.getaddrinfo('localhost', None))  # then, try each
            for address in ([f'localhost:{six.rsplit(":", 1)[1]}'] if both else []) + [
                            f'127.0.0.1:{port}', f'localhost:{port}', f'http://127.0.0.1:{port}',
                            f'http://localhost:{port}/', six, f'http://{six}', path]:
                assert len((await Cli(address).good('gates')).rows) == 3, address
                assert len((await Cli('127.0.0.1:1').good('gates', '--api', address)).rows) == 3


@run
async def test_what_is_no_api_is_recognized():
    replies = [b'HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello', b'SSH-2.0-OpenSSH_9.2\r\n', b'',
               b'HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{}',
               b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
               b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n',
               b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]']
    words = ['is not a weir API (status 200)', 'is not a weir API', 'closed before the reply',
             'closed before the reply', 'is not a weir API', 'closed before the reply', 'is not a weir API']
    for reply, word in zip(replies, words, strict=True):
        async def answer(reader, writer, reply=reply):
            await reader.readuntil(b'\r\n\r\n')
            writer.write(reply)
            writer.close()
        server = await asyncio.start_server(answer, '127.0.0.1', 0)
        port = server.sockets[0].getsockname()[1]
        (await Cli(f'127.0.0.1:{port}')('gates')).complained(1, word)
        server.close()


@run
async def test_replies_are_read_however_they_are_framed_and_cut():
    document = b'{"gates":[{"gate":"g","keys":1,"active":2,"waiting":3,"reserved":4,"limit":5}]}'
    halves = b'%x\r\n%s\r\n%x;x=y\r\n%s\r\n0\r\nX: y\r\n\r\n' % (9, document[:9], len(document) - 9, document[9:])
    for reply in (b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' % (len(document), document),
                  b'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n' + halves,
                  b'HTTP/1.0 200 OK\r\n\r\n' + document):
        async def answer(reader, writer, reply=reply):
            await reader.readuntil(b'\r\n\r\n')
            for byte in reply:
                writer.write(bytes([byte]))
                await writer.drain()
            writer.close()
        server = await asyncio.start_server(answer, '127.0.0.1', 0)
        port = server.sockets[0].getsockname()[1]
        rows = (await Cli(f'127.0.0.1:{port}').good('gates')).rows
        assert rows == [{'GATE': 'g', 'KEYS': '1', 'ACTIVE': '2', 'WAITING': '3', 'RESERVED': '4',
                         'LIMIT/KEY': '5', 'STATE': 'open'}]
        server.close()


def test_the_token_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv('WEIR_SECRET', 'a-secret-of-somebody')
    config = CONFIG + 'api_tokens: { all: { token: "${WEIR_SECRET}", scopes: [work, read] } }\n'

    @run
    async def test():
        async with weir(config) as gateway:
            api = f'127.0.0.1:{gateway.api_port}'
            (await Cli(api)('gates')).complained(1, 'requires a token', 'WEIR_TOKEN')
            (await Cli(api, WEIR_TOKEN='wrong')('gates')).complained(1, 'requires a token')
            (await Cli(api, WEIR_TOKEN='a\nb: c')('gates')).complained(1, 'token')
            cli = Cli(api, WEIR_TOKEN='a-secret-of-somebody')
            assert len((await cli.good('gates')).rows) == 3
            assert (await cli('run', '--gate', 'one', '--key', 'k', 'true')).status == 0
    test()


# ---- gates

@with_cli
async def test_gates_are_a_table_with_aligned_columns(cli, gateway):
    await cli.acquire('agents', 'b')
    await cli.acquire('agents', 'b')
    said = await cli.good('gates')
    assert said.rows[0] == {'GATE': 'agents', 'KEYS': '1', 'ACTIVE': '2', 'LIMIT/KEY': '3', 'WAITING': '0',
                            'RESERVED': '2', 'STATE': 'open'}
    assert [row['LIMIT/KEY'] for row in said.rows] == ['3', '1', '-']
    lines = said.out.splitlines()
    assert all(line.startswith(name + ' ') for line, name in zip(lines, ('GATE', 'agents', 'one', 'free')))
    end = lines[0].index('ACTIVE') + len('ACTIVE')  # numbers end where their heading does
    assert [line[end - 1] for line in lines] == ['E', '2', '0', '0']
    assert all(line[end:end + 2] == '  ' and line == line.rstrip() for line in lines)
    assert (await cli.good('gates', '--json')).documents == [(await gateway.ask_api('/gates'))[1]]


@with_cli
async def test_keys_are_shown_with_what_became_of_all(cli, gateway):
    permits = [await cli.acquire('agents', 'b') for _ in range(3)]
    (await cli('acquire', 'agents', 'b', '--timeout', '10ms')).complained(1)
    for permit in permits[:2]:
        await cli.good('release', 'agents', 'b', permit)
    row = {'GATE': 'agents', 'KEY': 'b', 'ACTIVE': '1', 'LIMIT': '3', 'WAITING': '0', 'ENTERED': '4', 'DONE': '2',
           'TIMEOUT': '1', 'CANCELLED': '0', 'REFUSED': '0', 'DISPLACED': '0', 'LAPSED': '0', 'STATE': 'open'}
    assert (await cli.good('gates', 'agents')).rows == [row]
    one = await cli.good('gates', 'agents', 'b')
    assert one.rows == [row]
    lanes = Said(0, one.out.split('\n\n')[1].encode(), b'').rows
    assert lanes == [{'LANE': '0', 'UPSTREAM': '-', 'ACTIVE': '1', 'LIMIT': '3', 'RESERVED': '1', 'PAUSED FOR': '-',
                      'STATE': 'open'}]
    for words in (['agents'], ['agents', 'b']):
        path = '/'.join(['/gates', *words])
        assert (await cli.good('gates', *words, '--json')).documents == [(await gateway.ask_api(path))[1]]
    (await cli('gates', 'nowhere')).complained(1, 'weir gates: The config has no gate "nowhere". GET /gates lists')
    (await cli('gates', 'agents', 'nobody')).complained(1, 'key "nobody" is unused', 'The first request or acquire creates a key')
    refused = await cli('gates', 'nowhere', '--json')
    assert refused.status == 1 and refused.documents[0]['type'] == 'urn:weir:not-found'


@with_cli
async def test_a_long_list_is_complete(cli, gateway):
    async def ask(number):
        async with gateway._session.post(f'{gateway.api}/gates/free/key-{number}/acquire') as reply:
            assert reply.status == 200
    for begin in range(0, 2000, 100):
        await asyncio.gather(*(ask(number) for number in range(begin, begin + 100)))
    assert {row['KEY'] for row in (await cli.good('gates', 'free')).rows} == {f'key-{n}' for n in range(2000)}
    assert len((await cli.good('gates', 'free', '--json')).documents[0]['keys']) == 2000


@with_cli
async def test_odd_names_go_there_and_come_back_without_steering_the_terminal(cli, gateway):
    for key in ('a/b', 'c d', '100%', '..', 'grün', '?x=y#z', '-', 'q' * 255):
        await cli.acquire('free', key)
        assert (await cli.good('gates', 'free', key, '--json')).documents[0]['key'] == key
    await cli.acquire('free', '\033[2J\x9b\u009b')
    said = await cli.good('gates', 'free')
    assert '\033' not in said.out and '\u009b' not in said.out and '?[2J' in said.out
    green, other = (next(line for line in said.out.splitlines() if name in line) for name in ('grün', 'a/b'))
    assert len(green) == len(other)  # a character takes one place, whatever its bytes
    (await cli('gates', 'free', 'q' * 5000)).complained(2, 'too long')
    for odd in ('%00', '%ff'):  # what no argument, or no JSON, can be
        async with gateway._session.post(yarl.URL(f'{gateway.api}/gates/one/{odd}/acquire', encoded=True)) as reply:
            assert reply.status == 200
    assert len((await cli.good('gates', 'one')).out.splitlines()) == 3


@with_cli
async def test_watching_without_a_terminal_prints_plainly_until_interrupted(cli, gateway):
    for signum in (signal.SIGINT, signal.SIGTERM):
        process = await cli.start('gates', 'free', '--watch', '--interval', '50ms', '--json')
        active = sum(key['active'] for key in json.loads(await process.stdout.readline())['keys'])
        await cli.acquire('free', 'k')
        while sum(key['active'] for key in json.loads(await asyncio.wait_for(
                process.stdout.readline(), PATIENCE))['keys']) != active + 1:
            pass
        process.send_signal(signum)
        said = await ended(process)
        assert (said.status, said.err) == (0, '') and '\033' not in said.out
    process = await cli.start('gates', '--watch', '--interval', '50ms')
    for _ in range(3):
        assert (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).startswith(b'GATE  ')
        for _ in range(3):
            await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert (await ended(process)).status == 0


class Terminal:
    """A program that thinks it is in front of somebody."""

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.text = ''

    def _read(self):
        try:
            self.text += os.read(self.descriptor, 65536).decode()
        except BlockingIOError:
            pass
        except OSError:  # the other side has ended
            return

    async def until(self, condition, what):
        def holds():
            self._read()
            return condition(self.text)
        try:
            await until(holds, what)
        except AssertionError as error:
            raise AssertionError(f'{error}; there is {self.text!r}') from None

    def type(self, text):
        os.write(self.descriptor, text.encode())


@contextlib.asynccontextmanager
async def on_terminal(cli, *words, size=(24, 200)):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', *size, 0, 0))
    os.set_blocking(ours, False)
    process = await cli.start(*words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
                              preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(theirs)
    try:
        yield process, Terminal(ours)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(ours)


@with_cli
async def test_watching_on_a_terminal_draws_in_place_and_leaves_the_cursor_shown(cli, gateway):
    async with on_terminal(cli, 'gates', '--watch', '--interval', '50ms') as (process, terminal):
        await terminal.until(lambda text: text.count('agents') >= 3, 'it is drawn thrice')
        assert terminal.text.startswith('\033[?25l')
        assert terminal.text.count('\033[4A') >= 2  # up again, by what was drawn
        assert '\033[?25h' not in terminal.text
        terminal.type('\x03')
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
        await terminal.until(lambda text: '\033[?25h' in text, 'the cursor is shown')


@with_cli
async def test_watching_on_a_narrow_terminal_cuts_lines_and_tells_the_end_in_whole(cli, gateway):
    async with on_terminal(cli, 'gates', '--watch', '--interval', '50ms', size=(24, 20)) as (process, terminal):
        await terminal.until(lambda text: text.count('agents') >= 3, 'it is drawn thrice')
        drawn = terminal.text.split('\033[J')[1].split('\033')[0].replace('\r', '').splitlines()
        assert len(drawn) >= 2 and {len(line) for line in drawn} == {20}
        assert drawn[0] == 'GATE    KEYS  ACTIVE'
        await gateway.kill()
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 1
        await terminal.until(lambda text: 'of its config' in text.replace('\r\n', ' '), 'the end is told')


@run
async def test_watching_can_be_interrupted_while_the_gateway_does_not_answer():
    asked = asyncio.Event()

    async def answer(reader, writer):
        asked.set()
        await reader.read()
        writer.close()
    server = await asyncio.start_server(answer, '127.0.0.1', 0)
    process = await Cli(f'127.0.0.1:{server.sockets[0].getsockname()[1]}').start('gates', '--watch')
    await asyncio.wait_for(asked.wait(), PATIENCE)
    process.send_signal(signal.SIGINT)
    said = await ended(process)
    assert (said.status, said.out, said.err) == (0, '', '')
    server.close()


@run
async def test_watching_ends_when_the_gateway_does():
    async with weir(CONFIG) as gateway:
        process = await Cli(f'127.0.0.1:{gateway.api_port}').start('gates', '--watch', '--interval', '50ms')
        await process.stdout.readline()
    (await ended(process)).complained(1, 'weir gates: ')


# ---- who waits

@contextlib.asynccontextmanager
async def waiting(cli, gateway, *wishes, gate='agents', key='b'):
    """Callers that wait, one after the other, as long as the block lasts."""
    processes = []
    try:
        for wish in wishes:
            processes.append(await cli.start('acquire', gate, key, *wish))
            await gateway.until(key, gate, waiting=len(processes))
        yield processes
    finally:
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.communicate()


@with_cli
async def test_the_line_is_a_table_of_who_waits(cli, gateway):
    for _ in range(3):
        await cli.acquire()
    wishes = (['--flow', 'f1', '--tenant', 'acme'], [], ['--flow', 'f3', '--priority', 'low'])
    async with waiting(cli, gateway, *wishes):
        rows = (await cli.good('line', 'agents', 'b')).rows
        assert [row['POSITION'] for row in rows] == ['1', '2', '3']
        assert (rows[0]['TENANT'], rows[0]['FLOW'], rows[0]['PRIORITY']) == ('acme', 'f1', 'normal')
        assert (rows[1]['TENANT'], rows[1]['FLOW']) == ('-', '-')
        assert (rows[0]['BINDING'], rows[0]['AHEAD']) == ('limit', '0')
        assert rows[2]['PRIORITY'] == 'low' and rows[2]['BINDING'] == 'turn'
        assert all(re.fullmatch(r'\d+\.\d s', row['WAITED']) for row in rows)
        assert all(re.fullmatch(r'\d+\.\d s', row['GIVES UP IN']) for row in rows)
        document = (await cli.good('line', 'agents', 'b', '--json')).documents[0]
        assert [entry['flow'] for entry in document['line']] == [row['FLOW'].strip('-') for row in rows]
    await gateway.until('b', 'agents', waiting=0)
    assert (await cli.good('line', 'agents', 'b')).rows == []
    (await cli('line', 'agents', 'nobody')).complained(1, 'key "nobody" is unused', 'The first request or acquire creates a key')


@with_cli
async def test_why_somebody_waits_is_explained_in_sentences(cli, gateway):
    permits = [await cli.acquire() for _ in range(3)]
    assert (await cli.good('explain', 'agents', 'b')).out == 'No request waits there. Permits held: 3 of 3.\n'
    await cli.acquire('free', 'x')
    assert (await cli.good('explain', 'free', 'x')).out == 'No request waits there. Permits held: 1 of any number.\n'
    wishes = (['--flow', 'flow-7', '--tenant', 'acme', '--timeout', '29s'], ['--flow', 'flow-8', '--tenant', 'acme'])
    async with waiting(cli, gateway, *wishes) as processes:
        said = (await cli.good('explain', 'agents', 'b')).out
        assert re.fullmatch(r'flow-7 of tenant acme is next and waits for a permit: all 3 are held\. It has waited '
                            r'\d\.\d s and it is not known yet when it will start; it gives up in 2\d\.\d s\.\n',
                            said), said
        assert (await cli.good('explain', 'agents', 'b', 'flow-7')).out[:40] == said[:40]
        said = (await cli.good('explain', 'agents', 'b', 'flow-8')).out
        assert re.match(r'flow-8 of tenant acme waits for its turn: about 1 goes before it, 1 of them of its own '
                        r'tenant and priority\. It has waited \d', said), said
        (await cli('explain', 'agents', 'b', 'flow-9')).complained(1, 'flow-9 does not wait there')
        assert len((await cli.good('explain', 'agents', 'b', '--json')).documents[0]['line']) == 2
        await cli.good('release', 'agents', 'b', permits[0])
        await asyncio.wait_for(processes[0].wait(), PATIENCE)
        said = (await cli.good('explain', 'agents', 'b')).out
        assert said.startswith('flow-8 of tenant acme is next and waits for a permit: all 3 are held.'), said
    await cli.acquire('one', 'k')
    async with waiting(cli, gateway, [], gate='one', key='k'):
        said = (await cli.good('explain', 'one', 'k')).out
        assert said.startswith('A request without a flow is next and waits for a permit: the only one is held.'), said


def test_a_tenants_token_is_not_told_that_nobody_waits_when_others_do(monkeypatch):
    monkeypatch.setenv('WEIR_ANY', 'a-secret-of-anybody')
    monkeypatch.setenv('WEIR_ACME', 'a-secret-of-acme')
    config = CONFIG + '''
api_tokens:
  any: { token: "${WEIR_ANY}", scopes: [work, read] }
  acme: { token: "${WEIR_ACME}", scopes: [read], tenant: acme }
'''

    @run
    async def test():
        async with weir(config) as gateway:
            api = f'127.0.0.1:{gateway.api_port}'
            cli, acme = [Cli(api, WEIR_TOKEN=os.environ[name]) for name in ('WEIR_ANY', 'WEIR_ACME')]
            await cli.acquire('one', 'k')
            assert (await acme.good('explain', 'one', 'k')).out == 'No request waits there. Permits held: 1 of 1.\n'
            process = await cli.start('acquire', 'one', 'k', '--flow', 'other-1', '--tenant', 'other')

            async def waits():
                return (await cli.good('line', 'one', 'k')).rows
            await until(waits, 'somebody else waits')
            assert (await acme.good('explain', 'one', 'k')).out == \
                "1 waits there, and none of the first is of this token's tenant. Permits held: 1 of 1.\n"
            (await acme('explain', 'one', 'k', 'other-1')).complained(1, 'is not among the 0 of 1 waiting requests')
            process.kill()
            await process.communicate()
    test()


@contextlib.asynccontextmanager
async def api_that_says(document):
    """A command line to an API that answers every question with the same."""
    body = json.dumps(document).encode()

    async def answer(reader, writer):
        await reader.readuntil(b'\r\n\r\n')
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body))
        writer.close()
    server = await asyncio.start_server(answer, '127.0.0.1', 0)
    try:
        yield Cli(f'127.0.0.1:{server.sockets[0].getsockname()[1]}')
    finally:
        server.close()


@run
async def test_every_reason_has_its_sentence():
    reasons = {'bucket': 'waits for the rate', 'pause': 'the end of a pause', 'breaker': 'the breaker',
               'tenant_limit': 'limit of permits', 'tenant_rate': 'tenant\'s rate limit',
               'none': 'is about to go', 'of-the-future': ' waits. '}
    starts = {None: 'it is not known yet', 0: 'any moment', 800: 'likely start in 0.8 s',
              125_000: 'in 2 m 05 s', 3_660_000: 'in 1 h 01 m', 59_949: 'in 59.9 s', 59_950: 'in 1 m 00 s',
              2**63 - 1: 'in 2562047788015 h 12 m'}
    pairs = [*((binding, word, 800) for binding, word in reasons.items()),
             *(('limit', word, start) for start, word in starts.items())]
    for binding, word, start in pairs:
        entry = {'flow': 'f', 'tenant': '', 'waited_ms': 1249, 'binding': binding, 'ahead': 0, 'ahead_own': 0,
                 'start_in_ms': start, 'timeout_in_ms': None}
        async with api_that_says({'limit': 2, 'active': 2, 'waiting': 500, 'line': [entry]}) as cli:
            said = (await cli.good('explain', 'g', 'k')).out
            assert word in said and 'It has waited 1.2 s and' in said and 'does not give up' in said, said
            (await cli('explain', 'g', 'k', 'other')).complained(1, 'not among the 1 of 500 waiting requests that')
            assert '500 wait in all.' in (await cli.good('line', 'g', 'k')).out


@run
async def test_a_progress_beyond_all_bounds_is_told_within_them():
    for progress, told in ((0.256, '25 %'), (1, '100 %'), (1e308, '100 %'), (-1e308, '0 %')):
        async with api_that_says({'id': 'a', 'state': 'running', 'progress': progress}) as cli:
            assert re.search(rf'^progress +{told}', (await cli.good('status', 'a')).out, flags=re.M)


# ---- permits

@with_cli
async def test_a_permit_is_acquired_renewed_and_released(cli, gateway):
    permit = await cli.acquire('agents', 'b', '--flow', 'f', '--tenant', 't', '--priority', 'high', '--cost', '7',
                               '--lease', '5m')
    assert re.fullmatch('[0-9a-f]{32}', permit)
    await gateway.until('b', 'agents', active=1, reserved=7)
    assert (await cli.good('renew', 'agents', 'b', permit)).out == '5 m 00 s\n'
    assert (await cli.good('renew', 'agents', 'b', '--flow', 'f', '--lease', '59500ms')).out == '59.5 s\n'
    assert (await cli.good('renew', 'agents', 'b', permit, '--json')).documents[0]['lease_ms'] > 0
    said = await cli.good('release', 'agents', 'b', permit, '--outcome', 'soft_loss', '--cost', '9')
    assert said.out == ''
    await gateway.until('b', 'agents', active=0, reserved=0)
    (await cli('release', 'agents', 'b', permit)).complained(1, 'No such permit is held')
    (await cli('renew', 'agents', 'b', permit)).complained(1, 'No such permit is held')
    document = (await cli.good('acquire', 'agents', 'b', '--flow', 'g', '--json')).documents[0]
    assert (document['flow'], document['active'], document['lease_ms']) == ('g', 1, 600_000)
    assert (await cli.good('release', 'agents', 'b', '--flow', 'g', '--json')).documents == [{}]
    await cli.acquire('free', 'k', '--flow', 'f')
    assert (await cli.good('renew', 'free', 'k', '--flow', 'f')).out == 'no lease\n'
    (await cli('acquire', 'agents', 'b', '--priority', 'urgent')).complained(1, 'priority', 'high, normal or low')
    (await cli('release', 'agents', 'b', 'x', '--outcome', 'fine')).complained(1, 'outcome')
    (await cli('acquire', 'nowhere', 'b')).complained(1, 'no gate "nowhere"')
    (await cli('acquire', 'agents', 'b', '--flow', b'\xff')).complained(1, 'flow')


@with_cli
async def test_whoever_waits_too_long_is_told_so(cli, gateway):
    await cli.acquire('one', 'k')
    for timeout in ('0', '10ms'):
        (await cli('acquire', 'one', 'k', '--timeout', timeout)).complained(1, 'its turn did not come'
                                                                            if timeout != '0' else 'weir acquire: ')
    said = await cli('acquire', 'one', 'k', '--timeout=10ms', '--json')
    assert said.status == 1 and said.documents[0]['type'] == 'urn:weir:line-timeout'


@with_cli
async def test_who_is_interrupted_while_it_waits_leaves_the_line(cli, gateway):
    await cli.acquire('one', 'k')
    process = await cli.start('acquire', 'one', 'k')
    await gateway.until('k', 'one', waiting=1)
    process.send_signal(signal.SIGINT)
    assert (await ended(process)).status == -signal.SIGINT
    await gateway.until('k', 'one', waiting=0, active=1)


@with_cli
async def test_a_permit_that_cannot_be_told_is_given_back(cli, gateway):
    for words in ([], ['--json']):
        with open('/dev/full', 'wb') as full:
            said = await cli('acquire', 'one', 'k', *words, stdout=full)
        said.complained(1, 'weir acquire: ', 'cannot be written')
        await gateway.until('k', 'one', active=0, entered=1 + len(words))
    reader, writer = os.pipe()
    os.close(reader)
    said = await cli('acquire', 'one', 'k', stdout=writer)
    os.close(writer)
    said.complained(1, 'cannot be written')
    await gateway.until('k', 'one', active=0, entered=3)
    with open('/dev/full', 'wb') as full:
        (await cli('gates', '--json', stdout=full)).complained(1, 'cannot be written')


@with_cli
async def test_who_cannot_tell_what_it_was_asked_for_says_so(cli, gateway):
    permit = await cli.acquire('one', 'k')
    for words in (['gates'], ['gates', 'one'], ['gates', 'one', 'k'], ['gates', '--watch'], ['line', 'one', 'k'],
                  ['explain', 'one', 'k'], ['renew', 'one', 'k', permit], ['usage'], ['reload'], ['version'],
                  ['help'], ['check', gateway.path]):
        with open('/dev/full', 'wb') as full:
            (await cli(*words, stdout=full)).complained(1, f'weir {words[0]}: ', 'cannot be written')


@with_cli
async def test_what_is_told_does_not_go_into_what_was_opened_instead_of_stdout(cli, gateway):
    await cli.acquire('one', 'k')
    process = await asyncio.create_subprocess_exec(
        'sh', '-c', 'exec "$0" events --json >&-', PROGRAM, stderr=asyncio.subprocess.PIPE, env=cli.environment)

    async def has_ended():
        await time_out(gateway, cli, 'f')  # which it has to tell of, once it listens
        return process.returncode is not None
    try:
        await until(has_ended, 'it notices')
        (await ended(process)).complained(1, 'weir events: ', 'cannot be written')
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# ---- reload

async def time_out(gateway, cli, flow):
    """An event: whoever may not wait times out at once."""
    said = await cli('acquire', 'one', 'k', '--flow', flow, '--timeout', '0')
    assert said.status == 1


@contextlib.asynccontextmanager
async def listening(cli, *words):
    """`weir events`, from when it hears everything on."""
    process = await cli.start('events', *words)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def line_of(process):
    return (await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode()


async def until_heard(cli, gateway, process):
    """Makes events until one comes."""
    line = asyncio.create_task(line_of(process))
    while not line.done():
        await time_out(gateway, cli, 'first')
    return line.result()


@with_cli
async def test_events_are_told_as_they_come(cli, gateway):
    await cli.acquire('one', 'k')
    async with listening(cli, '--json', '--gate', 'one,agents', '--type', 'gate.timeout,gate.limit') as process:
        assert json.loads(await until_heard(cli, gateway, process))['flow'] == 'first'
        await time_out(gateway, cli, 'f')
        while (event := json.loads(await line_of(process)))['flow'] == 'first':
            pass
        assert (event['type'], event['gate'], event['flow']) == ('gate.timeout', 'one', 'f')
        await cli.acquire('agents', 'b')
        await gateway.reload(('limit: 3', 'limit: 4'))
        event = json.loads(await line_of(process))
        assert (event['type'], event['before'], event['limit']) == ('gate.limit', 3, 4)
    async with listening(cli) as process:
        line = await until_heard(cli, gateway, process)
        assert re.fullmatch(r'\d\d:\d\d:\d\d\.\d{3}  gate\.timeout  one/k  flow first  priority normal  cost 1  active 1  '
                            r'waiting 0  limit 1  waited 0\.0 s  timeout 0\.0 s\n', line), line
        gateway.terminate()
        said = await ended(process)
        assert said.complained(1, 'has `weir serve` ended?')


@with_cli
async def test_events_have_colours_on_a_terminal_and_what_others_call_themselves_has_none(cli, gateway):
    await cli.acquire('one', 'k')
    async with on_terminal(cli, 'events') as (process, terminal):
        async def heard():
            await time_out(gateway, cli, 'a\033[31mb')
            terminal._read()
            return 'gate.timeout' in terminal.text
        await until(heard, 'an event is told')
        assert '\033[31mgate.timeout\033[0m' in terminal.text
        assert 'flow a?[31mb' in terminal.text
        terminal.type('\x03')
        assert await asyncio.wait_for(process.wait(), PATIENCE) == -signal.SIGINT


@with_cli
async def test_events_that_do_not_exist_are_refused(cli, gateway):
    (await cli('events', '--gate', 'nope')).complained(1, 'no gate called "nope"')
    (await cli('events', '--type', 'nope')).complained(1, 'no event type called "nope"')
    (await cli('events', '--type', 'a b')).complained(2, 'take names')
    (await cli('events', '--gate', 'x' * 1100)).complained(2, 'take names')
    said = await cli('events', '--json', '--gate', 'nope')
    assert said.status == 1 and said.documents[0]['status'] == 404


@with_cli
async def test_reload_says_what_is_in_force(cli, gateway):
    said = await cli.good('reload')
    assert said.out == 'In force now: 3 gates, 0 routes, 0 upstreams.\n'
    config = gateway.path.read_text()
    gateway.path.write_text(config.replace('limit: none', 'limit: 7').replace('threads: 2', 'threads: 1'))
    said = await cli.good('reload')
    assert said.out.splitlines()[1] == 'A change of threads needs a restart, and is not in force.'
    await cli.acquire('free', 'k')
    assert (await gateway.counts('k', 'free'))['limit'] == 7
    [said] = (await cli.good('reload', '--json')).documents
    assert said == {'gates': 3, 'routes': 0, 'upstreams': 0, 'needs_restart': 'threads', 'overrides': []}


@with_cli
async def test_one_of_something_is_not_several(cli, gateway):
    gateway.path.write_text('''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
upstreams: { u: { url: "http://127.0.0.1:9" } }
gates: { g: }
routes: [ { match: /, gate: g, upstream: u } ]
''')
    assert (await cli.good('reload')).out.splitlines()[0] == 'In force now: 1 gate, 1 route, 1 upstream.'
    counts = '1 route, 1 gate, 1 upstream'
    assert (await cli.good('check', gateway.path)).out == f'{gateway.path}: {counts}: good\n'
    gateway.path.write_text(gateway.path.read_text() + 'queues: { q: }\n')
    assert (await cli.good('check', gateway.path)).out == f'{gateway.path}: {counts}, 1 queue: good\n'
    gateway.path.write_text(gateway.path.read_text().replace('{ q: }', '{ q: , r: }'))
    assert (await cli.good('check', gateway.path)).out == f'{gateway.path}: {counts}, 2 queues: good\n'


@with_cli
async def test_check_says_which_command_of_a_queue_is_not_there(cli, gateway):
    path = gateway.path.with_name('queues.yaml')
    config = 'api: 127.0.0.1:0\nqueues:\n  good: { run: [sh, -c, "true"] }\n  bad: { run: [./not-there, "{in}"] }\n'
    path.write_text(config)
    (await cli('check', path)).complained(1, f'{path}:4: queue bad: the command "./not-there" cannot be run')
    (await cli('check', '--print', path)).complained(1, 'cannot be run')
    path.write_text(config.replace('./not-there', 'sh'))
    assert (await cli.good('check', path)).out == f'{path}: 0 routes, 0 gates, 0 upstreams, 2 queues: good\n'


@with_cli
async def test_check_warns_of_what_is_surely_not_meant_and_takes_it_for_a_mistake_if_asked(cli, gateway):
    path = gateway.path.with_name('odd.yaml')
    path.write_text('api: 127.0.0.1:0\ngates: { agents: { lease: 10m } }\n')
    said = await cli('check', path)
    counts = f'{path}: 0 routes, 1 gate, 0 upstreams'
    assert (said.status, said.out) == (0, f'{counts}: good, with 1 warning\n')
    assert said.err.startswith(f'{path}:2:18: warning: gates.agents has no limit') and said.err.count('\n') == 1
    strict = await cli('check', '--strict', path)
    assert (strict.status, strict.out) == (1, '')
    assert strict.err == said.err + 'weir check: 1 warning; --strict takes them for mistakes\n'
    path.write_text('api: 127.0.0.1:0\ngates: { g: { limit: 1, lease: 10m } }\n')
    assert (await cli.good('check', '--strict', path)).out == f'{counts}: good\n'


@with_cli
async def test_check_tells_which_permits_have_a_lease_that_is_not_named(cli, gateway):
    path = gateway.path.with_name('odd.yaml')
    path.write_text('api: 127.0.0.1:0\ngates: { g: { limit: 1 }, h: { lease: none }, i: { lease: 1m } }\n')
    said = await cli('check', '--strict', path)
    assert (said.status, said.out) == (0, f'{path}: 0 routes, 3 gates, 0 upstreams: good\n')
    assert said.err.startswith(f'{path}:2:13: note: gates.g names no lease') and said.err.count('\n') == 1
    assert '10 minutes' in said.err and 'lease: none' in said.err


@with_cli
async def test_a_gateway_warns_once_at_its_start_and_at_each_reload(cli, gateway):
    def warnings():
        return [line for line in gateway.complaints().splitlines() if ' warning: ' in line]

    gateway.path.write_text('api: 127.0.0.1:0\ngates: { agents: { lease: 10m } }\n')
    assert warnings() == []
    await cli.good('reload')
    assert len(warnings()) == 1
    await cli.good('reload')
    assert len(warnings()) == 2 and warnings()[0] == warnings()[1]
    async with weir('api: 127.0.0.1:0\ngates: { agents: { lease: 10m } }\n') as other:
        assert other.complaints().count(' warning: gates.agents has no limit') == 1


@with_cli
async def test_reload_tells_mistakes_by_their_lines_and_changes_nothing(cli, gateway):
    config = gateway.path.read_text()
    gateway.path.write_text(config.replace('limit: none', 'limt: none').replace('limit: 3', 'limit: many'))
    said = await cli('reload')
    lines = said.err.splitlines()
    assert (said.status, said.out, len(lines)) == (1, '', 3), said.err
    at = [number for number, line in enumerate(gateway.path.read_text().splitlines(), 1)
          if 'limt' in line or 'many' in line]
    assert [line.startswith(f'{gateway.path}:{number}') for line, number in zip(lines, at, strict=False)] == [True] * 2
    assert lines[2] == 'weir reload: everything goes on as before'
    told = await cli('reload', '--json')
    assert told.status == 1 and told.err == said.err
    assert told.documents[0]['type'] == 'urn:weir:bad-config'
    await cli.acquire('agents', 'b')
    assert (await gateway.counts('b', 'agents'))['limit'] == 3


@run
async def test_reload_needs_a_token_that_may(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_ADMIN', 'a-secret-of-the-admin')
    monkeypatch.setenv('WEIR_TEST_READER', 'a-secret-of-the-reader')
    config = CONFIG + '''
api_tokens:
  admin: { token: "${WEIR_TEST_ADMIN}", scopes: [admin] }
  reader: { token: "${WEIR_TEST_READER}", scopes: [read] }
'''
    async with weir(config) as gateway:
        api = f'127.0.0.1:{gateway.api_port}'
        (await Cli(api)('reload')).complained(1, 'WEIR_TOKEN')
        (await Cli(api, WEIR_TOKEN='a-secret-of-the-reader')('reload')).complained(1, 'scope')
        await Cli(api, WEIR_TOKEN='a-secret-of-the-admin').good('reload')
