"""Durable jobs under load while Weir is killed, again and again; folders that are another's, or damaged. Nothing that was
accepted is lost (docs/JOBS.md, J2 to J4, J6, J7); history.py says what that means.

WEIR_SEED repeats a run as far as the kernel's timing allows; WEIR_KILLS says how often (in make soak: thousands)."""
import asyncio
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
    """Some bytes of each page but those that are zero anyway."""
    content = bytearray(path.read_bytes())
    assert len(content) > 8192
    for at in range(0, len(content), 4096):
        for _ in range(64):
            content[at + chance.randrange(min(4096, len(content) - at))] ^= 0xa5
    path.write_bytes(content)


@pytest.mark.parametrize('what', ['everything', 'the header', 'cut short', 'another program'])
@run
async def test_a_damaged_database_is_said_and_never_overwritten(tmp_path, what):
    chance = chance_of('damage', what)
    async with site(tmp_path) as one:
        await one.start()
        async with Clients(one, chance, count=4).at_work():
            await until(lambda: len(one.history.accepted()) > 100, 'some are accepted')
        await one.end()
        path = one.data / 'jobs.db'
        whole = path.read_bytes()
        if what == 'everything':
            damage(path, chance)
        elif what == 'the header':
            path.write_bytes(b'\0' * 100 + whole[100:])
        elif what == 'cut short':
            path.write_bytes(whole[:len(whole) // 2])
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
