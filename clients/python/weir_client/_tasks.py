"""Gates and jobs of a running Weir for the tasks of an event loop."""
from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import json
import ssl
import time
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, Set, Tuple, Union

from . import _common
from ._common import (IDLE_MAX, LINE_BYTES_MAX, RENEWALS, Body, Document, Function, Job, Key, WeirError,
                      WeirNotHeld, WeirRefused, WeirUnreachable, _Calls, _Given, _GateCalls, _job_of, _JobCalls,
                      _key_of, _later, _meant, _milliseconds, _no_generator, _parse, _present, _refusal, _Reply,
                      _result_of, _seconds, _settled, _unfinished, _unreachable, _wish, _with_wait)
from ._threads import _look_after


class _Wire:
    """One connection of an event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.loop = asyncio.get_running_loop()
        self.reader = reader
        self.writer = writer

    def abort(self) -> None:
        """Closes it at once; what was not sent yet is not."""
        if not self.loop.is_closed():
            self.writer.transport.abort()

    def usable(self) -> bool:
        return (self.loop is asyncio.get_running_loop() and not self.reader.at_eof()
                and not self.writer.transport.is_closing())

    async def head(self) -> Tuple[int, Dict[str, str]]:
        """The status and the fields of a reply."""
        lines = (await self.reader.readuntil(b'\r\n\r\n')).decode('latin-1').split('\r\n')
        words = lines[0].split(' ', 2)
        if len(words) < 2 or not words[0].startswith('HTTP/1.') or not words[1].isdigit():
            raise WeirUnreachable('what answers does not speak HTTP')
        pairs = (line.partition(':') for line in lines[1:] if line)
        return int(words[1]), {name.lower(): value.strip() for name, _, value in pairs}

    async def chunk(self) -> bytes:
        """The next chunk of a body; empty at its end."""
        size = int((await self.reader.readuntil(b'\r\n')).split(b';')[0], 16)
        piece = await self.reader.readexactly(size)
        if await self.reader.readuntil(b'\r\n') != b'\r\n':
            raise ValueError('a chunk is longer than it says')
        return piece

    async def body(self, fields: Dict[str, str]) -> bytes:
        if fields.get('transfer-encoding', '').lower() == 'chunked':
            pieces = []
            while True:
                piece = await self.chunk()
                if not piece:
                    return b''.join(pieces)
                pieces.append(piece)
        if 'content-length' in fields:
            return await self.reader.readexactly(int(fields['content-length']))
        return await self.reader.read()


# What a connection that fails, or a reply that cannot be read, raises.
_BROKEN = (OSError, EOFError, asyncio.LimitOverrunError, ValueError)


class AsyncPermit(_Given):
    """A permit of an `AsyncGate`."""

    _wire: Optional[_Wire] = None
    _ended = False  # a renewal has found that it is over

    @property
    def lost(self) -> bool:
        """As Permit.lost."""
        return self._ended or self._wire is not None and not self._wire.usable()

    def _let_go(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()


class _AsyncClient(_Calls):
    """Connections to a server, for the tasks of an event loop."""

    def _begin(self) -> None:
        self._idle: List[_Wire] = []
        self._tasks: Set[asyncio.Task[None]] = set()  # a loop keeps only weak references

    async def close(self) -> None:
        """Waits for what is being given back, and closes idle connections. It may still be used."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        idle, self._idle = self._idle, []
        for wire in idle:
            wire.abort()

    def _start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # seen, or asyncio logs it where no caller waited for it

    def _take(self) -> Optional[_Wire]:
        while self._idle:
            wire = self._idle.pop()
            if wire.usable():
                return wire
            wire.abort()
        return None

    async def _connect(self) -> _Wire:
        # Not wait_for(), which before Python 3.12 can swallow a cancellation.
        if self._socket_path is not None:
            opening = asyncio.open_unix_connection(self._socket_path, limit=LINE_BYTES_MAX)
        else:
            opening = asyncio.open_connection(self._host, self._port, limit=LINE_BYTES_MAX, ssl=self._tls)
        task = asyncio.ensure_future(opening)
        try:
            await asyncio.wait({task}, timeout=_common.PATIENCE)
            if not task.done():
                raise OSError('no connection in time')
            wire = _Wire(*task.result())
        finally:
            task.cancel()
        _look_after(wire.writer.get_extra_info('socket'))
        return wire

    def _text(self, method: str, path: str, wish: Optional[Document],
              upload: Optional[Tuple[bytes, Dict[str, str]]] = None) -> bytes:
        body, more = upload or (b'', {})
        if wish is not None:
            body, more = json.dumps(wish).encode(), {'Content-Type': 'application/json'}
        fields = {'Host': self._host_field(), **self._fields, **more}
        if method == 'POST':
            fields['Content-Length'] = str(len(body))
        lines = [f'{method} {path} HTTP/1.1', *(f'{name}: {value}' for name, value in fields.items())]
        return ('\r\n'.join(lines) + '\r\n\r\n').encode('latin-1') + body

    async def _exchange(self, method: str, path: str, wish: Optional[Document],
                        patience: Optional[float], hold: bool = False,
                        sent: Optional[Callable[[_Wire], None]] = None,
                        upload: Optional[Tuple[bytes, Dict[str, str]]] = None) -> Tuple[_Wire, _Reply]:
        """Makes a call, again if a connection that was kept is dead before anything came."""
        began = time.monotonic()
        try:
            wire = self._take()
            if wire is not None:
                try:
                    return wire, await self._speak(wire, self._text(method, path, wish, upload), patience,
                                                   hold, sent)
                except ConnectionError:
                    wish = None if wish is None else _later(wish, began)
                except asyncio.IncompleteReadError as error:
                    if error.partial:
                        raise
                    wish = None if wish is None else _later(wish, began)
            wire = await self._connect()
            return wire, await self._speak(wire, self._text(method, path, wish, upload), patience, hold, sent)
        except _BROKEN as error:
            raise _unreachable(self.api, error) from error

    async def _speak(self, wire: _Wire, text: bytes, patience: Optional[float], hold: bool,
                     sent: Optional[Callable[[_Wire], None]]) -> _Reply:
        """One call and its reply; of a permit that is held, its first part."""
        late = kept = False

        def give_up() -> None:
            nonlocal late
            late = True
            wire.abort()
        timer = None if patience is None else wire.loop.call_later(patience, give_up)
        try:
            wire.writer.write(text)
            if sent is not None:
                sent(wire)
            await wire.writer.drain()
            status, fields = await wire.head()
            if hold and status == 200:
                chunked = fields.get('transfer-encoding', '').lower() == 'chunked'
                reply = _Reply(status, fields, await (wire.chunk() if chunked else wire.reader.readline()))
                kept = True
                return reply
            reply = _Reply(status, fields, await wire.body(fields))
            if fields.get('connection', '').lower() != 'close' and len(self._idle) < IDLE_MAX:
                self._idle.append(wire)
                kept = True
            return reply
        except asyncio.CancelledError:
            kept = sent is not None and not hold  # acquire() sees to it
            raise
        except _BROKEN as error:
            if late:
                raise OSError('no answer in time') from error
            raise
        finally:
            if timer is not None:
                timer.cancel()
            if not kept:
                wire.abort()

    async def _call(self, method: str, path: str, wish: Optional[Document], key: Optional[str] = None,
                    flow: Optional[str] = None) -> Document:
        _, reply = await self._exchange(method, path, wish, _common.PATIENCE)
        if reply.status != 200:
            raise _refusal(reply, key, flow)
        return _parse(reply.body)


