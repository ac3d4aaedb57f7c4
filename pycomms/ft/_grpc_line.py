"""A worker's own connection to the coordinator, where no agent speaks for it: it is a host of one member."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from pycomms._config import keep_grpc_out_of_forks
from pycomms.ft._line import LineEnded, LineRefused
from pycomms.ft.coordinator import calls
from pycomms.ft.coordinator.auth import proof
from pycomms.ft.coordinator.tls import OBJECT_AFTER, VARIABLES, Tls, objection
from pycomms.ft.core.messages import Beat, Evict, MemberId
from pycomms.ft.core.timeouts import Timeouts
from pycomms.ft.wire import Hello, WireError, decode, encode

_LEAVE_WITHIN = 1.0
_LEFT_ALONE: list[object] = []
"""In a process that was forked off: what must not be freed, for grpc misses its threads there."""
_HOPELESS = ("UNAUTHENTICATED", "INVALID_ARGUMENT", "FAILED_PRECONDITION", "UNIMPLEMENTED")


class GrpcDialer:
    """target: host:port of the coordinator."""

    speaks_for_host = True

    def __init__(
        self, target: str, token: bytes, tls: Tls | None, member: MemberId, instance: str, timeouts: Timeouts
    ) -> None:
        self._target, self._token, self._tls = target, token, tls
        self._host = member.host
        self._hello = encode(Hello(host=member.host, instance=instance))
        self._timeouts = timeouts
        self._lock = threading.Lock()  # the two below
        self._line: GrpcLine | None = None
        self._is_interrupted = False
        self._since = time.monotonic()
        self._is_known = False  # it has answered, so certificates and the like are in order

    def dial(self) -> GrpcLine:
        keep_grpc_out_of_forks()
        import grpc

        channel = calls.channel(grpc, self._target, self._timeouts, self._tls)
        words = _Words(self._hello, encode(Beat(host=self._host)), self._timeouts.beat.total_seconds())
        metadata = proof(self._token, calls.ATTACH, self._host, time.time())
        line = GrpcLine(channel, calls.attach(channel)(iter(words), metadata=metadata), words)
        with self._lock:
            self._line = line
            if self._is_interrupted:
                line.drop()
                raise LineEnded("closed")
        try:
            (first,) = line.receive()
        except LineRefused:
            raise
        except LineEnded as error:
            raise self._lost(error) from error
        self._is_known = True
        try:
            decode(first)
        except WireError as error:
            line.drop()
            raise LineRefused(f"{self._target} is no coordinator: {error}") from error
        return line

    def _lost(self, error: LineEnded) -> LineEnded:
        """Certificates are looked into when there never was a connection, and not because the other side is slow."""
        if not self._is_known and time.monotonic() - self._since > OBJECT_AFTER:
            why = objection(self._target, self._tls, _LEAVE_WITHIN)
            if why:
                return LineRefused(f"{why} ({', '.join(VARIABLES)})")
        return LineEnded(f"{self._target}: {error}")

    def interrupt(self) -> None:
        with self._lock:
            self._is_interrupted = True
            if self._line is not None and not self._line.is_open:
                self._line.cancel()

    def obey(self, evict: Evict) -> None:
        """There is no agent that would end this process, and it may come back otherwise."""
        print(f"pycomms.ft: the coordinator ends this process: {evict.reason}", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


class _Words:
    """What is said in one call, for grpc's own thread to fetch; and a beat whenever nothing was said for so long."""

    def __init__(self, hello: bytes, beat: bytes, pause: float) -> None:
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queue.put(hello)
        self._beat, self._pause = beat, pause

    def say(self, envelope: bytes) -> None:
        self._queue.put(envelope)

    def end(self) -> None:
        self._queue.put(None)

    def __iter__(self) -> Iterator[bytes]:
        while True:
            try:
                envelope = self._queue.get(timeout=self._pause)
            except queue.Empty:
                envelope = self._beat
            if envelope is None:
                return
            yield envelope


class GrpcLine:
    """Waits are ended by the keepalive of the channel, within host_silence of the other side's last sign of life."""

    def __init__(self, channel: Any, call: Any, words: _Words) -> None:
        self._channel, self._call, self._words = channel, call, words
        self._ended = threading.Event()
        self.is_open = False

    def send(self, envelope: bytes) -> None:
        if self._ended.is_set():
            raise LineEnded("the coordinator is gone")
        self._words.say(envelope)

    def receive(self) -> list[bytes]:
        import grpc

        try:
            data = next(self._call)
        except StopIteration:
            self._end()
            raise LineEnded("the coordinator has ended the call") from None
        except grpc.RpcError as error:
            self._end()
            code = self._call.code().name
            kind = LineRefused if code in _HOPELESS else LineEnded
            raise kind(f"{code}: {self._call.details()}") from error
        self.is_open = True
        return [data]

    def close(self) -> None:
        """The coordinator ends the call when it has heard all."""
        self._words.end()
        if not self._ended.wait(_LEAVE_WITHIN):
            self._call.cancel()

    def cancel(self) -> None:
        """By any thread."""
        self._call.cancel()

    def drop(self) -> None:
        self._call.cancel()
        self._end()

    def forked(self) -> None:
        """grpc has no threads here, and its objects must not be touched: they stay as they are."""
        _LEFT_ALONE.append(self)

    def _end(self) -> None:
        self._ended.set()
        self._words.end()
        self._channel.close()


def _hold_threads() -> None:
    """Python drops the threads that are missing in a child, and with them what they have in hand."""
    _LEFT_ALONE.extend(threading.enumerate())


os.register_at_fork(before=_hold_threads, after_in_parent=_LEFT_ALONE.clear)
