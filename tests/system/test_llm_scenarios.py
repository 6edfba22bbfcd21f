"""A gateway in front of an emulated provider, over real sockets, measured at the provider: how much of what the
account allows is used, how much is refused, and who gets it. The simulator measures the same controllers for
hours (docs/internals/congestion.md); here minutes of an account are enough to see that the gateway feeds them rightly.

All times are the provider's. The scenarios run side by side, since each of them mostly waits."""
import asyncio
import contextlib
import json
import re

import aiohttp
from raw import run
from test_mock import mock
from weir import PATIENCE, weir

# 16,667 tokens a second; a request is some 100 tokens of input and 60 of output, so about a hundred of them.
ACCOUNT = ('--tokens=1000000/m', '--burst=10s', '--first-token=50ms', '--pace=500/s', '--output=50', '--chunk=10')
TEXT = 'x' * 392
RECOVERY_MS = 30_000  # at most, after a change


class Caller(asyncio.Protocol):
    """Asks again as soon as it is answered, on one connection, and reads only where replies end: hundreds of them are
    not to need more than those whom they ask."""

    def __init__(self, tenant, statuses):
        body = json.dumps({'model': 'm', 'user': tenant, 'stream': True, 'max_tokens': 400,
                           'messages': [{'role': 'user', 'content': TEXT}]})
        self._request = (f'POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Tenant: {tenant}\r\n'
                         f'Content-Length: {len(body)}\r\n\r\n{body}').encode()
        self._statuses = statuses
        self._reply = bytearray()
        self.transport = None

    def connection_made(self, transport):
        self.transport = transport
        self._ask()

    def _ask(self):
        self.transport.write(self._request)

    def _is_whole(self):
        if self._reply.startswith(b'HTTP/1.1 200'):
            return self._reply.endswith(b'\r\n0\r\n\r\n')
        head, empty, body = self._reply.partition(b'\r\n\r\n')
        return empty and len(body) == int(re.search(rb'content-length: *([0-9]+)', head, re.I)[1])

    def data_received(self, data):
        self._reply += data
        if not self._is_whole():
            return
        status = int(self._reply[9:12])
        self._statuses[status] = self._statuses.get(status, 0) + 1
        self._reply.clear()
        if status == 200:
            self._ask()
        else:
            asyncio.get_running_loop().call_later(0.1, self._ask)  # as a polite client does

    def connection_lost(self, error):
        self._statuses['lost'] = self._statuses.get('lost', 0) + 1