class AsyncGate(_AsyncClient, _GateCalls):
    """A gate of a running Weir, for the tasks of an event loop. A task that is cancelled while it waits leaves
    the line at once; one that is cancelled inside gives back."""

    def __init__(self, api: Optional[str] = None, gate: str = 'agents', token: Optional[str] = None, *,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        _GateCalls.__init__(self, api, gate, token, tls)
        self._begin()
        self._renewals: Dict[str, asyncio.Task[None]] = {}

    # -- permits

    @contextlib.asynccontextmanager
    async def permit(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                     lease: Optional[float] = None, tenant: Optional[str] = None,
                     priority: Optional[str] = None, cost: Optional[int] = None, *,
                     hold: bool = True, renew: bool = True) -> AsyncIterator[AsyncPermit]:
        """As Gate.permit()."""
        permit = await self.acquire(key, flow, timeout, lease, tenant, priority, cost, hold=hold, renew=renew)
        try:
            yield permit
        finally:
            with contextlib.suppress(WeirError):
                await self.release(permit)

    async def acquire(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                      lease: Optional[float] = None, tenant: Optional[str] = None,
                      priority: Optional[str] = None, cost: Optional[int] = None, *,
                      hold: bool = False, renew: bool = True) -> AsyncPermit:
        """As Gate.acquire(); a task of the event loop renews the lease."""
        wish = _wish(flow, timeout, lease, tenant, priority, cost, hold)
        patience = None if timeout is None else timeout + _common.PATIENCE
        path = self._gate_path(key, 'acquire')
        wire: Optional[_Wire] = None

        def sent(by: _Wire) -> None:
            nonlocal wire
            wire = by
        try:
            wire, reply = await self._exchange('POST', path, wish, patience, hold, sent)
        except asyncio.CancelledError:
            if wire is not None and not hold:
                self._start(self._abandon(wire, key))
            raise
        if reply.status != 200:
            raise _refusal(reply, key, flow)
        permit = AsyncPermit(key, _parse(reply.body))
        if hold:
            permit._wire = wire
        elif renew and permit.lease is not None:
            self._renewals[permit.id] = asyncio.get_running_loop().create_task(self._keep(permit, permit.lease))
        return permit

    async def _keep(self, permit: AsyncPermit, lease: float) -> None:
        """Renews the lease until it is known to be over."""
        end = time.monotonic() + lease
        wait = lease / RENEWALS
        while True:
            await asyncio.sleep(wait)
            now = time.monotonic()
            try:
                lease = await self.renew(permit) or lease
                wait, end = lease / RENEWALS, now + lease
            except WeirNotHeld:
                break
            except WeirError:  # tried again until the lease is over
                left = end - time.monotonic()
                if left <= 0:
                    break
                wait = max(0.05, min(1.0, left / RENEWALS))
        permit._ended = True
        self._renewals.pop(permit.id, None)

    async def release(self, permit: Union[AsyncPermit, str], flow: Optional[str] = None, *,
                      outcome: Optional[str] = None, cost: Optional[int] = None) -> None:
        """As Gate.release(). Goes on when the task that called it is cancelled meanwhile."""
        if isinstance(permit, AsyncPermit) and permit.id in self._renewals:
            self._renewals.pop(permit.id).cancel()
        await asyncio.shield(self._start(self._release(permit, flow, outcome, cost)))

    async def _release(self, permit: Union[AsyncPermit, str], flow: Optional[str],
                       outcome: Optional[str], cost: Optional[int]) -> None:
        try:
            key, name = _meant(permit, flow)
            await self._call('POST', self._gate_path(key, 'release'),
                             {**name, **_settled(permit, outcome, cost)}, key, flow)
        finally:
            if isinstance(permit, AsyncPermit):
                permit._let_go()

    async def renew(self, permit: Union[AsyncPermit, str], flow: Optional[str] = None, *,
                    lease: Optional[float] = None) -> Optional[float]:
        """As Gate.renew()."""
        key, name = _meant(permit, flow)
        said = await self._call('POST', self._gate_path(key, 'renew'),
                                {**name, **_present(lease_ms=_milliseconds(lease))}, key, flow)
        now = _seconds(said.get('lease_ms'))
        if isinstance(permit, AsyncPermit):
            permit.lease = now
        return now

    # -- counts

    async def counts(self, key: str) -> Document:
        """As Gate.counts()."""
        try:
            return await self._call('GET', self._gate_path(key), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            return self._unused(key, await self._call('GET', self._path('gates'), None), error)

    async def line(self, key: str) -> List[Document]:
        """As Gate.line()."""
        try:
            said = await self._call('GET', self._gate_path(key, 'line'), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            self._unused(key, await self._call('GET', self._path('gates'), None), error)
            return []
        return list(said['line'])

    # -- events

    @contextlib.asynccontextmanager
    async def events(self, *types: str) -> AsyncIterator[AsyncIterator[Document]]:
        """As Gate.events(), with `async with` and `async for`."""
        try:
            wire = await self._connect()
        except _BROKEN as error:
            raise _unreachable(self.api, error) from error
        try:
            await self._follow(wire, types)
            yield self._lines(wire)
        finally:
            wire.abort()

    async def _follow(self, wire: _Wire, types: Tuple[str, ...]) -> None:
        """Asks for events, and waits until they are promised."""
        timer = wire.loop.call_later(_common.PATIENCE, wire.abort)
        try:
            wire.writer.write(self._text('GET', self._events_path(types), None))
            status, fields = await wire.head()
            if status != 200:
                raise _refusal(_Reply(status, fields, await wire.body(fields)), None, None)
        except _BROKEN as error:
            raise _unreachable(self.api, error) from error
        finally:
            timer.cancel()

    async def _lines(self, wire: _Wire) -> AsyncIterator[Document]:
        rest = b''
        while True:
            try:
                piece = await wire.chunk()
            except _BROKEN as error:
                raise _unreachable(self.api, error) from error
            if not piece:
                raise WeirUnreachable(f'{self.api} sends no more events')
            *lines, rest = (rest + piece).split(b'\n')
            for line in lines:
                yield _parse(line)

    # -- functions

    def limited(self, key: Key, **wish: Any) -> Callable[[Function], Function]:
        """As Gate.limited(), for coroutine functions."""
        def decorate(function: Function) -> Function:
            _no_generator(function)
            if not inspect.iscoroutinefunction(function):
                raise TypeError('this is no coroutine function; a Gate limits plain ones')

            @functools.wraps(function)
            async def wrapper(*args: Any, **more: Any) -> Any:
                async with self.permit(_key_of(key, args, more), **wish):
                    return await function(*args, **more)
            return wrapper  # type: ignore[return-value]
        return decorate

    async def close(self) -> None:
        """Waits for what is being given back, closes idle connections, and renews leases no more. The gate may
        still be used."""
        renewals, self._renewals = self._renewals, {}
        for task in renewals.values():
            task.cancel()
        await super().close()

    async def _abandon(self, wire: _Wire, key: str) -> None:
        """Leaves the line, whose answer may be under way already: then the permit has to go back."""
        if not wire.writer.can_write_eof():  # TLS cannot end one side: a permit under way has its lease
            wire.abort()
            return
        timer = wire.loop.call_later(_common.ABANDON, wire.abort)
        try:
            wire.writer.write_eof()
            status, fields = await wire.head()
            if status == 200:
                permit = AsyncPermit(key, _parse(await wire.body(fields)))
                await self._release(permit, None, 'cancelled', None)
        except _BROKEN:
            pass  # it had not been answered
        finally:
            timer.cancel()
            wire.abort()


class AsyncJobs(_AsyncClient, _JobCalls):
    """The jobs of a running Weir, for the tasks of an event loop; as Jobs."""

    def __init__(self, api: Optional[str] = None, queue: Optional[str] = None, token: Optional[str] = None, *,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        _JobCalls.__init__(self, api, queue, token, tls)
        self._begin()

    async def submit(self, body: Body, id: Optional[str] = None, **more: Any) -> Job:
        """As Jobs.submit()."""
        path, data, fields = self._submission(body, id, more)
        return _job_of(await self._ask('POST', path, (data, fields)))

    async def status(self, id: str, wait: Optional[float] = None) -> Job:
        """As Jobs.status()."""
        return _job_of(await self._ask('GET', _with_wait(self._path('status', id), wait), None, wait))

    async def wait(self, id: str, timeout: Optional[float] = None) -> Job:
        """As Jobs.wait()."""
        began = time.monotonic()
        while True:
            left = None if timeout is None else timeout - (time.monotonic() - began)
            job = await self.status(id, _common.JOB_WAIT if left is None else max(0.0, min(_common.JOB_WAIT, left)))
            if job.over:
                return job
            if left is not None and left <= 0:
                raise _unfinished(job, timeout or 0)

    async def result(self, id: str, wait: Optional[float] = None) -> bytes:
        """As Jobs.result()."""
        return _result_of(await self._ask('GET', _with_wait(self._path('result', id), wait), None, wait))

    async def cancel(self, id: str) -> Job:
        """As Jobs.cancel()."""
        return _job_of(await self._ask('POST', self._path('cancel', id)))

    async def _ask(self, method: str, path: str, upload: Optional[Tuple[bytes, Dict[str, str]]] = None,
                   wait: Optional[float] = None) -> _Reply:
        _, reply = await self._exchange(method, path, None, _common.PATIENCE + (wait or 0), upload=upload)
        return reply
