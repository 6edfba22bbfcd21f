"""Gates inside the process, with the calls of `Gate` and `AsyncGate`, for tests of programs that are handed a gate.

They count, wait in order and nest by flow as the server does. They know no tenants' shares, priorities, costs or
rates, and leases do not end."""
from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import inspect
import json
import queue
import threading
import time
import uuid
from typing import Any, AsyncIterator, Callable, Deque, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from ._common import (Document, Function, Key, WeirRefused, _Given, _key_of, _meant, _no_generator, _refusal, _Reply)
from ._tasks import AsyncPermit
from ._threads import Permit

DEPTH = 5  # how many permits of a flow share a place, as the server has it
Flow = Tuple[str, str]  # with its tenant


class _Waiter:
    def __init__(self, key: str, flow: Flow, wake: Callable[[], None]) -> None:
        self.key = key
        self.flow = flow
        self.wake = wake
        self.began = time.monotonic()
        self.said: Optional[Document] = None  # once it has a permit


class _MemoryKey:
    def __init__(self, limit: Optional[int]) -> None:
        self.limit = limit
        self.active = 0
        self.permits: Dict[str, Flow] = {}  # by id, the oldest first
        self.sharing: Dict[Flow, int] = {}  # how many permits share the flow's place
        self.line: Deque[_Waiter] = collections.deque()


class _Memory:
    """The counts of a gate. Callers see to it that one call is made at a time."""

    def __init__(self, limit: Optional[int], timeout: float, limits: Optional[Mapping[str, Optional[int]]],
                 gate: str) -> None:
        self.gate = gate
        self.limit = limit
        self.timeout = timeout
        self._limits = dict(limits or {})
        self._keys: Dict[str, _MemoryKey] = {}
        self.readers: List[Callable[[Document], None]] = []

    def of(self, key: str) -> _MemoryKey:
        if key not in self._keys:
            self._keys[key] = _MemoryKey(self._limits.get(key, self.limit))
        return self._keys[key]

    def _counts(self, key: str) -> Document:
        of = self.of(key)
        return {'active': of.active, 'waiting': len(of.line), 'limit': of.limit}

    def counts(self, key: str) -> Document:
        return {'gate': self.gate, 'key': key, 'reserved': self.of(key).active, **self._counts(key)}

    def line(self, key: str) -> List[Document]:
        return [{'position': place + 1, 'ahead': place, 'flow': waiter.flow[0], 'tenant': waiter.flow[1],
                 'priority': 'normal', 'binding': 'turn' if place else 'limit'}
                for place, waiter in enumerate(self.of(key).line)]

    def _give(self, waiter: _Waiter) -> None:
        of = self.of(waiter.key)
        id = uuid.uuid4().hex
        of.permits[id] = waiter.flow
        if not waiter.flow[0] or waiter.flow not in of.sharing:
            of.active += 1
        if waiter.flow[0]:
            of.sharing[waiter.flow] = of.sharing.get(waiter.flow, 0) + 1
        waited = int((time.monotonic() - waiter.began) * 1000)
        waiter.said = {'permit': id, 'flow': waiter.flow[0], 'waited_ms': waited, 'lease_ms': None,
                       **self._counts(waiter.key)}

    def enter(self, waiter: _Waiter) -> None:
        """It has its permit afterwards, or stands in line, or WeirRefused is raised."""
        of = self.of(waiter.key)
        if waiter.flow[0] and waiter.flow in of.sharing:
            if of.sharing[waiter.flow] >= DEPTH:
                raise self._refuse(waiter, 508, 'too-deep', 'The flow has as many permits here as it may. Look for '
                                   'callers that call each other in a circle.', 0.0)
            self._give(waiter)
        elif not of.line and (of.limit is None or of.active < of.limit):
            self._give(waiter)
        else:
            self._tell('gate.throttle', waiter)
            of.line.append(waiter)

    def give_up(self, waiter: _Waiter, timeout: float) -> WeirRefused:
        """It has waited in vain."""
        self.of(waiter.key).line.remove(waiter)
        self._tell('gate.timeout', waiter)
        return self._refuse(waiter, 429, 'line-timeout', f'Timed out in line after {timeout:g} s. Try again later.',
                            timeout)

    def leave(self, permit: Union[_Given, str], flow: Optional[str]) -> None:
        key, name = _meant(permit, flow)
        of = self.of(key)
        id = name.get('permit') or next((id for id, held in of.permits.items() if held[0] == flow), '')
        if id not in of.permits:
            raise self._not_held(key, flow)
        held = of.permits.pop(id)
        if held[0]:
            of.sharing[held] -= 1
            if of.sharing[held] > 0:
                return
            del of.sharing[held]
        of.active -= 1
        while of.line and (of.limit is None or of.active < of.limit):
            waiter = of.line.popleft()
            self._give(waiter)
            waiter.wake()

    def check(self, permit: Union[_Given, str], flow: Optional[str]) -> None:
        key, name = _meant(permit, flow)
        permits = self.of(key).permits
        if name.get('permit') not in permits and all(held[0] != flow for held in permits.values()):
            raise self._not_held(key, flow)

    def _tell(self, type: str, waiter: _Waiter) -> None:
        event = {'type': type, 'gate': self.gate, 'key': waiter.key, 'flow': waiter.flow[0], 'tenant': waiter.flow[1],
                 'timestamp': int(time.time() * 1000), **self._counts(waiter.key)}
        for reader in self.readers:
            reader(event)

    def _refuse(self, waiter: _Waiter, status: int, name: str, detail: str, timeout: float) -> WeirRefused:
        waited = int((time.monotonic() - waiter.began) * 1000)
        said = {'type': f'urn:weir:{name}', 'title': '', 'status': status, 'detail': detail, 'gate': self.gate,
                'key': waiter.key, 'flow': waiter.flow[0], 'tenant': waiter.flow[1], 'waited_ms': waited,
                'timeout_ms': int(timeout * 1000), **self._counts(waiter.key)}
        error = _refusal(_Reply(status, {}, json.dumps(said).encode()), waiter.key, waiter.flow[0])
        assert isinstance(error, WeirRefused)
        return error

    def _not_held(self, key: str, flow: Optional[str]) -> WeirRefused:
        said = {'type': 'urn:weir:not-held', 'status': 409, 'detail': 'No such permit is held.'}
        error = _refusal(_Reply(409, {}, json.dumps(said).encode()), key, flow)
        assert isinstance(error, WeirRefused)
        return error


