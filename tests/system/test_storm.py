"""A storm: 2,000 clients that do whatever clients do, an upstream that does whatever upstreams do, and limits
that change meanwhile. Afterwards nothing is left of it.

WEIR_STORM_SECONDS says how long, WEIR_SEED repeats one as far as the kernel's timing allows."""
import asyncio
import collections
import contextlib
import json
import os
import pathlib
import random
import sys
import tempfile
import time

from storm_clients import FATES, KEYS, Storm
from storm_raw import descriptors, dial, request
from weir import until, weir

HERE = pathlib.Path(__file__).parent
SECONDS = float(os.environ.get('WEIR_STORM_SECONDS', '60'))
SEED = int(os.environ.get('WEIR_SEED', '0')) or random.SystemRandom().randrange(1, 1 << 32)
CLIENTS = 2000
THREADS = 2
KEEPALIVE = 8
LIMIT_MAX = 8
IDEMPOTENT = {'GET', 'HEAD', 'PUT', 'DELETE', 'OPTIONS', 'TRACE'}

# What must have happened, or the storm has tested nothing.
KINDS = [
    'answer: 200', 'answer: 429 line-timeout', 'answer: 429 line-full', 'answer: 429 displaced',
    'answer: 502 upstream-unreachable', 'answer: 504 upstream-timeout', 'answer: breaks off',
    *(f'hung up {when}, {how}' for when in ('in the head', 'after the head', 'in the body', 'in the reply')
      for how in ('fin', 'rst')),
    'kept alive', 'answered in a row', 'read slowly', 'silent, and gone', 'hung up in line',
    'hung up when admitted', 'inside as many as may be',
]


class Limits:
    """Which limit a key had when. Between a signal and the word that it is done, both are in force."""

    def __init__(self, rng):
        self.rng = rng
        self.versions = []  # [from, to, limits]

    def roll(self):
        return {key: self.rng.randrange(1, LIMIT_MAX + 1) for key in KEYS}

    def begin(self, limits):
        self.versions.append([time.monotonic(), float('inf'), limits])

    def done(self):
        self.versions[-2][1] = time.monotonic()

    def most(self, key, begin, end):
        """The largest limit of the key at any moment from begin to end, and whether there was but one."""
        found = {limits[key] for start, stop, limits in self.versions if start <= end and begin <= stop}
        return max(found), len(found) == 1


def gates(limits):
    keys = ', '.join(f'{key}: {{ limit: {limit} }}' for key, limit in limits.items())
    return f'''gates:
  storm:
    limit: 1
    line: {{ timeout: 800ms, max: 60 }}
    keys: {{ {keys} }}
  steady: {{ limit: 10 }}
'''


def config(port, limits):
    return f'''
listen: 127.0.0.1:0
api: 127.0.0.1:0
threads: {THREADS}
grace: 5s
upstreams:
  storm:
    url: "http://127.0.0.1:{port}"
    timeouts: {{ connect: 1m, first_byte: 1500ms, idle: 1m }}
    keepalive: {KEEPALIVE}
{gates(limits)}
routes:
  - match: /functions/{{function}}
    key: "{{function}}"
    tenant: header:X-Tenant
    gate: storm
    upstream: storm
'''


@contextlib.asynccontextmanager
async def upstream(record):
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / 'storm_upstream.py'), str(record),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    try:
        yield process, int(await asyncio.wait_for(process.stdout.readline(), 60))
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def change_limits(gateway, limits, storm, counts):
    """New limits now and then, and sometimes the same as before."""
    while not storm.stopping:
        await asyncio.sleep(min(4, SECONDS / 5))
        before, after = limits.versions[-1][2], limits.roll()
        limits.begin(after)
        await gateway.reload((gates(before), gates(after)))
        limits.done()
        counts['reloads'] += 1


async def all_zero(gateway):
    _, said = await gateway.ask_api('/gates/storm')
    return all(key['active'] == key['waiting'] == key['reserved'] == 0 for key in said['keys'])


