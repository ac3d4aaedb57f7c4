"""Recording groups of other backends, by torch's hooks around every operation."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, final
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from pycomms import _C
from pycomms.flight_recorder._process import open_ring

_hooks = itertools.count(0x50_4643)  # torch keeps hooks by number: ours are large, and differ


class _Groups:
    """The groups with our hooks. However often a program attaches, each group is recorded once.

    Groups that were destroyed are not kept alive by it: with them go their hooks, threads and connections.
    """

    def __init__(self) -> None:
        self.hooks: WeakKeyDictionary[dist.ProcessGroup, int] = WeakKeyDictionary()
        self.attachments = 0
        self._undo: Callable[[], None] | None = None

    def begin(self) -> None:
        self.attachments += 1
        if self._undo is not None:
            return
        self._undo = _follow_new_groups(self)
        for group in list(c10d._world.pg_map):
            self.add(group, _ranks_of(group), is_late=True)

    def end(self) -> None:
        self.attachments -= 1
        if self.attachments or self._undo is None:
            return
        self._undo()
        self._undo = None
        for group, hook in list(self.hooks.items()):
            _C.recorder_detach(group, hook)
        self.hooks.clear()

    def add(self, group: dist.ProcessGroup, ranks: Sequence[int], *, is_late: bool) -> None:
        if self._undo is None or group in self.hooks or _is_ours(group) or open_ring() is None:
            return
        hook = next(_hooks)
        _C.recorder_attach(group, hook, group.group_name, group.group_desc, list(ranks), is_late)
        self.hooks[group] = hook


_groups = _Groups()


@final
class Attachment:
    """What :func:`attach` returns: ends with :meth:`detach`, or as a context manager."""

    def __init__(self) -> None:
        self._is_attached = True

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    def detach(self) -> None:
        """Takes back all that was done, with the last attachment that there is. Not while another thread issues
        operations or makes a group.
        """
        if self._is_attached:
            self._is_attached = False
            _groups.end()

    @property
    def groups(self) -> int:
        """How many groups are recorded by attachments."""
        return len(_groups.hooks) if self._is_attached else 0


def attach() -> Attachment:
    """Records the operations of all groups of this process, of any backend: those that there are, and those made later.

    Groups of our own backend are recorded anyway, and not twice. Sequence numbers count from here in groups that exist
    already, and their entries are marked as late: call it before ``init_process_group``. Not collective: each rank
    decides for itself, but a record of some ranks tells less. Where there is no room for a record nothing is recorded,
    and a warning says so. Attaching twice records nothing twice.

    What torch's hooks do not tell is not recorded: the reduction, tags, splits, and which of its variants an operation
    was. Completion is that of the Work; a backend whose sends and receives have no future is asked every few
    milliseconds.

    Raises:
        NotImplementedError: this torch has no hooks (they came with 2.14).
    """
    if not _C.recorder_has_hooks:
        raise NotImplementedError(f"attach() needs the hooks of torch 2.14 or newer, this is torch {_C.torch_version}")
    open_ring(dist.get_rank() if dist.is_initialized() else None)
    _groups.begin()
    return Attachment()


def _follow_new_groups(groups: _Groups) -> Callable[[], None]:
    """torch tells nobody of a new group: what makes and enters one is wrapped. Returns what undoes that."""
    internals: Any = c10d
    make, register = internals._new_process_group_helper, internals._register_pg_in_world
    members: list[Sequence[int]] = [()]  # of the group in the making; torch enters some groups before their ranks

    def making(group_size: int, group_rank: int, global_ranks_in_group: Sequence[int], *args: Any, **named: Any) -> Any:
        members.append(global_ranks_in_group)
        try:
            return make(group_size, group_rank, global_ranks_in_group, *args, **named)
        finally:
            members.pop()

    def entering(pg: dist.ProcessGroup, *args: Any, **named: Any) -> None:
        register(pg, *args, **named)
        groups.add(pg, members[-1] or _ranks_of(pg), is_late=False)

    internals._new_process_group_helper, internals._register_pg_in_world = making, entering

    def undo() -> None:
        # Whoever has wrapped them since keeps our wrapper, which then does nothing more than torch's own.
        if internals._new_process_group_helper is making:
            internals._new_process_group_helper = make
        if internals._register_pg_in_world is entering:
            internals._register_pg_in_world = register

    return undo


def _ranks_of(group: dist.ProcessGroup) -> list[int]:
    """Global ranks by rank in the group; empty when torch does not know them yet."""
    known = c10d._world.pg_group_ranks.get(group, {})
    return sorted(known, key=known.__getitem__)


def _is_ours(group: dist.ProcessGroup) -> bool:
    """All its tensors are served by our backend, which records by itself."""
    backends = [group._get_backend(device) for device in group._device_types]
    return bool(backends) and all(isinstance(backend, _C.Backend) for backend in backends)
