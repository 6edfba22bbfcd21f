"""docs/reference/api.md as somebody would paste it: every line of its examples, in order, and what it shows."""
import asyncio
import json
import os
import pathlib
import re
import signal

import yaml
from raw import run
from weir import PATIENCE, until, weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / 'docs/reference/api.md').read_text()
SHOWN = '127.0.0.1:7070'
CHANGING = {'waited_ms', 'timeout_in_ms', 'start_in_ms', 'interval_us', 'created', 'started', 'ended', 'drain_per_second',
            'handle', 'held_ms', 'lease_left_ms'}


def examples():
    """Each command with the lines that the page shows below it."""
    found = []
    for block in re.findall(r'^```console\n(.*?)^```$', PAGE, flags=re.M | re.S):
        for line in block.splitlines():
            if line.startswith('$ '):
                found.append((line[2:], []))
            else:
                found[-1][1].append(line)
    return found


def steady(value):
    """What is the same each time; a permit's id is known by its form."""
    if isinstance(value, dict):
        return {name: bool(re.fullmatch('[0-9a-f]{32}', child)) if name == 'permit' else steady(child)
                for name, child in value.items() if name not in CHANGING}
    return [steady(child) for child in value] if isinstance(value, list) else value


def same(said, shown):
    """Whether lines are the same but for what changes; whether fields that change are there counts as well."""
    if len(said) != len(shown):
        return False
    for line, other in zip(said, shown, strict=True):
        if line.startswith('{') and other.startswith('{'):
            line, other = json.loads(line), json.loads(other)
            if set(line) - CHANGING != set(other) - CHANGING or steady(line) != steady(other):
                return False
        elif line != other:
            return False
    return True


class Terminal:
    """Runs commands as a shell does, with the page's address and permits replaced by the real ones."""

    def __init__(self, gateway):
        self.address = f'127.0.0.1:{gateway.api_port}'
        self.permits = {}
        self.waiting = []

    async def start(self, command):
        command = command.replace(SHOWN, self.address)
        for shown, real in self.permits.items():
            command = command.replace(shown, real)
        return await asyncio.create_subprocess_exec(
            'bash', '-c', command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL, env={**os.environ, 'WEIR_TOKEN': 'none-is-asked-for'})

    async def finish(self, process):
        out, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        return out.decode().splitlines()

    def learn(self, said, shown):
        for line, other in zip(said, shown, strict=True):
            if line.startswith('{"permit"'):
                self.permits[json.loads(other)['permit']] = json.loads(line)['permit']
            elif '"handle"' in line:
                for real, holder in zip(json.loads(line)['holders'], json.loads(other)['holders'], strict=True):
                    self.permits[holder['handle']] = real['handle']

    async def try_out(self, command, shown):
        if command.endswith(' &'):
            self.waiting.append(await self.start('exec ' + command.removesuffix(' &')))
            return
        if shown[-1:] == ['^C']:
            said = await self.interrupt(command, len(shown) - 1)
            shown = shown[:-1]
        elif ' -d ' in command or ' -X ' in command:
            said = await self.finish(await self.start(command))
            while len(said) < len(shown) and self.waiting:  # who waited may go now
                said += await self.finish(self.waiting.pop(0))
        else:
            async def looks():
                nonlocal said
                said = await self.finish(await self.start(command))
                return same(said, shown)
            said = []
            await until(looks, f'{command}\n{shown}')
        assert same(said, shown), f'{command}\n{said}\n{shown}'
        self.learn(said, shown)

    async def interrupt(self, command, lines):
        process = await self.start('exec ' + command)
        said = [(await asyncio.wait_for(process.stdout.readline(), PATIENCE)).decode().rstrip('\n')
                for _ in range(lines)]
        process.send_signal(signal.SIGINT)
        assert await self.finish(process) == []
        return said


@run
async def test_every_line_of_the_page_does_what_it_shows():
    [config] = re.findall(r'^```yaml\n(.*?)^```$', PAGE, flags=re.M | re.S)
    assert len(examples()) > 10
    async with weir(config.replace(SHOWN, '127.0.0.1:0')) as gateway:
        terminal = Terminal(gateway)
        try:
            for command, shown in examples():
                await terminal.try_out(command, shown)
            assert terminal.waiting == []
        finally:
            for process in terminal.waiting:
                process.kill()
                await process.wait()


def test_the_page_has_a_line_for_everything():
    document = yaml.safe_load((ROOT / 'docs/reference/openapi.yaml').read_text())
    asked = set()
    for command, _ in examples():
        assert command.startswith('curl '), command
        path = re.search(rf'http://{SHOWN}(/[^ ?]*)', command)[1]
        method = re.search(r' -X (\w+)', command)
        asked.add((method[1].lower() if method else 'post' if ' -d ' in command else 'get', path))
    for path, item in document['paths'].items():
        pattern = re.sub(r'{\w+}', '[^/]+', path)
        for method in item.keys() & {'get', 'post', 'delete'}:
            assert any(m == method and re.fullmatch(pattern, p) for m, p in asked), (method, path)
