"""Permits of a running Weir for Python programs: `Gate` for threads, `AsyncGate` for asyncio.

    gate = Gate(gate='agents')
    with gate.permit('agentB', flow='f', timeout=5.0) as permit:
        ...                                     # at most as many at once as the gate's limit

Who waits stands in the server's line. By default the connection is the permit: whatever ends the
process gives it back at once. With `hold=False` it is kept by its lease, and may be given back by
anybody who knows it. One file, standard library only, Python 3.9 or later; docs/reference/api.md is the protocol.

A gate may be used by many threads, or by many tasks of one event loop at a time. It keeps up to IDLE_MAX
idle connections. If one of them turns out dead before anything came, the call is made again, once, on a
new one."""
from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import inspect
import json
import math
import os
import socket
import threading
import time
import urllib.parse
from typing import (Any, AsyncIterator, Callable, Dict, Iterator, List, NamedTuple, Optional, Set,
                    Tuple, TypeVar, Union)

__all__ = ['Gate', 'AsyncGate', 'Permit', 'AsyncPermit', 'WeirError', 'WeirRefused', 'WeirTimeout',
           'WeirNotHeld', 'WeirUnreachable']

PATIENCE = 10.0  # seconds for a connection, and for a reply beyond what was asked to wait
ABANDON = 3.0    # for the end of a call that was cancelled, where the server lets half-closed connections wait
PATIENCE_MAX = (2 ** 31 - 1) / 1000  # of a socket: beyond that, Python asks poll() for another time
IDLE_MAX = 16    # a few threads' worth; more are made as needed, and closed after use
LINE_BYTES_MAX = 1 << 16  # of a reply's head, and of a chunk's size

Document = Dict[str, Any]
Key = Union[str, Callable[..., str]]
Function = TypeVar('Function', bound=Callable[..., Any])


# ---- what is said when there is no permit

class WeirError(Exception):
    """Any failure. What the server did not say is None; `type` is then empty."""

    def __init__(self, message: str, document: Optional[Document] = None, *, status: int = 0,
                 retry_after: Optional[float] = None, key: Optional[str] = None,
                 flow: Optional[str] = None) -> None:
        super().__init__(message)
        said = document or {}
        self.document: Document = said
        self.status = status
        self.type: str = said.get('type', '')
        self.title: str = said.get('title', '')
        self.detail: str = said.get('detail', message)
        self.gate: Optional[str] = said.get('gate')
        self.key: Optional[str] = said.get('key', key)
        self.flow: Optional[str] = said.get('flow', flow)
        self.tenant: Optional[str] = said.get('tenant')
        self.active: Optional[int] = said.get('active')
        self.waiting: Optional[int] = said.get('waiting')
        self.limit: Optional[int] = said.get('limit')
        self.waited: Optional[float] = _seconds(said.get('waited_ms'))
        self.timeout: Optional[float] = _seconds(said.get('timeout_ms'))
        self.retry_after = retry_after

    @property
    def agent(self) -> Optional[str]:
        """The key, for whom it is an agent."""
        return self.key


class WeirRefused(WeirError):
    """The server said no; `type` tells why, `detail` what to do."""


class WeirTimeout(WeirRefused):
    """Its turn did not come in time."""


class WeirNotHeld(WeirRefused):
    """The permit was never given, was given back, or its lease is over."""


class WeirUnreachable(WeirError):
    """There was no answer, or none that can be read."""


_KINDS = {'urn:weir:line-timeout': WeirTimeout, 'urn:weir:not-held': WeirNotHeld}


def _refusal(reply: _Reply, key: Optional[str], flow: Optional[str]) -> WeirError:
    try:
        said = json.loads(reply.body)
    except ValueError:
        said = None
    if not isinstance(said, dict):  # not of a Weir, but of something in between
        return WeirRefused(f'the reply was {reply.status}, without a reason', status=reply.status,
                           key=key, flow=flow)
    after = reply.fields.get('retry-after', '')
    error = _KINDS.get(said.get('type', ''), WeirRefused)(
        '', said, status=reply.status, key=key, flow=flow,
        retry_after=float(after) if after.isdigit() else None)
    place = ''
    if error.active is not None:
        limit = 'no limit' if error.limit is None else f'a limit of {error.limit}'
        name = f' for flow {error.flow}' if error.flow else ''
        place = f'{error.key}{name}: {error.active} active of {limit}, {error.waiting} waiting, ' \
                f'after {error.waited} s: '
    error.args = (f'{place}{error.detail}',)
    return error


