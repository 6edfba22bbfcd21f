"""The manual page as man formats it, and completion in the shells themselves."""
import asyncio
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import time
import urllib.parse

import pytest
import yarl
from raw import run
from weir import PATIENCE, PROGRAM, until, weir

COMPLETIONS = pathlib.Path(__file__).resolve().parents[2] / 'completions'
CONFIG = '''
api: 127.0.0.1:0
gates: { agents: { limit: 3 }, functions: {} }
'''


def call(*command, stdin=None, **environment):
    """What a program that must end well said."""
    done = subprocess.run(command, input=stdin, text=True, capture_output=True, timeout=PATIENCE, check=False,
                          env={**os.environ, **environment})
    assert (done.returncode, done.stderr) == (0, ''), done.stderr
    return done.stdout


def commands():
    """Each command with the flags that its help lists."""
    names = re.findall(r'^  weir (\w+)', call(PROGRAM, 'help'), flags=re.M)
    assert len(names) > 10
    return {name: re.findall(r'^  (--[\w-]+)', call(PROGRAM, 'help', name), flags=re.M) for name in names}


# ---- the manual page

@pytest.fixture(scope='module')
def page(tmp_path_factory):
    path = tmp_path_factory.mktemp('man') / 'weir.1'
    path.write_text(call(PROGRAM, 'help', '--man'))
    return path


def formatted(page):
    return re.sub('.\b', '', call('mandoc', '-T', 'ascii', '-O', 'width=300', page))


def test_the_page_is_one_that_formatters_have_nothing_to_say_about(page):
    assert call('mandoc', '-T', 'lint', '-W', 'warning', page) == ''
    assert 'weir' in call('groff', '-ww', '-mandoc', '-Tutf8', page)


def test_the_page_has_every_command_with_every_flag(page):
    text = formatted(page).split('\nCOMMANDS\n')[1].split('\nENVIRONMENT\n')[0]
    for name, flags in commands().items():
        [section] = re.findall(rf'^   weir {name}\b.*\n((?:(?: {{5}}.*)?\n)*)', text, flags=re.M)
        assert re.findall(r'^ {5}(--[\w-]+)', section, flags=re.M) == flags, name


def test_the_page_says_what_no_command_says(page):
    text = formatted(page)
    for section in ('NAME', 'SYNOPSIS', 'DESCRIPTION', 'COMMANDS', 'ENVIRONMENT', 'FILES', 'EXIT STATUS', 'SIGNALS',
                    'EXAMPLES'):
        assert f'\n{section}\n' in text
    for word in ('WEIR_API', 'WEIR_TOKEN', 'WEIR_PERMIT', 'MAX_CONCURRENT_REQUESTS', 'QUEUE_TIMEOUT_SECONDS', 'SIGHUP',
                 'SIGTERM', '69', '126', '127', '128'):
        assert re.search(rf'\b{word}\b', text), word


# ---- completion

def in_bash(*words, **environment):
    """What bash would offer; the words as bash takes them apart, behind `weir`."""
    script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weir; printf "%s\\n" "${COMPREPLY[@]}"'
    said = call('bash', '-c', script, 'bash', COMPLETIONS / 'weir.bash', PROGRAM, *words, **environment)
    return [line for line in said.split('\n') if line]


def in_zsh(*words, **environment):
    """What zsh would offer: it leaves words whole, and what it would do with candidates is recorded instead."""
    script = '''
_describe() { local name=${@[-1]}; print -rl -- "${(@P)name}" }
_files() { print -r -- FILES }
fpath=($1 $fpath); shift; autoload -Uz _weir
words=("$@"); CURRENT=$#; _weir'''
    said = call('zsh', '-fc', script, 'zsh', COMPLETIONS, PROGRAM, *words, **environment)
    return [re.split(r'(?<!\\):', line)[0].replace('\\:', ':') for line in said.splitlines()]


SHELLS = pytest.mark.parametrize('shell', [in_bash, in_zsh])


def test_every_command_and_every_flag_is_offered():
    every = commands()
    assert in_bash('') == in_zsh('') == list(every)
    for name, flags in every.items():
        assert in_bash(name, '--') == in_zsh(name, '--') == flags, name


@SHELLS
@pytest.mark.parametrize('words, expected', [
    (['re'], ['release', 'renew', 'result', 'redrive', 'reload']),
    (['help', 'ver'], ['version']),
    (['gates', '--w'], ['--watch']),
    (['acquire', 'a', 'b', '--priority', ''], ['high', 'normal', 'low']),
    (['acquire', 'a', '--priority', 'high', '--ti'], ['--timeout']),
    (['release', 'a', 'b', '--outcome', 'c'], ['client_error', 'cancelled']),
])
def test_words_are_completed(shell, words, expected):
    assert shell(*words) == expected


