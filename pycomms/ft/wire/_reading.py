"""Each protobuf into its message, strictly: a field that is missing or makes no sense is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pycomms.ft.core.messages import (
    Announce,
    Beat,
    Change,
    Died,
    EpochId,
    Evict,
    Form,
    Leaving,
    MemberId,
    Position,
    Progress,
    Ready,
    Refused,
    Seat,
    Settled,
    Standing,
    Teach,
    Verdict,
)
from pycomms.ft.wire._launch import read_job, read_report
from pycomms.ft.wire._writing import STANDINGS, VERDICTS
from pycomms.ft.wire.checks import COUNT, HANDLE, HOST, NONCE, ROSTER, SLOTS, WORDS, amount, below, text
from pycomms.ft.wire.envelope import AnnounceAgain, FormDelta, Hello, Message, SendWhole, Welcome
from pycomms.ft.wire.errors import WireError

_STANDINGS: dict[int, Standing] = {number: standing for standing, number in STANDINGS.items()}
_VERDICTS: dict[int, Verdict] = {number: verdict for verdict, number in VERDICTS.items()}


def _present(given: Any, field: str, where: str) -> Any:
    if not given.HasField(field):
        raise WireError(f"{where}.{field}", "missing", "a value")
    return getattr(given, field)


def _chosen(given: int, field: str, choices: Mapping[int, Any]) -> Any:
    if given not in choices:
        raise WireError(field, given, " or ".join(map(str, choices)))
    return choices[given]


def _epoch(given: Any, where: str, field: str = "epoch") -> EpochId:
    found = _present(given, field, where)
    return EpochId(
        below(found.boot, f"{where}.{field}.boot", COUNT), below(found.counter, f"{where}.{field}.counter", COUNT)
    )


def _epoch_or_none(given: Any, where: str, field: str) -> EpochId | None:
    return _epoch(given, where, field) if given.HasField(field) else None


def _id(found: Any, where: str) -> MemberId:
    return MemberId(text(found.host, f"{where}.host", HOST), text(found.nonce, f"{where}.nonce", NONCE))


def _member(given: Any, where: str) -> MemberId:
    return _id(_present(given, "member", where), f"{where}.member")


def _members(given: Iterable[Any], where: str) -> tuple[MemberId, ...]:
    return tuple(_id(found, f"{where}[{at}]") for at, found in enumerate(given))


def _position(given: Any, where: str, field: str = "position") -> Position:
    found = _present(given, field, where)
    name = f"{where}.{field}"
    in_doubt = below(found.in_doubt, f"{name}.in_doubt", COUNT) if found.HasField("in_doubt") else None
    committed = below(found.committed, f"{name}.committed", COUNT)
    if in_doubt is not None and in_doubt != committed + 1:
        raise WireError(f"{name}.in_doubt", in_doubt, f"the step behind the one committed, {committed + 1}")
    standing = _chosen(found.standing, f"{name}.standing", _STANDINGS)
    return Position(committed=committed, in_doubt=in_doubt, standing=standing)


def _seats(given: Iterable[Any], where: str) -> tuple[Seat, ...]:
    seats = tuple(_seat(found, f"{where}[{at}]") for at, found in enumerate(given))
    if len({seat.slot for seat in seats}) != len(seats):
        raise WireError(where, "two seats of one slot", "a slot of its own for each")
    return seats


def _seat(found: Any, where: str) -> Seat:
    return Seat(
        member=_member(found, where),
        slot=below(found.slot, f"{where}.slot", SLOTS),
        handle=text(found.handle, f"{where}.handle", HANDLE),
        position=_position(found, where),
    )


def _words(given: str, field: str) -> str:
    return text(given, field, WORDS, may_be_empty=True)


def _deaths(given: Iterable[Any], where: str) -> dict[MemberId, str]:
    return {_member(found, f"{where}[{at}]"): _words(found.how, f"{where}[{at}].how") for at, found in enumerate(given)}


def _hello(given: Any, where: str) -> Hello:
    return Hello(
        host=text(given.host, f"{where}.host", HOST),
        instance=text(given.instance, f"{where}.instance", NONCE),
        nonce=text(given.nonce, f"{where}.nonce", NONCE, may_be_empty=True),
        version=below(given.version, f"{where}.version", 1 << 32, least=1),
        heard=below(given.heard, f"{where}.heard", COUNT),
    )


def _form_delta(given: Any, where: str) -> FormDelta:
    if len(given.digest) != 16:
        raise WireError(f"{where}.digest", f"{len(given.digest)} bytes", "16 bytes")
    return FormDelta(
        epoch=_epoch(given, where),
        previous=_epoch(given, where, "previous"),
        digest=given.digest,
        gone=tuple(below(slot, f"{where}.gone", SLOTS) for slot in given.gone),
        seats=_seats(given.seats, f"{where}.seats"),
        usual=_position(given, where, "usual"),
        moved={
            below(found.slot, f"{where}.moved[{at}].slot", SLOTS): _position(found, f"{where}.moved[{at}]")
            for at, found in enumerate(given.moved)
        },
        died=_deaths(given.died, f"{where}.died"),
        joined=_members(given.joined, f"{where}.joined"),
        reason=_words(given.reason, f"{where}.reason"),
    )


def _announce(given: Any, where: str) -> Announce:
    return Announce(
        member=_member(given, where),
        slot=below(given.slot, f"{where}.slot", SLOTS) if given.HasField("slot") else None,
        pid=given.pid,
        handle=text(given.handle, f"{where}.handle", HANDLE),
        position=_position(given, where),
        min_ranks=below(given.min_ranks, f"{where}.min_ranks", SLOTS + 1, least=1),
        epoch=_epoch_or_none(given, where, "epoch"),
        roster=text(given.roster, f"{where}.roster", ROSTER, may_be_empty=True),
        seats=_seats(given.seats, f"{where}.seats"),
    )


def _ready(given: Any, where: str) -> Ready:
    return Ready(
        member=_member(given, where),
        epoch=_epoch(given, where),
        handle=text(given.handle, f"{where}.handle", HANDLE),
        position=_position(given, where),
        suspects=_members(given.suspects, f"{where}.suspects"),
        reason=_words(given.reason, f"{where}.reason"),
    )


def _settled(given: Any, where: str) -> Settled:
    return Settled(
        member=_member(given, where), epoch=_epoch(given, where), seconds=amount(given.seconds, f"{where}.seconds")
    )


def _progress(given: Any, where: str) -> Progress:
    return Progress(
        member=_member(given, where),
        committed=below(given.committed, f"{where}.committed", COUNT),
        steps_per_second=amount(given.steps_per_second, f"{where}.steps_per_second"),
    )


def _change(given: Any, where: str) -> Change:
    return Change(
        epoch=_epoch(given, where),
        died=_deaths(given.died, f"{where}.died"),
        joining=_members(given.joining, f"{where}.joining"),
        broken=given.broken,
        reason=_words(given.reason, f"{where}.reason"),
    )


def _form(given: Any, where: str) -> Form:
    if not given.seats:
        raise WireError(f"{where}.seats", "none", "one or more")
    return Form(
        epoch=_epoch(given, where),
        previous=_epoch_or_none(given, where, "previous"),
        seats=_seats(given.seats, f"{where}.seats"),
        died=_deaths(given.died, f"{where}.died"),
        joined=_members(given.joined, f"{where}.joined"),
        reason=_words(given.reason, f"{where}.reason"),
    )


def _refused(given: Any, where: str) -> Refused:
    return Refused(
        member=_member(given, where),
        verdict=_chosen(given.verdict, f"{where}.verdict", _VERDICTS),
        reason=_words(given.reason, f"{where}.reason"),
    )


def _leaving(given: Any, where: str) -> Leaving:
    return Leaving(member=_member(given, where), reason=_words(given.reason, f"{where}.reason"))


def _died(given: Any, where: str) -> Died:
    return Died(member=_member(given, where), how=_words(given.how, f"{where}.how"))


def _evict(given: Any, where: str) -> Evict:
    return Evict(member=_member(given, where), reason=_words(given.reason, f"{where}.reason"))


READERS: Mapping[str, Callable[[Any, str], Message]] = {
    "hello": _hello,
    "welcome": lambda given, where: Welcome(boot=below(given.boot, f"{where}.boot", COUNT)),
    "announce_again": lambda given, where: AnnounceAgain(
        reason=_words(given.reason, f"{where}.reason"), with_seats=given.with_seats
    ),
    "send_whole": lambda given, where: SendWhole(member=_member(given, where), epoch=_epoch(given, where)),
    "form_delta": _form_delta,
    "announce": _announce,
    "ready": _ready,
    "settled": _settled,
    "progress": _progress,
    "leaving": _leaving,
    "died": _died,
    "beat": lambda given, where: Beat(host=text(given.host, f"{where}.host", HOST)),
    "change": _change,
    "form": _form,
    "refused": _refused,
    "evict": _evict,
    "teach": lambda given, where: Teach(epoch=_epoch(given, where)),
    "host_report": read_report,
    "job_state": read_job,
}
