"""libweir's gate inside a Python program: strict order between threads, without a server and without waiting on the GIL.

    gate = Gate(limit=3, timeout=10.0)
    with gate.acquire('agentB', tenant='acme') as permit:
        ...

A binding of include/weir/sync.h by ctypes, standard library only, Python 3.9 or later, for 64-bit Linux. The
library is the one that WEIR_LIBRARY names, that of build/ next to this file's repository, or the installed one. The
structures below are compared with the compiler's in tests/system/test_python_client.py.

A thread that waits runs no Python: Ctrl-C is heard when the wait is over, or its Token is fired."""
from __future__ import annotations

import ctypes
import ctypes.util
import math
import os
import pathlib
import threading
from types import TracebackType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Type

__all__ = ['Gate', 'Permit', 'Rate', 'Stats', 'Token', 'WeirError', 'WeirTimeout', 'WeirCancelled',
           'WeirNotHeld']

# ---- as in include/weir/*.h

NEVER = 2**64 - 1
TIMEOUT_OF_KEY = NEVER - 1
LIMIT_NONE = 2**32 - 1
PRIORITIES = {'normal': 0, 'high': 1, 'low': 2}
OUTCOMES = {'success': 0, 'rate_limit': 1, 'soft_loss': 2, 'client_error': 3, 'cancelled': 4}
UNITS = {'cost': 0, 'requests': 1, 'input': 2, 'output': 3}
ENDS = ('none', 'left', 'timeout', 'cancelled', 'refused', 'displaced', 'lapsed')
OF_GATE = -1.0  # as a timeout: the one that the gate's settings name
TOKEN_BYTES = 128  # at least sizeof(struct weir_token), whose beginning is all zeroes

_u8, _u16, _u32, _u64 = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64
_enum, _bool, _size, _pointer = ctypes.c_uint, ctypes.c_bool, ctypes.c_size_t, ctypes.c_void_p


class weir_slice(ctypes.Structure):
    _fields_ = [('data', ctypes.c_char_p), ('bytes', _size)]


class weir_link(ctypes.Structure):
    _fields_ = [('next', _pointer), ('previous', _pointer)]


class weir_gate_options(ctypes.Structure):
    _fields_ = [('allocator', _pointer), ('seed', _u64 * 2), ('keys_max', _u32), ('key_extra_bytes', _size)]


class weir_rate(ctypes.Structure):
    _fields_ = [('tokens', _u64), ('period_ns', _u64), ('burst', _u64), ('unit', _enum), ('settle', _enum)]


class weir_breaker_settings(ctypes.Structure):
    _fields_ = [('failures', _u32), ('pause_ns', _u64), ('pause_max_ns', _u64)]


class weir_window_settings(ctypes.Structure):
    _fields_ = [('start', _u32), ('min', _u32), ('max', _u32)]


class weir_rate_settings(ctypes.Structure):
    _fields_ = [('start', _u64), ('min', _u64), ('max', _u64), ('burst', _u64)]


class weir_aimd_settings(ctypes.Structure):
    _fields_ = [('step', _u32), ('beta', _u32), ('beta_soft', _u32), ('window_beta', _u32),
                ('delay_decrease', _u32), ('delay_threshold_ns', _u64)]


class weir_control_settings(ctypes.Structure):
    _fields_ = [('controller', _enum), ('charge', _enum), ('settle', _enum),
                ('window', weir_window_settings), ('rate', weir_rate_settings), ('aimd', weir_aimd_settings)]


class weir_lane_settings(ctypes.Structure):
    _fields_ = [('id', _u16), ('no_limit', _bool), ('limit', _u32), ('rates', ctypes.POINTER(weir_rate)),
                ('rate_count', _u32), ('breaker', weir_breaker_settings),
                ('control', weir_control_settings)]


class weir_bound(ctypes.Structure):
    _fields_ = [('tickets', _u32), ('cost', _u64)]


class weir_tenant_settings(ctypes.Structure):
    _fields_ = [('name', weir_slice), ('weight', _u32), ('limit', _u32), ('rate', weir_rate),
                ('cost', weir_rate)]


