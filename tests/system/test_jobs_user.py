"""`user` of a queue: what Weir cannot follow it says when it starts, rather than run commands as somebody else."""
import os
import pwd
import shutil
import subprocess

import aiohttp
import pytest
from job_load import site
from raw import run
from weir import PATIENCE, PROGRAM, until

CONFIG = '''\
api: 127.0.0.1:0
data: {data}
queues:
  first: {{}}
  work:
    run: [/bin/sh, -c, "id -un; id -Gn"]
    user: {user}
'''
CAPABILITIES = ['chown', 'dac_override', 'fowner', 'kill', 'setgid', 'setuid']

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason='only root can start programs as other users')


@pytest.fixture
def place(tmp_path):
    """A folder of nobody's that nobody can get to, with a program that nobody can run."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != folder.parent:
            folder.chmod(folder.stat().st_mode | 0o011)
    mine = tmp_path / 'of-nobody'
    mine.mkdir()
    shutil.copy(PROGRAM, mine / 'weir')
    (mine / 'weir').chmod(0o755)
    os.chown(mine, pwd.getpwnam('nobody').pw_uid, pwd.getpwnam('nobody').pw_gid)
    return mine


def as_nobody(*capabilities):
    """What goes before a command that is to run as nobody, with these capabilities."""
    caps = ','.join(f'+{name}' for name in capabilities) or '-all'
    return ['setpriv', '--reuid', 'nobody', '--regid', 'nogroup', '--clear-groups',
            '--inh-caps', caps, '--ambient-caps', caps, '--bounding-set', f'-all,{caps}' if capabilities else '-all']


def configure(place, user):
    config = place / 'weir.yaml'
    config.write_text(CONFIG.format(data=place / 'data', user=user))
    return config


def say(before, place, command):
    done = subprocess.run([*before, place / 'weir', command, place / 'weir.yaml'], cwd=place, timeout=PATIENCE, check=False,
                          text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stderr


@pytest.mark.parametrize('command', ['check', 'serve'])
@pytest.mark.parametrize('missing', [None, *CAPABILITIES])
def test_a_user_that_weir_may_not_become_is_an_error_at_the_start(place, command, missing):
    configure(place, 'games')
    capabilities = [] if missing is None else [name for name in CAPABILITIES if name != missing]
    status, said = say(as_nobody(*capabilities), place, command)
    assert status != 0
    assert f'{place}/weir.yaml:5: queue work: commands cannot run as the user "games"' in said, said
    assert f'without CAP_{(missing or "chown").upper()}; start Weir as root, or remove `user`' in said, said


@pytest.mark.parametrize('command', ['check', 'serve'])
@pytest.mark.parametrize('before', [[], as_nobody()], ids=['root', 'nobody'])
def test_a_user_that_is_not_there_is_an_error_at_the_start(place, command, before):
    configure(place, 'no-such-user')
    status, said = say(before, place, command)
    assert status != 0
    assert 'weir.yaml:5: queue work: commands cannot run as the user "no-such-user": there is no such user' in said, said


@pytest.mark.parametrize('before, user, groups', [
    ([], 'games', 'games\ngames\n'),
    (as_nobody(*CAPABILITIES), 'games', 'games\ngames\n'),
    (as_nobody(), 'nobody', 'nobody\nnogroup\n'),
], ids=['root', 'capabilities', 'the-same'])
@run
async def test_a_command_runs_as_its_user(place, before, user, groups):
    async with site(place, config='') as one, aiohttp.ClientSession() as session:
        configure(place, user)
        assert say(before, place, 'check') == (0, '')
        await one.spawn([*before, place / 'weir'])
        await one.ready()
        assert (await one.ask(session, 'POST', '/submit/j?queue=work', b''))[0] == 202

        async def result():
            status, said = await one.ask(session, 'GET', '/result/j?wait=10')
            return status == 200 and said
        assert await until(result, 'it is done') == groups.encode()
        await one.end()