def check_record(record, limits, left, counts):
    """What the upstream saw, against what was allowed. Returns what is wrong."""
    wrong = list(record['wrong'])
    by_id = collections.defaultdict(list)
    full = collections.defaultdict(set)
    for arrival in record['arrivals']:
        by_id[arrival['id']].append(arrival)
        # Whoever of those inside was admitted last, was so after this one had been sent, and then all of
        # them were active: so they are no more than the limit at some moment since.
        most, tight = limits.most(arrival['key'], arrival['sent'], arrival['now'])
        if arrival['dead']:  # given up by the gateway before it was seen: it was never inside
            counts['seen only after it was given up'] += 1
            counts['... with as many inside as may be'] += arrival['count'] >= most
        elif arrival['later'] > most:
            wrong.append(f'{arrival["later"]} inside where {most} may be: {arrival}')
        elif arrival['count'] > most:
            counts['closed a moment late'] += 1
        elif tight and arrival['count'] == most:
            counts['inside as many as may be'] += 1
            full[arrival['key']].add(most)
    for name, seen in by_id.items():
        # Again is sent only what does no harm and died on a pooled connection without any reply, and that
        # once, on a new connection.
        again = (seen[0]['method'] in IDEMPOTENT and seen[0]['reused'] and not seen[-1]['reused'] and
                 seen[0]['fate'] in ('reset_first', 'close_first'))
        if len(seen) > (2 if again else 1):
            wrong.append(f'{name} was sent {len(seen)} times: {seen}')
        counts['sent again'] += len(seen) - 1
    counts['hung up in line'] += len(left - by_id.keys())
    counts['hung up when admitted'] += record['counts'].get('gone', 0)
    if record['inside'] != 0:
        wrong.append(f'{record["inside"]} are inside although all have gone')
    print('full at limits: ' + ', '.join(f'{key}: {sorted(full[key])}' for key in KEYS))
    return wrong


def tell(title, counts):
    print(title)
    for name, count in sorted(counts.items()):
        print(f'  {count:8} {name}')


def test_a_storm_leaves_nothing_behind():
    async def test():
        print(f'WEIR_SEED={SEED} WEIR_STORM_SECONDS={SECONDS:g}')
        limits = Limits(random.Random(SEED))
        limits.begin(limits.roll())
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / 'record.json'
            async with upstream(path) as (origin, port), weir(config(port, limits.versions[0][2])) as gateway:
                pid = gateway.process.pid
                await all_zero(gateway)  # and so the connection to the API is there
                before = descriptors(pid)
                storm = Storm(gateway.port, SEED)
                clients = [asyncio.create_task(storm.client(i)) for i in range(CLIENTS)]
                changes = asyncio.create_task(change_limits(gateway, limits, storm, storm.counts))
                most = 0
                began = time.monotonic()
                while time.monotonic() - began < SECONDS:
                    await asyncio.sleep(0.5)
                    most = max(most, descriptors(pid))
                    assert gateway.process.returncode is None, gateway.complaints()
                    assert len(storm.wrong) < 100, '\n'.join(storm.wrong[:20])
                storm.stopping = True
                await asyncio.wait_for(asyncio.gather(*clients), 120)
                await changes

                # All is as it was.
                await until(lambda: all_zero(gateway), 'nobody is active, waits or is reserved')
                await until(lambda: descriptors(pid) <= before + THREADS * KEEPALIVE,
                            'only pooled connections are left')
                async with dial(gateway.port) as wire:
                    await wire.send(request(f'/functions/{KEYS[0]}?id=last&fate=quick&sent={time.monotonic()}'))
                    status, fields, _ = await wire.reply()
                    assert (status, fields[b'x-id']) == (200, b'last')
                origin.stdin.close()
                await asyncio.wait_for(origin.wait(), 60)
                complaints = gateway.complaints()
            record = json.loads(path.read_text())
        wrong = check_record(record, limits, storm.left, storm.counts) + storm.wrong
        tell(f'{most} descriptors at most; what the clients did and got:', storm.counts)
        tell('what the upstream did:', record['counts'])
        assert not wrong, f'{len(wrong)} are wrong:\n' + '\n'.join(wrong[:20])
        assert 'Sanitizer' not in complaints
        assert most > CLIENTS / 4
        assert storm.counts['reloads'] >= 2
        missing = [kind for kind in KINDS if not storm.counts[kind]]
        missing += [fate for fate in FATES if not record['counts'].get(fate)]
        missing += [f'did {name}' for name in storm.often if not storm.counts[f'did {name}']]
        assert not missing, f'the storm never had: {missing}'
    asyncio.run(asyncio.wait_for(test(), SECONDS + 240))
