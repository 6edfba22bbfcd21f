"""A caller's machine that is gone without a word: neither FIN nor RST ever comes. The machine is a network
namespace, and its cable is pulled. The kernel takes its time, so tools/test runs this once, without sanitizers."""
import asyncio
import contextlib
import json
import os
import subprocess

import aiohttp
from raw import run
from weir import PATIENCE, until, weir

CONFIG = '''
api: 10.203.77.1:0
threads: 2
api_tokens: { all: { token: "${WEIR_TEST_ALL}", scopes: [read, work] } }
gates:
  agents: { limit: 1, line: { timeout: 5m } }
'''
TOKEN = 'a-secret-of-somebody'
CALLER = r'''
import json, socket, sys
port, wish = int(sys.argv[1]), sys.argv[2]
wire = socket.create_connection(('10.203.77.1', port))
wire.sendall(f'POST /gates/agents/b/acquire HTTP/1.1\r\nHost: 10.203.77.1\r\nAuthorization: Bearer a-secret-of-somebody\r\n'
             f'Content-Length: {len(wish)}\r\n\r\n{wish}'.encode())
print(wire.recv(65536).split(b' ')[1].decode(), flush=True)
sys.stdin.read()
'''


def ip(*words):
    subprocess.run(['ip', *words], check=True, timeout=PATIENCE)


@contextlib.contextmanager
def machine():
    """The name of a namespace with the address 10.203.77.2, and a function that pulls its cable."""
    name = f'weir{os.getpid()}'
    ip('netns', 'add', name)
    try:
        ip('link', 'add', f'{name}a', 'type', 'veth', 'peer', 'name', f'{name}b')
        try:
            ip('link', 'set', f'{name}b', 'netns', name)
            ip('addr', 'add', '10.203.77.1/30', 'dev', f'{name}a')
            ip('link', 'set', f'{name}a', 'up')
            ip('-n', name, 'addr', 'add', '10.203.77.2/30', 'dev', f'{name}b')
            ip('-n', name, 'link', 'set', f'{name}b', 'up')
            yield name, lambda: ip('-n', name, 'link', 'set', f'{name}b', 'down')
        finally:
            ip('link', 'del', f'{name}a')
    finally:
        ip('netns', 'del', name)


async def call(name, port, **wish):
    return await asyncio.create_subprocess_exec(
        'ip', 'netns', 'exec', name, '/usr/bin/python3', '-c', CALLER, str(port), json.dumps(wish),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)


@run
async def test_what_a_lost_machine_held_and_waited_for_comes_back(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_ALL', TOKEN)
    with machine() as (name, pull_cable):
        async with weir(CONFIG) as gateway:
            [address] = gateway.addresses['api']
            port = int(address.rsplit(':', 1)[1])
            url = f'http://{address}/gates/agents/b'
            async with aiohttp.ClientSession(headers={'Authorization': f'Bearer {TOKEN}'}) as session:
                async def has(**expected):
                    async with session.get(url) as reply:
                        counts = await reply.json(content_type=None)
                        return all(counts.get(field) == value for field, value in expected.items())

                holder = await call(name, port, hold=True)
                assert await asyncio.wait_for(holder.stdout.readline(), PATIENCE) == b'200\n'
                waiter = await call(name, port, hold=True)  # it may be given the other's permit, being as lost
                await until(lambda: has(active=1, waiting=1), 'one holds and one waits')
                pull_cable()
                await until(lambda: has(active=0, waiting=0), 'both have been noticed')
                async with session.get(url) as reply:
                    ended = (await reply.json(content_type=None))['ended']
                assert ended['cancelled'] + ended['left'] == 2
            for process in holder, waiter:
                process.kill()
                await process.wait()
