"""What a token of one tenant is told of a gateway that many share: of its own flows and jobs, and of nobody else's."""
import asyncio

import pytest
from jobs import jobs
from raw import run
from weir import until_still

CONFIG = '''
api: 127.0.0.1:0
threads: 2
data: ./data
gates:
  agents: { limit: 1, line: { timeout: 30s }, events: a2a }
queues:
  keep: {}
  broken: { run: ["sh", "-c", "exit 3"], attempts: 1, keep: 1h }
'''
TOKENS = '''
api_tokens:
  any: { token: "${WEIR_TEST_ANY}", scopes: [read, submit, work, admin] }
  acme: { token: "${WEIR_TEST_ACME}", scopes: [read, submit, work], tenant: acme }
'''


@pytest.fixture(autouse=True)
def tokens(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_ANY', 'a-secret-of-anybody')
    monkeypatch.setenv('WEIR_TEST_ACME', 'a-secret-of-acme')


def confined(test):
    """Runs a test with two callers: one that may speak for anybody, and one of acme."""
    @run
    async def wrapper():
        async with jobs(CONFIG + TOKENS) as call:
            await test(call.with_token('a-secret-of-anybody'), call.with_token('a-secret-of-acme'))
    wrapper.__name__ = test.__name__
    return wrapper


@confined
async def test_whom_a_caller_speaks_for_outlives_the_config_that_says_so(anybody, acme):
    await anybody.gateway.reload(('limit: 1', 'limit: 2'))  # what it has started with stays
    await acme.submit('/mine?queue=keep', b'x')
    status = asyncio.create_task(acme('GET', '/status/mine?wait=60'))
    await until_still(acme.gateway.process.pid)
    await anybody.gateway.reload(('limit: 2', 'limit: 3'))
    assert (await anybody('POST', '/cancel/mine')).status == 200
    assert (await status).json['state'] == 'cancelled'
