"""Who is lost or has come, by what errors and epochs say, and in words for people. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pycomms
from pycomms.ft.core.messages import Form, MemberId, Seat

RECOVERABLE = (
    pycomms.PeerFailure,
    pycomms.CollectiveTimeout,
    pycomms.CommunicatorRevoked,
    pycomms.CommunicatorClosed,
    pycomms.EngineError,
)
"""Errors of a group that other members, and not this program, are the cause of: a regroup mends them."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Why a member stands still."""

    suspects: tuple[MemberId, ...]
    reason: str


def suspects(error: BaseException | None, seats: Sequence[Seat]) -> tuple[MemberId, ...]:
    """Whom an error accuses. seats: of the group that it comes from, by rank."""
    ranks = error.ranks if isinstance(error, (pycomms.PeerFailure, pycomms.CollectiveTimeout)) else ()
    return tuple(seats[rank].member for rank in ranks if rank < len(seats))


def words(form: Form, before: Sequence[Seat]) -> str:
    """What has changed from the epoch before, for people; empty: nobody has died or come."""
    gone = [f"{name_of(member, before)} ended: {how}" for member, how in form.died.items()]
    come = [f"slot {seat.slot} joined" for seat in form.seats if seat.member in form.joined and before]
    return "; ".join(gone + come)


def slots_gone(before: Sequence[Seat], after: Sequence[Seat]) -> list[int]:
    """Slots of members that are not in any more, also where others have taken them."""
    present = {seat.member for seat in after}
    return [seat.slot for seat in before if seat.member not in present]


def name_of(member: MemberId, seats: Sequence[Seat]) -> str:
    """``rank 1 (slot 1)``. seats: where it was."""
    for rank, seat in enumerate(seats):
        if seat.member == member:
            return f"rank {rank} (slot {seat.slot})"
    return f"member {member.nonce}"