def _unreachable(api: str, error: BaseException) -> WeirUnreachable:
    return WeirUnreachable(f'{api} does not answer: {error or type(error).__name__}')


# ---- what is asked for, and what is given

class _Reply(NamedTuple):
    status: int
    fields: Dict[str, str]
    body: bytes


def _seconds(milliseconds: Optional[int]) -> Optional[float]:
    return None if milliseconds is None else milliseconds / 1000


def _milliseconds(seconds: Optional[float]) -> Optional[int]:
    """Rounded up, so that a short time does not become none."""
    return None if seconds is None else math.ceil(seconds * 1000)


def _present(**fields: Any) -> Document:
    return {name: value for name, value in fields.items() if value is not None}


def _wish(flow: Optional[str], timeout: Optional[float], lease: Optional[float],
          tenant: Optional[str], priority: Optional[str], cost: Optional[int],
          hold: bool) -> Document:
    return _present(flow=flow or None, tenant=tenant or None, priority=priority, cost=cost,
                    timeout_ms=_milliseconds(timeout), lease_ms=_milliseconds(lease),
                    hold=True if hold else None)


def _segment(name: str) -> str:
    """One segment of a path. Dots alone would be taken for a way up."""
    quoted = urllib.parse.quote(name, safe='')
    return quoted if quoted.strip('.') else quoted.replace('.', '%2E')


def _later(wish: Document, began: float) -> Document:
    """A wish that is repeated: the time that was waited is taken from its timeout."""
    if 'timeout_ms' not in wish:
        return wish
    passed = int((time.monotonic() - began) * 1000)
    return {**wish, 'timeout_ms': max(0, wish['timeout_ms'] - passed)}


def _parse(body: bytes) -> Document:
    try:
        said = json.loads(body)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise WeirUnreachable('what answers is no Weir: its reply is no JSON object')
    return said


class _Given:
    """What was told with a permit. `outcome` and `cost` may be set before it is given back: how it went
    (success, rate_limit, soft_loss, client_error, cancelled) and what it really cost."""

    def __init__(self, key: str, said: Document) -> None:
        self.key = key
        self.id: str = said['permit']
        self.flow: str = said['flow']
        self.waited: float = said['waited_ms'] / 1000
        self.active: int = said['active']
        self.waiting: int = said['waiting']
        self.limit: Optional[int] = said['limit']
        self.lease: Optional[float] = _seconds(said['lease_ms'])
        self.outcome: Optional[str] = None
        self.cost: Optional[int] = None

    @property
    def agent(self) -> str:
        """The key, for whom it is an agent."""
        return self.key

    def __repr__(self) -> str:
        return f'<{type(self).__name__} {self.id} of {self.key}>'


class _Calls:
    """What both gates share: where the server is, and how a call looks."""

    def __init__(self, api: str = 'http://127.0.0.1:7070', gate: str = 'agents',
                 token: Optional[str] = None) -> None:
        parts = urllib.parse.urlsplit(api)
        if parts.scheme != 'http' or not parts.hostname:
            raise ValueError(f'{api!r} is no http:// address')
        self.api = api
        self.gate = gate
        self._host: str = parts.hostname
        self._port: int = parts.port or 80
        self._base = parts.path.rstrip('/')
        self._fields = {'Content-Type': 'application/json'}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise ValueError('a token has printable characters of ASCII only')
            self._fields['Authorization'] = f'Bearer {token}'

    def _path(self, *segments: str) -> str:
        return '/'.join([self._base, 'gates', *(_segment(segment) for segment in segments)])

    def _events_path(self, types: Tuple[str, ...]) -> str:
        query = urllib.parse.urlencode([('gate', self.gate), *(('type', name) for name in types)])
        return f'{self._base}/events?{query}'

    def _unused(self, key: str, gates: Document, error: WeirError) -> Document:
        """The counts of a key that nobody has used, which the server does not know; if the gate is there."""
        if all(entry.get('gate') != self.gate for entry in gates.get('gates', [])):
            raise error
        return {'gate': self.gate, 'key': key, 'active': 0, 'waiting': 0, 'reserved': 0, 'limit': None}


