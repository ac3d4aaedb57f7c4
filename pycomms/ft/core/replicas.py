"""Jobs whose model is sharded: members with neighbouring slots hold a part each, and train only together.

Slot s is shard s % shards of replica s // shards. A replica of which a part is missing waits, and so do newcomers until
their replica is whole; they are in the epoch, but not in its group. What they hold counts: a state is there as long as
of each shard some member has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pycomms.ft.core import recovery
from pycomms.ft.core.messages import Seat, Standing


@dataclass(frozen=True, kw_only=True)
class Lack:
    """A state of which members have a part at most.

    Attributes:
        is_lost: nothing that could come brings the rest, but a checkpoint.
        reason: for people.
    """

    is_lost: bool
    reason: str


def lack(seats: Sequence[Seat], shards: int) -> Lack | None:
    """What keeps members from going on with what they have; None: nothing, or nobody has begun."""
    standings = {seat.position.standing for seat in seats}
    if not _has_begun(seats):
        return Lack(is_lost=True, reason="nobody has a whole state") if Standing.HOLLOW in standings else None
    found = recovery.plan(seats)
    held = {seats[rank].slot % shards for rank in found.sources}
    missing = [shard for shard in range(shards) if shard not in held]
    if not missing:
        return None
    words = f"nobody has shard {', '.join(map(str, missing))} of {shards} of it"
    if Standing.TRAINED in standings:
        return Lack(is_lost=True, reason=f"step {found.base} is the last that was committed, and {words}")
    return Lack(is_lost=False, reason=f"step {found.base} is in a checkpoint, and {words}")


def plan(seats: Sequence[Seat], shards: int) -> recovery.Plan:
    """As :func:`recovery.plan`, with sources of every shard where nobody has trained.

    Raises:
        recovery.NothingToRestoreFromError: nobody has a shard of what others have trained.
    """
    found = recovery.plan(seats)
    if _has_begun(seats):
        lacking = lack(seats, shards)
        if lacking is not None and lacking.is_lost:
            raise recovery.NothingToRestoreFromError(
                f"{lacking.reason}: the last whole state is in a checkpoint, if any"
            )
        return found
    fresh = [rank for rank, seat in enumerate(seats) if seat.position.standing is Standing.FRESH]
    whole = [fresh[one] for one in _whole([seats[rank] for rank in fresh], shards)]
    if not whole:
        return found
    sources = tuple(whole[:shards])
    return replace(
        found,
        sources=sources,
        restoring=tuple(rank for rank in range(len(seats)) if rank not in sources),
        reason=f"nobody has trained yet: all start from the state of replica {seats[sources[0]].slot // shards}",
    )


def chosen(seats: Sequence[Seat], shards: int, min_ranks: int) -> tuple[int, ...]:
    """Ranks of those who train in this epoch, in order; none: all wait for others.

    They are the members of whole replicas, if these are enough and can have the whole state. Raises as :func:`plan`.
    """
    sources = plan(seats, shards).sources
    whole = _whole(seats, shards)
    held = {seats[rank].slot % shards for rank in sources if rank in whole}
    # Who is in fewer than it wants was told so by the coordinator: others are done.
    if len(held) < shards or len(whole) < min(min_ranks, len(seats)):
        return ()
    return tuple(whole)


def _has_begun(seats: Sequence[Seat]) -> bool:
    return any(seat.position.standing in (Standing.TRAINED, Standing.LOADED) for seat in seats)


def _whole(seats: Sequence[Seat], shards: int) -> list[int]:
    present = [0] * (1 + max((seat.slot for seat in seats), default=0) // shards)
    for seat in seats:
        present[seat.slot // shards] += 1
    return [rank for rank, seat in enumerate(seats) if present[seat.slot // shards] == shards]
