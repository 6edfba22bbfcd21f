"""A gateway in front of an emulated provider, over real sockets, measured at the provider: how much of what the
account allows is used, how much is refused, and who gets it. The simulator measures the same controllers for
hours (docs/CONGESTION.md); here minutes of an account are enough to see that the gateway feeds them rightly.

The scenarios run side by side, since each of them mostly waits."""
import asyncio
import contextlib

import aiohttp
from raw import run
from test_mock import mock
from weir import until, weir

# 16,667 tokens a second; a request is some 100 tokens of input and 60 of output, so about a hundred of them.
ACCOUNT = ('--tokens=1000000/m', '--burst=10s', '--first-token=50ms', '--pace=500/s', '--output=50')
TEXT = 'x' * 392


class Scenario:
    """Callers that ask again as soon as they are answered, a gateway, and the provider's books."""

    def __init__(self, gateway, provider, session):
        self.gateway, self.provider, self.session = gateway, provider, session
        self.statuses = {}
        self.callers = []

    async def _call(self, tenant):
        body = {'model': 'm', 'user': tenant, 'stream': True, 'max_tokens': 400,
                'messages': [{'role': 'user', 'content': TEXT}]}
        while True:
            async with self.session.post(self.gateway.url + '/v1/chat/completions', json=body,
                                         headers={'X-Tenant': tenant}) as reply:
                await reply.read()
                self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
            if reply.status != 200:
                await asyncio.sleep(0.1)  # as a polite client does

    def ask(self, tenant, at_once):
        self.callers += [asyncio.create_task(self._call(tenant)) for _ in range(at_once)]

    async def books(self):
        async with self.session.get(self.provider.url + '/mock/stats') as reply:
            return await reply.json()

    async def change(self, words):
        async with self.session.post(self.provider.url + '/mock/set?' + words) as reply:
            assert reply.status == 204, await reply.text()

    async def after(self, count, what='accepted'):
        """The books once so many more have been accepted."""
        start = (await self.books())[what]
        books = None

        async def enough():
            nonlocal books
            books = await self.books()
            return books[what] >= start + count
        await until(enough, f'{count} more are {what}')
        return books

    def stop(self):
        for caller in self.callers:
            caller.cancel()


@contextlib.asynccontextmanager
async def scenario(*flags, gate=''):
    config = '''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: 1
grace: 1s
upstreams: {{ provider: {{ url: "{url}" }} }}
gates: {{ llm: {{ line: {{ max: 10000, timeout: 2m }} {gate} }} }}
routes: [ {{ match: /, llm: openai, key: "{{model}}", tenant: header:X-Tenant, gate: llm, upstream: provider }} ]
'''
    async with mock('--llm=openai', *flags) as provider, \
            weir(config.format(url=provider.url, gate=gate)) as gateway, \
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0),
                                  timeout=aiohttp.ClientTimeout(total=None)) as session:
        one = Scenario(gateway, provider, session)
        try:
            yield one
        finally:
            one.stop()
            await asyncio.gather(*one.callers, return_exceptions=True)


def difference(before, after):
    return {name: after[name] - before[name] for name in after if isinstance(after[name], int)}


def used(before, after):
    """The share of what flowed into the account that was taken from it."""
    change = difference(before, after)
    return (change['tokens_charged'] - change['tokens_returned']) / change['tokens_allowed']


def refused(before, after):
    change = difference(before, after)
    return change['refused'] / (change['refused'] + change['accepted'])


def jain(amounts):
    return sum(amounts) ** 2 / (len(amounts) * sum(amount ** 2 for amount in amounts))


async def steady_and_halved():
    async with scenario(*ACCOUNT) as one:
        one.ask('a', 80)
        before = await one.after(1500)
        after = await one.after(2000)
        assert used(before, after) >= 0.97, (before, after)
        assert refused(before, after) <= 0.001, (before, after)
        await one.change('tokens=500000/m')
        before = await one.after(300)
        after = await one.after(1000)
        assert 0.90 <= used(before, after) <= 1.10, (before, after)
        assert refused(before, after) <= 0.01, (before, after)
        assert set(one.statuses) == {200}


async def noisy_neighbour():
    async with scenario(*ACCOUNT, '--seed=2') as one:
        one.ask('noisy', 300)
        for number in range(9):
            one.ask(f'quiet-{number}', 10)
        before = await one.after(1500)
        after = await one.after(2000)
        tokens = {row['name']: row['tokens'] for row in after['tenants']}
        for row in before['tenants']:
            tokens[row['name']] -= row['tokens']
        assert len(tokens) == 10
        assert jain(list(tokens.values())) >= 0.95, tokens
        assert used(before, after) >= 0.97 and refused(before, after) <= 0.001, (before, after)


async def brown_out():
    async with scenario(*ACCOUNT, '--seed=3', gate=', limit: { start: 8 }') as one:
        one.ask('a', 80)
        await one.after(1000)
        start, answered = await one.books(), sum(one.statuses.values())
        await one.change('fail=100')
        await one.after(60, 'failed')
        await one.change('fail=0')
        middle = await one.after(200)
        asked = sum(one.statuses.values()) - answered + len(one.callers)  # each has one under way
        sent = difference(start, middle)['requests']
        assert sent <= 1.1 * asked, (sent, asked)
        before = await one.after(300)
        after = await one.after(1000)
        assert used(before, after) >= 0.90, (before, after)


async def silent():
    """Nobody states a limit: it is found by refusals, of which a few are needed."""
    async with scenario(*ACCOUNT, '--seed=4', '--headers=off') as one:
        one.ask('a', 120)
        before = await one.after(3000)
        after = await one.after(2000)
        assert used(before, after) >= 0.90, (before, after)
        assert refused(before, after) <= 0.02, (before, after)
        assert set(one.statuses) == {200}


@run
async def test_the_account_is_used_and_hardly_ever_overdrawn():
    await asyncio.gather(steady_and_halved(), noisy_neighbour(), brown_out(), silent())
