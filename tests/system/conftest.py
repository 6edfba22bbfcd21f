"""One option more for pytest, with which `make check` calls it."""
import durations


def pytest_addoption(parser):
    parser.addoption('--short', action='store_true', help='leave out the tests that durations.txt records as long')


def pytest_configure(config):
    config.addinivalue_line('markers', 'whole_file: looks at what all other tests of its file have seen')


def pytest_collection_modifyitems(config, items):
    if not config.getoption('--short'):
        return
    recorded = durations.read()
    long = {item for item in items if f'{item.path.name}::{item.name}' in recorded}
    cut = {item.path for item in long}
    long |= {item for item in items if item.path in cut and item.get_closest_marker('whole_file')}
    config.hook.pytest_deselected(items=[*long])
    items[:] = [item for item in items if item not in long]
