"""torch's names of operations, and the frames of its tracebacks, as signatures and call sites of ours.

One table per dump: what repeats is looked up once. Must not know: sequence numbers, states.
"""

from __future__ import annotations

import marshal
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pycomms.flight_recorder._model import UNKNOWN_RANK, UNKNOWN_SITE, Signature, Site

if TYPE_CHECKING:
    import numpy.typing as npt

_KINDS = {
    "_all_gather_base": "all_gather_single",
    "_allgather_base": "all_gather_single",
    "all_gather_into_tensor": "all_gather_single",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "allgather_into_tensor_coalesced": "all_gather_coalesced",
    "ALLGATHER_coalesced": "all_gather_coalesced",
    "allgather": "all_gather",
    "all_gather_v": "all_gather",
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "ALLREDUCE_coalesced": "all_reduce_coalesced",
    "_broadcast_oop": "broadcast",
    "_reduce_oop": "reduce",
    "all_reduce_barrier": "barrier",
    "_reduce_scatter_base": "reduce_scatter_single",
    "reduce_scatter_tensor": "reduce_scatter_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_coalesced",
    "REDUCE_SCATTER_coalesced": "reduce_scatter_coalesced",
    "reduce_scatter_v": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "all_to_all_v_single": "all_to_all_single",
    "all_to_allv": "all_to_all_single",
}
_KNOWN = frozenset(
    [
        "all_gather",
        "all_gather_single",
        "all_gather_coalesced",
        "all_reduce",
        "all_reduce_coalesced",
        "barrier",
        "broadcast",
        "reduce",
        "reduce_scatter",
        "reduce_scatter_single",
        "reduce_scatter_coalesced",
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "monitored_barrier",
        "send",
        "recv",
        "coalesced",
        "split",
        "new_window",
    ]
)
_CLOSING = frozenset({"coalesced", "all_gather_coalesced", "reduce_scatter_coalesced", "all_reduce_coalesced"})
_WRITERS = {"c10d": "hook"}
_BACKENDS = frozenset(
    [
        "nccl",
        "nccl2",
        "ncclx",
        "xccl",
        "gloo",
        "rccl",
        "rcclx",
        "mccl",
        "hccl",
        "mpi",
        "ucc",
        "c10d",
        "pycomms",
        "torchcomms",
    ]
)

DESCRIPTION = ("profiling_name", "input_sizes", "output_sizes", "input_dtypes", "output_dtypes")
"""The fields of an entry that say what was asked for."""


def writer_of(prefix: str) -> str:
    """``gloo``, of ``gloo:all_reduce``; torch's hook signs as c10d."""
    return _WRITERS.get(prefix, prefix)


class Table:
    """The signatures and sites of one dump."""

    def __init__(self) -> None:
        self.signatures: list[Signature] = []
        self.sites: list[Site] = [UNKNOWN_SITE]
        self.prefixes: list[str] = []
        self._prefixes: list[int] = []  # of each signature
        self._indices: dict[bytes, int] = {}

    def signature_indices(self, columns: Sequence[Sequence[Any]]) -> list[int]:
        """The signature of each entry, of the fields of DESCRIPTION and what our own dumps add, or None."""
        known = self._indices
        indices = []
        for fields in zip(*columns, strict=True):
            key = marshal.dumps(fields, 2)
            index = known.get(key)
            if index is None:
                index = known[key] = self._add(*fields)
            indices.append(index)
        return indices

    def _add(self, name: str, inputs: Any, outputs: Any, in_types: Any, out_types: Any, extra: Any) -> int:
        prefix, _, rest = str(name).rpartition(":")
        words = rest.split(" ", 1)
        if prefix not in self.prefixes:
            self.prefixes.append(prefix)
        self._prefixes.append(self.prefixes.index(prefix))
        kind = _KINDS.get(words[0], words[0])
        self.signatures.append(
            Signature(
                kind=kind,
                peer=_peer(words[1]) if len(words) > 1 else UNKNOWN_RANK,
                input_sizes=_shapes(inputs),
                output_sizes=_shapes(outputs),
                input_dtypes=tuple(map(str, in_types)),
                output_dtypes=tuple(map(str, out_types)),
                **_extra(extra),
            )
        )
        return len(self.signatures) - 1

    def site_indices(self, frames: Sequence[Any]) -> list[int]:
        """The call site of each traceback. Frames are shared within a dump: their identity is enough to know one."""
        by_frames: dict[tuple[int, ...], int] = {}
        by_site: dict[Site, int] = {UNKNOWN_SITE: 0}
        indices = []
        for stack in frames:
            if not stack:
                indices.append(0)
                continue
            key = tuple(map(id, stack))
            index = by_frames.get(key)
            if index is None:
                site = _site(stack)
                index = by_frames[key] = by_site.setdefault(site, len(by_site))
                if index == len(self.sites):
                    self.sites.append(site)
            indices.append(index)
        return indices

    def prefix_of(self, signatures: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        prefixes: npt.NDArray[np.int64] = np.array(self._prefixes, np.int64)[signatures]
        return prefixes

    def is_p2p(self, signatures: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        return self._where(frozenset({"send", "recv"}), signatures)

    def closes(self, signatures: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Entries that stand for all those issued together with them."""
        return self._where(_CLOSING, signatures)

    def _where(self, kinds: frozenset[str], signatures: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        found: npt.NDArray[np.bool_] = np.array([one.kind in kinds for one in self.signatures], bool)[signatures]
        return found

    def warnings(self) -> list[str]:
        unknown = sorted({one.kind for one in self.signatures} - _KNOWN)
        strange = sorted(set(self.prefixes) - _BACKENDS)
        said = [f"unknown operations, compared by name only: {', '.join(unknown)[:200]}"] if unknown else []
        return said + ([f"unknown backend: {', '.join(map(repr, strange))[:200]}"] if strange else [])


def _extra(given: Any) -> dict[str, Any]:
    """What our own dumps say of an operation in addition to torch's fields."""
    if not isinstance(given, dict):
        return {}
    kept = {
        name: given[name]
        for name, kind in (("reduction", str), ("root", int), ("tag", int))
        if isinstance(given.get(name), kind)
    }
    kept.update({name: tuple(map(int, given[name])) for name in ("input_splits", "output_splits") if name in given})
    return kept


def _shapes(sizes: Any) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, shape)) for shape in sizes or ())


def _peer(arrow: str) -> int:
    """The other side in ``0->1`` or ``1<-0``."""
    match = re.fullmatch(r"(\d{1,9})(?:->|<-)(\d{1,9})", arrow)
    return int(match.group(2)) if match else UNKNOWN_RANK


# Below the user's own code: torch, this package, and what wraps functions for them.
_NOT_THE_USERS = re.compile(
    r"(^|/)(site|dist)-packages/(torch|pycomms)/|(^|/)torch/(distributed|nn|utils|autograd|optim|cuda|fx|_\w+)/"
    r"|(^|/)(typing_extensions|contextlib|functools)\.py$|\.(cpp|cc|h|cu|so)$|^(\?\?)?$"
)


def _site(stack: Sequence[Any]) -> Site:
    frames = tuple(
        (str(frame.get("filename", "")), int(frame.get("line", 0)), str(frame.get("name", "")))
        for frame in stack
        if isinstance(frame, dict)
    )
    for file, line, function in frames:
        if not _NOT_THE_USERS.search(file):
            return Site(file=file, line=line, function=function, stack=frames)
    return Site(file=frames[0][0], line=frames[0][1], function=frames[0][2], stack=frames) if frames else UNKNOWN_SITE
