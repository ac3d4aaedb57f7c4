"""Faults of TCP connections, done to this process's own sockets: by the kernel where it can (no root), else by a proxy.

Loss and cuts are filters (classic BPF) on the sockets: what they refuse is lost as if it had not arrived, and TCP does
what it does then. They concern what comes in, so a cut of one rank is one-way towards it, and its acknowledgements go
on; a partition is a cut of both sides. What is late or spoilt is led through a thread of ours (`_proxy.py`).
"""

from __future__ import annotations

import ctypes
import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import _environment
from ._errors import NotPossibleError
from ._proxy import Proxy
from ._sockets import Duplicate, Peers, own

Undo = Callable[[], None]
Change = Callable[[Duplicate], None]
Instruction = tuple[int, int, int, int]

_SO_ATTACH_FILTER, _SO_DETACH_FILTER, _SO_MAX_PACING_RATE = 26, 27, 47
_LOAD_RANDOM = (0x20, 0, 0, 0xFFFFF000 + 56)  # ld [SKF_AD_OFF + SKF_AD_RANDOM]
_KEEP, _DROP = (0x06, 0, 0, 0xFFFFFFFF), (0x06, 0, 0, 0)  # ret
_JUMP_IF_AT_LEAST = 0x35
_WITHOUT_PAYLOAD = (
    (0x30, 0, 0, 12),  # ldb [12]: the header's length is in the upper half
    (0x54, 0, 0, 0xF0),  # and
    (0x74, 0, 0, 2),  # rsh
    (0x07, 0, 0, 0),  # tax
    (0x80, 0, 0, 0),  # ld len
    (0x1D, 0, 1, 0),  # jeq x: nothing behind the header
    _KEEP,
    _DROP,
)
_AGAIN_S, _SOON_S = 0.02, 0.001
"""How often it is looked for new connections, and for the first."""
_NO_STORE = "the process has no connection to a store at MASTER_PORT"
_NONE = "the process has no such TCP connection; within a host ranks use shared memory"
_STORE_S = 10.0
"""After it was asked for its group, a process has connected to the store by then, or never does."""
_PAYLOAD_B = 1024
"""What has come at once and is longer is more than headers."""
_UNLIMITED = 0xFFFFFFFF


class _Held:
    """Does something to all sockets, those that are made later as well, until it is to be taken back."""

    def __init__(
        self, peers: Peers, do: Change, undo: Change, *, meanwhile: Change | None = None, waits: bool = False
    ) -> None:
        """meanwhile: is done to who listens, and so to what it accepts, until it is known who that is.
        waits: for the first, too. Raises NotPossibleError."""
        self._peers, self._do, self._undo = peers, do, undo
        self._meanwhile = None if peers.are_all else meanwhile
        self._is_over = threading.Event()
        self._looking = threading.Condition()
        self._done: set[int] = set()  # inodes
        self._found_at = 0.0  # the first
        with self._looking:
            self._look()
        if not self._done and not waits:
            raise NotPossibleError(_NONE)
        threading.Thread(target=self._watch, name="pycomms-chaos-net", daemon=True).start()

    def _look(self) -> None:
        self._peers.look()
        for one in own():
            inode = one.inode
            if inode in self._done:
                continue
            if self._peers.have(one):
                with suppress(OSError):  # not yet, or never
                    self._do(one)
                    self._done.add(inode)
                    self._found_at = self._found_at or time.monotonic()
                    self._looking.notify_all()
            elif self._meanwhile is not None:
                self._keep_apart(one, self._meanwhile)

    def _keep_apart(self, one: Duplicate, meanwhile: Change) -> None:
        """Not to one of the peers, as far as is known. Who has just connected to us had its socket before we looked."""
        if one.is_listening:
            meanwhile(one)
            return
        self._peers.look()
        if not self._peers.have(one):
            with suppress(OSError):  # it has none
                self._undo(one)

    def _watch(self) -> None:
        while not self._is_over.wait(_AGAIN_S if self._done else _SOON_S):
            with suppress(OSError), self._looking:  # no descriptor is free at this moment
                if not self._is_over.is_set():
                    self._look()

    def await_first(self, until: float) -> float:
        """When it was found; 0: not by then."""
        with self._looking:
            self._looking.wait_for(lambda: self._found_at, until - time.monotonic())
            return self._found_at

    def last(self, until: float) -> None:
        """Returns then, or when it is taken back."""
        self._is_over.wait(until - time.monotonic())

    def end(self) -> None:
        """Of all sockets: what a listening one accepts has its filter, and nobody may have looked at it yet."""
        self._is_over.set()
        with self._looking:
            for one in own():
                with suppress(OSError):  # it has no filter
                    self._undo(one)


