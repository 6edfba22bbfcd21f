"""What lies in examples: every file of settings is a good one, and the command of the jobs does what it says."""
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ['WEIR_PROGRAM']
FILES = sorted(ROOT.glob('examples/*.yaml'))


def price(folder, order, **environment):
    """The pricer on one order: how it ended, its log and its result."""
    (folder / 'in').write_text(order)
    done = subprocess.run([ROOT / 'examples/pricer', 'in', 'out'], cwd=folder, text=True, capture_output=True,
                          env={'PATH': os.environ['PATH'], **environment}, timeout=60, check=False)
    assert done.stdout == ''
    return done.returncode, done.stderr, (folder / 'out').read_text()


def test_there_are_examples_of_functions_and_of_jobs():
    assert {'quickstart.yaml', 'jobs.yaml'} <= {file.name for file in FILES}


@pytest.mark.parametrize('file', FILES, ids=lambda file: file.name)
def test_every_example_is_good(file):
    done = subprocess.run([PROGRAM, 'check', file], cwd=ROOT, text=True, capture_output=True, timeout=60,
                          check=False)
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.endswith(': good\n')


def test_the_example_of_jobs_names_a_command_that_is_there():
    assert '"./examples/pricer", "{in}", "{out}"' in (ROOT / 'examples/jobs.yaml').read_text()
    assert os.access(ROOT / 'examples/pricer', os.X_OK)


def test_an_order_is_priced_and_tells_how_far_it_is(tmp_path):
    assert price(tmp_path, 'screw 100 3\nbolt 20 1.5\n', CURRENCY='CHF') == (
        0, 'weir-progress: 0.50 screw is priced\nweir-progress: 1.00 bolt is priced\n',
        'screw 300.00 CHF\nbolt 30.00 CHF\nsum 330.00 CHF\n')


def test_an_order_without_an_end_of_line_and_an_empty_one_are_priced(tmp_path):
    assert price(tmp_path, 'screw 1 3') == (0, 'weir-progress: 1.00 screw is priced\n',
                                            'screw 3.00 EUR\nsum 3.00 EUR\n')
    assert price(tmp_path, '') == (0, '', 'sum 0.00 EUR\n')


@pytest.mark.parametrize('line', ['screw', 'screw 1', 'screw -1 3', 'screw 1 x', 'a 1 1; b', 'screw 1 3 4', ''])
def test_what_is_no_order_fails_and_says_where(tmp_path, line):
    status, log, result = price(tmp_path, f'bolt 1 1\n{line}\nnut 1 1\n')
    assert status == 1
    assert log.endswith('line 2 is no NAME QUANTITY PRICE\n')
    assert 'sum' not in result and 'nut' not in result
