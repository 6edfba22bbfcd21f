"""`weir demo`: what it shows, and that nothing is left of it however it ends."""
import asyncio
import contextlib
import os
import pathlib
import pty
import re
import signal
import subprocess

import pytest
from raw import run
from weir import PATIENCE, PROGRAM, until

LINE = re.compile(r'(\d+) s, (with|without) Weir: used (\d+) of (\d+) tokens/s, inside (\d+)'
                  r'(?:, learned (\d+), window (\d+), waiting (\d+))?, 429s (\d+), evenness ([\d.]+)')
SUMMARY = re.compile(r'(With|Without) Weir, in the last (\d+) s: (\d+) % of the allowed rate used, '
                     r'(\d+) refusals \(429\), shares even to ([\d.]+) \(1: the same for all\)\.')


def children_of(pid):
    return [int(child) for task in pathlib.Path(f'/proc/{pid}/task').iterdir()
            for child in (task / 'children').read_text().split()]


def is_gone(pid):
    """Whether the process has ended; it may wait for somebody to ask how."""
    try:
        return pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()[0] == 'Z'
    except FileNotFoundError:
        return True


@contextlib.asynccontextmanager
async def demo(*flags, lines=1, **more):
    """A demo that has shown some lines, and its children; in the end all of them are gone."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM, 'demo', *flags, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, **more)
    try:
        said = [await asyncio.wait_for(process.stdout.readline(), PATIENCE) for _ in range(2 + lines)]
        assert all(said), await process.stderr.read()
        children = children_of(process.pid)
        assert len(children) == 3
        yield process, [line.decode().rstrip('\n') for line in said[2:]], children
        await until(lambda: all(is_gone(child) for child in children), 'its children are gone')
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@run
async def test_refusals_stop_and_shares_even_out_with_weir(tmp_path):
    async with demo('--seconds', '8', cwd=tmp_path) as (process, first, _):
        rest, wrong = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert (process.returncode, wrong) == (0, b'')
        *lines, without, with_ = first + rest.decode().splitlines()
        rows = [LINE.fullmatch(line).groups() for line in lines]
        assert len(rows) == 8
        assert [row[1] for row in rows] == ['without'] * 2 + ['with'] * 6
        refused = [int(row[8]) for row in rows]
        assert min(refused[:2]) > 10 and sum(refused[4:]) == 0
        assert all(1900 < int(row[3]) < 2100 for row in rows)
        assert all(int(row[7]) > 20 for row in rows[3:])  # who wants more waits
        assert all(int(row[4]) <= int(row[6]) for row in rows[3:])
        part, seconds, used, refusals, even_before = SUMMARY.fullmatch(without).groups()
        assert (part, seconds) == ('Without', '1') and int(refusals) > 20
        assert int(used) < 200  # without what was saved up before the first second
        part, seconds, used, refusals, even = SUMMARY.fullmatch(with_).groups()
        assert (part, seconds) == ('With', '6') and int(used) > 40
        assert float(even) > 0.8 > float(even_before)
    assert not list(tmp_path.iterdir())  # no usage is kept, nor anything else


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM])
@run
async def test_a_signal_ends_it_with_all_that_it_started(number):
    async with demo('--seconds', '600', '--headers', 'off') as (process, (line,), _):
        assert LINE.fullmatch(line)[2] == 'with'  # of a silent provider it is shown how Weir finds out
        process.send_signal(number)
        rest, wrong = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert (process.returncode, wrong) == (0, b'')
        assert SUMMARY.fullmatch(rest.decode().splitlines()[-1])


@run
async def test_killed_it_leaves_nothing_behind():
    async with demo('--seconds', '600') as (process, _, _):
        process.kill()
        await asyncio.wait_for(process.communicate(), PATIENCE)


@pytest.mark.parametrize('which, name', [(0, 'the provider'), (1, 'the gateway'), (2, 'the callers')])
@run
async def test_when_a_part_ends_it_ends_and_says_so(which, name):
    async with demo('--seconds', '600', '--headers', 'off') as (process, _, children):
        os.kill(sorted(children)[which], signal.SIGKILL)
        _, wrong = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode == 1
        assert f'weir: {name} has ended' in wrong.decode()


@run
async def test_on_a_terminal_it_is_drawn_in_place():
    ours, theirs = pty.openpty()
    process = await asyncio.create_subprocess_exec(PROGRAM, 'demo', '--seconds', '2', stdout=theirs,
                                                   stderr=asyncio.subprocess.PIPE)
    os.close(theirs)
    said = b''
    with contextlib.suppress(OSError):  # which is how a terminal ends
        while piece := await asyncio.to_thread(os.read, ours, 65536):
            said += piece
    os.close(ours)
    _, wrong = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, wrong) == (0, b'')
    text = said.decode()
    assert text.startswith('\x1b[?25l') and '\x1b[?25h' in text  # the cursor comes back
    drawings = re.split(r'\x1b\[\d+A', text)
    assert len(drawings) == 3  # at once, and each second
    *_, last = drawings
    assert last.split('\x1b[?25h')[0].count('\n') <= 23  # as much as 24 lines have room for
    assert len(re.findall(r'^  [a-j] +\d+ +[\d.]+ %', last, flags=re.M)) == 10
    assert SUMMARY.search(text)


@pytest.mark.parametrize('flag, value', [
    ('--seconds', '0'), ('--seconds', '86401'), ('--seconds', '5s'), ('--tokens', '5'), ('--headers', 'maybe')])
def test_a_bad_value_is_named_with_what_is_expected(flag, value):
    done = subprocess.run([PROGRAM, 'demo', flag, value], text=True, capture_output=True, timeout=PATIENCE,
                          check=False)
    assert done.returncode == 2
    assert done.stdout == ''
    assert done.stderr.startswith(f'weir demo: {flag} {value}: expected ')
    assert done.stderr.count('\n') == 1
