"""What the README shows of a job: submitted, its machine killed half way, and finished. Run as it stands there, on
another port and folder."""
import asyncio
import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess

from raw import run
from weir import PATIENCE, PROGRAM, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / 'README.md').read_text()
SHOWN = 'http://127.0.0.1:7070'
SERVES = 'build/weir serve examples/jobs.yaml &'


def shown_commands():
    """(command, what its comment promises)"""
    [block] = re.findall(r'^```sh\n(build/weir serve examples/jobs\.yaml &\n.*?)^```$', README, flags=re.M | re.S)
    return [[part.strip() for part in line.partition(' # ')[::2]] for line in block.splitlines()]


@contextlib.asynccontextmanager
async def served(folder, config):
    """In a session of its own, as a machine is; the command dies with it."""
    process = await asyncio.create_subprocess_exec(PROGRAM, 'serve', str(config), cwd=ROOT,
                                                   stdout=asyncio.subprocess.PIPE)
    try:
        line = b''
        while not line.startswith(b'weir: api on'):
            line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
            assert line
        yield process, 'http://' + line.split()[-1].decode()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def shell(command):
    done = await asyncio.to_thread(subprocess.run, ['/bin/sh', '-c', command.replace('curl ', 'curl -sS --fail-with-body ')],
                                   text=True, stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
    return done.stdout


@run
async def test_a_job_whose_machine_is_killed_half_way_is_finished(tmp_path):
    config = tmp_path / 'jobs.yaml'
    text = (ROOT / 'examples/jobs.yaml').read_text()
    text = re.sub(r'^(api|protocol):(\s+)\S+', r'\1:\g<2>127.0.0.1:0', text, flags=re.M)
    config.write_text(re.sub(r'^data:(\s+)\S+', rf'data:\g<1>{tmp_path}/data', text, flags=re.M))
    [start, _], [submit, accepted], [status, running], [kill, _], [again, _], [result, expected] = shown_commands()
    assert (start, kill, again) == (SERVES, 'kill -9 %1', SERVES) and accepted == '202'

    async with served(tmp_path, config) as (process, api):
        # Until the status is that which is shown.
        wanted = json.loads('{' + running + '}')
        assert json.loads(await shell(submit.replace(SHOWN, api)))['id'] == 'order-1'

        async def is_half_way():
            said = json.loads(await shell(status.replace(SHOWN, api)))
            return {name: said.get(name) for name in wanted} == wanted
        await until(is_half_way, running)
        process.send_signal(signal.SIGKILL)
        await process.wait()
    async with served(tmp_path, config) as (_, api):
        priced = await shell(result.replace(SHOWN, api))
        assert priced.splitlines() == expected.split(', ')
        assert json.loads(await shell(status.replace(SHOWN, api)))['attempts'] == 2
        assert os.listdir(tmp_path / 'data')
