"""clients/python with libweir in the process: the gate of the core for its threads. The structures of the binding
are compared with the compiler's."""
import concurrent.futures
import ctypes
import gc
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from weir import PATIENCE

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'clients' / 'python'))


@pytest.fixture(scope='module')
def weir_sync():
    """The binding, with the library of the plain build: a sanitizer's would have to come first in the process."""
    subprocess.run(['ninja', '-C', ROOT / 'build', 'libweir.so.0.2.0'], check=True, stdout=subprocess.DEVNULL)
    import weir_sync
    return weir_sync



def test_the_structures_of_the_binding_are_those_of_the_headers(weir_sync, tmp_path):
    asked = []
    for structure in weir_sync.STRUCTURES:
        name = f'struct {structure.__name__}'
        asked.append((f'sizeof({name})', ctypes.sizeof(structure)))
        for field, _ in structure._fields_:
            member = getattr(structure, field)
            asked.append((f'offsetof({name}, {field})', member.offset))
            asked.append((f'sizeof((({name} *)0)->{field})', member.size))
    asked += [('WEIR_NEVER', weir_sync.NEVER), ('WEIR_TIMEOUT_OF_KEY', weir_sync.TIMEOUT_OF_KEY),
              ('WEIR_LIMIT_NONE', weir_sync.LIMIT_NONE), ('WEIR_OK', 0),
              ('WEIR_PRIORITY_COUNT', len(weir_sync.PRIORITIES)),
              ('WEIR_OUTCOME_COUNT', len(weir_sync.OUTCOMES)), ('WEIR_END_COUNT', len(weir_sync.ENDS))]
    for prefix, names in (('PRIORITY', weir_sync.PRIORITIES), ('OUTCOME', weir_sync.OUTCOMES),
                          ('UNIT', weir_sync.UNITS),
                          ('END', {name: number for number, name in enumerate(weir_sync.ENDS)})):
        asked += [(f'WEIR_{prefix}_{name.upper()}', number) for name, number in names.items()]
    lines = '\n'.join(f'    printf("%llu\\n", (unsigned long long)({what}));' for what, _ in asked)
    source = tmp_path / 'layout.c'
    source.write_text(f'''
#include <stddef.h>
#include <stdio.h>
#include <weir/sync.h>
static_assert(sizeof(struct weir_token) <= {weir_sync.TOKEN_BYTES}, "a token has room");
static_assert(_Alignof(struct weir_token) <= 8, "and is aligned");
int main(void)
{{
    static const struct weir_token fresh = WEIR_TOKEN_INIT;
    static const char zeroes[sizeof fresh];
{lines}
    return memcmp(&fresh, zeroes, sizeof fresh) != 0;
}}
''')
    program = tmp_path / 'layout'
    subprocess.run(['gcc', '-std=gnu11', '-include', 'assert.h', '-I', ROOT / 'include', source, '-o', program],
                   check=True)
    said = subprocess.run([program], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert [(what, int(number)) for (what, _), number in zip(asked, said)] == asked


def in_thread(work, *args, **more):
    return concurrent.futures.ThreadPoolExecutor(1).submit(work, *args, **more)


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_in_the_process_the_fourth_waits_and_goes_when_one_has_ended(weir_sync):
    gate = weir_sync.Gate(limit=3, timeout=30)
    permits = [gate.acquire('b') for _ in range(3)]
    fourth = in_thread(gate.acquire, 'b', tenant='acme', priority='high', cost=5)
    wait_for(lambda: gate.stats('b').waiting == 1)
    assert gate.stats('b')[:4] == (3, 1, 3, 3)
    assert gate.stats('other').active == 0
    assert gate.try_acquire('b') is None
    with gate.acquire('other'):
        assert gate.stats('other').active == 1
    permits.pop().release()
    with fourth.result(PATIENCE):
        assert gate.stats('b').reserved == 7
        with pytest.raises(RuntimeError):
            gate.close()
    assert gate.stats('b').active == 2
    for permit in permits:
        permit.release()
        with pytest.raises(weir_sync.WeirNotHeld):
            permit.release()
    gate.close()
    with pytest.raises(RuntimeError):
        gate.acquire('b')


def test_in_the_process_timeouts_full_lines_and_tokens_are_told(weir_sync):
    gate = weir_sync.Gate(limit=1, timeout=0.05, line=1)
    began = time.monotonic()
    with gate.acquire('b'):
        for more in ({}, {'timeout': 0.01}, {'timeout': 0}):
            with pytest.raises(weir_sync.WeirTimeout) as caught:
                gate.acquire('b', tenant='t', **more)
            assert (caught.value.status, caught.value.key, caught.value.tenant) == ('TIMED_OUT', 'b', 't')
        assert time.monotonic() - began < 5
        token = weir_sync.Token()
        waiting = in_thread(gate.acquire, 'b', timeout=None, token=token)
        wait_for(lambda: gate.stats('b').waiting == 1)
        with pytest.raises(weir_sync.WeirError) as caught:
            gate.acquire('b', timeout=5)
        assert caught.value.status == 'LINE_FULL' and 'full' in str(caught.value)
        token.fire()
        with pytest.raises(weir_sync.WeirCancelled):
            waiting.result(PATIENCE)
        with pytest.raises(weir_sync.WeirCancelled):
            gate.acquire('b', token=token)
    with pytest.raises(ZeroDivisionError), gate.acquire('b', timeout=0):
        1 // 0
    assert gate.stats('b').active == 0
    gate.close()


def test_in_the_process_a_permit_that_is_forgotten_comes_back_and_so_does_a_lease(weir_sync):
    gate = weir_sync.Gate(limit=1)
    permit = gate.acquire('b')
    del permit
    gc.collect()
    assert gate.stats('b').active == 0
    permit = gate.acquire('b', lease=0.02)
    with gate.acquire('b', timeout=5):
        with pytest.raises(weir_sync.WeirNotHeld):
            permit.release()
    assert gate.stats('b').ended['lapsed'] == 1
    permit = gate.acquire('b', cost=3)
    permit.outcome = 'fine'
    with pytest.raises(ValueError):
        permit.release()
    permit.outcome, permit.cost = 'soft_loss', 1
    permit.release()
    gate.close()


def test_in_the_process_settings_may_change_and_bad_ones_are_refused(weir_sync):
    gate = weir_sync.Gate(limit=1, weights={'big': 5}, tenant_limit=3, tenant_line=2,
                          rates=[weir_sync.Rate(1000, 60)])
    first = gate.acquire('b')
    waiting = in_thread(gate.acquire, 'b')
    wait_for(lambda: gate.stats('b').waiting == 1)
    gate.configure(limit=2)
    second = waiting.result(PATIENCE)
    gate.override('x', limit=None)
    many = [gate.acquire('x', timeout=0) for _ in range(30)]
    assert gate.stats('x').limit is None and gate.stats('b').limit == 2
    for permit in (first, second, *many):
        permit.release()
    gate.close()
    for bad in ({'limit': 0}, {'limit': 2**32 + 1}, {'line': 0}, {'lease': 0}, {'timeout': -2},
                {'weights': {'t': 0}}, {'rates': [weir_sync.Rate(0)]}):
        with pytest.raises(ValueError):
            weir_sync.Gate(**bad)
    for bad, status in (({'limit': 10**7 + 1}, 'BAD_LIMIT'), ({'weights': {'t': 1001}}, 'BAD_WEIGHT'),
                        ({'rates': [weir_sync.Rate(1, 0.5)]}, 'BAD_RATE')):
        with pytest.raises(weir_sync.WeirError) as caught:
            weir_sync.Gate(**bad)
        assert caught.value.status == status
    gate = weir_sync.Gate()
    for bad in ({'cost': 0}, {'cost': 2**32 + 1}, {'priority': 'urgent'}, {'timeout': -2}):
        with pytest.raises(ValueError):
            gate.acquire('b', **bad)
    with pytest.raises(weir_sync.WeirError):
        gate.acquire('')
    gate.close()


def test_in_the_process_of_fifty_threads_never_more_than_the_limit_are_inside(weir_sync):
    gate = weir_sync.Gate(limit=3, timeout=30)
    lock = threading.Lock()
    full = threading.Event()
    inside = most = 0

    def work():
        nonlocal inside, most
        for _ in range(5):
            with gate.acquire('b'):
                with lock:
                    inside += 1
                    most = max(most, inside)
                    if inside == 3:
                        full.set()
                full.wait(PATIENCE)  # until as many as may be are inside, once
                time.sleep(0.0005)
                with lock:
                    inside -= 1
    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 3
    assert gate.stats('b').ended['left'] == 250
    gate.close()
