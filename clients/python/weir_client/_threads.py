"""Gates and jobs of a running Weir for threads."""
from __future__ import annotations

import contextlib
import functools
import http.client
import inspect
import json
import os
import socket
import ssl
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple, Union

from . import _common
from ._common import (IDLE_MAX, LINE_BYTES_MAX, PATIENCE_MAX, RENEWALS, Body, Document, Function, Job, Key,
                      WeirError, WeirNotHeld, WeirRefused, WeirUnreachable, _Calls, _Given, _GateCalls, _job_of,
                      _JobCalls, _key_of, _later, _meant, _milliseconds, _no_generator, _parse, _present, _refusal,
                      _Reply, _result_of, _seconds, _settled, _unfinished, _unreachable, _wish, _with_wait)


class Permit(_Given):
    """A permit of a `Gate`. One that its connection holds is given back at the latest when it is forgotten."""

    _connection: Optional[http.client.HTTPConnection] = None
    _response: Optional[http.client.HTTPResponse] = None
    _ended = False  # a renewal has found that it is over

    @property
    def lost(self) -> bool:
        """Whether it is known to be over though it was not released: the connection that holds it has ended, or a
        renewal has found that its lease is over or that an administrator has ended it."""
        connection = self._connection
        if connection is None or connection.sock is None:
            return self._ended
        try:
            connection.sock.recv(1)  # it does not block, and nothing more is ever said
            return True
        except (BlockingIOError, ssl.SSLWantReadError):
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


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__('localhost', timeout=_common.PATIENCE)
        self._socket_path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._socket_path)


