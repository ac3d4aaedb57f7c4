"""Every message comes back as it went; nothing else comes through, and the error says which field is wrong."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomms.ft.core.messages import Announce, EpochId, Evict, Form, MemberId, Position, Ready, Seat, Settled
from pycomms.ft.wire import Envelope, Message, WireError, decode, encode
from pycomms.ft.wire import messages_pb2 as pb
from pycomms.ft.wire.codec import encode_to
from pycomms.ft.wire.framing import LIMIT

from .strategies import messages, texts

ME = MemberId("north", "a1")


@given(messages, st.lists(texts(10), max_size=3).map(tuple))
@settings(max_examples=200, deadline=None)
def test_every_message_comes_back(message: Message, to: tuple[str, ...]) -> None:
    assert decode(encode(message, to)) == Envelope(message=message, to=to)
    assert decode(encode_to(to) + encode(message)) == Envelope(message=message, to=to)


@given(st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_are_a_message_or_a_wire_error(data: bytes) -> None:
    with suppress(WireError):
        decode(data)


@given(messages, st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_damaged_messages_are_a_message_or_a_wire_error(message: Message, chance: random.Random) -> None:
    data = bytearray(encode(message))
    for _ in range(chance.randint(1, 4)):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    with suppress(WireError):
        decode(bytes(data[: chance.randint(0, len(data))]))


def seat(**given: Any) -> pb.Seat:
    fields: dict[str, Any] = {
        "member": pb.Member(host="north", nonce="a1"),
        "slot": 0,
        "handle": "h",
        "position": pb.Position(standing=pb.FRESH),
    }
    return pb.Seat(**{**fields, **given})


FORM: dict[str, Any] = {"epoch": pb.Epoch(boot=1, counter=1)}
ANNOUNCE: dict[str, Any] = {
    "member": pb.Member(host="h", nonce="n"),
    "handle": "h",
    "position": pb.Position(standing=pb.FRESH),
}


@pytest.mark.parametrize(
    "envelope, field",
    [
        (pb.Envelope(), "envelope.message"),
        (pb.Envelope(to=[""], beat=pb.Beat(host="h")), "to"),
        (pb.Envelope(to=["n" * 65], beat=pb.Beat(host="h")), "to"),
        (pb.Envelope(beat=pb.Beat()), "beat.host"),
        (pb.Envelope(beat=pb.Beat(host="x" * 256)), "beat.host"),
        (pb.Envelope(hello=pb.Hello(host="h", instance="i")), "hello.version"),
        (pb.Envelope(died=pb.Died()), "died.member"),
        (pb.Envelope(died=pb.Died(member=pb.Member(host="h"))), "died.member.nonce"),
        (pb.Envelope(leaving=pb.Leaving(member=pb.Member(host="h", nonce="n"), reason="x" * 2049)), "leaving.reason"),
        (pb.Envelope(form=pb.Form(**FORM)), "form.seats"),
        (pb.Envelope(form=pb.Form(seats=[seat()])), "form.epoch"),
        (pb.Envelope(form=pb.Form(**FORM, seats=[seat(), seat(slot=1, handle="")])), "form.seats[1].handle"),
        (pb.Envelope(form=pb.Form(**FORM, seats=[seat(), seat()])), "form.seats"),
        (pb.Envelope(form=pb.Form(**FORM, seats=[seat(slot=2**20)])), "form.seats[0].slot"),
        (pb.Envelope(form=pb.Form(**FORM, seats=[seat(position=pb.Position())])), "form.seats[0].position.standing"),
        (
            pb.Envelope(form=pb.Form(**FORM, seats=[seat(position=pb.Position(standing=pb.FRESH, in_doubt=7))])),
            "form.seats[0].position.in_doubt",
        ),
        (pb.Envelope(announce=pb.Announce(**ANNOUNCE)), "announce.min_ranks"),
        (pb.Envelope(announce=pb.Announce(**ANNOUNCE, min_ranks=1, slot=2**20)), "announce.slot"),
        (pb.Envelope(announce=pb.Announce(**ANNOUNCE, min_ranks=1, epoch=pb.Epoch(boot=2**63))), "announce.epoch.boot"),
        (
            pb.Envelope(settled=pb.Settled(member=pb.Member(host="h", nonce="n"), **FORM, seconds=float("nan"))),
            "settled.seconds",
        ),
        (pb.Envelope(refused=pb.Refused(member=pb.Member(host="h", nonce="n"))), "refused.verdict"),
        (pb.Envelope(form_delta=pb.FormDelta(digest=b"short")), "form_delta.digest"),
    ],
)
def test_the_error_names_the_field(envelope: pb.Envelope, field: str) -> None:
    with pytest.raises(WireError) as raised:
        decode(envelope.SerializeToString())
    assert raised.value.field == field
    assert field in str(raised.value)


def test_too_many_bytes_are_not_looked_at() -> None:
    with pytest.raises(WireError, match="expected up to 4194304"):
        decode(bytes(LIMIT + 1))
    seats = tuple(
        Seat(member=MemberId("h" * 200, str(slot)), slot=slot, handle="x" * 1000, position=Position())
        for slot in range(4000)
    )
    with pytest.raises(WireError, match=r"form is '.* bytes', expected up to 4194304"):
        encode(Form(epoch=EpochId(1, 1), previous=None, seats=seats))


def test_a_long_reason_is_shortened_and_never_in_the_way() -> None:
    reason = "begin " + "x" * 5000 + "\udcff\u00e9\U0001f600" * 500 + " end"
    ready = Ready(member=ME, epoch=EpochId(1, 2), handle="h", position=Position(), reason=reason)
    message = decode(encode(ready)).message
    assert isinstance(message, Ready)
    assert len(message.reason) <= 2048
    assert message.reason.startswith("begin ")
    assert message.reason.endswith(" end")
    assert " [...] " in message.reason


@pytest.mark.parametrize(
    "message, kind",
    [
        (Settled(member=MemberId("\udcff", "a"), epoch=EpochId(1, 1), seconds=0), "settled"),
        (Announce(member=ME, slot=-1, pid=1, handle="h", position=Position()), "announce"),
        (Announce(member=ME, slot=0, pid=1, handle="h", position=Position(committed=2**64)), "announce"),
        (Evict(member=MemberId("h", cast("str", 3)), reason=""), "evict"),
    ],
)
def test_what_no_field_holds_is_not_sent(message: Message, kind: str) -> None:
    with pytest.raises(WireError) as raised:
        encode(message)
    assert raised.value.field == kind


def test_fields_of_a_newer_version_are_skipped() -> None:
    unknown = b"\xa2\x06\x03new"  # field 100, three bytes
    assert decode(encode(Evict(member=ME, reason="r")) + unknown).message == Evict(member=ME, reason="r")
