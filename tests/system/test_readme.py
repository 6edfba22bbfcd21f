"""What the README shows of a program before and after it has a gate, compiled and run as it stands there."""
import asyncio
import contextlib
import json
import pathlib
import re
import subprocess

from raw import run
from weir import PATIENCE, weir

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = (ROOT / 'README.md').read_text()
SHOWN = 'http://127.0.0.1:7070'
FLOWS = 5

# Agents that answer once they may, and count how many run at once.
AGENTS = '''
let inside = 0;
let most = 0;
let open;
const opened = new Promise((resolve) => { open = resolve; });
export const counted = () => most;
export const letGo = () => open();
export async function runAgent(agent, question) {
    most = Math.max(most, ++inside);
    console.log(inside);
    await opened;
    inside--;
    return `${agent}: ${question}`;
}
'''
TYPES = 'export function runAgent(agent: string, question: string): Promise<string>;\n'
MAIN = '''
import { ask } from './ask.js';
import { counted, letGo } from './agents.js';
process.stdin.once('data', letGo);
const answers = Array.from({ length: FLOWS }, (_, i) => ask('agentB', `flow-${i}`, `question ${i}`));
console.log(JSON.stringify({ answers: await Promise.all(answers), most: counted() }));
'''.replace('FLOWS', str(FLOWS))


def change():
    """The program before and after, and the lines that differ."""
    [diff] = re.findall(r'^```diff\n(.*?)^```$', README, flags=re.M | re.S)
    lines = diff.splitlines()
    assert all(line[:1] in ' +-' for line in lines)
    before = '\n'.join(line[1:] for line in lines if line[:1] != '+')
    after = '\n'.join(line[1:] for line in lines if line[:1] != '-')
    return before, after, [line for line in lines if line[:1] in ('+', '-')]


def compile_all(folder, **programs):
    """Makes a folder of each program, with what it imports. The compiler, which is strict, reads all at once."""
    (folder / 'node_modules').mkdir()
    (folder / 'node_modules/weir-client').symlink_to(ROOT / 'clients/node')
    (folder / 'package.json').write_text('{ "type": "module" }')
    for name, program in programs.items():
        (folder / name).mkdir()
        (folder / name / 'ask.ts').write_text(program)
        (folder / name / 'agents.js').write_text(AGENTS)
        (folder / name / 'agents.d.ts').write_text(TYPES)
        (folder / name / 'main.js').write_text(MAIN)
    done = subprocess.run(['tsc', '--strict', '--target', 'es2022', '--module', 'nodenext', '--preserveSymlinks',
                           '--skipDefaultLibCheck',
                           *(f'{name}/ask.ts' for name in programs)], cwd=folder, stdout=subprocess.PIPE, text=True,
                          check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stdout


@contextlib.asynccontextmanager
async def running(folder):
    process = await asyncio.create_subprocess_exec('node', folder / 'main.js', stdin=asyncio.subprocess.PIPE,
                                                   stdout=asyncio.subprocess.PIPE)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def end(process, inside):
    """Waits until so many run, lets them go, and returns what came of it."""
    for number in range(1, inside + 1):
        assert int(await asyncio.wait_for(process.stdout.readline(), PATIENCE)) == number
    out, _ = await asyncio.wait_for(process.communicate(b'go\n'), PATIENCE)
    assert process.returncode == 0
    return json.loads(out.splitlines()[-1])


@run
async def test_a_change_of_five_lines_puts_agents_behind_a_gate(tmp_path):
    before, after, changed = change()
    assert len(changed) <= 5
    [gates] = re.findall(r'^`(gates: .* } })` and', README, flags=re.M)
    answers = [f'agentB: question {i}' for i in range(FLOWS)]
    assert SHOWN in after
    async with weir(f'api: 127.0.0.1:0\n{gates}\n') as gateway:
        compile_all(tmp_path, before=before, after=after.replace(SHOWN, gateway.api))
        async with running(tmp_path / 'before') as process:
            assert await end(process, FLOWS) == {'answers': answers, 'most': FLOWS}
        async with running(tmp_path / 'after') as process:
            await gateway.until('agentB', gate='agents', active=3, waiting=FLOWS - 3)
            assert await end(process, 3) == {'answers': answers, 'most': 3}
        await gateway.until('agentB', gate='agents', active=0, waiting=0)
