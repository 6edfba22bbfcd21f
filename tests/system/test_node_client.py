"""clients/node against the real server. The tests themselves are JavaScript, in clients/node/weir-client.test.mjs: one process
runs them, and here stands how each went."""
import asyncio
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest
from raw import run
from secure import Town
from test_python_client import CONFIG, Server
from test_python_jobs import QUEUES, tls_before
from weir import PATIENCE, weir

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / 'clients' / 'node' / 'weir-client.test.mjs'
WITH_TOKENS = 'a token speaks for its tenant'
NAMES = [name for name in re.findall(r"^test\('([^']+)'", SCRIPT.read_text(), flags=re.M) if name != WITH_TOKENS]


def in_node(api, *names, **environment):
    """How each test went: None, or what was wrong. The process has to end by itself, and well."""
    done = subprocess.run(['node', SCRIPT, api, *names], text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE * (2 + len(names)),
                          env={**os.environ, **environment})
    results = {}
    for line in done.stdout.splitlines():
        if line.startswith('{'):
            said = json.loads(line)
            results[said['name']] = said['failure']
    if done.returncode != (1 if any(results.values()) else 0):
        results['the process'] = f'ended with {done.returncode}: {done.stdout}'
    return results


@pytest.fixture(scope='module')
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp('node')
    town = Town(folder)
    server = Server(CONFIG.replace('127.0.0.1:0', f'[127.0.0.1:0, "unix:{folder}/s"]') + QUEUES)
    tls = tls_before(server.gateway.api_port, town.context('localhost'))
    try:
        port = server.do(tls.__aenter__())
        yield in_node(server.api, *NAMES, WEIR_TEST_SOCKET=f'{folder}/s', WEIR_TEST_CA=str(town.authority.path),
                      WEIR_TEST_TLS=f'https://localhost:{port}')
        server.do(tls.__aexit__(None, None, None))
    finally:
        server.stop()


@pytest.mark.parametrize('name', NAMES)
def test_node(results, name):
    assert name in results, results
    assert results[name] is None, results[name]


def test_the_process_has_run_all_and_ended_by_itself(results):
    assert list(results) == NAMES and len(NAMES) > 15


# What a program may write, and what it may not, which the compiler has to find.
TYPED = '''
import { Gate, Job, JobFailed, Jobs, MemoryGate, Permit, WeirError, WeirNotHeld, WeirRefused, WeirTimeout, WeirUnreachable } from 'weir-client';
import type { Counts, GateOptions, JobState, Outcome, Result, Waiting, WeirEvent, Wish } from 'weir-client';
const options: GateOptions = { api: 'http://127.0.0.1:7070', gate: 'agents', token: 'a-token' };
const gate = new Gate(options);
const { signal } = new AbortController();
const wish: Wish = { flow: 'f', tenant: 't', priority: 'high', cost: 1, timeoutMs: 0, leaseMs: 5, hold: true, renew: false, signal };
export async function all(): Promise<number> {
    const length: number = await gate.run('k', wish, (permit: Permit) => permit.flow.length);
    const permit: Permit = await gate.acquire('k', { flow: 'f' });
    const lease: number | null = await gate.renew(permit, { leaseMs: 5 });
    const outcome: Outcome = 'success';
    const result: Result = { outcome, cost: 7 };
    await gate.release(permit, result);
    await gate.release('k', 'f', result);
    const counts: Counts = await gate.counts('k');
    const line: Waiting[] = await gate.line('k');
    for await (const event of await gate.events({ types: ['gate.throttle'], signal })) {
        const one: WeirEvent = event;
        console.log(one.type, one.timestamp);
    }
    gate.close();
    return length + (lease ?? 0) + counts.active + line[0].position + permit.waitedMs;
}
export async function price(jobs: Jobs): Promise<string> {
    const job: Job = await jobs.submit({ sku: 7 }, { queue: 'pricing', priority: 'high', delayMs: 5 });
    const state: JobState = (await jobs.wait(job.id, { timeoutMs: 1000 })).state;
    return state === 'done' ? (await jobs.result(job.id)).toString() : (await jobs.cancel(job.id)).error ?? '';
}
export const either: Gate | MemoryGate = new MemoryGate({ limit: 1, limits: { free: null } });
export const why = (error: JobFailed): string | undefined => error.job.error;
export function agentOf(error: unknown): string | undefined {
    const known = [WeirRefused, WeirTimeout, WeirNotHeld, WeirUnreachable].some((kind) => error instanceof kind);
    return known && error instanceof WeirError ? `${error.agent} ${error.flow} ${error.active} ${error.timeoutMs}` : undefined;
}
// @ts-expect-error
gate.acquire('k', { priority: 'urgent' });
// @ts-expect-error
gate.acquire('k', { flw: 'f' });
// @ts-expect-error
gate.release('k');
// @ts-expect-error
const text: Promise<string> = gate.run('k', () => 5);
'''
MEMBERS = '''
import * as client from 'weir-client';
const own = (prototype) => Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor' && !name.startsWith('_'));
const parent = (kind) => Object.getPrototypeOf(kind.prototype);
const of = (kind) => [...own(kind.prototype), ...(parent(kind).constructor.name === 'Client' ? own(parent(kind)) : [])];
console.log(JSON.stringify(Object.fromEntries(Object.entries(client).map(([name, kind]) => [name, of(kind)]))));
'''