class MemoryGate:
    """A `Gate` inside the process, for threads: `limit` permits for each key (None: unlimited, but counted), other
    limits for some in `limits`, and `timeout` seconds in line."""

    def __init__(self, limit: Optional[int] = 3, timeout: float = 30.0,
                 limits: Optional[Mapping[str, Optional[int]]] = None, gate: str = 'agents') -> None:
        self.gate = gate
        self._lock = threading.RLock()
        self._memory = _Memory(limit, timeout, limits, gate)

    @contextlib.contextmanager
    def permit(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
               lease: Optional[float] = None, tenant: Optional[str] = None, priority: Optional[str] = None,
               cost: Optional[int] = None, *, hold: bool = True, renew: bool = True) -> Iterator[Permit]:
        """As Gate.permit()."""
        permit = self.acquire(key, flow, timeout, lease, tenant, priority, cost, hold=hold)
        try:
            yield permit
        finally:
            with contextlib.suppress(WeirRefused):
                self.release(permit)

    def acquire(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                lease: Optional[float] = None, tenant: Optional[str] = None, priority: Optional[str] = None,
                cost: Optional[int] = None, *, hold: bool = False, renew: bool = True) -> Permit:
        """As Gate.acquire()."""
        ready = threading.Event()
        waiter = _Waiter(key, (flow or '', tenant or ''), ready.set)
        patience = self._memory.timeout if timeout is None else timeout
        with self._lock:
            self._memory.enter(waiter)
        if waiter.said is None:
            ready.wait(patience)
        with self._lock:
            if waiter.said is None:
                raise self._memory.give_up(waiter, patience)
        return Permit(key, waiter.said)

    def release(self, permit: Union[Permit, str], flow: Optional[str] = None, *, outcome: Optional[str] = None,
                cost: Optional[int] = None) -> None:
        """As Gate.release()."""
        with self._lock:
            self._memory.leave(permit, flow)

    def renew(self, permit: Union[Permit, str], flow: Optional[str] = None, *,
              lease: Optional[float] = None) -> Optional[float]:
        """As Gate.renew(), but there are no leases."""
        with self._lock:
            self._memory.check(permit, flow)
        return None

    def counts(self, key: str) -> Document:
        """As Gate.counts()."""
        with self._lock:
            return self._memory.counts(key)

    def line(self, key: str) -> List[Document]:
        """As Gate.line()."""
        with self._lock:
            return self._memory.line(key)

    @contextlib.contextmanager
    def events(self, *types: str) -> Iterator[Iterator[Document]]:
        """As Gate.events(): gate.throttle and gate.timeout."""
        events: queue.SimpleQueue[Document] = queue.SimpleQueue()

        def read(event: Document) -> None:
            if not types or event['type'] in types:
                events.put(event)
        with self._lock:
            self._memory.readers.append(read)
        try:
            yield iter(events.get, None)
        finally:
            with self._lock:
                self._memory.readers.remove(read)

    def limited(self, key: Key, **wish: Any) -> Callable[[Function], Function]:
        """As Gate.limited(), for plain functions."""
        def decorate(function: Function) -> Function:
            _no_generator(function)
            if inspect.iscoroutinefunction(function):
                raise TypeError('this is a coroutine function, which an AsyncMemoryGate limits')

            @functools.wraps(function)
            def wrapper(*args: Any, **more: Any) -> Any:
                with self.permit(_key_of(key, args, more), **wish):
                    return function(*args, **more)
            return wrapper  # type: ignore[return-value]
        return decorate

    def close(self) -> None:
        """As Gate.close(); there is nothing to do."""