class Scenario:
    """Callers, a gateway, and the provider's books."""

    def __init__(self, gateway, provider, session):
        self.gateway, self.provider, self.session = gateway, provider, session
        self.statuses = {}
        self.callers = []

    async def ask(self, tenant, at_once):
        for _ in range(at_once):
            _, caller = await asyncio.get_running_loop().create_connection(
                lambda: Caller(tenant, self.statuses), '127.0.0.1', self.gateway.port)
            self.callers.append(caller)

    async def books(self):
        async with self.session.get(self.provider.url + '/mock/stats') as reply:
            return await reply.json()

    async def change(self, words):
        async with self.session.post(self.provider.url + '/mock/set?' + words) as reply:
            assert reply.status == 204, await reply.text()

    async def until(self, holds, what):
        """The books once they are so. They are not looked at more often than anything happens."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            books = await self.books()
            if holds(books):
                return books
            assert asyncio.get_running_loop().time() < deadline, f'it never came: {what}'
            await asyncio.sleep(0.05)

    async def after(self, count):
        """The books once so many more have been accepted."""
        start = (await self.books())['accepted']
        return await self.until(lambda books: books['accepted'] >= start + count, f'{count} more are accepted')

    async def recovers(self, change, count):
        """The books once no less flows out of the account than into it, nor more: what it had saved up by the change is
        spent. That is soon."""
        while True:
            before = await self.books()
            after = await self.after(count)
            assert after['now_ms'] - change['now_ms'] <= RECOVERY_MS, (change, before, after)
            if 0.97 <= used(before, after) <= 1.03:
                return after

    def stop(self):
        for caller in self.callers:
            caller.transport.abort()


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
            aiohttp.ClientSession() as session:
        one = Scenario(gateway, provider, session)
        try:
            yield one
        finally:
            one.stop()


def difference(before, after):
    return {name: after[name] - before[name] for name in after if isinstance(after[name], int)}


def used(before, after):
    """The share of what flowed into the account that was taken from it."""
    change = difference(before, after)
    return (change['tokens_charged'] - change['tokens_returned']) / change['tokens_allowed']


def kept(before, after):
    """The share of what flowed in that was taken or is still there, which is all of it unless it was full."""
    change = difference(before, after)
    level = after['levels']['tokens']['level'] - before['levels']['tokens']['level']
    return (change['tokens_charged'] - change['tokens_returned'] + level) / change['tokens_allowed']


def refused(before, after):
    change = difference(before, after)
    return change['refused'] / (change['refused'] + change['accepted'])


def jain(amounts):
    return sum(amounts) ** 2 / (len(amounts) * sum(amount ** 2 for amount in amounts))


def check_all_used(before, after):
    assert used(before, after) >= 0.97, (before, after)
    assert refused(before, after) <= 0.001, (before, after)


async def steady_and_halved():
    async with scenario(*ACCOUNT) as one:
        await one.ask('a', 250)
        before = await one.after(1500)
        change = await one.after(1500)
        check_all_used(before, change)
        await one.change('tokens=500000/m')
        before = await one.recovers(change, 250)
        after = await one.after(750)
        check_all_used(before, after)
        assert used(before, after) <= 1.03, (before, after)
        assert refused(change, after) <= 0.001, (change, after)
        assert set(one.statuses) == {200}


async def noisy_neighbour():
    async with scenario(*ACCOUNT, '--seed=2') as one:
        await one.ask('noisy', 300)
        for number in range(9):
            await one.ask(f'quiet-{number}', 25)
        before = await one.after(1500)
        after = await one.after(2000)
        tokens = {row['name']: row['tokens'] for row in after['tenants']}
        for row in before['tenants']:
            tokens[row['name']] -= row['tokens']
        assert len(tokens) == 10
        assert jain(list(tokens.values())) >= 0.95, tokens
        check_all_used(before, after)
        assert set(one.statuses) == {200}


async def brown_out():
    async with scenario(*ACCOUNT, '--seed=3', gate=', limit: { start: 8 }') as one:
        await one.ask('a', 160)
        await one.after(1000)
        await one.change('fail=100')
        start, before = await one.until(lambda books: books['failed'] > 300, 'it fails'), sum(one.statuses.values())
        end = await one.until(lambda books: books['now_ms'] >= start['now_ms'] + 18_000, 'the end of the brown-out')
        # Each caller asks again once it is answered.
        asked, sent = sum(one.statuses.values()) - before, difference(start, end)['requests']
        assert sent <= 1.1 * asked, (sent, asked)
        await one.change('fail=0')
        before = await one.recovers(end, 500)
        check_all_used(before, await one.after(1200))
        assert set(one.statuses) == {200, 503}


async def silent():
    """Nobody states a limit: it is found by refusals, of which a few are needed. Between two of them the account is
    nearly full and empty again, which is as much as flows in meanwhile; so what counts is that nothing of that is lost."""
    async with scenario(*ACCOUNT, '--seed=4', '--headers=off') as one:
        await one.ask('a', 250)
        await one.until(lambda books: books['refused'] > 0, 'the limit is found')
        before = await one.after(300)
        after = await one.after(1800)
        assert kept(before, after) >= 0.97, (before, after)
        assert used(before, after) >= 0.90, (before, after)
        assert refused(before, after) <= 0.003, (before, after)
        assert set(one.statuses) == {200}


@run
async def test_the_account_is_used_and_hardly_ever_overdrawn():
    await asyncio.gather(steady_and_halved(), noisy_neighbour(), brown_out(), silent())
