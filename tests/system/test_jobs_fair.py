"""Which job goes next, over real HTTP and with real commands (docs/internals/jobs.md, J8). One worker, whose command notes that
it begins: what stands in the ledger is the order. A first job holds the worker until all others are queued."""
import collections
import contextlib
import datetime
import json
import pathlib

import aiohttp
from raw import run
from weir import until, weir

COMMAND = '''#!/bin/sh
read -r what rest <"$1"
echo "$2" >>{place}/ledger
case $what in
hold) while [ ! -e {place}/go ]; do sleep 0.01; done ;;
sleep*) sleep "${{what#sleep}}" ;;
esac
'''

CONFIG = '''
api: 127.0.0.1:0
threads: 2
grace: 0s
queues:
  work:
    run: [{place}/command, "{{in}}", "{{id}}"]
    workers: 1
    grace: 0s
    line: {{ max: 1000000 }}
'''


class Queue:
    def __init__(self, place, gateway, session):
        self.place, self.gateway, self.session = place, gateway, session

    async def submit(self, jobs):
        """Documents of NDJSON."""
        for begin in range(0, len(jobs), 10000):
            lines = '\n'.join(json.dumps(job) for job in jobs[begin:begin + 10000])
            async with self.session.post(self.gateway.api + '/submit', data=lines,
                                         headers={'Content-Type': 'application/x-ndjson'}) as reply:
                assert reply.status == 202, await reply.text()

    def begun(self):
        """Their ids, in order; the first is the one that holds the worker."""
        path = self.place / 'ledger'
        return path.read_text().split() if path.exists() else []

    async def done(self):
        """The documents of all but the first that are done."""
        documents, after = [], ''
        while True:
            async with self.session.get(f'{self.gateway.api}/jobs?state=done&limit=1000{after}') as reply:
                said = await reply.json()
            documents += [document for document in said['jobs'] if document['id'] != 'hold']
            if 'next' not in said:
                return documents
            after = f'&after={said["next"]}'

    def go(self):
        (self.place / 'go').touch()

    async def until_begun(self, count):
        """So many after the first one."""
        await until(lambda: len(self.begun()) > count, f'{count} have begun')
        return self.begun()[1:count + 1]


def seconds_between(begin, end):
    return (datetime.datetime.fromisoformat(end) - datetime.datetime.fromisoformat(begin)).total_seconds()


@contextlib.asynccontextmanager
async def queue(place):
    """One whose worker is held until go()."""
    place = pathlib.Path(place)
    (place / 'command').write_text(COMMAND.format(place=place))
    (place / 'command').chmod(0o755)
    async with weir(CONFIG.format(place=place)) as gateway, aiohttp.ClientSession() as session:
        made = Queue(place, gateway, session)
        await made.submit([{'id': 'hold', 'tenant': 'holder', 'body': 'hold'}])
        await until(made.begun, 'the worker is held')
        yield made
        made.go()


@run
async def test_one_job_is_not_delayed_by_100000_of_another_tenant(tmp_path):
    async with queue(tmp_path) as work:
        await work.submit([{'id': f'hog{number}', 'tenant': 'hog', 'body': 'x'} for number in range(100000)])
        await work.submit([{'id': 'single', 'tenant': 'modest', 'body': 'x'}])
        work.go()
        assert 'single' in await work.until_begun(2)
        # Also one that comes when the other has had many turns.
        await work.until_begun(20)
        await work.submit([{'id': 'later', 'tenant': 'newcomer', 'body': 'x'}])
        before = len(work.begun())
        await until(lambda: 'later' in work.begun(), 'it begins')
        assert work.begun().index('later') <= before + 2


@run
async def test_priorities_are_4_3_1_exactly(tmp_path):
    async with queue(tmp_path) as work:
        counts = {'high': 40, 'normal': 30, 'low': 10}
        await work.submit([{'id': f'{priority}{number}', 'tenant': 't', 'priority': priority, 'body': 'x'}
                           for priority, count in counts.items() for number in range(count)])
        work.go()
        begun = [job.rstrip('0123456789') for job in await work.until_begun(80)]
        for at in range(80 - 8 + 1):
            assert collections.Counter(begun[at:at + 8]) == {'high': 4, 'normal': 3, 'low': 1}, begun


@run
async def test_within_a_tenant_it_is_first_come_first_served(tmp_path):
    async with queue(tmp_path) as work:
        await work.submit([{'id': f'{number}', 'tenant': 't', 'body': 'x'} for number in range(50)])
        work.go()
        assert await work.until_begun(50) == [str(number) for number in range(50)]


@run
async def test_tenants_share_by_how_long_their_jobs_run(tmp_path):
    """A job of one runs four times as long as one of the other, so it gets about a quarter as many."""
    async with queue(tmp_path) as work:
        lengths = {'long': 0.08, 'brief': 0.02}
        await work.submit([{'id': f'{tenant}{number}', 'tenant': tenant, 'body': f'sleep{seconds}\n'}
                           for tenant, seconds in lengths.items() for number in range(500)])
        work.go()
        await work.until_begun(120)
        ran = collections.Counter()
        for document in await work.done():
            ran[document['tenant']] += seconds_between(document['started'], document['ended'])
        assert 0.75 < ran['long'] / ran['brief'] < 1.33, ran
        begun = collections.Counter(job.rstrip('0123456789') for job in work.begun()[1:])
        assert begun['brief'] > 1.3 * begun['long'], begun


@run
async def test_nobody_starves(tmp_path):
    """Thirty who want little, one who wants all."""
    async with queue(tmp_path) as work:
        await work.submit([{'id': f'hog{number}', 'tenant': 'hog', 'body': 'x'} for number in range(2000)])
        await work.submit([{'id': f'{tenant}-{number}', 'tenant': f'modest{tenant}', 'body': 'x', 'priority': 'low'}
                           for tenant in range(30) for number in range(3)])
        work.go()
        # A turn in eight is one of low priority while others wait: thirty of them take 240.
        begun = await work.until_begun(300)
        assert {job.split('-')[0] for job in begun if '-' in job} == {str(tenant) for tenant in range(30)}
