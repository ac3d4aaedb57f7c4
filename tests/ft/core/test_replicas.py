"""Who trains where the model is sharded, and who has what."""

from __future__ import annotations

import pytest

from pycomms.ft.core import recovery, replicas
from pycomms.ft.core.messages import MemberId, Position, Seat, Standing

FRESH = Position()


def at(committed: int, in_doubt: int | None = None) -> Position:
    return Position(committed=committed, in_doubt=in_doubt, standing=Standing.TRAINED)


def seats(**positions: Position) -> list[Seat]:
    """By slot: s0=..., s1=..."""
    return [
        Seat(member=MemberId("", name), slot=int(name[1:]), handle="", position=position)
        for name, position in positions.items()
    ]


def test_a_replica_of_which_a_part_is_missing_waits() -> None:
    some = seats(s0=at(5), s2=at(5), s3=at(5))
    assert replicas.chosen(some, 2, 1) == (1, 2)
    assert replicas.plan(some, 2).sources == (0, 1, 2)


def test_all_wait_where_no_replica_is_whole_or_too_few_are() -> None:
    assert replicas.chosen(seats(s0=at(5), s3=at(5)), 2, 1) == ()
    some = seats(s0=at(5), s1=at(5), s2=at(5), s4=at(5))
    assert replicas.chosen(some, 2, 4) == ()
    assert replicas.chosen(some[:3], 2, 4) == ()  # they would be 3 if others were not done
    assert replicas.chosen(some[:2], 2, 4) == (0, 1)


def test_a_whole_replica_waits_for_one_who_has_what_it_needs() -> None:
    """Of three replicas slots 0 and 3 live on, and slot 1 is taken again: shard 1 is with slot 3."""
    assert replicas.chosen(seats(s0=at(5), s1=FRESH, s3=at(5)), 2, 1) == ()
    some = seats(s0=at(5), s1=FRESH, s2=FRESH, s3=at(5))
    assert replicas.chosen(some, 2, 1) == (0, 1, 2, 3)
    assert replicas.plan(some, 2).restoring == (1, 2)


def test_what_one_of_a_broken_replica_has_committed_the_others_commit() -> None:
    plan = replicas.plan(seats(s0=at(5), s2=at(4, 5), s3=at(4, 5)), 2)
    assert (plan.base, plan.committing) == (5, (1, 2))


def test_who_has_waited_restores_and_does_not_commit() -> None:
    plan = replicas.plan(seats(s0=at(4), s1=FRESH, s2=at(7), s3=at(7)), 2)
    assert (plan.base, plan.sources, plan.restoring, plan.committing) == (7, (2, 3), (0, 1), ())


def test_a_shard_that_nobody_has() -> None:
    with pytest.raises(recovery.NothingToRestoreFromError, match="nobody has shard 1 of 2"):
        replicas.plan(seats(s0=at(5), s1=FRESH, s2=at(5)), 2)


HOLLOW = Position(committed=5, standing=Standing.HOLLOW)


def loaded(step: int) -> Position:
    return Position(committed=step, standing=Standing.LOADED)


def test_who_lacks_a_shard_is_told_whether_it_may_still_come() -> None:
    assert replicas.lack(seats(s0=FRESH, s1=FRESH), 2) is None
    assert replicas.lack(seats(s0=at(5), s3=at(4, 5)), 2) is None
    lost = replicas.lack(seats(s0=at(5), s1=loaded(3), s2=at(5)), 2)
    assert lost is not None
    assert lost.is_lost
    assert lost.reason == "step 5 is the last that was committed, and nobody has shard 1 of 2 of it"
    half = replicas.lack(seats(s0=HOLLOW, s1=FRESH), 2)
    assert half is not None
    assert half.is_lost
    older = replicas.lack(seats(s0=loaded(6), s1=loaded(3)), 2)
    assert older is not None
    assert not older.is_lost
    assert replicas.lack(seats(s0=loaded(6), s1=loaded(3), s3=loaded(6)), 2) is None


def test_who_is_half_restored_is_no_source_for_those_who_begin() -> None:
    some = seats(s0=HOLLOW, s1=HOLLOW, s2=FRESH, s3=FRESH)
    assert replicas.plan(some, 2).sources == (2, 3)
    assert replicas.chosen(some, 2, 1) == (0, 1, 2, 3)
    assert replicas.chosen(seats(s0=HOLLOW, s1=FRESH), 2, 1) == ()


def test_a_checkpoint_that_not_all_have_yet_is_waited_for() -> None:
    assert replicas.chosen(seats(s0=loaded(9)), 2, 1) == ()
    assert replicas.chosen(seats(s0=loaded(9), s1=loaded(9)), 2, 1) == (0, 1)


def test_the_first_whole_replica_is_where_all_begin() -> None:
    some = seats(s1=FRESH, s2=FRESH, s3=FRESH, s4=FRESH, s5=FRESH)
    assert replicas.chosen(some, 2, 1) == (1, 2, 3, 4)
    plan = replicas.plan(some, 2)
    assert (plan.sources, plan.restoring) == ((1, 2), (0, 3, 4))


def test_one_shard_is_no_shard() -> None:
    some = seats(s0=at(5), s1=FRESH, s2=at(4, 5))
    assert replicas.chosen(some, 1, 1) == (0, 1, 2)
    assert replicas.plan(some, 1) == recovery.plan(some)
