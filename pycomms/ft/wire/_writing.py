"""Each message into its protobuf. Texts for people are shortened; what is wrong otherwise, protobuf refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pycomms.ft.core.launch import HostReport, JobState
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
from pycomms.ft.wire import messages_pb2 as pb
from pycomms.ft.wire._launch import write_job, write_report
from pycomms.ft.wire.checks import words
from pycomms.ft.wire.envelope import AnnounceAgain, FormDelta, Hello, SendWhole, Welcome

FIELDS: Mapping[type, str] = {
    Hello: "hello",
    Welcome: "welcome",
    AnnounceAgain: "announce_again",
    SendWhole: "send_whole",
    FormDelta: "form_delta",
    Announce: "announce",
    Ready: "ready",
    Settled: "settled",
    Progress: "progress",
    Leaving: "leaving",
    Died: "died",
    Beat: "beat",
    Change: "change",
    Form: "form",
    Refused: "refused",
    Evict: "evict",
    Teach: "teach",
    HostReport: "host_report",
    JobState: "job_state",
}

STANDINGS = {
    Standing.FRESH: pb.FRESH,
    Standing.LOADED: pb.LOADED,
    Standing.TRAINED: pb.TRAINED,
    Standing.HOLLOW: pb.HOLLOW,
}
VERDICTS = {
    Verdict.FULL: pb.FULL,
    Verdict.STALE: pb.STALE,
    Verdict.DUPLICATE: pb.DUPLICATE,
    Verdict.ENDED: pb.ENDED,
}


def _epoch(given: EpochId | None) -> pb.Epoch | None:
    return None if given is None else pb.Epoch(boot=given.boot, counter=given.counter)


def _member(given: MemberId) -> pb.Member:
    return pb.Member(host=given.host, nonce=given.nonce)


def _members(given: tuple[MemberId, ...]) -> list[pb.Member]:
    return [pb.Member(host=host, nonce=nonce) for host, nonce in given]


def _position(given: Position) -> pb.Position:
    return pb.Position(committed=given.committed, in_doubt=given.in_doubt, standing=STANDINGS[given.standing])


def _seats(given: tuple[Seat, ...]) -> list[pb.Seat]:
    return [
        pb.Seat(member=_member(seat.member), slot=seat.slot, handle=seat.handle, position=_position(seat.position))
        for seat in given
    ]


def _deaths(given: Mapping[MemberId, str]) -> list[pb.Death]:
    return [pb.Death(member=_member(member), how=words(how)) for member, how in given.items()]


def _hello(message: Hello) -> pb.Hello:
    return pb.Hello(
        version=message.version,
        host=message.host,
        instance=message.instance,
        nonce=message.nonce,
        heard=message.heard,
    )


def _form_delta(message: FormDelta) -> pb.FormDelta:
    return pb.FormDelta(
        epoch=_epoch(message.epoch),
        previous=_epoch(message.previous),
        digest=message.digest,
        gone=message.gone,
        seats=_seats(message.seats),
        usual=_position(message.usual),
        moved=[pb.Moved(slot=slot, position=_position(where)) for slot, where in message.moved.items()],
        died=_deaths(message.died),
        joined=_members(message.joined),
        reason=words(message.reason),
    )


def _announce(message: Announce) -> pb.Announce:
    return pb.Announce(
        member=_member(message.member),
        slot=message.slot,
        pid=message.pid,
        handle=message.handle,
        position=_position(message.position),
        min_ranks=message.min_ranks,
        epoch=_epoch(message.epoch),
        roster=message.roster,
        seats=_seats(message.seats),
    )


def _ready(message: Ready) -> pb.Ready:
    return pb.Ready(
        member=_member(message.member),
        epoch=_epoch(message.epoch),
        handle=message.handle,
        position=_position(message.position),
        suspects=_members(message.suspects),
        reason=words(message.reason),
    )


def _settled(message: Settled) -> pb.Settled:
    return pb.Settled(member=_member(message.member), epoch=_epoch(message.epoch), seconds=message.seconds)


def _progress(message: Progress) -> pb.Progress:
    return pb.Progress(
        member=_member(message.member), committed=message.committed, steps_per_second=message.steps_per_second
    )


def _change(message: Change) -> pb.Change:
    return pb.Change(
        epoch=_epoch(message.epoch),
        died=_deaths(message.died),
        joining=_members(message.joining),
        broken=message.broken,
        reason=words(message.reason),
    )


def _form(message: Form) -> pb.Form:
    return pb.Form(
        epoch=_epoch(message.epoch),
        previous=_epoch(message.previous),
        seats=_seats(message.seats),
        died=_deaths(message.died),
        joined=_members(message.joined),
        reason=words(message.reason),
    )


def _refused(message: Refused) -> pb.Refused:
    return pb.Refused(member=_member(message.member), verdict=VERDICTS[message.verdict], reason=words(message.reason))


WRITERS: Mapping[type, Callable[[Any], Any]] = {
    Hello: _hello,
    Welcome: lambda message: pb.Welcome(boot=message.boot),
    AnnounceAgain: lambda message: pb.AnnounceAgain(reason=words(message.reason), with_seats=message.with_seats),
    SendWhole: lambda message: pb.SendWhole(member=_member(message.member), epoch=_epoch(message.epoch)),
    FormDelta: _form_delta,
    Announce: _announce,
    Ready: _ready,
    Settled: _settled,
    Progress: _progress,
    Leaving: lambda message: pb.Leaving(member=_member(message.member), reason=words(message.reason)),
    Died: lambda message: pb.Died(member=_member(message.member), how=words(message.how)),
    Beat: lambda message: pb.Beat(host=message.host),
    Change: _change,
    Form: _form,
    Refused: _refused,
    Evict: lambda message: pb.Evict(member=_member(message.member), reason=words(message.reason)),
    Teach: lambda message: pb.Teach(epoch=_epoch(message.epoch)),
    HostReport: write_report,
    JobState: write_job,
}
