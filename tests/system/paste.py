"""Pages as a reader would paste them: every block of shell commands, in order, into one shell.

What differs is only what a test must not share with others: ports, and the folder."""
import asyncio
import os
import pathlib
import re
import signal
import socket

from weir import PATIENCE, PROGRAM

ROOT = pathlib.Path(__file__).resolve().parents[2]
PORTS = ('8080', '7070', '7071', '9001')


def blocks(text, language):
    return re.findall(rf'^```{language}\n(.*?)^```$', text, flags=re.M | re.S)


def free_ports():
    """Each port that pages name, with one that is free on this machine."""
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in PORTS]
    ports = {port: str(one.getsockname()[1]) for port, one in zip(PORTS, sockets, strict=True)}
    for one in sockets:
        one.close()
    return ports


def clone(folder, ports):
    """What a clone in which Weir was built has of all that pages name."""
    (folder / 'build').mkdir()
    (folder / 'build/weir').symlink_to(PROGRAM)
    (folder / 'tools').mkdir()
    (folder / 'examples').mkdir()
    for name in ('tools/run', 'examples/pricer', 'examples/jobs.yaml', 'examples/quickstart.yaml'):
        (folder / name).write_text(with_ports((ROOT / name).read_text(), ports))
        (folder / name).chmod(0o755)


def with_ports(text, ports):
    return re.sub(rf'\b({"|".join(PORTS)})\b', lambda port: ports[port[0]], text)


async def paste(folder, commands, *, ports=None, installed=False, **changes):
    """Has one shell do the blocks, each of which is changed as said; returns what each block printed, and checks that
    nothing is left of them. The folder becomes a clone, unless it is one already that has the `ports`. Where Weir is
    `installed`, blocks may call it as `weir`."""
    if ports is None:
        ports = free_ports()
        clone(folder, ports)
    path = f'{folder}/build:{os.environ["PATH"]}' if installed else os.environ['PATH']
    text = '\necho "== the next block =="\n'.join(commands)
    text = with_ports(text, ports).replace('weir mock ', f'weir mock --listen 127.0.0.1:{ports["9001"]} ')
    for before, after in changes.items():
        text = text.replace(before, after)
    (folder / 'pasted.sh').write_text(text)
    said = folder / 'said'
    with said.open('wb') as out:
        process = await asyncio.create_subprocess_exec(
            'bash', '--norc', 'pasted.sh', cwd=folder, start_new_session=True, stdin=asyncio.subprocess.DEVNULL,
            stdout=out, stderr=out, env={**os.environ, 'WEIR_API': f'127.0.0.1:{ports["7070"]}', 'PATH': path})
    try:
        async with asyncio.timeout(2 * PATIENCE):
            await process.wait()
    except TimeoutError:
        raise AssertionError(f'it did not end; it said:\n{said.read_text()}') from None
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
            left = True
        except ProcessLookupError:
            left = False
    assert not left, said.read_text()
    return said.read_text().split('== the next block ==\n')
