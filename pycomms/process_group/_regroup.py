"""Changing who is in a group, in place: the ProcessGroup stays, and with it whatever was built on it.

The communicators are the backend's affair. Here is what torch knows of a group beside them: its tables of ranks, the
subgroups of the default group, and whoever wants to be told.
"""

from __future__ import annotations

import operator
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Work
from torch.distributed import distributed_c10d as c10d
from torch.utils.hooks import RemovableHandle

from pycomms import _C
from pycomms.process_group import _tables
from pycomms.process_group._exchange import Deadline

Callback = Callable[[dist.ProcessGroup, int], None]

_SHORTEST = timedelta(milliseconds=1)

_callbacks: OrderedDict[int, Callback] = OrderedDict()


def regroup_handle(group: dist.ProcessGroup | None = None) -> str:
    """What others need to regroup with this process: ``nccl2:1:<nonce>:<rank>:<uuid>:<address>``.

    It is of this moment: ask again after each regroup. Send it to the others by whatever way your program has.

    Args:
        group: None: the default group.

    Raises:
        TypeError: the group is not one of pycomms.
    """
    return _tables.backend_of(_chosen(group), "regroup_handle").regroup_handle()


def generation(group: dist.ProcessGroup | None = None) -> int:
    """How many times the group has regrouped, as this process has seen it."""
    return _tables.backend_of(_chosen(group), "generation").generation


def regroup(
    group: dist.ProcessGroup | None = None,
    *,
    uuid: int,
    handles: Collection[str],
    timeout: timedelta | None = None,
    hints: Mapping[str, str] | None = None,
) -> Work:
    """Makes a group one of other members. Collective over the new ones, and over nobody else.

    Old members who are not among the new need not be alive, need not call, and keep what they have. New ones bring a
    group of their own, which may be of one: ``init_process_group("nccl2", store=HashStore(), rank=0, world_size=1,
    pg_options=Options(connect=Connect.LAZY))``. No store is needed.

    Nothing changes until all new members have agreed; then operations in flight are cancelled, and the group is the
    new one: ranks, size, sequence 0. ``wait()`` on the result, on every member: it makes torch's own tables right
    (``get_process_group_ranks()`` and the like), and of the default group it regroups the subgroups, too:

    * members of a subgroup stay in it; a group of all ranks stays one of all;
    * a process that was alone before and gets the rank that a dead member had takes its place in its groups. There it
      finds them under the same name, ``torch.distributed.distributed_c10d._resolve_process_group(name)``;
    * groups of other backends than pycomms' are left as they are.

    Callbacks of :func:`on_regroup` are called last. If anything fails, ``wait()`` raises; try again with a new uuid, on
    all members. Before the agreement the group is as it was; after it, it may have lost a member again.

    Args:
        group: None: the default group.
        uuid: the same on all members, and never used before in this group. From 0 to 2**63 - 1.
        handles: what :func:`regroup_handle` gives on each new member, this one included. A list has them in the order
            of the new ranks. A set is ordered by old rank, then by nonce.
        timeout: of all of it together; None: that of the group.
        hints: none are known yet; for calls that are made for torch's ``_reconfigure``.

    Raises:
        NotImplementedError: this torch is older than 2.14: its groups cannot change their size.
        TypeError: the group is not one of pycomms, or handles, uuid or timeout are of another type.
        ValueError: handles, uuid or timeout are wrong. Here, or from ``wait()``.
        pycomms.PeerFailure: from ``wait()``: a new member has died; ``ranks`` are new ones.
        pycomms.CollectiveTimeout: from ``wait()``: some did not come.
        pycomms.CollectiveMismatch: from ``wait()``: the members disagree about uuid or handles.
    """
    if hints:
        raise ValueError(f"regroup: no hints are known, got {', '.join(sorted(hints))}")
    uuid = _checked_uuid(uuid)
    given = _checked_handles(handles)
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"regroup: timeout must be a timedelta or None, got {timeout!r}")
    if timeout is not None and timeout < _SHORTEST:
        raise ValueError(f"regroup: timeout must be at least a millisecond, got {timeout.total_seconds()} s")
    chosen = _chosen(group)
    backend = _tables.backend_of(chosen, "regroup")
    deadline = Deadline(timeout if timeout is not None else backend.options._timeout)
    finish = _finish_default if chosen is c10d._get_default_group() else _finish_subgroup
    note, ending = finish(chosen, backend, uuid, sorted(given), deadline)
    work = backend.regroup(uuid=uuid, handles=given, timeout=timeout, note=note)
    # No block of the group is open. An exception in one leaves torch's own note of it behind, and what is issued later
    # would wait for the end of that block.
    c10d._world.pg_coalesce_state.pop(chosen, None)
    return _Regroup(work, ending)