@SHELLS
@pytest.mark.parametrize('words', [
    ['nothing', ''], ['serve', ''], ['check', '--print', ''], ['acquire', 'a', 'b', '--flow', ''],
    ['acquire', 'a', 'b', 'c', ''], ['run', '--gate', 'a', '--', ''], ['run', '--gate', 'a', 'make', '--'],
    ['gates', '--', '--'],
])
def test_where_nothing_is_known_files_are_offered(shell, words):
    assert shell(*words, WEIR_API='127.0.0.1:1') in ([], ['FILES'])


def test_a_value_may_be_joined_to_its_flag():
    assert in_bash('acquire', '--priority', '=', 'h') == ['high']
    assert in_bash('acquire', '--priority', '=') == ['high', 'normal', 'low']
    assert in_zsh('acquire', '--priority=h') == ['--priority=high']


@run
async def test_names_are_asked_of_the_api():
    async with weir(CONFIG) as gateway:
        for key in ('agentA', 'agentB', 'a:b', 'with space', 'new\nline'):
            path = f'{gateway.api}/gates/agents/{urllib.parse.quote(key, safe="")}/acquire'
            async with gateway._session.post(yarl.URL(path, encoded=True)) as reply:
                assert reply.status == 200
        api = f'127.0.0.1:{gateway.api_port}'
        host, port = api.split(':')

        async def offers(shell, expected, *words, at=api):
            """The API has a second to answer, which a machine that is busy may not keep."""
            async def holds():
                return sorted(await asyncio.to_thread(shell, *words, WEIR_API=at)) == sorted(expected)
            await until(holds, f'{words} become {expected}')
        for shell in (in_bash, in_zsh):
            for words in (['gates', ''], ['line', ''], ['run', '--gate', '']):
                await offers(shell, ['agents', 'functions'], *words)
            for words in (['line', 'agents', 'agent'], ['run', '--gate', 'agents', '--key', 'agent'],
                          ['run', '--gate=agents', '--timeout', '5s', '--key', 'agent']):
                await offers(shell, ['agentA', 'agentB'], *words)
            await offers(shell, ['agentA', 'agentB', 'a:b'], 'line', 'agents', 'a')
            await offers(shell, ['with\\ space' if shell is in_bash else 'with space'], 'line', 'agents', 'w')
            assert await asyncio.to_thread(shell, 'line', 'agents', 'new', WEIR_API=api) in ([], ['FILES'])
        await offers(in_zsh, ['functions'], 'gates', '--api', api, 'f', at='127.0.0.1:1')
        await offers(in_bash, ['functions'], 'gates', '--api', host, ':', port, 'f', at='127.0.0.1:1')
        await offers(in_bash, ['b'], 'line', 'agents', 'a', ':', '')


@run
async def test_an_api_that_does_not_answer_is_not_waited_for_for_long():
    reached = asyncio.Event()

    async def keep_silent(reader, writer):
        reached.set()
        await reader.read()
        await reader.read()
        writer.close()
    server = await asyncio.start_server(keep_silent, '127.0.0.1', 0)
    async with server:
        api = f'127.0.0.1:{server.sockets[0].getsockname()[1]}'
        assert await asyncio.to_thread(in_bash, 'gates', '', WEIR_API=api) == []
        assert reached.is_set()


# ---- as people meet it

def type_into(command, setup, typed, expected, folder):
    """Types into a shell on a terminal until what is expected stands there."""
    (folder / 'weir').symlink_to(PROGRAM)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, {**os.environ, 'PATH': f'{folder}:{os.environ["PATH"]}', 'TERM': 'dumb'})
    said = ''

    def wait_for(text):
        nonlocal said
        deadline = time.monotonic() + PATIENCE
        while text not in said:
            assert select.select([terminal], [], [], max(0, deadline - time.monotonic()))[0], said
            said += os.read(terminal, 65536).decode(errors='replace')
        said = said.split(text, 1)[1]
    try:
        os.write(terminal, f'{setup}; echo is_"read"y\n'.encode())
        wait_for('is_ready')
        os.write(terminal, typed.encode())
        wait_for(expected)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def test_a_person_presses_tab_in_bash(tmp_path):
    type_into(['bash', '--norc', '--noprofile', '-i'], f'source {COMPLETIONS}/weir.bash', 'weir acquire a --priority=n\t',
              '--priority=normal ', tmp_path)


def test_a_person_presses_tab_in_zsh(tmp_path):
    type_into(['zsh', '-f', '-i'], f'fpath=({COMPLETIONS} $fpath); autoload -Uz compinit; compinit -D -u',
              'weir acquire a --priority=n\t', 'ormal', tmp_path)
