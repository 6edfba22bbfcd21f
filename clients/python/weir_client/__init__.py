"""Weir for Python programs: permits of a gate, and durable jobs.

    gate = Gate(gate='agents')
    with gate.permit('agentB', flow='f', timeout=5.0) as permit:
        ...                                     # at most as many at once as the gate's limit

    jobs = Jobs(queue='pricing')
    job = jobs.wait(jobs.submit({'sku': 7}).id)

`Gate` and `Jobs` are for threads, `AsyncGate` and `AsyncJobs` for asyncio; `MemoryGate` and `AsyncMemoryGate` are gates
inside the process, for tests. The server's address and the token come from the arguments `api` and `token`, else from
WEIR_API and WEIR_TOKEN: http://HOST:PORT, https://HOST or unix:/path.

Callers that wait stand in the server's line. By default the connection is the permit: however the process ends, the
permit comes back at once. With `hold=False` it has a lease, which the gate renews while the process lives, and any
caller that knows the permit may give it back. Standard library only, Python 3.9 or later; docs/reference/api.md is the
protocol.

A gate may be used by many threads, or by many tasks of one event loop at a time. It keeps up to 16 idle connections. If
one of them turns out dead before anything came, the call is made again, once, on a new one."""
from ._common import (Job, JobFailed, JobUnfinished, WeirError, WeirNotHeld, WeirRefused, WeirTimeout,
                      WeirUnreachable)
from ._memory import AsyncMemoryGate, MemoryGate
from ._tasks import AsyncGate, AsyncJobs, AsyncPermit
from ._threads import Gate, Jobs, Permit

__all__ = ['Gate', 'AsyncGate', 'Permit', 'AsyncPermit', 'MemoryGate', 'AsyncMemoryGate', 'Jobs', 'AsyncJobs', 'Job',
           'WeirError', 'WeirRefused', 'WeirTimeout', 'WeirNotHeld', 'WeirUnreachable', 'JobFailed', 'JobUnfinished']
