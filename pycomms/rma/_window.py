"""The window itself: what is collective, and what needs no speed. The data path is the extension's."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from pycomms import _C
from pycomms.errors import CollectiveTimeout, PeerFailure
from pycomms.process_group import _tables
from pycomms.rma._memory import MOST_BYTES, argument, empty, integer

if TYPE_CHECKING:
    from typing_extensions import Self

_NOW = timedelta(0)
_LONGEST = timedelta(days=36_500)  # torch's own conversion overflows at some 300,000 years
_MOST_SLOTS = 4096


@dataclass(frozen=True, kw_only=True)
class PeerMemory:
    """What this rank knows of a window's memory on another one.

    Attributes:
        reach: ``"self"``; ``"mapped"``: by loads and stores in shared memory; ``"served"``: over TCP, by a thread of
            the peer's process.
        nbytes: its size.
        numel: its elements.
        is_closed: the peer has closed it, and this rank has heard so. Always False on GPUs, where nobody tells.
    """

    reach: Literal["self", "mapped", "served"]
    nbytes: int
    numel: int
    is_closed: bool


class Lock:
    """A held lock of a window; ends with the ``with`` block, or with :meth:`release`. To take it again is another one.

    Attributes:
        peer: whose window it is.
        shared: whether others may hold it at the same time.
        broken: the rank that had died with the lock, so that what it protects may be half done; None: none had.
    """

    def __init__(self, window: Window, peer: int, shared: bool, timeout: timedelta | None) -> None:
        self.peer = peer
        self.shared = shared
        self._window = window
        broken = window._lock(peer, shared, timeout)
        self.broken = broken if broken >= 0 else None
        self._held = True

    def release(self) -> None:
        """Gives the lock back; what was done under it is done. Again: does nothing."""
        if self._held:
            self._held = False
            try:
                self._window._unlock(self.peer, self.shared)
            except (CollectiveTimeout, KeyboardInterrupt):
                self._held = True  # it may be tried again
                raise

    def __enter__(self) -> Self:
        if not self._held:
            raise RuntimeError(f"the lock of rank {self.peer} has been released: take it anew by Window.lock()")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class Window(_C.Window):
    """Memory of each rank of a group, which the others reach by themselves. Making one is collective.

    Offsets are in elements, or a view of :attr:`local`, which stands for the same place in the memory of the peer:
    ``win.put(edge, right, win.local[:, 0])``. Tensors that are put or fetched may have any strides.

    Every operation checks its arguments before anything is done: ValueError or TypeError concern this rank alone. What
    can be raised beside these:

    * pycomms.PeerFailure: the peer has died, or has closed its window;
    * pycomms.CollectiveTimeout: the operation has not ended in time;
    * pycomms.CommunicatorRevoked: the group was aborted, or regrouped: see :meth:`reopen`;
    * pycomms.CommunicatorClosed: the window is closed.

    None of these harms the group or another rank, and a window works on between living ranks when another has died.

    ``async_op=True`` returns a Work. What has been issued asynchronously runs in order; a synchronous call comes after
    all of it. The tensors must stay as they are until the Work has ended.

    Args:
        memory: the tensor that becomes this rank's part: one block of memory on the CPU. Its size may differ from rank
            to rank, its dtype may not. Where torch's own allocator made it, it is moved to shared memory, in place, as
            by ``share_memory_()``: tensors that share its storage go on with it, NumPy arrays made before do not. An
            array of NumPy, or whatever has ``__dlpack__``, is taken as it is: ranks of the same host cannot map that,
            so it is served to them over TCP. A number makes so many bytes, of dtype uint8.
        group: None: the default group.
        name: for messages.
        slots: how many signals each rank has for each other one.
        timeout: of the making; None: that of the group.

    Raises:
        TypeError: the group is not one of pycomms, memory is no tensor, slots no integer or timeout no timedelta.
        ValueError: memory is not one block on the CPU, or is read-only, slots is not 1 to 4096, or timeout is negative.
            The other ranks raise as well, as after a TypeError of another argument than the group.
        pycomms.CollectiveMismatch: dtype, slots or the order of windows differ. On all ranks.
        pycomms.CollectiveTimeout: some ranks did not come; the group stays usable.
    """

    def __init__(
        self,
        memory: Any,
        group: dist.ProcessGroup | None = None,
        *,
        name: str | None = None,
        slots: int = 64,
        timeout: timedelta | None = None,
    ) -> None:
        self.group = c10d._get_default_group() if group is None else group
        self.name = name
        backend = _tables.backend_of(self.group, "rma.Window")
        try:
            _check_timeout(timeout)
            tensor = _memory_of(memory, self.group)
            if integer("rma.Window", "slots", slots) not in range(1, _MOST_SLOTS + 1):
                raise ValueError(f"rma.Window: slots is {slots}, expected 1 to {_MOST_SLOTS}")
        except Exception as err:
            # The other ranks wait for this one: it tells them.
            limit = timeout if _is_duration(timeout) else None
            try:
                super().__init__(backend, None, 1, limit, str(err))
            finally:
                raise err
        super().__init__(backend, tensor, slots, timeout, "")
        self._backend = backend

    def get_accumulate(
        self,
        src: Any,
        peer: int,
        offset: int | torch.Tensor = 0,
        *,
        op: str = "sum",
        async_op: bool = False,
        timeout: timedelta | None = None,
    ) -> Any:
        """Updates as :meth:`accumulate` does, and fetches what was there, each element by itself in one step.

        Args:
            op: also ``"fetch"``, which changes nothing.

        Returns:
            The old elements, of the shape of ``src``; with ``async_op`` a Work whose ``result()[0]`` they are.
        """
        operands = argument("get_accumulate", "src", src, is_written=False)
        old = torch.empty(operands.shape, dtype=operands.dtype)
        work = self._get_accumulate(operands, old, peer, offset, op=op, async_op=async_op, timeout=timeout)
        return work if async_op else old

    def flush_local(self, peer: int | None = None, *, timeout: timedelta | None = None) -> None:
        """Returns when the tensors of what was issued to ``peer``, None: to all, may be used again."""
        if peer is not None and integer("flush_local", "peer", peer) not in range(self.size):
            raise ValueError(f"flush_local: peer is {peer}, but the group has ranks 0 to {self.size - 1}")
        self._wait_for_queued(timeout=timeout)

    def fence(self, *, timeout: timedelta | None = None) -> None:
        """What all ranks have done before it is seen by all after it. Collective.

        Raises:
            pycomms.PeerFailure: a rank has died, or has closed the window and will not come.
        """
        lost: PeerFailure | None = None
        try:
            self.flush(timeout=timeout)
        except PeerFailure as error:
            lost = error
        for peer in range(self.size):
            _, _, is_closed = self._attr(peer)
            if is_closed:  # it may live, and would be waited for in vain
                self.flush(peer, timeout=timeout)
        options = c10d.BarrierOptions()
        options.device = self.local.device
        if timeout is not None:
            options.timeout = min(timeout, _LONGEST)
        # Also where a rank has died: all call the same operations of the group, whoever knows of it already.
        self.group.barrier(options).wait()
        if lost is not None:
            raise lost

    def wait_signal(
        self,
        peers: int | Iterable[int] | None = None,
        slot: int = 0,
        count: int = 1,
        *,
        any_of: bool = False,
        async_op: bool = False,
        timeout: timedelta | None = None,
    ) -> Any:
        """Waits for signals, and takes them. What the peers did before they signalled is seen afterwards.

        Args:
            peers: whose signals; None: of all other ranks. If there are none, nothing is waited for.
            slot: of the signal.
            count: how much of each peer's signal is waited for, and taken.
            any_of: one of the peers is enough; it alone loses ``count``.

        Returns:
            With any_of the rank that was enough. None otherwise, and a Work with async_op.

        Raises:
            ValueError: with any_of, there is no peer that could be the one.
            pycomms.PeerFailure: a peer whose signal is still to come has died, or has closed the window; with any_of:
                all of them.
        """
        whom = self._peers(peers)
        result = self._wait_signal(whom, not any_of, slot, count, async_op, timeout)
        if async_op:
            return result
        return whom[result] if any_of else None

    def test_signal(
        self, peers: int | Iterable[int] | None = None, slot: int = 0, count: int = 1, *, any_of: bool = False
    ) -> bool:
        """As :meth:`wait_signal`, without waiting. False: not yet, and nothing was taken."""
        try:
            self.wait_signal(peers, slot, count, any_of=any_of, timeout=_NOW)
        except CollectiveTimeout:
            return False
        return True

    def read_signal(self, peer: int, slot: int = 0) -> int:
        """What is left of the signal of ``peer`` here. Takes nothing, and orders nothing."""
        return self._read_signal(peer, slot)

    def lock(self, peer: int, shared: bool = False, *, timeout: timedelta | None = None) -> Lock:
        """Waits for the lock of the window of ``peer``: ``with win.lock(peer) as lock: ...``

        It keeps out other holders and nothing else: whoever does not take it is not stopped. A lock whose holder has
        died is broken by the next who wants it, who is told (:attr:`Lock.broken`).

        Args:
            shared: others may hold it at the same time, and nobody alone.
        """
        return Lock(self, peer, shared, timeout)

    def attr(self, peer: int) -> PeerMemory:
        """What this rank knows of the memory of ``peer``."""
        reach, nbytes, is_closed = self._attr(peer)
        return PeerMemory(reach=reach, nbytes=nbytes, numel=nbytes // self.local.element_size(), is_closed=is_closed)

    def close(self, *, timeout: timedelta | None = None) -> None:
        """Ends the window; waits until all ranks have come. Collective. Again: does nothing.

        What was done before is done. In a group that has failed or regrouped it ends on this rank and waits for
        nobody; nor does it wait for a rank that has left the block of its window by an exception.

        Raises:
            pycomms.CollectiveMismatch: another rank closes another window first. On all that would wait for each other.
            pycomms.CollectiveTimeout: some ranks did not come. The window is closed here.
        """
        self._close(True, timeout)

    def reopen(self, *, timeout: timedelta | None = None) -> Window:
        """A window over the same memory in the group as it is now, after a regroup. Collective over its new members:
        those that have come make ``rma.Window(memory)`` at the same time.
        """
        self._close(False, timeout)
        return Window(self.local, self.group, name=self.name, slots=self.slots, timeout=timeout)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("a Window cannot be pickled or copied")

    def __reduce__(self) -> Any:
        raise TypeError("a Window cannot be pickled or copied")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # An exception on this rank alone: the others may not come.
        self._close(kind is None, None)

    def __repr__(self) -> str:
        name = f"{self.name!r}, " if self.name is not None else ""
        state = "closed" if self.is_closed else "of an earlier generation" if self.is_stale else "open"
        return f"Window({name}{tuple(self.local.shape)}, {self.local.dtype}, rank {self.rank} of {self.size}, {state})"

    def _peers(self, peers: int | Iterable[int] | None) -> list[int]:
        if peers is None:
            return [rank for rank in range(self.size) if rank != self.rank]
        return [integer("wait_signal", "peers", peer) for peer in (peers if isinstance(peers, Iterable) else (peers,))]


def _memory_of(memory: Any, group: dist.ProcessGroup) -> torch.Tensor:
    if isinstance(memory, bool):
        raise TypeError("rma.Window: memory is a bool, expected a tensor or a number of bytes")
    if isinstance(memory, (int, np.integer)):
        if not 0 <= memory <= MOST_BYTES:
            raise ValueError(f"rma.Window: memory is {memory} bytes, expected 0 to {MOST_BYTES}")
        return empty(int(memory), dtype=torch.uint8, group=group)
    return argument("rma.Window", "memory", memory)


def _is_duration(timeout: Any) -> bool:
    return isinstance(timeout, timedelta) and timeout >= _NOW


def _check_timeout(timeout: Any) -> None:
    if timeout is None or _is_duration(timeout):
        return
    kind = ValueError if isinstance(timeout, timedelta) else TypeError
    raise kind(f"rma.Window: timeout is {timeout!r}, expected None or a timedelta of at least 0")
