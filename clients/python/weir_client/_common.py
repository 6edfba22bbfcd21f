"""What the gates and jobs of threads and of asyncio share: errors, where a server is, how a call looks."""
from __future__ import annotations

import inspect
import json
import math
import os
import ssl
import time
import urllib.parse
import uuid
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, TypeVar, Union

PATIENCE = 10.0  # seconds for a connection, and for a reply beyond what was asked to wait
ABANDON = 3.0    # for the end of a call that was cancelled, where the server lets half-closed connections wait
PATIENCE_MAX = (2 ** 31 - 1) / 1000  # of a socket: beyond that, Python asks poll() for another time
IDLE_MAX = 16    # a few threads' worth; more are made as needed, and closed after use
LINE_BYTES_MAX = 1 << 16  # of a reply's head, and of a chunk's size
RENEWALS = 3     # so many times in each lease it is renewed
JOB_WAIT = 30.0  # seconds for which one call waits for the end of a job

Document = Dict[str, Any]
Key = Union[str, Callable[..., str]]
Body = Union[bytes, str, Dict[str, Any], List[Any]]
Function = TypeVar('Function', bound=Callable[..., Any])


# ---- errors when there is no permit

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


class JobUnfinished(WeirRefused):
    """The job has not ended."""


class JobFailed(WeirRefused):
    """The job failed or was cancelled, so it has no result; `job` is its status."""

    job: Job


_KINDS = {'urn:weir:line-timeout': WeirTimeout, 'urn:weir:not-held': WeirNotHeld,
          'urn:weir:job-unfinished': JobUnfinished}


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
    """The server's answer with a permit. `outcome` and `cost` may be set before it is given back: how it went
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
    """What all that calls a server share: where that is, and how a call looks."""

    def __init__(self, api: Optional[str], token: Optional[str], tls: Optional[ssl.SSLContext]) -> None:
        api = api or os.environ.get('WEIR_API') or 'http://127.0.0.1:7070'
        token = token or os.environ.get('WEIR_TOKEN') or None
        self.api = api
        self._token = token
        self._given_tls = tls
        self._socket_path: Optional[str] = None  # of a Unix socket
        self._tls: Optional[ssl.SSLContext] = None
        self._base = ''
        self._host, self._port = 'localhost', 80
        if api.startswith('unix:'):
            self._socket_path = api[len('unix:'):]
            if not self._socket_path:
                raise ValueError(f'{api!r} names no path; expected unix:/path')
        else:
            self._read_address(api if '://' in api else f'http://{api}', tls)
        self._fields = {}
        if token is not None:
            if not token.isascii() or not token.isprintable():
                raise ValueError('a token has printable characters of ASCII only')
            self._fields['Authorization'] = f'Bearer {token}'

    def _read_address(self, address: str, tls: Optional[ssl.SSLContext]) -> None:
        parts = urllib.parse.urlsplit(address)
        if parts.scheme not in ('http', 'https') or not parts.hostname:
            raise ValueError(f'{self.api!r} is no address; expected http://HOST:PORT, https://HOST or unix:/path')
        if parts.scheme == 'https':
            self._tls = tls or ssl.create_default_context()
        self._host = parts.hostname
        self._port = parts.port or (443 if self._tls else 80)
        self._base = parts.path.rstrip('/')

    def _host_field(self) -> str:
        host = f'[{self._host}]' if ':' in self._host else self._host
        return host if self._socket_path is not None else f'{host}:{self._port}'

    def _path(self, *segments: str) -> str:
        return '/'.join([self._base, *(_segment(segment) for segment in segments)])


class _GateCalls(_Calls):
    """What both gates share."""

    def __init__(self, api: Optional[str], gate: str, token: Optional[str], tls: Optional[ssl.SSLContext]) -> None:
        super().__init__(api, token, tls)
        self.gate = gate

    def _gate_path(self, *segments: str) -> str:
        return self._path('gates', self.gate, *segments)

    def _events_path(self, types: Tuple[str, ...]) -> str:
        query = urllib.parse.urlencode([('gate', self.gate), *(('type', name) for name in types)])
        return f'{self._base}/events?{query}'

    def _unused(self, key: str, gates: Document, error: WeirError) -> Document:
        """The counts of a key that was never used, which the server does not know; if the gate is there."""
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


# ---- jobs

class Job:
    """What the server says of a job: `document` has all of it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.id: str = document['id']
        self.queue: str = document.get('queue', '')
        self.state: str = document['state']
        self.attempts: int = document.get('attempts', 0)
        self.error: Optional[str] = document.get('error')

    @property
    def over(self) -> bool:
        """Whether it has ended: done, failed or cancelled."""
        return self.state in ('done', 'failed', 'cancelled')

    def __repr__(self) -> str:
        return f'<Job {self.id} {self.state}>'


class _Submission(NamedTuple):
    path: str
    body: bytes
    fields: Dict[str, str]


class _JobCalls(_Calls):
    """What both kinds of jobs share."""

    def __init__(self, api: Optional[str], queue: Optional[str], token: Optional[str],
                 tls: Optional[ssl.SSLContext]) -> None:
        super().__init__(api, token, tls)
        self.queue = queue

    def _submission(self, body: Body, id: Optional[str], more: Dict[str, Any]) -> _Submission:
        """A job without an id gets one here, so that a call that is made again is the same job."""
        known = ('queue', 'tenant', 'priority', 'delay', 'run_at', 'attempts', 'timeout', 'key', 'cost')
        content_type = more.pop('content_type', None)
        for name in more:
            if name not in known:
                raise TypeError(f'submit() has no argument {name!r}; it has {", ".join(known)} and content_type')
        query = {name: f'{value:g}s' if name in ('delay', 'timeout', 'cost') and isinstance(value, (int, float))
                 else str(value) for name, value in more.items() if value is not None}
        if self.queue is not None:
            query.setdefault('queue', self.queue)
        if isinstance(body, str):
            data, kind = body.encode(), 'text/plain; charset=utf-8'
        elif isinstance(body, (bytes, bytearray, memoryview)):
            data, kind = bytes(body), 'application/octet-stream'
        else:
            data, kind = json.dumps(body).encode(), 'application/json'
        path = self._path('submit', id or f'j-{uuid.uuid4().hex}')
        return _Submission(path + ('?' + urllib.parse.urlencode(query) if query else ''), data,
                           {'Content-Type': content_type or kind})


def _with_wait(path: str, wait: Optional[float]) -> str:
    """The server waits for a whole number of seconds, up to 300."""
    return path if not wait else f'{path}?wait={max(1, min(300, math.ceil(wait)))}'


def _job_of(reply: _Reply) -> Job:
    """Of a reply to anything but a question for the result."""
    if reply.status not in (200, 202):
        raise _refusal(reply, None, None)
    return Job(_parse(reply.body))


def _result_of(reply: _Reply) -> bytes:
    if reply.status == 200:
        return reply.body
    if reply.status == 422:
        job = Job(_parse(reply.body))
        error = JobFailed(f'job {job.id} is {job.state}: {job.error}', job.document, status=422)
        error.job = job
        raise error
    raise _refusal(reply, None, None)


def _unfinished(job: Job, seconds: float) -> JobUnfinished:
    return JobUnfinished(f'job {job.id} is still {job.state} after {seconds:g} s', job.document)
