"""A storm of reloads: requests and permits come and go while limits, lines, tenants, keys, gates and routes
change under them, and some configs are wrong."""
import asyncio
import random

import aiohttp
from raw import run
from weir import PATIENCE, Upstream, until, weir

RELOADS = 40
MOST = 5  # the highest limit that any of the configs has


def config(rng, port):
    """A gateway with other settings each time. What is named stays the same: two gates, their keys."""
    limit = rng.randint(1, MOST)
    line = rng.choice(['timeout: 5s, max: 1000', 'timeout: 50ms, max: 1000', 'timeout: 5s, max: 3',
                       'timeout: 5s, max: 1000, by_tenant: 2', 'timeout: 5s, max: 6, status: 503'])
    tenants = rng.choice(['', 'tenants: { default: { limit: 1 } }',
                          'tenants: { default: { weight: 3 }, b: { limit: 2, rate: 50/s } }'])
    keys = rng.choice(['', f'keys: {{ f: {{ limit: {rng.randint(1, MOST)} }} }}'])
    more = rng.choice(['', 'other: { limit: 1 }'])
    route = rng.choice(['', '- { match: /extra/, upstream: functions, gate: functions, key: extra }'])
    return f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 2
grace: 5s
upstreams: {{ functions: {{ url: "http://127.0.0.1:{port}" }} }}
gates:
  functions:
    limit: {limit}
    line: {{ {line} }}
    {tenants}
    {keys}
  agents: {{ limit: {rng.randint(1, MOST)}, line: {{ {line} }}, lease: {rng.choice(['10m', '100ms'])} }}
  {more}
routes:
  - match: /functions/{{function}}
    key: "{{function}}"
    tenant: header:X-Tenant
    gate: functions
    upstream: functions
  {route}
'''


class Crowd:
    """Callers that go on until they are told to end."""

    def __init__(self, gateway, session):
        self.gateway = gateway
        self.session = session
        self.ending = False
        self.statuses = {}

    def count(self, what, status, allowed):
        assert status in allowed, (what, status)
        self.statuses[what, status] = self.statuses.get((what, status), 0) + 1

    async def ask(self, number):
        while not self.ending:
            path = f'/functions/{"fg"[number % 2]}?id={number}'
            async with self.session.get(self.gateway.url + path,
                                        headers={'X-Tenant': 'abc'[number % 3]}) as reply:
                await reply.read()
                self.count('request', reply.status, {200, 429, 503})

    async def hold(self, number):
        """Permits of the API: kept by the connection, or given back, or left to their lease."""
        base = f'{self.gateway.api}/gates/agents/k'
        while not self.ending:
            hold = number % 2 == 0
            async with self.session.post(base + '/acquire', json={'flow': f'{number}', 'hold': hold}) as reply:
                self.count('acquire', reply.status, {200, 429, 503})
                if reply.status != 200 or hold:
                    if hold and reply.status == 200:
                        await reply.content.readline()
                        reply.close()
                    continue
                permit = (await reply.json())['permit']
            async with self.session.post(base + '/release', json={'permit': permit}) as reply:
                await reply.read()
                self.count('release', reply.status, {200, 409})


async def reload(gateway, session, text, by_signal):
    """True if it was taken up."""
    gateway.path.write_text(text)
    if by_signal:
        await gateway.reload()
        return True
    async with session.post(f'{gateway.api}/reload') as reply:
        said = await reply.json(content_type=None)
        assert reply.status in (200, 422), said
        if reply.status == 200:
            line = await asyncio.wait_for(gateway.process.stdout.readline(), PATIENCE)
            assert line == b'weir: reloaded\n'
        return reply.status == 200


@run
async def test_nobody_is_lost_whatever_changes_under_them():
    rng = random.Random(4)
    upstream = Upstream()
    async with upstream.serve() as port, weir(config(rng, port)) as gateway:
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
            crowd = Crowd(gateway, session)
            tasks = [asyncio.create_task(work(number)) for number in range(16)
                     for work in (crowd.ask, crowd.ask, crowd.hold)]
            for number in range(RELOADS):
                text = config(rng, port)
                wrong = number % 8 == 7
                if wrong:
                    text = text.replace('threads', 'treads') if number % 16 == 7 else text + '  broken: ['
                done = await reload(gateway, session, text, by_signal=not wrong and number % 2 == 0)
                assert done != wrong
                seen = sum(crowd.statuses.values())
                await until(lambda: sum(crowd.statuses.values()) > seen + 20, 'they go on')
                assert not any(task.done() for task in tasks), [task for task in tasks if task.done()]
            crowd.ending = True
            await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
            for key in 'fg':
                await gateway.until(key, active=0, waiting=0, reserved=0)
            await gateway.until('k', 'agents', active=0, waiting=0, reserved=0)
    assert upstream.most <= 2 * MOST  # two keys
    for what in ('request', 200), ('request', 429), ('acquire', 200), ('release', 200):
        assert crowd.statuses[what] > 0, crowd.statuses
