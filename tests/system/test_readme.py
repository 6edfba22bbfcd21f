"""The README as a reader would paste it: every block of commands, in order, in one folder, and what it shows."""
import asyncio
import re
import signal

from paste import ROOT, blocks, clone, free_ports, paste
from raw import run
from weir import PATIENCE

README = (ROOT / 'README.md').read_text()


def figures_aside(text):
    """A text without its numbers, and with one space where there are several."""
    return re.sub(r'[\d.]+', 'N', ' '.join(text.split()))


async def make_run(folder):
    """Does what `make run` does behind its build, until a gateway runs, and ends that by Ctrl-C."""
    assert '\t@tools/run\n' in (ROOT / 'Makefile').read_text()
    process = await asyncio.create_subprocess_exec(folder / 'tools/run', cwd=folder, stdout=asyncio.subprocess.PIPE,
                                                   start_new_session=True)
    said = b''
    while b'weir: api on' not in said:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    await asyncio.wait_for(process.communicate(), PATIENCE)  # to the end: nobody holds the output any more
    assert process.returncode == 0


@run
async def test_every_block_does_what_the_readme_says(tmp_path):
    first, *others = blocks(README, 'sh')
    assert first.startswith('make run ')
    ports = free_ports()
    clone(tmp_path, ports)
    await make_run(tmp_path)
    demo, functions, llm, jobs = await paste(tmp_path, others, ports=ports,
                                             **{'weir demo': 'weir demo --seconds 8'})

    [shown] = blocks(README, 'text')
    assert demo.count('without Weir') and figures_aside(shown) in figures_aside(demo)

    rows = [line.split() for line in functions.splitlines()]
    assert ['ready'] in rows and 'a command waits in the same line' in functions
    assert [row[:4] for row in rows if row[:1] == ['functions']] == [['functions', 'resize', '2', '2']]
    assert '"most":2,"served":30,' in functions

    assert '"object":"chat.completion"' in llm and re.search(r'^llm +gpt-4o ', llm, flags=re.M)
    assert re.search(r'^[\d-]+ +acme +gpt-4o +1 +0 +\d+ +9 ', llm, flags=re.M)

    assert '"id":"order-1"' in jobs and '"state":"queued"' in jobs
    assert 'screw 300.00 EUR\nbolt 300.00 EUR\nnut 100.00 EUR\nsum 700.00 EUR\n' in jobs
