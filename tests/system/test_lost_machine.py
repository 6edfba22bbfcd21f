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
port, key, wish = int(sys.argv[1]), sys.argv[2], sys.argv[3]
wire = socket.create_connection(('10.203.77.1', port))
wire.sendall(f'POST /gates/agents/{key}/acquire HTTP/1.1\r\nHost: 10.203.77.1\r\nAuthorization: Bearer a-secret-of-somebody\r\n'
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


async def call(name, port, key, **wish):
    return await asyncio.create_subprocess_exec(
        'ip', 'netns', 'exec', name, '/usr/bin/python3', '-c', CALLER, str(port), key, json.dumps(wish),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)


@run
async def test_what_a_lost_machine_held_and_waited_for_comes_back(monkeypatch):
    monkeypatch.setenv('WEIR_TEST_ALL', TOKEN)
    with machine() as (name, pull_cable):
        async with weir(CONFIG) as gateway:
            [address] = gateway.addresses['api']
            port = int(address.rsplit(':', 1)[1])
            url = f'http://{address}/gates/agents'
            async with aiohttp.ClientSession(headers={'Authorization': f'Bearer {TOKEN}'}) as session:
                async def ask(what, **wish):
                    async with session.post(f'{url}/{what}', json=wish) as reply:
                        assert reply.status == 200
                        return await reply.json()

                async def counts(key):
                    async with session.get(f'{url}/{key}') as reply:
                        return await reply.json(content_type=None)

                async def has(key, **expected):
                    said = await counts(key)
                    return all(said.get(field) == value for field, value in expected.items())

                holder = await call(name, port, 'held', hold=True)
                assert await asyncio.wait_for(holder.stdout.readline(), PATIENCE) == b'200\n'
                await ask('waited-for/acquire')
                waiter = await call(name, port, 'waited-for', hold=True)
                permit = (await ask('inherited/acquire'))['permit']
                heir = await call(name, port, 'inherited', hold=True)
                for key in ('waited-for', 'inherited'):
                    await until(lambda: has(key, active=1, waiting=1), 'it waits')
                pull_cable()
                # It is told of its permit, into the void: then no probes are sent, since there is something to repeat.
                await ask('inherited/release', permit=permit)
                assert await has('inherited', active=1, waiting=0)
                await until(lambda: has('held', active=0, waiting=0), 'who held has been noticed')
                await until(lambda: has('waited-for', active=1, waiting=0), 'who waited as well')
                await until(lambda: has('inherited', active=0, waiting=0), 'who had just been admitted as well')
                assert (await counts('waited-for'))['ended']['cancelled'] == 1
            for process in holder, waiter, heir:
                process.kill()
                await process.wait()
