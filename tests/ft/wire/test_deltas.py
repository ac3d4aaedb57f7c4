"""A Form told as a difference is the same Form, or is known not to be; its size grows with what has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings

from pycomms.ft.core.messages import EpochId, Form, MemberId, Position, Seat, Standing
from pycomms.ft.wire import FormDelta, decode, delta, digest, encode, whole

from .strategies import forms, successions


@given(successions())
@settings(max_examples=50, deadline=None)
def test_the_difference_gives_the_form_back(pair: tuple[Form, Form]) -> None:
    before, after = pair
    difference = delta(before, after)
    assert difference is not None
    told = decode(encode(difference)).message
    assert isinstance(told, FormDelta)
    assert whole(before, told) == after


@given(successions(), forms)
@settings(max_examples=50, deadline=None)
def test_against_another_epoch_there_is_none(pair: tuple[Form, Form], other: Form) -> None:
    before, after = pair
    difference = delta(before, after)
    assert difference is not None
    assert whole(None, difference) is None
    if other.epoch != before.epoch:
        assert whole(other, difference) is None
        assert delta(other, after) is None


def job(size: int, epoch: EpochId, *, uuid: int, step: int) -> Form:
    seats = tuple(
        Seat(
            member=MemberId(f"host-{slot // 8:04}", f"{slot:016x}"),
            slot=slot,
            handle=f"nccl2:1:{slot:032x}:{slot}:{uuid}:10.0.{slot // 256}.{slot % 256}:{40000 + slot}",
            position=Position(committed=step, standing=Standing.LOADED),
        )
        for slot in range(size)
    )
    return Form(epoch=epoch, previous=None, seats=seats)


def successor(before: Form, size: int) -> Form:
    """Slot 5 has died and its place is taken."""
    after = job(size, EpochId(7, 2), uuid=before.epoch.uuid, step=41)
    newcomer = replace(after.seats[5], member=MemberId("host-0000", "new"), handle="nccl2:1:new:0:-1:10.0.0.5:1")
    return replace(after, previous=before.epoch, seats=(*after.seats[:5], newcomer, *after.seats[6:]))


def test_the_size_does_not_grow_with_the_job() -> None:
    sizes = []
    for size in (80, 8000):
        before = job(size, EpochId(7, 1), uuid=-1, step=40)
        difference = delta(before, successor(before, size))
        assert difference is not None
        sizes.append(len(encode(difference)))
    assert sizes[0] == pytest.approx(sizes[1], abs=8)
    assert sizes[1] < 300


def test_a_base_that_differs_in_anything_is_noticed() -> None:
    before = job(16, EpochId(7, 1), uuid=-1, step=40)
    difference = delta(before, successor(before, 16))
    assert difference is not None
    strange = replace(before.seats[3], handle=before.seats[3].handle.replace("10.0", "10.1"))
    assert whole(replace(before, seats=(*before.seats[:3], strange, *before.seats[4:])), difference) is None
    assert whole(replace(before, seats=before.seats[1:]), difference) is None
    assert whole(before, replace(difference, gone=(1,))) is None


@settings(suppress_health_check=[HealthCheck.too_slow])  # two large messages are drawn: slow on a busy machine
@given(forms, forms)
def test_digests_differ(one: Form, other: Form) -> None:
    same = (one.epoch, one.seats) == (other.epoch, other.seats)
    assert (digest(one.epoch, one.seats) == digest(other.epoch, other.seats)) == same