class weir_settings(ctypes.Structure):
    _fields_ = [('lanes', ctypes.POINTER(weir_lane_settings)), ('lane_count', _u32), ('choice', _enum),
                ('priority_weights', _u32 * 3), ('line', weir_bound), ('line_by_priority', weir_bound * 3),
                ('line_by_tenant', weir_bound), ('timeout_ns', _u64), ('early_reject', _bool),
                ('lease_ns', _u64), ('forget_ns', _u64), ('tenant_default', weir_tenant_settings),
                ('tenants', ctypes.POINTER(weir_tenant_settings)), ('tenant_count', _u32),
                ('tenants_max', _u32), ('estimate', _enum), ('recorder_events', _u32)]


class weir_request(ctypes.Structure):
    _fields_ = [('tenant', weir_slice), ('priority', _enum), ('cost', _u32), ('input', _u32),
                ('output_max', _u32), ('deadline_ns', _u64), ('lease_ns', _u64), ('tag', _u64),
                ('no_wait', _bool), ('retry', _bool), ('lanes_tried', _u64)]


class weir_result(ctypes.Structure):
    _fields_ = [('outcome', _enum), ('cost_known', _bool), ('moves', _bool), ('cost', _u32),
                ('usage_known', _bool), ('input', _u32), ('output', _u32), ('reply', _pointer)]


class weir_ticket(ctypes.Structure):
    _fields_ = [('state', _u8), ('end', _u8), ('refusal', _u8), ('priority', _u8), ('lane_id', _u16),
                ('cost', _u32), ('sequence', _u64), ('entered_ns', _u64), ('admitted_ns', _u64),
                ('deadline_ns', _u64), ('lease_ns', _u64), ('tag', _u64),
                ('inside', _u64 * 16)]  # WEIR_TICKET_INSIDE_BYTES


class weir_permit(ctypes.Structure):
    _fields_ = [('ticket', weir_ticket), ('key', _pointer), ('waiter', _pointer)]


class weir_estimate_stats(ctypes.Structure):
    _fields_ = [('count', _u64), ('output_mean', ctypes.c_double), ('error_mean', ctypes.c_double),
                ('error_abs_mean', ctypes.c_double)]


class weir_key_stats(ctypes.Structure):
    _fields_ = [('active', _u32), ('waiting', _u32), ('limit', _u32), ('tenants', _u32), ('lanes', _u32),
                ('reserved', _u64), ('waiting_cost', _u64), ('waiting_by_priority', _u32 * 3),
                ('entered', _u64), ('ended', _u64 * len(ENDS)), ('interval_ns', _u64), ('wake_ns', _u64),
                ('estimate', weir_estimate_stats)]


STRUCTURES = (weir_slice, weir_link, weir_gate_options, weir_rate, weir_breaker_settings,
              weir_window_settings, weir_rate_settings, weir_aimd_settings, weir_control_settings, weir_lane_settings,
              weir_bound, weir_tenant_settings, weir_settings, weir_request, weir_result, weir_ticket,
              weir_permit, weir_estimate_stats, weir_key_stats)


def _load() -> ctypes.CDLL:
    built = pathlib.Path(__file__).resolve().parents[2] / 'build' / 'libweir.so'
    chosen = os.environ.get('WEIR_LIBRARY')
    names = [chosen] if chosen else [*([str(built)] if built.exists() else []), 'libweir.so.0.2']
    library = ctypes.CDLL(names[0])  # which lets other threads run while a call waits
    status, reference = ctypes.c_int, ctypes.POINTER
    for name, result, arguments in (
            ('weir_status_name', ctypes.c_char_p, [status]),
            ('weir_status_text', ctypes.c_char_p, [status]),
            ('weir_sync_create', status, [reference(weir_gate_options), reference(weir_settings),
                                          reference(_pointer)]),
            ('weir_sync_destroy', None, [_pointer]),
            ('weir_sync_open', status, [_pointer, weir_slice, reference(_pointer)]),
            ('weir_sync_close', None, [_pointer]),
            ('weir_sync_acquire', status, [_pointer, reference(weir_request), _u64, _pointer,
                                           reference(weir_permit)]),
            ('weir_sync_try', status, [_pointer, reference(weir_request), reference(weir_permit)]),
            ('weir_sync_release', status, [reference(weir_permit), reference(weir_result)]),
            ('weir_token_fire', None, [_pointer]),
            ('weir_sync_get_stats', weir_key_stats, [_pointer]),
            ('weir_sync_configure', status, [_pointer, reference(weir_settings)]),
            ('weir_sync_override', status, [_pointer, weir_slice, reference(weir_settings)])):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