def _meant(permit: Union[_Given, str], flow: Optional[str]) -> Tuple[str, Document]:
    """Whose key, and by which name: of a permit, or of a key and a flow."""
    if isinstance(permit, _Given):
        return permit.key, {'permit': permit.id}
    if not flow:
        raise ValueError('name a permit, or a key and a flow')
    return permit, {'flow': flow}


def _settled(permit: Union[_Given, str], outcome: Optional[str], cost: Optional[int]) -> Document:
    if isinstance(permit, _Given):
        outcome = permit.outcome if outcome is None else outcome
        cost = permit.cost if cost is None else cost
    return _present(outcome=outcome, cost=cost)


def _key_of(key: Key, args: Tuple[Any, ...], more: Dict[str, Any]) -> str:
    return key if isinstance(key, str) else key(*args, **more)


def _no_generator(function: Callable[..., Any]) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError('a generator runs after its call; use `with gate.permit(...)` inside it')


# ---- for threads

class Permit(_Given):
    """A permit of a `Gate`. One that its connection holds is given back at the latest when it is forgotten."""

    _connection: Optional[http.client.HTTPConnection] = None
    _response: Optional[http.client.HTTPResponse] = None

    @property
    def lost(self) -> bool:
        """Whether the connection that holds it has ended, and the permit with it. Always false without `hold`."""
        connection = self._connection
        if connection is None or connection.sock is None:
            return False
        try:
            connection.sock.recv(1, socket.MSG_PEEK)  # it does not block, and nothing more is ever said
            return True
        except BlockingIOError:
            return False
        except OSError:
            return True

    def _let_go(self) -> None:
        connection, response = self._connection, self._response
        self._connection = self._response = None
        if connection is not None:
            _hang_up(connection)
        if response is not None:
            response.close()