class AsyncMemoryGate:
    """An `AsyncGate` inside the process, for the tasks of an event loop; as MemoryGate."""

    def __init__(self, limit: Optional[int] = 3, timeout: float = 30.0,
                 limits: Optional[Mapping[str, Optional[int]]] = None, gate: str = 'agents') -> None:
        self.gate = gate
        self._memory = _Memory(limit, timeout, limits, gate)

    @contextlib.asynccontextmanager
    async def permit(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                     lease: Optional[float] = None, tenant: Optional[str] = None, priority: Optional[str] = None,
                     cost: Optional[int] = None, *, hold: bool = True,
                     renew: bool = True) -> AsyncIterator[AsyncPermit]:
        """As AsyncGate.permit()."""
        permit = await self.acquire(key, flow, timeout, lease, tenant, priority, cost, hold=hold)
        try:
            yield permit
        finally:
            with contextlib.suppress(WeirRefused):
                await self.release(permit)

    async def acquire(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                      lease: Optional[float] = None, tenant: Optional[str] = None, priority: Optional[str] = None,
                      cost: Optional[int] = None, *, hold: bool = False, renew: bool = True) -> AsyncPermit:
        """As AsyncGate.acquire()."""
        ready = asyncio.Event()
        waiter = _Waiter(key, (flow or '', tenant or ''), ready.set)
        patience = self._memory.timeout if timeout is None else timeout
        self._memory.enter(waiter)
        if waiter.said is None:
            try:
                await asyncio.wait_for(ready.wait(), patience)
            except asyncio.TimeoutError:
                pass
            except asyncio.CancelledError:
                if waiter.said is None:
                    self._memory.of(key).line.remove(waiter)
                else:
                    self._memory.leave(AsyncPermit(key, waiter.said), None)
                raise
        if waiter.said is None:
            raise self._memory.give_up(waiter, patience)
        return AsyncPermit(key, waiter.said)

    async def release(self, permit: Union[AsyncPermit, str], flow: Optional[str] = None, *,
                      outcome: Optional[str] = None, cost: Optional[int] = None) -> None:
        """As AsyncGate.release()."""
        self._memory.leave(permit, flow)

    async def renew(self, permit: Union[AsyncPermit, str], flow: Optional[str] = None, *,
                    lease: Optional[float] = None) -> Optional[float]:
        """As AsyncGate.renew(), but there are no leases."""
        self._memory.check(permit, flow)
        return None

    async def counts(self, key: str) -> Document:
        """As AsyncGate.counts()."""
        return self._memory.counts(key)

    async def line(self, key: str) -> List[Document]:
        """As AsyncGate.line()."""
        return self._memory.line(key)

    @contextlib.asynccontextmanager
    async def events(self, *types: str) -> AsyncIterator[AsyncIterator[Document]]:
        """As AsyncGate.events(): gate.throttle and gate.timeout."""
        events: asyncio.Queue[Document] = asyncio.Queue()

        def read(event: Document) -> None:
            if not types or event['type'] in types:
                events.put_nowait(event)

        async def each() -> AsyncIterator[Document]:
            while True:
                yield await events.get()
        self._memory.readers.append(read)
        try:
            yield each()
        finally:
            self._memory.readers.remove(read)

    def limited(self, key: Key, **wish: Any) -> Callable[[Function], Function]:
        """As AsyncGate.limited()."""
        def decorate(function: Function) -> Function:
            _no_generator(function)
            if not inspect.iscoroutinefunction(function):
                raise TypeError('this is no coroutine function; a MemoryGate limits plain ones')

            @functools.wraps(function)
            async def wrapper(*args: Any, **more: Any) -> Any:
                async with self.permit(_key_of(key, args, more), **wish):
                    return await function(*args, **more)
            return wrapper  # type: ignore[return-value]
        return decorate

    async def close(self) -> None:
        """As AsyncGate.close(); there is nothing to do."""