def test_the_types_are_those_of_the_client(tmp_path):
    (tmp_path / 'node_modules').mkdir()
    (tmp_path / 'node_modules/weir-client').symlink_to(SCRIPT.parent)
    (tmp_path / 'package.json').write_text('{ "type": "module" }')
    (tmp_path / 'typed.ts').write_text(TYPED)
    (tmp_path / 'members.mjs').write_text(MEMBERS)
    for command in (['tsc', '--strict', '--target', 'es2022', '--module', 'nodenext', '--preserveSymlinks',
                     '--skipDefaultLibCheck', 'typed.ts'], ['node', 'members.mjs']):
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, check=False, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout
    members = json.loads(done.stdout)
    types = (SCRIPT.parent / 'weir-client.d.ts').read_text()
    declared = dict(re.findall(r'^export class (\w+)[^{]*{(.*?)}$', types, flags=re.M | re.S))
    assert declared.keys() == members.keys()
    for kind, names in members.items():
        calls = set(re.findall(r'^    (?!constructor)(\w+)[(<]', declared[kind], flags=re.M))
        fields = set(re.findall(r'^    (?:readonly )?(\w+):', declared[kind], flags=re.M))
        assert calls <= set(names) <= calls | fields, kind


def test_node_with_a_token(monkeypatch):
    monkeypatch.setenv('WEIR_ACME', 'a-secret-of-acme')
    config = CONFIG + '''
api_tokens:
  acme: { token: "${WEIR_ACME}", scopes: [work], tenant: acme }
'''

    @run
    async def test():
        async with weir(config) as gateway:
            assert await asyncio.to_thread(in_node, gateway.api, WITH_TOKENS) == {WITH_TOKENS: None}
    test()


def test_the_package_is_installed_by_npm(tmp_path):
    (tmp_path / 'package.json').write_text('{ "name": "user", "version": "1.0.0", "type": "module" }')
    source = tmp_path / 'source'
    shutil.copytree(SCRIPT.parent, source)
    for command in (['npm', 'install', '--offline', '--no-audit', '--no-fund', '--install-links', source],
                    ['node', '-e', "import('weir-client').then((client) => console.log(typeof client.Gate))"]):
        done = subprocess.run(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=PATIENCE, env={**os.environ, 'HOME': str(tmp_path)})
        assert done.returncode == 0, done.stdout
    assert done.stdout == 'function\n'
    installed = {path.name for path in (tmp_path / 'node_modules/weir-client').iterdir()}
    assert installed == {'package.json', 'weir-client.mjs', 'memory-gate.mjs', 'internal.mjs', 'weir-client.d.ts'}
