"""The README as a reader would paste it: every block of commands, in order, and what it shows."""
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


@run
async def test_make_run_starts_a_gateway_which_ends_by_ctrl_c(tmp_path):
    assert blocks(README, 'sh')[0].startswith('make run ')
    assert '\t@tools/run\n' in (ROOT / 'Makefile').read_text()
    clone(tmp_path, free_ports())
    process = await asyncio.create_subprocess_exec(tmp_path / 'tools/run', stdout=asyncio.subprocess.PIPE,
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
    demo, functions, llm, jobs = await paste(tmp_path, blocks(README, 'sh')[1:],
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
