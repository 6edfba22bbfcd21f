"""`weir run`: a command that runs while a permit is held, and passes on whatever happens to it."""
import asyncio
import json
import os
import re
import signal
import sys
import time

import pytest
from raw import run
from test_cli import CONFIG, Cli, ended, on_terminal, waiting, with_cli
from weir import PATIENCE, PROGRAM, weir

RUN = ('run', '--gate', 'one', '--key', 'k')


@with_cli
async def test_a_command_runs_while_it_holds_a_permit_and_its_status_is_passed_on(cli, gateway):
    for status in (0, 1, 7, 255):
        said = await cli(*RUN, '--flow', 'f', '--', 'sh', '-c', f'echo out; echo err >&2; exit {status}')
        assert (said.status, said.out, said.err) == (status, 'out\n', 'err\n')
        assert (await gateway.counts('k', 'one'))['active'] == 0  # at once, not soon
    for signum in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        said = await cli(*RUN, 'sh', '-c', f'kill -{int(signum)} $$')
        assert said.status == 128 + signum
    inside = f'{PROGRAM} gates one k --json; echo $WEIR_PERMIT; {PROGRAM} renew one k $WEIR_PERMIT --json'
    said = await cli(*RUN, '--', 'sh', '-c', inside)
    first, permit, renewed = said.out.splitlines()
    assert json.loads(first)['active'] == 1 and re.fullmatch('[0-9a-f]{32}', permit)
    assert json.loads(renewed) == {'lease_ms': None}


@with_cli
async def test_arguments_of_the_command_are_its_own(cli, gateway):
    script = 'import sys; print(sys.argv[1:])'
    for dashes in ([], ['--']):
        said = await cli(*RUN, *dashes, sys.executable, '-c', script, '--flow', '--help', '--', '-x')
        assert said.out == "['--flow', '--help', '--', '-x']\n"


@with_cli
async def test_the_command_inherits_neither_the_connection_nor_blocked_signals(cli, gateway):
    look = ('import os, signal; print([n for n in os.listdir("/proc/self/fd") if n.isdigit() and '
            'os.path.exists(f"/proc/self/fd/{n}") and int(n) > 2 and '
            'os.readlink(f"/proc/self/fd/{n}").startswith(("socket:", "anon_inode:"))], '
            'signal.pthread_sigmask(signal.SIG_BLOCK, []))')
    said = await cli(*RUN, '--', sys.executable, '-c', look)
    assert (said.status, said.out) == (0, '[] set()\n')


@with_cli
async def test_what_cannot_be_run_gives_the_permit_back(cli, gateway):
    (await cli(*RUN, '--', '/no/such/command')).complained(127, 'cannot run /no/such/command')
    (await cli(*RUN, '--', '/etc/passwd')).complained(126, 'Permission denied')
    assert (await gateway.counts('k', 'one'))['active'] == 0


LISTENER = '''
import os, signal, sys
def hear(number, frame):
    print(signal.Signals(number).name, flush=True)
for name in ('INT', 'TERM', 'HUP', 'QUIT', 'USR1', 'USR2'):
    signal.signal(getattr(signal, 'SIG' + name), hear)
signal.signal(signal.SIGALRM, lambda number, frame: sys.exit(3))
print('ready', os.getpid(), flush=True)
while True:
    signal.pause()
'''


@with_cli
async def test_signals_are_passed_on_to_the_command(cli, gateway):
    process = await cli.start(*RUN, '--', sys.executable, '-c', LISTENER)
    ready = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
    for name in ('SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'):
        process.send_signal(signal.Signals[name])
        assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == f'{name}\n'.encode()
    await gateway.until('k', 'one', active=1)  # it is still there
    os.kill(int(ready.split()[1]), signal.SIGALRM)
    assert (await ended(process)).status == 3