_library = _load()


# ---- errors when there is no permit

class WeirError(Exception):
    """Any failure: `status` is a word such as LINE_FULL, `detail` a sentence."""

    def __init__(self, status: str, detail: str, key: Optional[str] = None,
                 tenant: Optional[str] = None) -> None:
        super().__init__(f'{key}: {detail}' if key else detail)
        self.status = status
        self.detail = detail
        self.key = key
        self.tenant = tenant


class WeirTimeout(WeirError):
    """Its turn did not come in time."""


class WeirCancelled(WeirError):
    """Its token was fired."""


class WeirNotHeld(WeirError):
    """The permit was given back before, or its lease is over."""


_KINDS: Dict[str, Type[WeirError]] = {'TIMED_OUT': WeirTimeout, 'CANCELLED': WeirCancelled,
                                      'NOT_HELD': WeirNotHeld}


def _check(status: int, key: Optional[str] = None, tenant: Optional[str] = None) -> None:
    if status != 0:
        name = _library.weir_status_name(status).decode()
        raise _KINDS.get(name, WeirError)(name, _library.weir_status_text(status).decode(), key, tenant)


# ---- settings

class Rate(NamedTuple):
    """A bucket: `tokens` flow in per `period` seconds, at most `burst` (None: `tokens`) are kept."""
    tokens: int
    period: float = 60.0
    burst: Optional[int] = None
    unit: str = 'requests'  # or 'cost'


def _nanoseconds(seconds: Optional[float], none: int = NEVER) -> int:
    """Rounded up; at most what stands for never in the library."""
    if seconds is None or seconds == math.inf:
        return none
    if not seconds >= 0:
        raise ValueError(f'{seconds} is no duration')
    return min(math.ceil(seconds * 1e9), 2**62)


def _number(name: str, value: int, least: int = 1, most: int = 2**32 - 2) -> int:
    """ctypes would take any number, and cut it off."""
    if not least <= value <= most:
        raise ValueError(f'{name} must be from {least} to {most}, and is {value}')
    return value


def _rate(rate: Rate) -> weir_rate:
    return weir_rate(tokens=_number('tokens', rate.tokens, 1, 2**40), period_ns=_nanoseconds(rate.period),
                     burst=_number('burst', rate.burst or 0, 0, 2**40), unit=UNITS[rate.unit])


def _slice(text: str) -> weir_slice:
    data = text.encode()
    return weir_slice(data, len(data))


class _Settings:
    """The structures, and what they point at."""

    def __init__(self, limit: Optional[int] = 10, timeout: Optional[float] = 10.0, line: int = 1000,
                 lease: Optional[float] = None, rates: Sequence[Rate] = (),
                 weights: Optional[Mapping[str, int]] = None, tenant_limit: Optional[int] = None,
                 tenant_line: Optional[int] = None, early_reject: bool = False) -> None:
        if lease is not None and not lease > 0:
            raise ValueError('a lease is longer than nothing')
        kept: List[weir_rate] = [_rate(rate) for rate in rates]
        self.rates = (weir_rate * max(1, len(kept)))(*kept)
        self.lane = weir_lane_settings(
            no_limit=limit is None, limit=0 if limit is None else _number('limit', limit),
            rates=self.rates, rate_count=len(kept))
        most = _number('tenant_limit', tenant_limit) if tenant_limit is not None else 0
        named = list((weights or {}).items())
        self.tenants = (weir_tenant_settings * max(1, len(named)))(
            *(weir_tenant_settings(name=_slice(name), weight=_number('weight', weight), limit=most)
              for name, weight in named))
        self.value = weir_settings(
            lanes=ctypes.pointer(self.lane), lane_count=1, line=weir_bound(_number('line', line)),
            timeout_ns=max(1, _nanoseconds(timeout)), lease_ns=_nanoseconds(lease, 0),
            early_reject=early_reject, tenant_default=weir_tenant_settings(limit=most),
            tenants=self.tenants, tenant_count=len(named),
            line_by_tenant=weir_bound(0 if tenant_line is None else _number('tenant_line', tenant_line)))


