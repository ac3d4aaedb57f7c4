"""A Form as its difference to the one before, and back. Pure functions.

What a survivor's handle is in the next epoch follows from its seat in the last one: nonce and address stay, rank and
uuid are those of the last one. Where it is something else the seat is told whole. The digest proves that both sides
mean the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from pycomms.ft.core.messages import EpochId, Form, Position, Seat
from pycomms.ft.wire.envelope import FormDelta


def digest(epoch: EpochId, seats: Iterable[Seat]) -> bytes:
    """16 bytes that differ when the epoch or anything of its seats does."""
    state = hashlib.sha256(f"{epoch.boot} {epoch.counter}".encode())
    state.update("".join(map(_line, seats)).encode(errors="surrogatepass"))
    return state.digest()[:16]


def delta(before: Form, form: Form) -> FormDelta | None:
    """The second as a difference to the first; None where there is none: it does not follow, or has an odd order."""
    if form.previous != before.epoch or not form.seats:
        return None
    if not (_in_order(before.seats) and _in_order(form.seats)):
        return None
    usual = Counter(seat.position for seat in form.seats).most_common(1)[0][0]
    expected = _expected(before, usual)
    told = []
    moved = {}
    for seat in form.seats:
        guess = expected.pop(seat.slot, None)
        if guess is None or guess.member != seat.member or guess.handle != seat.handle:
            told.append(seat)
        elif seat.position != usual:
            moved[seat.slot] = seat.position
    return FormDelta(
        epoch=form.epoch,
        previous=before.epoch,
        digest=digest(form.epoch, form.seats),
        gone=tuple(expected),
        seats=tuple(told),
        usual=usual,
        moved=moved,
        died=form.died,
        joined=form.joined,
        reason=form.reason,
    )


def whole(before: Form | None, difference: FormDelta) -> Form | None:
    """The Form that the difference means; None: it is not against this one, or the digest says something else."""
    if before is None or before.epoch != difference.previous:
        return None
    seats = _expected(before, difference.usual)
    for slot in difference.gone:
        seats.pop(slot, None)
    for slot, position in difference.moved.items():
        if slot in seats:
            seats[slot] = replace(seats[slot], position=position)
    seats.update((seat.slot, seat) for seat in difference.seats)
    ordered = tuple(seats[slot] for slot in sorted(seats))
    if digest(difference.epoch, ordered) != difference.digest:
        return None
    return Form(
        epoch=difference.epoch,
        previous=difference.previous,
        seats=ordered,
        died=difference.died,
        joined=difference.joined,
        reason=difference.reason,
    )


def _expected(before: Form, usual: Position) -> dict[int, Seat]:
    """The seats of the epoch after this one if nobody comes or goes, by slot."""
    uuid = str(before.epoch.uuid)
    return {
        seat.slot: Seat(
            member=seat.member, slot=seat.slot, handle=_next_handle(seat.handle, rank, uuid), position=usual
        )
        for rank, seat in enumerate(before.seats)
    }


def _next_handle(handle: str, rank: int, uuid: str) -> str:
    """``nccl2:<format>:<nonce>:<rank>:<uuid>:<address>``: of a group that has made the epoch in between."""
    parts = handle.split(":", 5)
    if len(parts) != 6 or parts[0] != "nccl2":
        return handle
    return ":".join((*parts[:3], str(rank), uuid, parts[5]))


def _in_order(seats: tuple[Seat, ...]) -> bool:
    return all(one.slot < other.slot for one, other in pairwise(seats))


def _line(seat: Seat) -> str:
    """Texts are told with their lengths: no two seats have the same line."""
    host, nonce = seat.member
    where = seat.position
    return (
        f"\n{seat.slot} {where.committed} {where.in_doubt} {where.standing.value} "
        f"{len(host)} {len(nonce)} {len(seat.handle)} {host}{nonce}{seat.handle}"
    )
