"""What a collective can raise::

    torch.distributed.DistBackendError
    └── PycommsError
        ├── CollectiveMismatch    the ranks disagree about what the next operation is
        ├── PeerFailure           a member of the group died or left
        ├── CollectiveTimeout     a deadline passed
        ├── CommunicatorRevoked   a member gave the communicator up for all
        ├── CommunicatorClosed    this process closed or aborted it
        ├── Interrupted           Ctrl-C ended an operation halfway, on this rank or on another
        ├── NotFinite             NaN or an infinity in the data, in a group that looks for them
        └── EngineError           the engine or the operating system refused something

Wrong arguments raise ValueError, TypeError or NotImplementedError on the rank that gave them, before anything is sent.
The first error of a communicator is kept: every later operation of the group raises it again. NotFinite is not one of
these: the group goes on.
"""

from __future__ import annotations

from typing import Any

from torch.distributed import DistBackendError

__all__ = [
    "CollectiveMismatch",
    "CollectiveTimeout",
    "CommunicatorClosed",
    "CommunicatorRevoked",
    "EngineError",
    "Interrupted",
    "NotFinite",
    "PeerFailure",
    "PycommsError",
]


class PycommsError(DistBackendError):
    """Base of everything that pycomms raises about a group.

    Attributes:
        ranks: the ranks of the group that the error is about (dead, missing or disagreeing), in ascending order.
        op: name of the operation, such as ``"all_reduce"``.
        seq: its place among the collectives of the group, counted from 1; 0 when it is not known.
        group: name of the group.
        rank: rank of this process in the group.
    """

    def __init__(
        self, message: str, *, ranks: tuple[int, ...] = (), op: str = "", seq: int = 0, group: str = "", rank: int = -1
    ) -> None:
        super().__init__(message)
        self.ranks = ranks
        self.op = op
        self.seq = seq
        self.group = group
        self.rank = rank

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {"ranks": self.ranks, "op": self.op, "seq": self.seq, "group": self.group, "rank": self.rank}
        return _rebuild, (type(self), str(self), fields)


class CollectiveMismatch(PycommsError):
    """The ranks disagree about the kind, size, type, reduction, root or order of an operation."""


class PeerFailure(PycommsError):
    """A member of the group died or left; ``ranks`` names it."""


class CollectiveTimeout(PycommsError):
    """A deadline passed; ``ranks`` names who did not come, where that is known."""


class CommunicatorRevoked(PycommsError):
    """A member gave the communicator up for all."""


class CommunicatorClosed(PycommsError):
    """This process closed or aborted the communicator."""


class Interrupted(PycommsError):
    """Ctrl-C ended an operation halfway, on this rank or on another."""


class NotFinite(PycommsError):
    """The data of an operation holds NaN or an infinity; raised only in groups with ``Options(nan_check=...)``.

    Concerns this operation on this rank: the group is not failed by it.
    """


class EngineError(PycommsError):
    """The engine or the operating system refused something."""


_BY_KIND: dict[str, type[PycommsError]] = {
    "mismatch": CollectiveMismatch,
    "peer_failure": PeerFailure,
    "timeout": CollectiveTimeout,
    "revoked": CommunicatorRevoked,
    "closed": CommunicatorClosed,
    "interrupted": Interrupted,
    "not_finite": NotFinite,
    "system": EngineError,
}


def _rebuild(cls: type[PycommsError], message: str, fields: dict[str, Any]) -> PycommsError:
    return cls(message, **fields)


def _from_native(kind: str, message: str, ranks: list[int], op: str, seq: int, group: str, rank: int) -> PycommsError:
    """Called by the extension: the error for one of its failures."""
    return _BY_KIND.get(kind, EngineError)(message, ranks=tuple(sorted(ranks)), op=op, seq=seq, group=group, rank=rank)