def _filter(*program: Instruction) -> Change:
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in program))
    told = struct.pack("HP", len(program), ctypes.addressof(code))

    def attach(one: Duplicate, _keep: object = code) -> None:
        one.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, told)

    return attach


def _detach(one: Duplicate) -> None:
    one.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


def _peers(fault: dict[str, Any]) -> Peers:
    """Raises NotPossibleError."""
    port = _environment.store_port() if fault.get("store") else 0
    if fault.get("store") and not port:
        raise NotPossibleError(_NO_STORE)
    return Peers(fault.get("pids"), port)


def _held(fault: dict[str, Any], do: Change, undo: Change, meanwhile: Change | None = None) -> Undo:
    """A connection to the store is waited for, and the fault lasts from then on: it is made in the same call that needs
    it."""
    if not fault.get("store"):
        return _Held(_peers(fault), do, undo, meanwhile=meanwhile, waits=fault.get("waits", False)).end
    held = _Held(_peers(fault), do, undo, meanwhile=meanwhile, waits=True)
    give_up_at = time.monotonic() + _STORE_S

    def end() -> None:
        found_at = held.await_first(give_up_at)
        if found_at:
            held.last(found_at + fault["for"])
        held.end()
        if not found_at:
            raise NotPossibleError(_NO_STORE)

    return end


def _cut(fault: dict[str, Any]) -> Undo:
    return _held(fault, _filter(_DROP), _detach, _filter(*_WITHOUT_PAYLOAD))


def _lose(fault: dict[str, Any]) -> Undo:
    least = min(int(fault["share"] * 2**32), 2**32 - 1)
    program = (_LOAD_RANDOM, (_JUMP_IF_AT_LEAST, 1, 0, least), _DROP, _KEEP)
    return _held(fault, _filter(*program), _detach)


def _limit(fault: dict[str, Any]) -> Undo:
    def pace(rate: int) -> Change:
        return lambda one: one.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("I", rate))

    return _held(fault, pace(fault["rate"]), pace(_UNLIMITED))


def _reset(fault: dict[str, Any]) -> None:
    ended = 0
    peers = _peers(fault)
    peers.look()
    for one in own():
        if peers.have(one) and not one.is_listening:
            one.shutdown(socket.SHUT_RDWR)
            ended += 1
    if not ended:
        raise NotPossibleError(_NONE)


_proxies: dict[int, Proxy] = {}  # by the inode of what leads to the others


def _proxy_of(one: Duplicate) -> Proxy:
    """Raises OSError where there can be none."""
    found = _proxies.get(one.inode)
    if found is None:
        found = _proxies[one.inode] = Proxy(one)
    return found


def _delay(fault: dict[str, Any]) -> Undo:
    def late(seconds: float) -> Change:
        def change(one: Duplicate) -> None:
            _proxy_of(one).delay = seconds

        return change

    def back(one: Duplicate) -> None:
        if one.inode in _proxies:
            _proxies[one.inode].delay = 0.0

    return _held(fault, late(fault["delay"]), back)


def _corrupt(fault: dict[str, Any]) -> None:
    """One bit, of what comes first over any of the connections that there are."""
    flipping = threading.Lock()  # whoever has it for good has flipped

    def payload(data: bytearray) -> None:
        if len(data) >= _PAYLOAD_B and flipping.acquire(blocking=False):
            data[len(data) // 3] ^= 0x10  # the middle may be the header of the second of two messages

    def header(data: bytearray) -> None:
        if flipping.acquire(blocking=False):
            data[0] ^= 0x10

    spoil = {"payload": payload, "header": header}[fault["part"]]
    peers = _peers(fault)
    peers.look()
    has_any = False
    for one in own():
        with suppress(OSError):
            if peers.have(one):
                _proxy_of(one).spoil = spoil
                has_any = True
    if not has_any:
        raise NotPossibleError(_NONE)


ACTS: dict[str, Callable[[dict[str, Any]], Undo | None]] = {
    "cut": _cut,
    "partition": _cut,
    "loss": _lose,
    "limit": _limit,
    "delay": _delay,
    "corrupt": _corrupt,
    "reset": _reset,
}
