"""What the guides, the tutorial and the page of errors say, tried out: configs, commands, programs and lists."""
import asyncio
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

import pytest
from paste import ROOT, blocks, paste
from raw import open_wire, reply, request, run, upstream
from weir import PATIENCE, PROGRAM, until, weir

PAGES = sorted([*ROOT.glob('docs/start/*.md'), *ROOT.glob('docs/guides/*.md')])
AGENTS_GUIDE = (ROOT / 'docs/guides/agents.md').read_text()
OPERATIONS_GUIDE = (ROOT / 'docs/guides/operations.md').read_text()
SHOWN = 'http://127.0.0.1:7070'

# ---- configs

CONFIGS = [(page.stem, text) for page in PAGES for text in blocks(page.read_text(), 'yaml')
           if re.search('^(listen|api):', text, flags=re.M)]
SECRETS = {name: 'a-secret-of-sixteen' for name in (
    'OPENAI_API_KEY', 'AZURE_API_KEY', 'GROQ_API_KEY', 'ANTHROPIC_API_KEY', 'METRICS_TOKEN', 'OPERATOR_TOKEN', 'ACME_TOKEN')}


def test_there_are_configs_in_most_guides():
    assert {'agents', 'functions', 'jobs', 'llm', 'from-litellm', 'from-haproxy', 'from-beanstalkd'} <= {
        page for page, _ in CONFIGS}


@pytest.mark.parametrize('text', [text for _, text in CONFIGS], ids=[page for page, _ in CONFIGS])
def test_every_config_is_a_good_one(tmp_path, text):
    config = tmp_path / 'weir.yaml'
    config.write_text(text)
    (tmp_path / 'examples').symlink_to(ROOT / 'examples')
    shutil.copy('/bin/true', tmp_path / 'pricer')
    done = subprocess.run([PROGRAM, 'check', config], cwd=tmp_path, text=True, capture_output=True, check=False,
                          timeout=PATIENCE, env={**os.environ, **SECRETS})
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.endswith(': good\n')


# ---- the tutorial

@run
async def test_every_block_of_the_tutorial_does_what_it_says(tmp_path):
    start, one, line, reload, refused, end, job = await paste(
        tmp_path, blocks((ROOT / 'docs/start/tutorial.md').read_text(), 'sh'))
    assert 'tutorial.yaml: 1 route, 1 gate, 1 upstream: good\n' in start and start.endswith('ready\n')
    assert one.startswith('HTTP/1.1 200 ') and 'server-timing: line;dur=0.' in one
    waiting = [row.split()[1] for row in line.splitlines()[1:] if row[:8].strip().isdigit()]
    assert 'acme' in waiting and 'beta' not in waiting[3:]
    assert 'is next and waits for a permit: all 2 are held' in line
    assert 'In force now: 1 gate, 1 route, 1 upstream.\n' in reload
    [row] = [row.split() for row in reload.splitlines() if row.startswith('functions')]
    assert row[3] == '10' and row[7:9] == ['0', '0']  # the limit; no timeout, no client that gave up
    assert json.loads(refused.splitlines()[-1])['type'] == 'urn:weir:line-timeout'
    assert '"refused":0,' in end
    assert job.count('sum 600.00 EUR\n') == 2 and re.search(r'^attempts +1 of 3$', job, flags=re.M)


# ---- the guide to LLMs

@run
async def test_what_is_to_be_tried_with_an_llm_does_what_it_says(tmp_path):
    page = (ROOT / 'docs/guides/llm.md').read_text()
    [trying] = [text for text in blocks(page, 'sh') if 'weir mock' in text]
    [config] = [text for text in blocks(page, 'yaml') if '127.0.0.1:9001' in text]
    config = re.sub('url: https.*', 'url: http://127.0.0.1:9001', config)
    write = f"cat > weir.yaml <<'END'\n{config}END\n"
    [said] = await paste(tmp_path, [write + trying + 'kill $(jobs -rp); wait\n'], installed=True)
    assert said.count('"object":"chat.completion"') == 1
    events = re.findall('^data: (.*)$', said, flags=re.M)
    assert len(events) > 3 and events[-1] == '[DONE]'
    assert all(json.loads(event)['choices'] for event in events[:-1])  # none of them with the usage alone
    assert re.search(r'^ *0 +openai ', said, flags=re.M) and re.search(r'^ *0 +(tokens?|cost) ', said, flags=re.M)
    rows = [row.split() for row in said.splitlines() if ' gpt-4o ' in row and row[:2] == '20']
    assert [(row[1], row[3]) for row in rows] == [('acme', '1'), ('-', '1')]
    assert all(int(row[6]) > 0 for row in rows)


# ---- errors

