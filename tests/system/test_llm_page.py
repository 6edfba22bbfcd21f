"""docs/guides/llm.md and what the README says of LLMs: the configs are good ones, and what is to be tried does what it says."""
import asyncio
import contextlib
import json
import os
import pathlib
import re

import pytest
from raw import run
from weir import PATIENCE, PROGRAM, weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / 'docs/guides/llm.md').read_text()
PROVIDER = 'http://127.0.0.1:9001'


def blocks(text, language):
    return re.findall(rf'^```{language}\n(.*?)^```$', text, flags=re.M | re.S)


CONFIGS = [text for page in (PAGE, (ROOT / 'README.md').read_text()) for text in blocks(page, 'yaml')
           if re.search('^listen:', text, flags=re.M)]


async def shell(command, **more):
    """How it ended, and what it printed."""
    process = await asyncio.create_subprocess_shell(command, stdout=asyncio.subprocess.PIPE, **more)
    out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    return process.returncode, out.decode()


@contextlib.asynccontextmanager
async def running(command):
    """A `weir mock` at a port of its own; yields its address."""
    process = await asyncio.create_subprocess_shell(f'exec {command} --listen 127.0.0.1:0',
                                                    stdout=asyncio.subprocess.PIPE)
    try:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        yield re.fullmatch(r'weir mock: listening on (127\.0\.0\.1:\d+)\n', line.decode())[1]
    finally:
        process.terminate()
        await process.wait()


def test_there_are_configs_in_both():
    assert len(CONFIGS) >= 4


@pytest.mark.parametrize('config', CONFIGS, ids=range(len(CONFIGS)))
@run
async def test_every_config_is_a_good_one(tmp_path, config):
    (tmp_path / 'weir.yaml').write_text(config)
    secrets = {'OPENAI_API_KEY': 'sk-1', 'AZURE_API_KEY': 'sk-2', 'GROQ_API_KEY': 'sk-3'}
    status, said = await shell(f'{PROGRAM} check weir.yaml', cwd=tmp_path, env={**os.environ, **secrets})
    assert status == 0 and said.endswith(': good\n')


@run
async def test_what_is_to_be_tried_does_what_it_says():
    [trying] = [text for text in blocks(PAGE, 'sh') if 'weir mock' in text]
    [config] = [text for text in blocks(PAGE, 'yaml') if PROVIDER in text]
    lines = [re.sub(r'  +#.*', '', line) for line in trying.splitlines()]
    provider, gateway_line, plain, stream, gates, usage = lines
    assert provider.endswith(' &') and gateway_line == 'OPENAI_API_KEY=any weir serve weir.yaml &'
    async with running(provider.removesuffix(' &').replace('weir', PROGRAM, 1)) as address:
        config = config.replace('https://api.openai.com', f'http://{address}')
        config = config.replace(':8080', ':0').replace(':7070', ':0')
        async with weir(config, env={**os.environ, 'OPENAI_API_KEY': 'any'}) as gateway:
            async def said(line):
                line = re.sub('^weir', PROGRAM, line).replace('127.0.0.1:8080', f'127.0.0.1:{gateway.port}')
                status, out = await shell(line, env={**os.environ, 'WEIR_API': f'127.0.0.1:{gateway.api_port}'})
                assert status == 0, line
                return out
            assert json.loads(await said(plain))['choices']
            events = (await said(stream)).split('\n\n')
            assert len(events) > 3 and events[-2] == 'data: [DONE]'
            assert all(json.loads(event.removeprefix('data: '))['choices'] for event in events[:-2])  # no usage
            learned = await said(gates)
            assert 'openai' in learned and re.search(r'^ *0 +tokens? |^ *0 +cost ', learned, flags=re.M)
            rows = [row.split() for row in (await said(usage)).splitlines()]
            assert [(row[1], row[2], row[3]) for row in rows[1:3]] == [('acme', 'gpt-4o', '1'), ('-', 'gpt-4o', '1')]
            assert all(int(row[6]) > 0 for row in rows[1:3])