@with_cli
async def test_a_command_that_a_passed_signal_ends_is_told_by_the_status(cli, gateway):
    process = await cli.start(*RUN, '--', 'sleep', '1000')
    await gateway.until('k', 'one', active=1)
    process.send_signal(signal.SIGTERM)
    # Before the permit it would have ended by the signal itself, and after it by the command's.
    assert (await ended(process)).status in (128 + signal.SIGTERM, -signal.SIGTERM)
    await gateway.until('k', 'one', active=0)


@with_cli
async def test_what_is_typed_reaches_the_command_once(cli, gateway):
    async with on_terminal(cli, *RUN, '--', sys.executable, '-c', LISTENER) as (process, terminal):
        await terminal.until(lambda text: re.search(r'ready \d+\r\n', text), 'it listens')
        terminal.type('\x03')
        await terminal.until(lambda text: 'SIGINT' in text, 'it hears')
        process.send_signal(signal.SIGUSR1)  # what was passed on before comes before
        await terminal.until(lambda text: 'SIGUSR1' in text, 'it hears more')
        assert terminal.text.count('SIGINT') == 1
        os.kill(int(re.search(r'ready (\d+)', terminal.text)[1]), signal.SIGALRM)
        assert await asyncio.wait_for(process.wait(), PATIENCE) == 3


@with_cli
async def test_killing_weir_run_gives_the_permit_back_and_ends_the_command(cli, gateway):
    script = ('import os, signal, sys; print(os.getpid(), flush=True); '
              'signal.sigwait([signal.SIGTERM]); print("told", flush=True)')
    script = 'import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); ' + script
    process = await cli.start(*RUN, '--', sys.executable, '-c', script)
    assert int(await asyncio.wait_for(process.stdout.readline(), PATIENCE)) > 0
    await gateway.until('k', 'one', active=1)
    process.kill()
    await gateway.until('k', 'one', active=0)
    assert await asyncio.wait_for(process.stdout.read(), PATIENCE) == b'told\n'
    await process.wait()


@with_cli
async def test_killing_weir_run_while_it_waits_leaves_the_line(cli, gateway):
    await cli.acquire('one', 'k')
    process = await cli.start(*RUN, '--', 'true')
    await gateway.until('k', 'one', waiting=1)
    process.kill()
    await process.communicate()
    await gateway.until('k', 'one', waiting=0, active=1)


@with_cli
async def test_a_command_that_ends_lets_the_next_go(cli, gateway):
    first = await cli.start(*RUN, '--', 'cat', stdin=asyncio.subprocess.PIPE)
    await gateway.until('k', 'one', active=1)
    second = await cli.start(*RUN, '--', 'echo', 'mine')
    await gateway.until('k', 'one', waiting=1)
    first.stdin.close()
    assert (await ended(second)).out == 'mine\n'
    assert (await ended(first)).status == 0


@with_cli
async def test_without_a_permit_the_command_does_not_run(cli, gateway):
    await cli.acquire('one', 'k')
    (await cli(*RUN, '--timeout', '10ms', '--', 'echo', 'never')).complained(69, 'its turn did not come')
    said = await cli(*RUN, '--timeout', '0', '--', 'echo', 'never')
    assert said.complained(69) and said.out == ''
    said = await cli('run', '--gate', 'nowhere', '--key', 'k', '--', 'echo', 'never')
    assert said.complained(1, 'no gate "nowhere"') and said.out == ''
    async with waiting(cli, gateway, [], [], gate='one', key='k'):
        (await cli(*RUN, '--', 'echo', 'never')).complained(69, 'weir run: ')  # the line is full


@run
async def test_who_waits_at_a_gateway_that_drains_gets_no_permit():
    async with weir(CONFIG) as gateway:
        cli = Cli(f'127.0.0.1:{gateway.api_port}')
        await cli.acquire('one', 'k')
        process = await cli.start(*RUN, '--', 'echo', 'never')
        await gateway.until('k', 'one', waiting=1)
        gateway.process.terminate()
        said = await ended(process)
        assert said.complained(69, 'weir run: This server is shutting down') and said.out == ''
        assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0


