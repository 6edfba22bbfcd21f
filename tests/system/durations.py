"""How long each system test takes, as durations.txt has it, which `tools/test durations` writes from the results of the
last `make test`. By it tools/test forms parts of equal length, and knows which tests are short."""
import collections
import pathlib
from xml.etree import ElementTree

RECORD = pathlib.Path(__file__).with_name('durations.txt')
LONG_SECONDS = 1  # tests that take as long, or longer, have lines of their own
UNKNOWN_SECONDS = 4  # of a file that is not recorded yet


def read():
    """Seconds of each file, `test_x.py`, and of each long test, `test_x.py::test_y`."""
    if not RECORD.exists():
        return {}
    lines = [line.rsplit(' ', 1) for line in RECORD.read_text().splitlines() if not line.startswith('#')]
    return {name: float(seconds) for name, seconds in lines}


def measured(results):
    """Seconds of each test in files of results; the least where several have it, because a busy machine only adds."""
    seconds = {}
    for path in results:
        for case in ElementTree.parse(path).iter('testcase'):
            name = f'{case.get("classname").rpartition(".")[2]}.py::{case.get("name")}'
            took = float(case.get('time'))
            seconds[name] = min(took, seconds.get(name, took))
    return seconds


def write(results):
    seconds = measured(results)
    files = collections.Counter()
    for name, took in seconds.items():
        files[name.partition('::')[0]] += took
    long = {name: took for name, took in seconds.items() if took >= LONG_SECONDS}
    lines = [f'{name} {took:.1f}\n' for name, took in sorted([*files.items(), *long.items()])]
    RECORD.write_text('# Written by `tools/test durations`: seconds of each file, and of each test that takes '
                      f'{LONG_SECONDS} s or more.\n' + ''.join(lines))
