"""The other half of tests/shim/fault.c: power cuts, faults and jumps of the clock for a program that is started
with what Faults.environment() says."""
import errno
import mmap
import os
import pathlib
import random
import shutil
import struct

from weir import PROGRAM

SHIM = pathlib.Path(PROGRAM).resolve().parent / 'tests/libweir_fault.so'
PAGE = 4096
KINDS = ['write', 'sync', 'truncate', 'create', 'rename', 'unlink', 'read']
RULE = struct.Struct('=QQQq')  # as in fault.c
CLOCK = struct.Struct('=q')
FOR_EVER = (1 << 64) - 1
ERRORS = {'EIO': errno.EIO, 'ENOSPC': errno.ENOSPC, 'short': 0}


class Faults:
    """What may go wrong under a folder. Everything of it lies in `place`, on the same file system."""

    def __init__(self, place, root, power=False):
        self.root = pathlib.Path(os.path.realpath(root))
        self.shadow = pathlib.Path(place).resolve() / 'shadow' if power else None
        self.path = pathlib.Path(place).resolve() / 'control'
        self.path.write_bytes(bytes(RULE.size * len(KINDS) + CLOCK.size))
        with self.path.open('r+b') as file:
            self._control = mmap.mmap(file.fileno(), 0)
        self._renew()

    def _renew(self):
        if self.shadow:
            shutil.rmtree(self.shadow, ignore_errors=True)
            self.shadow.mkdir()

    def environment(self):
        """For the next start, which finds on the disk whatever is in the folder now."""
        self._renew()
        more = {'LD_PRELOAD': str(SHIM), 'WEIR_FAULT_ROOT': str(self.root), 'WEIR_FAULT_CONTROL': str(self.path)}
        if self.shadow:
            more['WEIR_FAULT_SHADOW'] = str(self.shadow)
        return {**os.environ, **more}

    def calls(self, kind):
        return RULE.unpack_from(self._control, RULE.size * KINDS.index(kind))[0]

    def fail(self, kind, error, after=0, count=FOR_EVER):
        """Calls of the kind fail, once so many more have succeeded."""
        first = self.calls(kind) + after + 1
        last = min(first + count - 1, FOR_EVER)
        at = RULE.size * KINDS.index(kind)
        # The count of calls is the program's; `first`, which puts it in force, comes last.
        struct.pack_into('=Qq', self._control, at + 16, last, ERRORS[error])
        struct.pack_into('=Q', self._control, at + 8, first)

    def mend(self):
        for index in range(len(KINDS)):
            struct.pack_into('=Q', self._control, RULE.size * index + 8, 0)

    def shift_clock(self, seconds):
        CLOCK.pack_into(self._control, RULE.size * len(KINDS), int(seconds * 1e9))

    def cut(self, seed=None):
        """After the program was killed: the folder becomes what a disk holds after a power cut. Without a seed that
        is what was synced and nothing else; with one, whatever was not synced is there or not, by chance: names one
        by one, contents page by page, and lengths."""
        assert self.shadow, 'for a power cut the program must run with power=True'
        if not (self.shadow / 'whole').exists() or not self.root.exists():  # it was killed before it had made a folder
            return
        chance = random.Random(seed) if seed is not None else None
        living = {path.stat().st_ino: path for path in self.root.rglob('*')}
        living.update({int(path.name): path for path in (self.shadow / 'kept').iterdir()})
        made = self.root.with_name(self.root.name + '.cut')
        shutil.rmtree(made, ignore_errors=True)
        self._rebuild(self.root.stat().st_ino, made, living, chance)
        shutil.rmtree(self.root)
        made.rename(self.root)

    def _names(self, inode, living, chance):
        """name: (kind, inode)"""
        path = self.shadow / 'folders' / str(inode)
        synced = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            kind, number, name = line.split(' ', 2)
            synced[name] = (kind, int(number))
        folder = self.root if inode == self.root.stat().st_ino else living.get(inode)
        if chance is None or folder is None or not folder.is_dir():  # its number may be a file's by now
            return synced
        present = {entry.name: ('folder' if entry.is_dir() else 'file', entry.stat().st_ino)
                   for entry in folder.iterdir()}
        mixed = {name: chance.choice((synced.get(name), present.get(name)))
                 for name in sorted(synced.keys() | present.keys())}
        return {name: what for name, what in mixed.items() if what}

    def _rebuild(self, inode, made, living, chance):
        made.mkdir(mode=0o700)
        if inode in living or inode == self.root.stat().st_ino:
            shutil.copymode(living.get(inode, self.root), made)
        for name, (kind, number) in self._names(inode, living, chance).items():
            if kind == 'folder':
                self._rebuild(number, made / name, living, chance)
            else:
                path = self.shadow / 'disk' / str(number)
                synced = path.read_bytes() if path.exists() else b''
                present = living[number].read_bytes() if number in living else synced
                (made / name).write_bytes(synced if chance is None else mix(synced, present, chance))
                if number in living:
                    shutil.copymode(living[number], made / name)


def mix(synced, present, chance):
    """Pages of either, zeros where neither reaches."""
    size = chance.choice((len(synced), len(present)))
    pages = [chance.choice((synced, present))[at:at + PAGE].ljust(PAGE, b'\0') for at in range(0, size, PAGE)]
    return b''.join(pages)[:size]
