"""Durable jobs under load while Weir is killed, again and again; folders that are another's, or damaged. Nothing that was
accepted is lost (docs/internals/jobs.md, J2 to J4, J6, J7); history.py says what that means.

WEIR_SEED repeats a run as far as the kernel's timing allows; WEIR_KILLS says how often (in make soak: thousands)."""
import asyncio
import collections
import contextlib
import os
import sqlite3
import subprocess

import aiohttp
import pytest
from job_load import Clients, chance_of, kill_under_load, site, to_the_end
from power import SHIM
from raw import run
from weir import PATIENCE, PROGRAM, until

# Sanitizers, with which there is no shim, make it slow.
KILLS = int(os.environ.get('WEIR_KILLS', '100' if SHIM.exists() else '20'))
SIDE_BY_SIDE = 2


@to_the_end
async def test_nothing_is_lost_when_it_is_killed_under_load(tmp_path):
    each = KILLS // SIDE_BY_SIDE
    await asyncio.gather(*(kill_under_load(tmp_path / f'site{number}', f'killed {number}', each)
                           for number in range(SIDE_BY_SIDE)))


# ---- dead letters

DROPS = '''
api: 127.0.0.1:0
data: {data}
queues:
  drops: {{ line: {{ max: 1, full: drop_oldest }} }}
'''
LETTERS = 10000


async def dead_and_queued(one, session):
    """What is told of the queue, which must be what is listed: each job once, and in one of two states."""
    _, said = await one.ask(session, 'GET', '/capacity')
    [queue] = said['queues']
    listed = await one.listed(session)
    states = collections.Counter(document['state'] for document in listed)
    assert len({document['id'] for document in listed}) == len(listed) == LETTERS + 1
    assert (states['failed'], states['queued']) == (queue['dead'], queue['waiting']) and len(states) <= 2, (states, queue)
    assert all(document['error'] for document in listed if document['state'] == 'failed')
    return queue['dead'], queue['waiting']


@run
async def test_a_redrive_of_10000_that_is_cut_short_leaves_each_letter_dead_or_queued(tmp_path):
    async with site(tmp_path, config=DROPS) as one, aiohttp.ClientSession() as session:
        await one.start()
        for begin in (0, LETTERS):  # each takes the place of the one before, and the last stays
            jobs = [(f'j{number}', 'drops', 'ok') for number in range(begin, min(begin + 10000, LETTERS + 1))]
            assert (await one.submit_batch(session, jobs))[0] == 202

        async def dead():
            status, said = await one.ask(session, 'GET', '/capacity')
            return said['queues'][0]['dead'] if status == 200 else None

        async def all_dead():
            return await dead() == LETTERS
        await until(all_dead, 'all but one are dead')

        async def until_fewer(before):
            async def fewer():
                return await dead() < before
            await until(fewer, f'fewer than {before} are dead')
        before, cuts = LETTERS, 0
        while before > 0 and cuts < 5:
            redrive = asyncio.create_task(one.ask(session, 'POST', '/dlq/redrive?queue=drops'))
            if cuts > 0:  # the first time, whenever it happens to be
                await until_fewer(before)
            await one.kill()
            status, said = await redrive
            await one.start()
            after, queued = await dead_and_queued(one, session)
            assert after + queued == LETTERS + 1 and after <= before
            assert status is None or (said, after) == ({'redriven': before}, 0)
            before, cuts = after, cuts + 1
        print(f'after {cuts} cuts {before} are dead')
        assert await one.ask(session, 'POST', '/dlq/redrive') == (200, {'redriven': before})
        assert await dead_and_queued(one, session) == (0, LETTERS + 1)
        await one.end()


# ---- a folder

def start_and_wait(place, config):
    """Of one that should not start: its exit status and what it says."""
    done = subprocess.run([PROGRAM, 'serve', str(config)], cwd=place, timeout=PATIENCE, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stderr


@run
async def test_two_never_use_one_folder(tmp_path):
    async with site(tmp_path) as one, aiohttp.ClientSession() as session:
        await one.start()
        assert (await one.accepts(session))[0]
        status, said = await asyncio.to_thread(start_and_wait, tmp_path, tmp_path / 'weir.yaml')
        assert status != 0
        assert 'another' in said.lower() and str(one.data) in said, said
        assert (await one.accepts(session))[0]
        await one.check()
        await one.kill()
        await one.start()  # a dead one has no folder
        await one.check()
        await one.end()


def damage(path, chance):
    """Some bytes of each page but the first."""
    content = bytearray(path.read_bytes())
    assert len(content) > 8192
    for at in range(4096, len(content), 4096):
        for _ in range(64):
            content[at + chance.randrange(min(4096, len(content) - at))] ^= 0xa5
    path.write_bytes(content)


@pytest.mark.parametrize('what', ['the header', 'empty', 'another program'])
@run
async def test_what_is_no_database_of_ours_is_said_and_never_overwritten(tmp_path, what):
    chance = chance_of('damage', what)
    async with site(tmp_path) as one:
        await one.start()
        async with Clients(one, chance, count=4).at_work():
            await until(lambda: len(one.history.accepted()) > 100, 'some are accepted')
        await one.end()
        path = one.data / 'jobs.db'
        whole = path.read_bytes()
        if what == 'the header':
            path.write_bytes(b'\0' * 100 + whole[100:])
        elif what == 'empty':
            path.write_bytes(b'')
        else:
            path.unlink()
            with contextlib.closing(sqlite3.connect(path)) as database:
                database.execute('create table jobs(mine)')
                database.commit()
        before = {name: name.read_bytes() for name in one.data.glob('jobs.db*')}
        status, said = await asyncio.to_thread(start_and_wait, tmp_path, tmp_path / 'weir.yaml')
        assert status != 0
        assert 'jobs.db' in said, said
        assert {name: name.read_bytes() for name in one.data.glob('jobs.db*')} == before


@pytest.mark.parametrize('what', ['everything', 'cut short'])
@run
async def test_a_damaged_database_is_kept_and_what_can_be_read_is_served(tmp_path, what):
    chance = chance_of('damage', what)
    async with site(tmp_path) as one, aiohttp.ClientSession() as session:
        await one.start()
        async with Clients(one, chance, count=4).at_work():
            await until(lambda: len(one.history.accepted()) > 100, 'some are accepted')
        await one.end()
        path = one.data / 'jobs.db'
        if what == 'everything':
            damage(path, chance)
        else:
            path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])
        before = path.read_bytes()
        await one.start()
        [kept] = one.data.glob('jobs.db.damaged-*')
        assert kept.read_bytes() == before
        assert kept.name in one.errors.read_text()
        assert (await one.accepts(session))[0]
        await one.end()
