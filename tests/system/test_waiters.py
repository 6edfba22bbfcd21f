"""Very many requests in line at once: what each of them costs, and that all of it comes back."""
import asyncio
import pathlib
import resource
import sys
import time

from storm_raw import INSTRUMENTED, descriptors, dial, memory, request
from weir import functions, until

HERE = pathlib.Path(__file__).parent

# A process may have 20,000 descriptors on the machines that we know; some are for other things.
WAITERS = 19_000
BYTES_MAX = 4096  # for each of them, in the gateway, in a build without sanitizers
FIRST = 24        # whose order is told exactly, for they come one after the other
CROWDS = ['127.0.0.2', '127.0.0.3']


async def gather_crowd(port, source, name, count):
    crowd = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / 'storm_crowd.py'), str(port), source, name, str(count),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE)
    return crowd


async def waits(gateway, count):
    """Until so many wait; it asks seldom, so that it costs nothing while they come."""
    deadline = time.monotonic() + 40
    while (waiting := (await gateway.counts('f'))['waiting']) != count:
        assert time.monotonic() < deadline, f'{waiting} of {count} wait'
        await asyncio.sleep(0.1)


def test_nineteen_thousand_wait_in_line_in_order_and_cost_little():
    async def test():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        assert hard >= WAITERS + 500, f'only {hard} descriptors are allowed here'
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, WAITERS + 500), hard))
        async with functions(limit=1, timeout='10m', line_max=100_000, top='',
                             listen='{address: 127.0.0.1:0, max_connections: 100000}') as (
                                 gateway, upstream, _):
            pid = gateway.process.pid
            async with dial(gateway.port) as holder:
                await holder.send(request('/functions/f?hold&id=holder'))
                await until(lambda: upstream.inside == ['holder'], 'the first is inside')
                await gateway.until('f', active=1, waiting=0)
                memory_before, descriptors_before = memory(pid), descriptors(pid)
                began = time.monotonic()
                first = []
                crowds = []
                try:
                    for i in range(FIRST):
                        first.append(dial(gateway.port))
                        wire = await first[-1].__aenter__()
                        await wire.send(request(f'/functions/f?hold&id=first-{i}'))
                        await gateway.until('f', waiting=i + 1)
                    each = (WAITERS - FIRST) // len(CROWDS)
                    for source in CROWDS:
                        crowds.append(await gather_crowd(gateway.port, source, source, each))
                    for crowd in crowds:
                        assert await asyncio.wait_for(crowd.stdout.readline(), 60) == b'ready\n'
                    count = FIRST + each * len(CROWDS)
                    await waits(gateway, count)
                    took = time.monotonic() - began
                    cost = (memory(pid) - memory_before) / count
                    print(f'{count} wait after {took:.1f} s: {cost:.0f} bytes for each')
                    assert descriptors(pid) - descriptors_before >= count
                    if not INSTRUMENTED:
                        assert cost <= BYTES_MAX, f'{cost:.0f} bytes for each that waits'

                    # They pass in the order in which they came.
                    names = ['holder', *(f'first-{i}' for i in range(FIRST))]
                    for name in names:
                        await until(lambda n=name: upstream.inside == [n], f'{name} is inside')
                        upstream.open(name)
                    await until(lambda: len(upstream.came) == len(names) + 1, 'one of the crowd')
                    assert upstream.came[:-1] == names
                    assert int(upstream.came[-1].rsplit('-', 1)[1]) < each // 10, upstream.came[-1]
                    assert upstream.most == 1
                    await gateway.until('f', active=1, waiting=count - FIRST - 1)
                finally:
                    began = time.monotonic()
                    for crowd in crowds:
                        if crowd.returncode is None:
                            crowd.kill()
                    for wire in first:
                        await wire.__aexit__(None, None, None)
            for crowd in crowds:
                await crowd.wait()
            await waits(gateway, 0)
            await gateway.until('f', active=0, waiting=0, reserved=0)
            print(f'all are gone after {time.monotonic() - began:.1f} s, '
                  f'{(memory(pid) - memory_before) / count:.0f} bytes for each remain')
            # A connection to the upstream may stay in each thread's pool, and those of the API.
            await until(lambda: descriptors(pid) <= descriptors_before + 2, 'descriptors come back')
    asyncio.run(asyncio.wait_for(test(), 120))
