"""What the members of a new epoch do before they train on: a function of where each of them is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pycomms.ft.core.messages import Position, Seat, Standing


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Ranks are those of the new epoch: positions among its seats.

    Attributes:
        base: the step that all have committed when the plan is done.
        committing: ranks that commit ``base`` now: another member has, so they have all that it takes.
        discarding: ranks that give up a step that nobody has committed; it is done again.
        sources: ranks that have the state of ``base`` once ``committing`` have committed. Never empty.
        restoring: ranks that fetch it from the sources.
        reason: for people.
    """

    base: int
    committing: tuple[int, ...]
    discarding: tuple[int, ...]
    sources: tuple[int, ...]
    restoring: tuple[int, ...]
    reason: str


class NothingToRestoreFromError(Exception):
    """All members are half restored: only a checkpoint helps."""


def plan(seats: Sequence[Seat]) -> Plan:
    """The plan of an epoch. Every member computes it, and all come to the same.

    A step that one survivor has committed was voted for by all, so each of the others that took part is in doubt about
    it and holds its reduced gradients: they commit it too, and nothing is lost. A step that no survivor has committed
    is not committed by anybody, whatever a dead member has done: a checkpoint of it does not count either.

    Raises:
        NothingToRestoreFromError: no member has a whole state.
    """
    positions = [seat.position for seat in seats]
    whole = _ranks_with(Standing.TRAINED, positions) or _ranks_with(Standing.LOADED, positions)
    if not whole:
        return _first(positions)
    base = max(positions[rank].committed for rank in whole)
    committing = tuple(rank for rank in whole if positions[rank].in_doubt == base)
    sources = tuple(rank for rank in whole if positions[rank].committed == base or rank in committing)
    discarding = tuple(rank for rank in sources if positions[rank].in_doubt == base + 1)
    restoring = tuple(rank for rank in range(len(seats)) if rank not in sources)
    return Plan(
        base=base,
        committing=committing,
        discarding=discarding,
        sources=sources,
        restoring=restoring,
        reason=_words(base, committing, discarding, sources, restoring),
    )


def has_lost_all(seats: Sequence[Seat], *, is_first_epoch: bool) -> bool:
    """There were members before, and none of these has trained with them."""
    return not is_first_epoch and all(seat.position.standing is not Standing.TRAINED for seat in seats)


def _first(positions: Sequence[Position]) -> Plan:
    """Nobody has trained: all start from the state of the first that has one."""
    fresh = _ranks_with(Standing.FRESH, positions)
    if not fresh:
        raise NothingToRestoreFromError(
            "every member is half restored: the last whole state is in a checkpoint, if any"
        )
    source = fresh[0]
    restoring = tuple(rank for rank in range(len(positions)) if rank != source)
    return Plan(
        base=positions[source].committed,
        committing=(),
        discarding=(),
        sources=(source,),
        restoring=restoring,
        reason=f"nobody has trained yet: all start from the state of rank {source}",
    )


def _ranks_with(standing: Standing, positions: Sequence[Position]) -> list[int]:
    return [rank for rank, position in enumerate(positions) if position.standing is standing]


def _words(
    base: int,
    committing: tuple[int, ...],
    discarding: tuple[int, ...],
    sources: tuple[int, ...],
    restoring: tuple[int, ...],
) -> str:
    parts = [f"base is step {base}, held by {len(sources)}"]
    if committing:
        parts.append(f"ranks {_listed(committing)} commit it as others have")
    if discarding:
        parts.append(f"step {base + 1} is done again: no survivor has committed it")
    if restoring:
        parts.append(f"ranks {_listed(restoring)} restore it")
    return "; ".join(parts)


def _listed(ranks: tuple[int, ...]) -> str:
    return ", ".join(map(str, ranks))