def on_regroup(callback: Callback) -> RemovableHandle:
    """Has ``callback(group, generation)`` called after each :func:`regroup`, in the thread that waits for it.

    For groups that were named to ``regroup``; when it is called, their subgroups have regrouped as well. What it raises
    comes out of ``wait()``.

    Returns:
        A handle whose ``remove()`` ends it.

    Raises:
        TypeError: the callback cannot be called.
    """
    if not callable(callback):
        raise TypeError(f"on_regroup: callback must be a function, got {callback!r}")
    handle = RemovableHandle(_callbacks)
    _callbacks[handle.id] = callback
    return handle


class _Regroup(Work):
    """The backend's work, and what is to be done in Python once it has succeeded. Any thread may wait, and several."""

    def __init__(self, work: Work, ending: Callable[[], None]) -> None:
        super().__init__()
        self._work = work
        self._ending: Callable[[], None] | None = ending
        self._error: BaseException | None = None
        self._lock = threading.Lock()

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        self._work.wait(timeout)
        with self._lock:
            if self._ending is not None:
                ending, self._ending = self._ending, None
                try:
                    ending()
                except BaseException as err:
                    self._error = err
                    raise
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        """Whether ``wait()`` has no more to wait for than the subgroups."""
        return self._work.is_completed()

    def is_success(self) -> bool:
        return self._work.is_success() and self._error is None

    def exception(self) -> Any:
        return self._error or self._work.exception()

    def get_future(self) -> torch.futures.Future[Any]:
        """Of the backend's work alone: nothing of torch's tables."""
        future: torch.futures.Future[Any] = self._work.get_future()
        return future


def _chosen(group: dist.ProcessGroup | None) -> dist.ProcessGroup:
    return c10d._get_default_group() if group is None else group


def _checked_uuid(uuid: int) -> int:
    try:
        number = operator.index(uuid)
    except TypeError:
        raise TypeError(f"regroup: uuid must be an integer, got {uuid!r}") from None
    if not 0 <= number < 1 << 63:
        raise ValueError(f"regroup: uuid must be from 0 to 2**63 - 1, got {number}")
    return int(number)  # a bool is no other uuid than its number


def _checked_handles(handles: Collection[str]) -> set[str] | list[str]:
    if isinstance(handles, str) or not isinstance(handles, Iterable):
        raise TypeError(f"regroup: handles must be a list or a set of handles, got {handles!r}")
    given = set(handles) if isinstance(handles, (set, frozenset)) else list(handles)
    for one in given:
        if not isinstance(one, str):
            raise TypeError(f"regroup: handles must be strings, got {one!r}")
    return given


# What a regroup brings to the other members, and what is left to do here once all have.
_Rest = tuple[bytes, Callable[[], None]]


def _finish_default(
    group: dist.ProcessGroup, backend: _C.Backend, uuid: int, handles: list[str], deadline: Deadline
) -> _Rest:
    # Loaded with the first group (`_create`): a program that only imports pycomms need not wait for them.
    from pycomms.process_group._memberships import memory_of
    from pycomms.process_group._rebuild import contribution, rebuild

    memory = memory_of(group, backend)
    own = contribution(group, memory)

    def finish() -> None:
        rebuild(group, memory, own, uuid, handles, deadline)
        _tell(group, backend)

    return own.note(), finish


def _finish_subgroup(
    group: dist.ProcessGroup, backend: _C.Backend, _uuid: int, _handles: list[str], _deadline: Deadline
) -> _Rest:
    def finish() -> None:
        notes = backend.regroup_notes
        # Members of different default groups have no common numbers but those of this group; nor has one whose default
        # group this is.
        is_common = all(note.isdigit() for note in notes) and len(set(notes)) == len(notes)
        _tables.set_ranks(group, [int(note) for note in notes] if is_common else range(group.size()))
        from pycomms.process_group._memberships import memory_of

        default = c10d._get_default_group()
        memory_of(default, _tables.backend_of(default, "regroup")).recipes.pop(group, None)
        _tell(group, backend)

    return str(dist.get_rank()).encode(), finish


def _tell(group: dist.ProcessGroup, backend: _C.Backend) -> None:
    for callback in list(_callbacks.values()):
        callback(group, backend.generation)
