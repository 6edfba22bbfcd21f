"""clients/node against the real server. The tests themselves are JavaScript, in clients/node/weir-client.test.mjs: one process
runs them, and here stands how each went."""
import asyncio
import json
import pathlib
import re
import subprocess

import pytest
from raw import run
from test_python_client import CONFIG, Server
from weir import PATIENCE, weir

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / 'clients' / 'node' / 'weir-client.test.mjs'
WITH_TOKENS = 'a token speaks for its tenant'
NAMES = [name for name in re.findall(r"^test\('([^']+)'", SCRIPT.read_text(), flags=re.M) if name != WITH_TOKENS]


def in_node(api, *names):
    """How each test went: None, or what was wrong. The process has to end by itself, and well."""
    done = subprocess.run(['node', SCRIPT, api, *names], text=True, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=PATIENCE * (2 + len(names)))
    results = {}
    for line in done.stdout.splitlines():
        if line.startswith('{'):
            said = json.loads(line)
            results[said['name']] = said['failure']
    if done.returncode != (1 if any(results.values()) else 0):
        results['the process'] = f'ended with {done.returncode}: {done.stdout}'
    return results


@pytest.fixture(scope='module')
def results():
    server = Server(CONFIG)
    try:
        yield in_node(server.api, *NAMES)
    finally:
        server.stop()


@pytest.mark.parametrize('name', NAMES)
def test_node(results, name):
    assert name in results, results
    assert results[name] is None, results[name]


def test_the_process_has_run_all_and_ended_by_itself(results):
    assert list(results) == NAMES and len(NAMES) > 15


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