# ---- the gate

class Token:
    """Calls off every thread that waits with it, and every later acquire with it."""

    def __init__(self) -> None:
        self._memory = (_u64 * (TOKEN_BYTES // 8))()

    def fire(self) -> None:
        _library.weir_token_fire(ctypes.addressof(self._memory))


class Stats(NamedTuple):
    active: int
    waiting: int
    limit: Optional[int]
    reserved: int
    entered: int
    ended: Dict[str, int]


class Permit:
    """A permit; leaving its `with` block gives it back, and so does forgetting it. `outcome` and `cost` may be set
    before: how it went, and what it really cost."""

    def __init__(self, gate: Gate, key: str, handle: int) -> None:
        self.key = key
        self.outcome: Optional[str] = None
        self.cost: Optional[int] = None
        self._gate = gate
        self._handle: Optional[int] = handle
        self._lock = threading.Lock()
        self._value = weir_permit()  # which must not move; ctypes does not

    @property
    def waited(self) -> float:
        """Seconds in line; 0 also where nothing at the key depends on time."""
        ticket = self._value.ticket
        return max(0, ticket.admitted_ns - ticket.entered_ns) / 1e9

    def release(self) -> None:
        """WeirNotHeld if it was given back before, or its lease is over."""
        if self.outcome not in (None, *OUTCOMES):
            raise ValueError(f'an outcome is one of {", ".join(OUTCOMES)}')
        result = weir_result(OUTCOMES[self.outcome or 'success'], self.cost is not None,
                             _number('cost', self.cost or 0, 0, 2**30))
        # A Ctrl-C anywhere in between at worst leaves the key open, but never a permit whose memory is gone.
        with self._lock:
            handle = self._handle
            if handle is None:
                raise WeirNotHeld('NOT_HELD', 'it was given back before', self.key)
            status = _library.weir_sync_release(self._value, result)
            self._handle = None
        self._gate._close_key(handle)
        _check(status, self.key)

    def __enter__(self) -> Permit:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        try:
            self.release()
        except WeirNotHeld:
            pass  # given back inside the block, or its lease is over; what was done is done

    def __del__(self) -> None:
        if getattr(self, '_handle', None) is not None:
            self.outcome = self.cost = None  # which may be wrong
            try:
                self.release()
            except WeirNotHeld:
                pass


class Gate:
    """A gate for the threads of this process. Each key has `limit` permits (None: counted only) and a line of at most
    `line`, in which a caller waits up to `timeout` seconds (None: as long as it takes). A permit comes back after
    its `lease` even if its holder does nothing. Tenants share by `weights` (others have 1), and have at most
    `tenant_limit` permits and `tenant_line` places at a key."""

    def __init__(self, limit: Optional[int] = 10, timeout: Optional[float] = 10.0, line: int = 1000,
                 lease: Optional[float] = None, *, rates: Sequence[Rate] = (),
                 weights: Optional[Mapping[str, int]] = None, tenant_limit: Optional[int] = None,
                 tenant_line: Optional[int] = None, early_reject: bool = False,
                 keys_max: int = 0) -> None:
        self._sync = _pointer()
        self._open = 0
        self._lock = threading.RLock()  # a permit may be forgotten anywhere, also under it
        settings = _Settings(limit, timeout, line, lease, rates, weights, tenant_limit, tenant_line,
                             early_reject)
        options = weir_gate_options(keys_max=_number('keys_max', keys_max, 0))  # and a random seed
        _check(_library.weir_sync_create(options, settings.value, self._sync))

    def acquire(self, key: str, tenant: Optional[str] = None,
                timeout: Optional[float] = OF_GATE, priority: str = 'normal', cost: int = 1,
                lease: Optional[float] = None, token: Optional[Token] = None) -> Permit:
        """Waits for a permit. `timeout` in seconds: 0 not at all, None as long as it takes; unless given, the gate's."""
        waits_ns = TIMEOUT_OF_KEY if timeout == OF_GATE else _nanoseconds(timeout)
        request = self._request(tenant, priority, cost, lease)
        where = None if token is None else ctypes.addressof(token._memory)
        permit, handle = self._begin(key)
        return self._end(permit, _library.weir_sync_acquire(handle, request, waits_ns, where, permit._value),
                         handle, tenant)

    def try_acquire(self, key: str, tenant: Optional[str] = None, priority: str = 'normal', cost: int = 1,
                    lease: Optional[float] = None) -> Optional[Permit]:
        """A permit if one is to be had without waiting and without overtaking, else None."""
        request = self._request(tenant, priority, cost, lease)
        permit, handle = self._begin(key)
        try:
            return self._end(permit, _library.weir_sync_try(handle, request, permit._value), handle, tenant)
        except WeirError as error:
            if error.status == 'WOULD_WAIT':
                return None
            raise

    def stats(self, key: str) -> Stats:
        """As the last call on the key has left it."""
        handle = self._open_key(key)
        try:
            value = _library.weir_sync_get_stats(handle)
        finally:
            self._close_key(handle)
        return Stats(value.active, value.waiting, None if value.limit == LIMIT_NONE else value.limit,
                     value.reserved, value.entered, dict(zip(ENDS, value.ended)))

    def configure(self, **settings: Any) -> None:
        """New settings, as for a new gate. Waiting callers and holders of permits stay."""
        _check(_library.weir_sync_configure(self._used(), _Settings(**settings).value))

    def override(self, key: str, **settings: Any) -> None:
        """Settings of its own for a key; without any, it follows the gate's again."""
        value = _Settings(**settings) if settings else None
        _check(_library.weir_sync_override(self._used(), _slice(key), value and value.value), key)

    def close(self) -> None:
        """Frees it. RuntimeError while permits are held or waited for."""
        with self._lock:
            if self._open > 0:
                raise RuntimeError('permits of this gate are held or waited for')
            sync, self._sync = self._sync, _pointer()
        _library.weir_sync_destroy(sync)

    def __del__(self) -> None:
        if getattr(self, '_open', 1) == 0:
            self.close()

    def _used(self) -> ctypes.c_void_p:
        if not self._sync:
            raise RuntimeError('this gate is closed')
        return self._sync

    @staticmethod
    def _request(tenant: Optional[str], priority: str, cost: int, lease: Optional[float]) -> weir_request:
        if priority not in PRIORITIES:
            raise ValueError('a priority is high, normal or low')
        return weir_request(tenant=_slice(tenant or ''), priority=PRIORITIES[priority],
                            cost=_number('cost', cost, 1, 2**30), lease_ns=_nanoseconds(lease, 0))

    def _open_key(self, key: str) -> int:
        with self._lock:
            handle = _pointer()
            _check(_library.weir_sync_open(self._used(), _slice(key), handle), key)
            self._open += 1
        assert handle.value is not None
        return handle.value

    def _close_key(self, handle: int) -> None:
        _library.weir_sync_close(handle)
        with self._lock:
            self._open -= 1

    def _begin(self, key: str) -> Tuple[Permit, int]:
        handle = self._open_key(key)
        return Permit(self, key, handle), handle  # which from here on gives back whatever it holds

    def _end(self, permit: Permit, status: int, handle: int, tenant: Optional[str]) -> Permit:
        if status != 0:
            permit._handle = None
            self._close_key(handle)
            _check(status, permit.key, tenant)
        return permit