class _Client(_Calls):
    """Connections to a server, for any number of threads."""

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._idle: List[http.client.HTTPConnection] = []
        self._process = os.getpid()

    def close(self) -> None:
        """Closes idle connections. It may still be used."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

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

    def _connect(self) -> http.client.HTTPConnection:
        """One that connects when it is used."""
        if self._socket_path is not None:
            return _UnixConnection(self._socket_path)
        if self._tls is not None:
            return http.client.HTTPSConnection(self._host, self._port, timeout=_common.PATIENCE, context=self._tls)
        return http.client.HTTPConnection(self._host, self._port, timeout=_common.PATIENCE)

    def _send(self, connection: http.client.HTTPConnection, method: str, path: str, wish: Optional[Document],
              patience: Optional[float], upload: Optional[Tuple[bytes, Dict[str, str]]] = None
              ) -> http.client.HTTPResponse:
        try:
            if connection.sock is None:
                connection.connect()
                _look_after(_socket_of(connection))
            bounded = patience is not None and patience <= PATIENCE_MAX
            _socket_of(connection).settimeout(patience if bounded else None)
            text, fields = upload or (None, {})
            if wish is not None:
                text, fields = json.dumps(wish).encode(), {'Content-Type': 'application/json'}
            connection.request(method, path, text, {**self._fields, **fields})
            return connection.getresponse()
        except BaseException:
            _hang_up(connection)
            raise

    def _open(self, method: str, path: str, wish: Optional[Document], patience: Optional[float],
              upload: Optional[Tuple[bytes, Dict[str, str]]] = None
              ) -> Tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        """Sends a call, and returns when the reply's head is there."""
        began = time.monotonic()
        connection = self._take()
        try:
            if connection is not None:
                try:
                    return connection, self._send(connection, method, path, wish, patience, upload)
                except ConnectionError:  # http.client's RemoteDisconnected is one too
                    wish = None if wish is None else _later(wish, began)
            connection = self._connect()
            return connection, self._send(connection, method, path, wish, patience, upload)
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(self.api, error) from error

    def _read(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> _Reply:
        """Reads the rest of a reply, and keeps the connection."""
        reply = _Reply(response.status, {name.lower(): value for name, value in response.getheaders()},
                       response.read())
        if response.will_close:
            connection.close()
        else:
            self._keep(connection)
        return reply

    def _finish(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse,
                key: Optional[str], flow: Optional[str]) -> Document:
        """Returns the answer, or raises the error that it is."""
        reply = self._read(connection, response)
        if reply.status != 200:
            raise _refusal(reply, key, flow)
        return _parse(reply.body)

    def _call(self, method: str, path: str, wish: Optional[Document], key: Optional[str] = None,
              flow: Optional[str] = None) -> Document:
        connection, response = self._open(method, path, wish, _common.PATIENCE)
        try:
            return self._finish(connection, response, key, flow)
        except (OSError, http.client.HTTPException) as error:
            _hang_up(connection)
            raise _unreachable(self.api, error) from error


class _Renewals:
    """Renews the leases of permits, in a thread that runs while there are any."""

    def __init__(self, renew: Callable[[Permit], Any]) -> None:
        self._renew = renew
        self._changed = threading.Condition()
        self._due: Dict[str, Tuple[float, float, Permit]] = {}  # by id: when, the end of the lease, the permit
        self._process = 0  # whose thread runs

    def add(self, permit: Permit) -> None:
        now = time.monotonic()
        assert permit.lease is not None
        with self._changed:
            if self._process != os.getpid():  # after a fork the parent renews what it has
                self._due = {}
            self._due[permit.id] = (now + permit.lease / RENEWALS, now + permit.lease, permit)
            if self._process != os.getpid():
                self._process = os.getpid()
                threading.Thread(target=self._run, name='weir renewals', daemon=True).start()
            self._changed.notify()

    def remove(self, permit: Permit) -> None:
        with self._changed:
            self._due.pop(permit.id, None)

    def clear(self) -> None:
        with self._changed:
            self._due = {}
            self._changed.notify()

    def _next(self) -> Optional[Permit]:
        """Waits for the permit that is to be renewed next; None, and the thread is to end, if there are none."""
        with self._changed:
            while self._due:
                due, _, permit = min(self._due.values(), key=lambda entry: entry[0])
                wait = due - time.monotonic()
                if wait <= 0:
                    return permit
                self._changed.wait(min(wait, PATIENCE_MAX))
            self._process = 0
            return None

    def _run(self) -> None:
        permit = self._next()
        while permit is not None:
            began = time.monotonic()
            try:
                self._renew(permit)
                self._plan(permit, began, permit.lease)
            except WeirNotHeld:
                self._lose(permit)
            except WeirError:  # tried again until the lease is over
                self._plan(permit, time.monotonic(), None)
            permit = self._next()

    def _plan(self, permit: Permit, now: float, lease: Optional[float]) -> None:
        with self._changed:
            _, end, _ = self._due.get(permit.id, (0.0, 0.0, permit))
            if end == 0.0:
                return  # it was released meanwhile
            if lease is not None:
                self._due[permit.id] = (now + lease / RENEWALS, now + lease, permit)
            elif now < end:
                self._due[permit.id] = (now + max(0.05, min(1.0, (end - now) / RENEWALS)), end, permit)
            else:
                self._lose(permit)

    def _lose(self, permit: Permit) -> None:
        with self._changed:
            if self._due.pop(permit.id, None) is not None:
                permit._ended = True


class Gate(_Client, _GateCalls):
    """A gate of a running Weir, for any number of threads."""

    def __init__(self, api: Optional[str] = None, gate: str = 'agents', token: Optional[str] = None, *,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        _GateCalls.__init__(self, api, gate, token, tls)
        self._begin()
        self._renewals = _Renewals(self.renew)

    # -- permits

    @contextlib.contextmanager
    def permit(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
               lease: Optional[float] = None, tenant: Optional[str] = None,
               priority: Optional[str] = None, cost: Optional[int] = None, *,
               hold: bool = True, renew: bool = True) -> Iterator[Permit]:
        """Waits up to `timeout` seconds for a permit, and gives it back after the block, whatever happens in
        it. Giving back does not raise: what was done is done."""
        permit = self.acquire(key, flow, timeout, lease, tenant, priority, cost, hold=hold, renew=renew)
        try:
            yield permit
        finally:
            with contextlib.suppress(WeirError):
                self.release(permit)

    def acquire(self, key: str, flow: Optional[str] = None, timeout: Optional[float] = None,
                lease: Optional[float] = None, tenant: Optional[str] = None,
                priority: Optional[str] = None, cost: Optional[int] = None, *,
                hold: bool = False, renew: bool = True) -> Permit:
        """Waits for a permit that release() gives back, or the end of its lease. WeirTimeout after `timeout`
        seconds; None: as the gate says. Without `hold` it has a lease, which a thread of this gate renews until
        the permit is released, close() is called or the process ends; not with renew=False."""
        wish = _wish(flow, timeout, lease, tenant, priority, cost, hold)
        patience = None if timeout is None else timeout + _common.PATIENCE
        connection, response = self._open('POST', self._gate_path(key, 'acquire'), wish, patience)
        try:
            if response.status != 200 or not hold:
                permit = Permit(key, self._finish(connection, response, key, flow))
                if renew and permit.lease is not None:
                    self._renewals.add(permit)
                return permit
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
        if isinstance(permit, Permit):
            self._renewals.remove(permit)
        try:
            self._call('POST', self._gate_path(key, 'release'),
                       {**name, **_settled(permit, outcome, cost)}, key, flow)
        finally:
            if isinstance(permit, Permit):
                permit._let_go()

    def renew(self, permit: Union[Permit, str], flow: Optional[str] = None, *,
              lease: Optional[float] = None) -> Optional[float]:
        """Its lease begins again; returns how long it is now."""
        key, name = _meant(permit, flow)
        said = self._call('POST', self._gate_path(key, 'renew'),
                          {**name, **_present(lease_ms=_milliseconds(lease))}, key, flow)
        now = _seconds(said.get('lease_ms'))
        if isinstance(permit, Permit):
            permit.lease = now
        return now

    # -- counts

    def counts(self, key: str) -> Document:
        """Such as {'active': 2, 'waiting': 0, 'limit': 3, ...}. A key that is not in use has none, and no limit."""
        try:
            return self._call('GET', self._gate_path(key), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            return self._unused(key, self._call('GET', self._path('gates'), None), error)

    def line(self, key: str) -> List[Document]:
        """The tickets that wait there, in order."""
        try:
            said = self._call('GET', self._gate_path(key, 'line'), None, key)
        except WeirRefused as error:
            if error.status != 404:
                raise
            self._unused(key, self._call('GET', self._path('gates'), None), error)
            return []
        return list(said['line'])

    # -- events

    @contextlib.contextmanager
    def events(self, *types: str) -> Iterator[Iterator[Document]]:
        """What is decided at the gate, from the beginning of the block on, as it happens; of these types, or of
        all: docs/reference/events.md. Ends with WeirUnreachable when the server does.

            with gate.events('gate.throttle') as events:
                for event in events: ..."""
        connection, response = self._open('GET', self._events_path(types), None, _common.PATIENCE)
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
                from ._tasks import AsyncGate
                return AsyncGate(self.api, self.gate, self._token, tls=self._given_tls).limited(key, **wish)(function)

            @functools.wraps(function)
            def wrapper(*args: Any, **more: Any) -> Any:
                with self.permit(_key_of(key, args, more), **wish):
                    return function(*args, **more)
            return wrapper  # type: ignore[return-value]
        return decorate

    def close(self) -> None:
        """Closes idle connections, and renews leases no more. The gate may still be used."""
        self._renewals.clear()
        super().close()


class Jobs(_Client, _JobCalls):
    """The jobs of a running Weir, for any number of threads. `queue` is that of jobs which name none."""

    def __init__(self, api: Optional[str] = None, queue: Optional[str] = None, token: Optional[str] = None, *,
                 tls: Optional[ssl.SSLContext] = None) -> None:
        _JobCalls.__init__(self, api, queue, token, tls)
        self._begin()

    def submit(self, body: Body, id: Optional[str] = None, **more: Any) -> Job:
        """Hands in a job: when this returns, it is on disk. `body` is bytes, text, or what JSON can say. The same id
        with the same body is the same job. `more`: queue, tenant, priority, delay, run_at, attempts, timeout, key,
        cost (durations in seconds or as text), content_type."""
        path, data, fields = self._submission(body, id, more)
        return _job_of(self._ask('POST', path, (data, fields)))

    def status(self, id: str, wait: Optional[float] = None) -> Job:
        """How the job is; with `wait`, when it has ended, or after so many seconds (at most 300)."""
        return _job_of(self._ask('GET', _with_wait(self._path('status', id), wait), None, wait))

    def wait(self, id: str, timeout: Optional[float] = None) -> Job:
        """Waits until the job has ended; JobUnfinished after `timeout` seconds."""
        began = time.monotonic()
        while True:
            left = None if timeout is None else timeout - (time.monotonic() - began)
            job = self.status(id, _common.JOB_WAIT if left is None else max(0.0, min(_common.JOB_WAIT, left)))
            if job.over:
                return job
            if left is not None and left <= 0:
                raise _unfinished(job, timeout or 0)

    def result(self, id: str, wait: Optional[float] = None) -> bytes:
        """What the job has made. JobUnfinished if it has not ended; JobFailed if there is no result."""
        return _result_of(self._ask('GET', _with_wait(self._path('result', id), wait), None, wait))

    def cancel(self, id: str) -> Job:
        """Ends the job, also one that runs."""
        return _job_of(self._ask('POST', self._path('cancel', id)))

    def _ask(self, method: str, path: str, upload: Optional[Tuple[bytes, Dict[str, str]]] = None,
             wait: Optional[float] = None) -> _Reply:
        patience = _common.PATIENCE + (wait or 0)
        connection, response = self._open(method, path, None, patience, upload)
        try:
            return self._read(connection, response)
        except (OSError, http.client.HTTPException) as error:
            _hang_up(connection)
            raise _unreachable(self.api, error) from error


def _socket_of(connection: http.client.HTTPConnection) -> socket.socket:
    wire = connection.sock
    assert wire is not None  # it is connected
    return wire


def _look_after(wire: socket.socket) -> None:
    """Small calls go at once, and a server that is gone without a word is noticed while waiting in its line."""
    if wire.family not in (socket.AF_INET, socket.AF_INET6):
        return
    wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (('TCP_KEEPIDLE', 10), ('TCP_KEEPINTVL', 5), ('TCP_KEEPCNT', 3)):
        if hasattr(socket, name):
            wire.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