def _hang_up(connection: http.client.HTTPConnection) -> None:
    """Closes it for all: a child that was forked meanwhile has the same socket."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()


class Gate(_Calls):
    """A gate of a running Weir, for any number of threads."""

    def __init__(self, api: str = 'http://127.0.0.1:7070', gate: str = 'agents',
                 token: Optional[str] = None) -> None:
        super().__init__(api, gate, token)
        self._token = token
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []
        self._process = os.getpid()

    # -- permits

    @contextlib.contextmanager
    def permit(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
               lease: Optional[float] = None, tenant: Optional[str] = None,
               priority: Optional[str] = None, cost: Optional[int] = None, *,
               hold: bool = True) -> Iterator[Permit]:
        """Waits up to `timeout` seconds for a permit, and gives it back after the block, whatever happens in
        it. Giving back does not raise: what was done is done."""
        permit = self.acquire(key, flow, timeout, lease, tenant, priority, cost, hold=hold)
        try:
            yield permit
        finally:
            with contextlib.suppress(WeirError):
                self.release(permit)

    def acquire(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                lease: Optional[float] = None, tenant: Optional[str] = None,
                priority: Optional[str] = None, cost: Optional[int] = None, *,
                hold: bool = False) -> Permit:
        """Waits for a permit that release() gives back, or the end of its lease. WeirTimeout after `timeout`
        seconds; None: as the gate says. Without `hold`, have a lease at the gate for those who never do."""
        wish = _wish(flow, timeout, lease, tenant, priority, cost, hold)
        patience = None if timeout is None else timeout + PATIENCE
        connection, response = self._open('POST', self._path(self.gate, key, 'acquire'), wish, patience)
        try:
            if response.status != 200 or not hold:
                return Permit(key, self._finish(connection, response, key, flow))
            permit = Permit(key, _parse(response.readline(LINE_BYTES_MAX)))
            if connection.sock is not None:  # it is the response's own if the server will close it
                connection.sock.setblocking(False)
        except BaseException as error:
            if not isinstance(error, WeirRefused):
                _hang_up(connection)
            if isinstance(error, (OSError, http.client.HTTPException)):
                raise _unreachable(self.api, error) from error
            raise
        permit._connection, permit._response = connection, response
        return permit

    def release(self, permit: Union[Permit, str], flow: Optional[str] = None, *,
                outcome: Optional[str] = None, cost: Optional[int] = None) -> None:
        """Gives back a permit, or the oldest of a key's flow: release('agentB', 'f')."""
        key, name = _meant(permit, flow)
        try:
            self._call('POST', self._path(self.gate, key, 'release'),
                       {**name, **_settled(permit, outcome, cost)}, key, flow)
        finally:
            if isinstance(permit, Permit):
                permit._let_go()

    def renew(self, permit: Union[Permit, str], flow: Optional[str] = None, *,
              lease: Optional[float] = None) -> Optional[float]:
        """Its lease begins anew; returns how long it is now."""
        key, name = _meant(permit, flow)
        said = self._call('POST', self._path(self.gate, key, 'renew'),
                          {**name, **_present(lease_ms=_milliseconds(lease))}, key, flow)
        return _seconds(said.get('lease_ms'))

    # -- counts

    def counts(self, key: str) -> Document:
        """Such as {'active': 2, 'waiting': 0, 'limit': 3, ...}. A key that nobody uses has none, and no limit."""
        try:
            return self._call('GET', self._path(self.gate, key), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            return self._unused(key, self._call('GET', self._path(), None), error)

    def line(self, key: str) -> List[Document]:
        """Who waits there, in order."""
        try:
            said = self._call('GET', self._path(self.gate, key, 'line'), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            self._unused(key, self._call('GET', self._path(), None), error)
            return []
        return list(said['line'])

    # -- events

    @contextlib.contextmanager
    def events(self, *types: str) -> Iterator[Iterator[Document]]:
        """What is decided at the gate, from the beginning of the block on, as it happens; of these types, or of
        all: docs/reference/events.md. Ends with WeirUnreachable when the server does.

            with gate.events('gate.throttle') as events:
                for event in events: ..."""
        connection, response = self._open('GET', self._events_path(types), None, PATIENCE)
        if response.status != 200:
            self._finish(connection, response, None, None)  # which raises
        if connection.sock is not None:
            connection.sock.settimeout(None)
        try:
            yield self._lines(response)
        finally:
            _hang_up(connection)
            response.close()

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[Document]:
        while True:
            try:
                line = response.readline(LINE_BYTES_MAX)
            except (OSError, http.client.HTTPException) as error:
                raise _unreachable(self.api, error) from error
            if not line:
                raise WeirUnreachable(f'{self.api} sends no more events')
            yield _parse(line)

    # -- functions

    def limited(self, key: Key, **wish: Any) -> Callable[[Function], Function]:
        """A decorator for functions and coroutine functions: each call needs a permit of the key, which may also
        be a function of the call's arguments. `wish` is as for permit()."""
        def decorate(function: Function) -> Function:
            _no_generator(function)
            if inspect.iscoroutinefunction(function):
                return AsyncGate(self.api, self.gate, self._token).limited(key, **wish)(function)

            @functools.wraps(function)
            def wrapper(*args: Any, **more: Any) -> Any:
                with self.permit(_key_of(key, args, more), **wish):
                    return function(*args, **more)
            return wrapper  # type: ignore[return-value]
        return decorate

    def close(self) -> None:
        """Closes idle connections. The gate may still be used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    # -- connections

    def _take(self) -> Optional[http.client.HTTPConnection]:
        with self._lock:
            if self._process != os.getpid():  # after a fork they are the parent's
                self._idle = []
                self._process = os.getpid()
            return self._idle.pop() if self._idle else None

    def _keep(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if self._process == os.getpid() and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _send(self, connection: http.client.HTTPConnection, method: str, path: str,
              wish: Optional[Document], patience: Optional[float]) -> http.client.HTTPResponse:
        try:
            if connection.sock is None:
                connection.connect()
                _look_after(_socket_of(connection))
            bounded = patience is not None and patience <= PATIENCE_MAX
            _socket_of(connection).settimeout(patience if bounded else None)
            text = None if wish is None else json.dumps(wish).encode()
            connection.request(method, path, text, self._fields)
            return connection.getresponse()
        except BaseException:
            _hang_up(connection)
            raise

    def _open(self, method: str, path: str, wish: Optional[Document],
              patience: Optional[float]) -> Tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Sends a call, and returns when the reply's head is there."""
        began = time.monotonic()
        connection = self._take()
        try:
            if connection is not None:
                try:
                    return connection, self._send(connection, method, path, wish, patience)
                except ConnectionError:  # http.client's RemoteDisconnected is one too
                    wish = None if wish is None else _later(wish, began)
            connection = http.client.HTTPConnection(self._host, self._port, timeout=PATIENCE)
            return connection, self._send(connection, method, path, wish, patience)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(self.api, error) from error

    def _finish(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse,
                key: Optional[str], flow: Optional[str]) -> Document:
        """Reads the rest of a reply, keeps the connection, and returns or raises what was said."""
        reply = _Reply(response.status, {name.lower(): value for name, value in response.getheaders()},
                       response.read())
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        if reply.status != 200:
            raise _refusal(reply, key, flow)
        return _parse(reply.body)

    def _call(self, method: str, path: str, wish: Optional[Document], key: Optional[str] = None,
              flow: Optional[str] = None) -> Document:
        connection, response = self._open(method, path, wish, PATIENCE)
        try:
            return self._finish(connection, response, key, flow)
        except (OSError, http.client.HTTPException) as error:
            _hang_up(connection)
            raise _unreachable(self.api, error) from error


def _socket_of(connection: http.client.HTTPConnection) -> socket.socket:
    wire = connection.sock
    assert wire is not None  # it is connected
    return wire


def _look_after(wire: socket.socket) -> None:
    """Small calls go at once, and a server that is gone without a word is noticed while waiting in its line."""
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (('TCP_KEEPIDLE', 10), ('TCP_KEEPINTVL', 5), ('TCP_KEEPCNT', 3)):
        if hasattr(socket, name):
            wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


# ---- for asyncio

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

    @property
    def lost(self) -> bool:
        """Whether the connection that holds it has ended, and the permit with it. Always false without `hold`."""
        return self._wire is not None and not self._wire.usable()

    def _let_go(self) -> None:
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.abort()


class AsyncGate(_Calls):
    """A gate of a running Weir, for the tasks of an event loop. A task that is cancelled while it waits leaves
    the line at once; one that is cancelled inside gives back."""

    def __init__(self, api: str = 'http://127.0.0.1:7070', gate: str = 'agents',
                 token: Optional[str] = None) -> None:
        super().__init__(api, gate, token)
        self._idle: List[_Wire] = []
        self._tasks: Set[asyncio.Task[None]] = set()  # a loop keeps only weak references

    # -- permits

    @contextlib.asynccontextmanager
    async def permit(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                     lease: Optional[float] = None, tenant: Optional[str] = None,
                     priority: Optional[str] = None, cost: Optional[int] = None, *,
                     hold: bool = True) -> AsyncIterator[AsyncPermit]:
        """As Gate.permit()."""
        permit = await self.acquire(key, flow, timeout, lease, tenant, priority, cost, hold=hold)
        try:
            yield permit
        finally:
            with contextlib.suppress(WeirError):
                await self.release(permit)

    async def acquire(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                      lease: Optional[float] = None, tenant: Optional[str] = None,
                      priority: Optional[str] = None, cost: Optional[int] = None, *,
                      hold: bool = False) -> AsyncPermit:
        """As Gate.acquire()."""
        wish = _wish(flow, timeout, lease, tenant, priority, cost, hold)
        patience = None if timeout is None else timeout + PATIENCE
        path = self._path(self.gate, key, 'acquire')
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
        return permit

    async def release(self, permit: Union[AsyncPermit, str], flow: Optional[str] = None, *,
                      outcome: Optional[str] = None, cost: Optional[int] = None) -> None:
        """As Gate.release(). Goes on when the task that called it is cancelled meanwhile."""
        await asyncio.shield(self._start(self._release(permit, flow, outcome, cost)))

    async def _release(self, permit: Union[AsyncPermit, str], flow: Optional[str],
                       outcome: Optional[str], cost: Optional[int]) -> None:
        try:
            key, name = _meant(permit, flow)
            await self._call('POST', self._path(self.gate, key, 'release'),
                             {**name, **_settled(permit, outcome, cost)}, key, flow)
        finally:
            if isinstance(permit, AsyncPermit):
                permit._let_go()

    async def renew(self, permit: Union[AsyncPermit, str], flow: Optional[str] = None, *,
                    lease: Optional[float] = None) -> Optional[float]:
        """As Gate.renew()."""
        key, name = _meant(permit, flow)
        said = await self._call('POST', self._path(self.gate, key, 'renew'),
                                {**name, **_present(lease_ms=_milliseconds(lease))}, key, flow)
        return _seconds(said.get('lease_ms'))

    # -- counts

    async def counts(self, key: str) -> Document:
        """As Gate.counts()."""
        try:
            return await self._call('GET', self._path(self.gate, key), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            return self._unused(key, await self._call('GET', self._path(), None), error)

    async def line(self, key: str) -> List[Document]:
        """As Gate.line()."""
        try:
            said = await self._call('GET', self._path(self.gate, key, 'line'), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            self._unused(key, await self._call('GET', self._path(), None), error)
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
        timer = wire.loop.call_later(PATIENCE, wire.abort)
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
        """Waits for what is being given back, and closes idle connections. The gate may still be used."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))
        idle, self._idle = self._idle, []
        for wire in idle:
            wire.abort()

    # -- connections

    def _start(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # if nobody waited for it, nobody wants to know

    async def _abandon(self, wire: _Wire, key: str) -> None:
        """Leaves the line, whose answer may be under way already: then the permit has to go back."""
        timer = wire.loop.call_later(ABANDON, wire.abort)
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

    def _take(self) -> Optional[_Wire]:
        while self._idle:
            wire = self._idle.pop()
            if wire.usable():
                return wire
            wire.abort()
        return None

    async def _connect(self) -> _Wire:
        # Not wait_for(), which before Python 3.12 can swallow a cancellation.
        task = asyncio.ensure_future(asyncio.open_connection(self._host, self._port, limit=LINE_BYTES_MAX))
        try:
            await asyncio.wait({task}, timeout=PATIENCE)
            if not task.done():
                raise OSError('no connection in time')
            wire = _Wire(*task.result())
        finally:
            task.cancel()
        _look_after(wire.writer.get_extra_info('socket'))
        return wire

    def _text(self, method: str, path: str, wish: Optional[Document]) -> bytes:
        host = f'[{self._host}]' if ':' in self._host else self._host
        body = b'' if wish is None else json.dumps(wish).encode()
        fields = {'Host': f'{host}:{self._port}', **self._fields}
        if wish is not None:
            fields['Content-Length'] = str(len(body))
        lines = [f'{method} {path} HTTP/1.1', *(f'{name}: {value}' for name, value in fields.items())]
        return ('\r\n'.join(lines) + '\r\n\r\n').encode('latin-1') + body

    async def _exchange(self, method: str, path: str, wish: Optional[Document],
                        patience: Optional[float], hold: bool = False,
                        sent: Optional[Callable[[_Wire], None]] = None) -> Tuple[_Wire, _Reply]:
        """Makes a call, again if a connection that was kept is dead before anything came."""
        began = time.monotonic()
        try:
            wire = self._take()
            if wire is not None:
                try:
                    return wire, await self._speak(wire, self._text(method, path, wish), patience, hold,
                                                   sent)
                except ConnectionError:
                    wish = None if wish is None else _later(wish, began)
                except asyncio.IncompleteReadError as error:
                    if error.partial:
                        raise
                    wish = None if wish is None else _later(wish, began)
            wire = await self._connect()
            return wire, await self._speak(wire, self._text(method, path, wish), patience, hold, sent)
        except _BROKEN as error:
            raise _unreachable(self.api, error) from error

    async def _speak(self, wire: _Wire, text: bytes, patience: Optional[float], hold: bool,
                     sent: Optional[Callable[[_Wire], None]]) -> _Reply:
        """One call and its reply; of a permit that is held, what is said at its beginning."""
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
        _, reply = await self._exchange(method, path, wish, PATIENCE)
        if reply.status != 200:
            raise _refusal(reply, key, flow)
        return _parse(reply.body)
