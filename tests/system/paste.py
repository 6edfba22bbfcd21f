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


async def paste(folder, commands, **changes):
    """Has one shell do the blocks, each of which is changed as said; returns what each block printed, and checks that
    nothing is left of them."""
    ports = free_ports()
    clone(folder, ports)
    text = '\necho "== the next block =="\n'.join(commands)
    text = with_ports(text, ports).replace('weir mock ', f'weir mock --listen 127.0.0.1:{ports["9001"]} ')
    for before, after in changes.items():
        text = text.replace(before, after)
    (folder / 'pasted.sh').write_text(text)
    process = await asyncio.create_subprocess_exec(
        'bash', '--norc', 'pasted.sh', cwd=folder, start_new_session=True, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, 'WEIR_API': f'127.0.0.1:{ports["7070"]}', 'PATH': f'{folder}/build:{os.environ["PATH"]}'})
    try:
        out, _ = await asyncio.wait_for(process.communicate(), 2 * PATIENCE)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
            left = True
        except ProcessLookupError:
            left = False
    said = out.decode()
    assert not left, said
    return said.split('== the next block ==\n')
