"""Whether the shim that tests of durable jobs stand on (tests/shim/fault.c) does what it says: each is a small
program whose system calls are made under it."""
import contextlib
import errno
import sqlite3
import subprocess
import time

import pytest
from power import PAGE, Faults

# What programs begin with; they run in the folder.
BEGIN = '''
import os, time
def attempt(call, *arguments):
    try:
        return call(*arguments)
    except OSError as error:
        return -error.errno
def put(path, data, flags=0):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    os.write(fd, data)
    return fd
def sync_folder(path='.'):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)
'''


@pytest.fixture
def faults(tmp_path):
    (tmp_path / 'root').mkdir()
    return Faults(tmp_path, tmp_path / 'root', power=True)


def perform(faults, program):
    """What the program prints."""
    done = subprocess.run(['/usr/bin/python3', '-S', '-c', BEGIN + program], env=faults.environment(), cwd=faults.root,
                          stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    return done.stdout


def content(faults):
    return {str(path.relative_to(faults.root)): path.read_bytes() if path.is_file() else None
            for path in sorted(faults.root.rglob('*'))}


def test_what_was_synced_stays_and_what_was_not_is_gone(faults):
    perform(faults, '''
fd = put('kept', b'synced')
os.fdatasync(fd)
os.write(fd, b' and not')
put('never', b'synced')
sync_folder()
''')
    faults.cut()
    assert content(faults) == {'kept': b'synced', 'never': b''}


def test_a_name_is_gone_until_its_folder_is_synced(faults):
    perform(faults, '''
os.fsync(put('early', b'1'))
sync_folder()
os.fsync(put('late', b'2'))
os.mkdir('folder')
os.fsync(put('folder/inside', b'3'))
sync_folder('folder')
''')
    faults.cut()
    assert content(faults) == {'early': b'1'}


def test_a_rename_that_was_not_synced_is_undone(faults):
    perform(faults, '''
os.fsync(put('one', b'1'))
os.fsync(put('two', b'2'))
sync_folder()
os.rename('one', 'two')
''')
    assert content(faults) == {'two': b'1'}
    faults.cut()
    assert content(faults) == {'one': b'1', 'two': b'2'}


def test_a_rename_that_was_synced_stays(faults):
    perform(faults, '''
os.fsync(put('one', b'1'))
os.fsync(put('two', b'2'))
sync_folder()
os.rename('one', 'two')
sync_folder()
''')
    faults.cut()
    assert content(faults) == {'two': b'1'}


def test_a_removed_file_comes_back_though_others_were_made_since(faults):
    perform(faults, '''
for name in ('unlinked', 'replaced'):
    fd = put(name, name.encode())
    os.fsync(fd)
    os.close(fd)
sync_folder()
os.unlink('unlinked')
put('new', b'new')
os.rename('new', 'replaced')
for number in range(100):
    os.fsync(put(f'new{number}', b'new'))
''')
    faults.cut()
    assert content(faults) == {'unlinked': b'unlinked', 'replaced': b'replaced'}


def test_a_removed_folder_comes_back_though_others_were_made_since(faults):
    perform(faults, '''
def make(name):
    os.mkdir(name)
    os.fsync(put(name + '/file', name.encode()))
    sync_folder(name)
make('removed')
sync_folder()
os.unlink('removed/file')
os.rmdir('removed')
for number in range(100):
    make(f'new{number}')
''')
    assert len(list((faults.shadow / 'gone').iterdir())) == 1  # so its number is nobody else's, whatever the file system does
    faults.cut()
    assert content(faults) == {'removed': None, 'removed/file': b'removed'}


def test_a_truncation_that_was_not_synced_is_undone(faults):
    perform(faults, f'''
for name in ('flag', 'call', 'synced', 'back'):
    os.fsync(put(name, b'x' * {3 * PAGE}))
sync_folder()
put('flag', b'', os.O_TRUNC)
os.ftruncate(put('call', b''), 1)
os.fsync(put('synced', b'y', os.O_TRUNC))
fd = put('back', b'')
os.ftruncate(fd, 1)
os.ftruncate(fd, 2)
os.fsync(fd)
''')
    faults.cut()
    assert content(faults) == {'flag': b'x' * 3 * PAGE, 'call': b'x' * 3 * PAGE, 'synced': b'y', 'back': b'x\0'}


def test_what_another_process_wrote_is_there_once_it_is_synced_here(faults):
    perform(faults, '''
import subprocess
subprocess.run(['/bin/sh', '-c', 'echo of a child > out; echo more > more'], check=True)
fd = os.open('out', os.O_RDONLY)
os.fsync(fd)
sync_folder()
''')
    faults.cut()
    assert content(faults) == {'out': b'of a child\n', 'more': b''}


def test_what_was_there_before_a_start_is_on_the_disk(faults):
    (faults.root / 'folder').mkdir()
    (faults.root / 'folder/old').write_bytes(b'old')
    perform(faults, "put('folder/old', b'new')")
    assert content(faults)['folder/old'] == b'new'
    faults.cut()
    assert content(faults) == {'folder': None, 'folder/old': b'old'}


def test_a_program_that_had_not_begun_has_changed_nothing(faults):
    (faults.root / 'old').write_bytes(b'old')
    faults.environment()
    faults.cut()
    assert content(faults) == {'old': b'old'}


def test_by_chance_each_page_is_of_before_or_of_after(faults):
    perform(faults, f'''
fd = put('file', b'a' * {64 * PAGE})
os.fsync(fd)
sync_folder()
os.pwrite(fd, b'b' * {32 * PAGE}, 0)
''')
    faults.cut(seed=1)
    pages = (faults.root / 'file').read_bytes()
    firsts = [pages[at:at + PAGE] for at in range(0, 64 * PAGE, PAGE)]
    assert set(firsts[:32]) == {b'a' * PAGE, b'b' * PAGE}
    assert set(firsts[32:]) == {b'a' * PAGE}


def test_what_a_failed_sync_did_not_write_is_lost_for_good(faults):
    faults.fail('sync', 'EIO', after=1, count=1)
    said = perform(faults, f'''
fd = put('file', b'a' * {PAGE})
sync_folder()
print(attempt(os.fsync, fd))
os.pwrite(fd, b'b' * {PAGE}, {PAGE})
print(attempt(os.fsync, fd))
''')
    assert said == f'{-errno.EIO}\nNone\n'
    faults.cut()
    assert (faults.root / 'file').read_bytes() == b'\0' * PAGE + b'b' * PAGE


@pytest.mark.parametrize('kind, call', [
    ('write', "os.write, fd, b'x'"), ('write', "os.pwrite, fd, b'x', 0"), ('write', "os.writev, fd, [b'x']"),
    ('write', "os.pwritev, fd, [b'x'], 0"), ('sync', 'os.fsync, fd'), ('sync', 'os.fdatasync, fd'),
    ('truncate', 'os.ftruncate, fd, 0'), ('create', "os.open, f'new{number}', os.O_CREAT | os.O_WRONLY"),
    ('rename', "os.rename, f'file{number}', 'other'"), ('unlink', "os.unlink, f'file{number}'"),
])
@pytest.mark.parametrize('error', ['EIO', 'ENOSPC'])
def test_so_many_calls_fail_from_the_nth_on(faults, kind, call, error):
    for number in range(4):
        (faults.root / f'file{number}').write_bytes(b'')
    faults.fail(kind, error, after=1, count=2)
    said = perform(faults, f'''
fd = os.open('file0', os.O_RDWR)
for number in range(4):
    print(min(attempt({call}) or 0, 0))
''')
    failed = str(-getattr(errno, error))
    assert said.split() == ['0', failed, failed, '0']


def test_a_short_write_writes_a_part(faults):
    faults.fail('write', 'short', count=1)
    said = perform(faults, '''
fd = os.open('file', os.O_WRONLY | os.O_CREAT)
print(os.pwrite(fd, b'12345', 0), os.pwrite(fd, b'12345', 0))
''')
    assert said == '3 5\n'


def test_faults_end_when_they_are_mended(faults):
    faults.fail('sync', 'EIO')
    assert perform(faults, "print(attempt(os.fsync, put('file', b'')))") == f'{-errno.EIO}\n'
    faults.mend()
    assert perform(faults, "print(attempt(os.fsync, put('file', b'')))") == 'None\n'


def test_other_folders_and_children_are_left_alone(faults, tmp_path):
    faults.fail('write', 'EIO')
    said = perform(faults, f'''
import subprocess
print(os.write(put({str(tmp_path / 'elsewhere')!r}, b'1'), b'2'), flush=True)
if os.fork() == 0:
    print(attempt(os.write, put('of a child', b'1'), b'2'), flush=True)
    os._exit(0)
os.wait()
print(subprocess.run(['/bin/sh', '-c', 'echo 1 > file && echo wrote'], stdout=subprocess.PIPE, text=True).stdout)
''')
    assert said.split() == ['1', '1', 'wrote']


def test_the_clock_is_shifted_and_time_since_the_start_is_not(faults):
    faults.shift_clock(3600)
    wall, since = perform(faults, 'print(time.time(), time.monotonic())').split()
    assert 3500 < float(wall) - time.time() < 3700
    assert abs(float(since) - time.monotonic()) < 100
    faults.shift_clock(-3600)
    assert float(perform(faults, 'print(time.time())')) < time.time() - 3500


# Says the number of each row that SQLite has committed, and goes on until it is killed.
DATABASE = """
import itertools, sqlite3, sys
database = sqlite3.connect('rows.db', isolation_level=None)
for pragma in ('locking_mode=exclusive', 'journal_mode=wal', 'synchronous={synchronous}', 'wal_autocheckpoint=20'):
    database.execute('pragma ' + pragma)
database.execute('create table rows(number integer primary key, filler blob)')
sync_folder()
for number in itertools.count():
    database.execute('insert into rows values(?, ?)', (number, b'x' * (number * 977 % 5000)))
    print(number, flush=True)
"""


def rows_after_a_cut(faults, synchronous, seed):
    """How many rows were committed, and how many of them are there after a power cut."""
    writer = subprocess.Popen(['/usr/bin/python3', '-S', '-c', BEGIN + DATABASE.format(synchronous=synchronous)],
                              env=faults.environment(), cwd=faults.root, stdout=subprocess.PIPE, text=True)
    committed = 0
    for committed, line in enumerate(writer.stdout, 1):
        if committed == 150:
            writer.kill()
    writer.wait(60)
    writer.stdout.close()
    faults.cut(seed)
    with contextlib.closing(sqlite3.connect(faults.root / 'rows.db')) as database:
        try:
            assert database.execute('pragma integrity_check').fetchone() == ('ok',)
            [(there,)] = database.execute('select count(*) from rows').fetchall()
        except sqlite3.DatabaseError:
            there = 0
    return committed, there


@pytest.mark.parametrize('seed', [None, 1, 2, 3])
def test_a_database_that_syncs_loses_nothing(faults, seed):
    committed, there = rows_after_a_cut(faults, 'full', seed)
    assert 150 <= committed <= there <= committed + 1


def test_a_database_that_does_not_sync_is_found_out(faults):
    committed, there = rows_after_a_cut(faults, 'off', None)
    assert there < committed
