"""Servers of one's own, such as llama.cpp or vLLM: they state nothing, refuse nobody, and queue inside."""
import asyncio
import contextlib
import time

import aiohttp
from raw import run
from test_mock import mock
from weir import until, weir

SILENT = ('--llm=openai', '--headers=off')

# A reply takes an eighth of a second; four at once, the others wait inside.
SLOTS = (*SILENT, '--slots=4', '--first-token=30ms', '--first-spread=0.2', '--pace=200/s', '--output=20',
         '--output-spread=0.3')
CLIENTS = {'many': 30, 'few': 3, 'others': 3}

CONFIG = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
grace: 1s
upstreams: {{ own: {{ url: "{url}" }} }}
gates: {{ llm: {{ line: {{ max: 1000, timeout: 5m }} }} }}
routes: [ {{ match: /, llm: openai, key: "{{model}}", tenant: header:X-Tenant, gate: llm, upstream: own }} ]
'''


async def ask(session, url, tenant='a', words=10, **more):
    body = {'model': 'm', 'messages': [{'role': 'user', 'content': 'weir ' * words}], **more}
    async with session.post(url + '/v1/chat/completions', json=body, headers={'X-Tenant': tenant}) as reply:
        assert reply.status == 200, await reply.text()
        await reply.read()


@contextlib.asynccontextmanager
async def self_hosted(*flags):
    async with mock(*flags) as server, weir(CONFIG.format(url=server.url)) as gateway, \
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        yield server, gateway, session


async def seconds_of_a_wave(session, url):
    began = time.monotonic()
    await asyncio.gather(*(ask(session, url, words=13600) for _ in range(8)))  # 17,000 tokens each
    return time.monotonic() - began


@run
async def test_a_crowd_of_large_requests_is_not_held_back_by_a_rate_that_nobody_has_stated():
    """Within 1.2 times on an idle machine; it was 7 times."""
    async with self_hosted(*SILENT, '--first-token=500ms', '--first-spread=0', '--pace=none') as (server, gateway,
                                                                                                session):
        for _ in range(2):
            direct = await seconds_of_a_wave(session, server.url)
            through = await seconds_of_a_wave(session, gateway.url)
            assert through <= 2 * direct, (through, direct)


def jain(amounts):
    return sum(amounts) ** 2 / (len(amounts) * sum(amount ** 2 for amount in amounts))


class Crowd:
    """Clients of three tenants, each of whom asks again once it is answered."""

    def __init__(self, session, url, stream):
        self.served = dict.fromkeys(CLIENTS, 0)
        self.tasks = [asyncio.create_task(self._client(session, url, tenant, stream))
                      for tenant, count in CLIENTS.items() for _ in range(count)]

    async def _client(self, session, url, tenant, stream):
        while True:
            await ask(session, url, tenant, stream=stream)
            self.served[tenant] += 1

    async def fairness(self, replies):
        """Jain's index over the next so many replies."""
        before = dict(self.served)
        enough = sum(before.values()) + replies
        for task in self.tasks:
            assert not task.done(), task.exception()
        await until(lambda: sum(self.served.values()) >= enough, 'the replies')
        return jain([self.served[tenant] - before[tenant] for tenant in CLIENTS])

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def until_fair(session, gateway, stream):
    """In front of the server the tenants take turns, once the window is no larger than the slots."""
    crowd = Crowd(session, gateway.url, stream)
    try:
        reached = []
        while not reached or reached[-1] < 0.95:
            reached.append(await crowd.fairness(48))
            assert len(reached) < 40, reached
        counts = await gateway.counts('m', 'llm')
        assert counts['limit'] <= 12, counts
    finally:
        await crowd.stop()


@run
async def test_the_window_finds_the_slots_so_tenants_share_them_evenly_streamed_or_not():
    async with self_hosted(*SLOTS) as (server, gateway, session):
        direct = Crowd(session, server.url, False)
        try:
            await direct.fairness(36)  # the first wave
            assert await direct.fairness(72) <= 0.7  # who has the most clients has the most of it
        finally:
            await direct.stop()
        await until_fair(session, gateway, True)
    async with self_hosted(*SLOTS) as (server, gateway, session):
        await until_fair(session, gateway, False)