@run
async def test_a_command_goes_on_when_the_gateway_is_gone():
    async with weir(CONFIG) as gateway:
        cli = Cli(f'127.0.0.1:{gateway.api_port}')
        process = await cli.start(*RUN, '--', 'sh', '-c', 'read line; exit 5', stdin=asyncio.subprocess.PIPE)
        await gateway.until('k', 'one', active=1)
        gateway.process.terminate()
        assert await asyncio.wait_for(gateway.process.wait(), PATIENCE) == 0
        warning = await asyncio.wait_for(process.stderr.readline(), PATIENCE)
        assert warning == b'weir run: the gateway is gone, and the permit with it; the command continues without a permit\n'
        assert process.returncode is None
        process.stdin.write(b'\n')
        said = await ended(process)
        assert (said.status, said.err) == (5, '')


@run
async def test_run_ends_only_when_the_gateway_has_heard_of_it():
    heard, close = asyncio.Event(), asyncio.Event()

    async def answer(reader, writer):
        await reader.readuntil(b'\r\n\r\n')
        writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"permit": "p"}\n\r\n')
        await reader.read()
        heard.set()
        await close.wait()
        writer.close()
    server = await asyncio.start_server(answer, '127.0.0.1', 0)
    process = await Cli(f'127.0.0.1:{server.sockets[0].getsockname()[1]}').start(*RUN, '--', 'false')
    await asyncio.wait_for(heard.wait(), PATIENCE)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.shield(process.wait()), 0.2)
    close.set()
    assert (await ended(process)).status == 1
    server.close()


@run
async def test_run_says_that_a_command_ended_well_and_nothing_if_it_did_not():
    for command, expected in (('true', 1), ('false', 0)):
        asked = []

        async def answer(reader, writer):
            head = await reader.readuntil(b'\r\n\r\n')
            length = int(re.search(rb'content-length: (\d+)', head, flags=re.I)[1])
            asked.append((head.split()[1], json.loads(await reader.readexactly(length))))
            if head.split()[1].endswith(b'acquire'):
                writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
                             b'10\r\n{"permit": "p"}\n\r\n')
                await reader.read()
            else:
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}')
            writer.close()
        server = await asyncio.start_server(answer, '127.0.0.1', 0)
        cli = Cli(f'127.0.0.1:{server.sockets[0].getsockname()[1]}')
        await ended(await cli.start(*RUN, '--', command))
        server.close()
        assert len(asked) == 1 + expected
        if expected:
            assert asked[1] == (b'/gates/one/k/release', {'permit': 'p', 'outcome': 'success'})


@run
async def test_run_can_be_ended_while_the_gateway_does_not_hear_that_it_went_well():
    heard = asyncio.Event()

    async def answer(reader, writer):
        if b'acquire' in await reader.readuntil(b'\r\n\r\n'):
            writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10\r\n{"permit": "p"}\n\r\n')
        else:
            heard.set()
        await reader.read()
        writer.close()
    server = await asyncio.start_server(answer, '127.0.0.1', 0)
    process = await Cli(f'127.0.0.1:{server.sockets[0].getsockname()[1]}').start(*RUN, '--', 'true')
    await asyncio.wait_for(heard.wait(), PATIENCE)
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    said = await ended(process)
    assert (said.status, said.out, said.err) == (0, '', '')
    assert time.monotonic() - began < 4  # well before its own patience is over
    server.close()


@with_cli
async def test_run_says_what_it_was_given_if_asked(cli, gateway):
    said = await cli(*RUN, '--flow', 'f', '--json', '--', 'sh', '-c', 'echo $WEIR_PERMIT')
    document, permit = said.out.splitlines()
    assert (json.loads(document)['permit'], json.loads(document)['flow']) == (permit, 'f')