def statuses_in_the_program():
    """Each problem's name with the statuses that the sources give to it in so many words."""
    found = {name: set() for name in re.findall(r'^    X\(\w+, "([\w-]+)"', (ROOT / 'src/gates/problem.h').read_text(),
                                                flags=re.M)}
    for path in ROOT.glob('src/**/*.c'):
        text = path.read_text()
        pairs = re.findall(r'WEIR_PROBLEM_(\w+),\s+(\d{3})\b', text)
        pairs += re.findall(r'\.kind = WEIR_PROBLEM_(\w+),\s+\.status = (\d{3})\b', text)
        for kind, status in pairs:
            found[kind.lower().replace('_', '-')].add(int(status))
    faults = re.findall(r'^    X\(\w+, (\d{3}), "', (ROOT / 'src/wire/http_fault.h').read_text(), flags=re.M)
    found['bad-request'] |= {int(status) for status in faults} - {413}  # which is body-too-large
    return found


def test_the_page_of_errors_has_every_problem_with_its_statuses():
    page = (ROOT / 'docs/reference/errors.md').read_text()
    rows = re.findall(r'^\| `([\w-]+)` \| ([\d, ]+) \| (.+) \| (.+) \|$', page, flags=re.M)
    told = {name: {int(status) for status in statuses.split(', ')} for name, statuses, _, _ in rows}
    assert len(told) == len(rows)
    program = statuses_in_the_program()
    assert sum(map(len, program.values())) > 30
    assert told.keys() == program.keys()
    assert {name: statuses - told[name] for name, statuses in program.items() if statuses - told[name]} == {}


# ---- agents: a program before and after it has a gate, compiled and run as it stands there

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
    [diff] = re.findall(r'^```diff\n(.*?)^```$', AGENTS_GUIDE, flags=re.M | re.S)
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
    gates = re.search('^gates: .*$', blocks(AGENTS_GUIDE, 'yaml')[0], flags=re.M)[0]
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


# ---- a proxy in front

NGINX = '''
daemon off; user root; worker_processes 1; pid FOLDER/pid;
events {{ worker_connections 64; }}
http {{
    access_log off;
    client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/proxy; fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi; scgi_temp_path FOLDER/scgi;
    server {{ listen unix:FOLDER/nginx; location / {{ proxy_pass http://127.0.0.1:{port}; {directives} }} }}
}}
'''
LIES = ('X-Tenant: boss', 'X-Priority: high', 'X-Forwarded-For: 6.6.6.6', 'Forwarded: for=6.6.6.6',
        'X-Forwarded-Proto: gopher', 'X-Forwarded-Host: evil.example')


def listens(path):
    """Whether a socket of that name takes connections; it is there before it does."""
    with socket.socket(socket.AF_UNIX) as one:
        return one.connect_ex(path) == 0


@contextlib.asynccontextmanager
async def nginx(port, directives):
    """nginx in front of this port; the address where it listens."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / 'nginx.conf'
        config.write_text(NGINX.format(port=port, directives=directives).replace('FOLDER', folder))
        path = shutil.which('nginx', path='/usr/sbin:/usr/bin')
        process = await asyncio.create_subprocess_exec(path, '-p', folder, '-e', 'stderr', '-c', str(config))
        try:
            await until(lambda: process.returncode is not None or listens(f'{folder}/nginx'), 'it listens')
            yield f'unix:{folder}/nginx'
        finally:
            process.terminate()
            await asyncio.wait_for(process.wait(), PATIENCE)


async def what_is_believed(directives, top=''):
    """How a stranger's request that lies comes through nginx: its ticket in line, and what the upstream gets."""
    door = asyncio.Event()

    async def serve(wire, message):
        if not door.is_set():
            await door.wait()
        await wire.send(reply())
    config = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
{top}
upstreams: {{ functions: {{ url: "{url}" }} }}
gates: {{ functions: {{ limit: 1 }} }}
routes:
  - {{ match: /, key: f, tenant: header:X-Tenant, priority: header:X-Priority, gate: functions, upstream: functions }}
'''
    async with upstream(serve) as server, weir(config.format(url=server.url, top=top)) as gateway:
        async with nginx(gateway.port, directives) as front:
            first, stranger = await open_wire(gateway.port), await open_wire(front)
            await first.send(request('/'))
            await gateway.until('f', active=1)
            await stranger.send(request('/', *LIES))
            await gateway.until('f', waiting=1)
            _, line = await gateway.ask_api('/gates/functions/f/line')
            door.set()
            assert [(await wire.message()).status for wire in (first, stranger)] == [200, 200]
            for wire in (first, stranger):
                wire.close()
        ticket = line['line'][0]
        return ticket['tenant'], ticket['priority'], server.seen[1].fields


@run
async def test_what_the_guide_says_of_a_proxy_in_front_is_true():
    [directives] = blocks(OPERATIONS_GUIDE, 'nginx')
    tenant, priority, fields = await what_is_believed('')
    assert (tenant, priority) == ('boss', 'high')  # so something has to be done
    assert any('6.6.6.6' in value for _, value in fields)
    for proxy, top in ((directives, ''), ('', 'trusted: []')):
        tenant, priority, fields = await what_is_believed(proxy, top)
        assert (tenant, priority) == ('', 'normal')
        believed = [(name, value) for name, value in fields
                    if name.lower() in ('forwarded', 'x-forwarded-for', 'x-forwarded-proto', 'x-forwarded-host')]
        assert not re.search('6[.]6[.]6[.]6|gopher|evil', str(believed)), believed
