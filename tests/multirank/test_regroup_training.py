"""What is built on a group whose members change: DDP and FSDP2 that were made before, subgroups, callbacks."""

from __future__ import annotations

import pytest

from . import _member_steps as steps
from . import _subgroup_steps as subgroups
from . import _training_steps as training
from ._harness import Ranks
from ._members import Members

pytestmark = [
    pytest.mark.nccl2_only("gloo regroups through a store, and leaves torch's tables as they were"),
    pytest.mark.needs_torch("2.14", "groups that change their size"),
]


@pytest.mark.parametrize("after", [[0, 1], [0, 2, 1], [3, 0, 1], [0, 1, 2, 3]], ids=str)
def test_ddp_goes_on_with_the_average_of_the_new_members(ranks: Ranks, after: list[int]) -> None:
    """Newcomers have trained alone, as their DDP wants: what it agrees on with the others it has agreed on already."""
    with Members(ranks, 4) as members:
        members.init(range(3))
        members.newcomers(3)
        members.ask(range(3), training.make_ddp).values()
        members.ask([3], training.make_ddp).values()
        members.regrouped(after)
        for _ in range(3):
            members.ask(after, training.train_ddp).values()


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "left out"])
@pytest.mark.parametrize("world", [2, 4])
def test_fsdp2_goes_on_with_the_average_of_the_new_members(ranks: Ranks, world: int, kill: bool) -> None:
    """Replicas are what may get lost: each rank has all shards of one."""
    after = [one for one in range(world) if one != 1]
    with Members(ranks, world) as members:
        members.init(range(world))
        members.ask(range(world), training.make_hsdp).values()
        if kill:
            members.kill(1)
        members.regrouped(after)
        for _ in range(3):
            members.ask(after, training.train_hsdp).values()


def test_fsdp2_goes_on_when_the_same_members_regroup(ranks: Ranks) -> None:
    """As after an abort. Each rank has one shard."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.ask(range(3), training.make_fsdp).values()
        members.regrouped(range(3))
        for _ in range(3):
            members.ask(range(3), training.train_fsdp).values()


def _look(members: Members, who: list[int], expected: dict[str, list[int]]) -> None:
    """Each process of `who`, in the order of the new ranks, is in the groups that have its rank, and they work."""
    for rank, number in enumerate(who):
        mine = {name: ranks for name, ranks in expected.items() if rank in ranks}
        members.order([number], subgroups.check_subgroups, mine)
    members.answers(who).values()


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "left out"])
def test_survivors_stay_in_their_subgroups(ranks: Ranks, kill: bool) -> None:
    with Members(ranks, 5) as members:
        members.init(range(5))
        members.ask(range(5), subgroups.make_subgroups).values()
        _look(members, [0, 1, 2, 3, 4], {"all": [0, 1, 2, 3, 4], "even": [0, 2, 4], "odd": [1, 3]})
        if kill:
            members.kill(2)
        members.regrouped([0, 1, 3, 4])
        _look(members, [0, 1, 3, 4], {"all": [0, 1, 2, 3], "even": [0, 3], "odd": [1, 2]})


def test_a_newcomer_takes_the_place_of_the_dead(ranks: Ranks) -> None:
    with Members(ranks, 7) as members:
        members.init(range(5))
        members.ask(range(5), subgroups.make_subgroups).values()
        members.kill(2)
        members.newcomers(5, 6)
        members.regrouped([0, 1, 5, 3, 4, 6])
        after = {"all": [0, 1, 2, 3, 4, 5], "even": [0, 2, 4], "odd": [1, 3]}
        _look(members, [0, 1, 5, 3, 4, 6], after)
        members.kill(5, 0)
        members.regrouped([1, 3, 4, 6])
        _look(members, [1, 3, 4, 6], {"all": [0, 1, 2, 3], "even": [2], "odd": [0, 1]})


def test_a_place_that_was_given_up_is_filled_later(ranks: Ranks) -> None:
    with Members(ranks, 6) as members:
        members.init(range(4))
        members.ask(range(4), subgroups.make_subgroups).values()
        members.kill(1)
        members.regrouped([0, 2, 3])
        members.newcomers(4)
        members.regrouped([0, 4, 2, 3])
        _look(members, [0, 4, 2, 3], {"all": [0, 1, 2, 3], "even": [0, 2], "odd": [1, 3]})


def test_groups_that_merge_keep_their_subgroups_apart(ranks: Ranks) -> None:
    """Their subgroups have the same names."""
    with Members(ranks, 6) as members:
        for who, name in (([0, 1, 2], "one"), ([3, 4, 5], "another")):
            members.init(who, name=name)
            members.ask(who, subgroups.make_subgroups).values()
        members.regrouped([0, 1, 2, 3, 4, 5])
        everyone = list(range(6))
        pairs = ({"even": [0, 2], "odd": [1]}, {"even": [3, 5], "odd": [4]})
        for rank in everyone:
            mine = {name: ranks for name, ranks in pairs[rank // 3].items() if rank in ranks}
            members.order([rank], subgroups.check_subgroups, {"all": everyone, **mine})
        members.answers(everyone).values()


def test_new_groups_after_a_newcomer_has_joined(ranks: Ranks) -> None:
    """A newcomer shares no store with the others."""
    with Members(ranks, 4) as members:
        members.init(range(3))
        members.newcomers(3)
        members.kill(1)
        members.regrouped([0, 3, 2])
        members.ask([0, 3, 2], subgroups.make_subgroups).values()
        _look(members, [0, 3, 2], {"all": [0, 1, 2], "even": [0, 2], "odd": [1]})
        members.regrouped([2, 0])
        _look(members, [2, 0], {"all": [0, 1], "even": [1, 0]})


def test_a_subgroup_can_regroup_by_itself(ranks: Ranks) -> None:
    with Members(ranks, 4) as members:
        members.init(range(4))
        members.ask(range(4), subgroups.make_subgroups).values()
        handles = members.ask([0, 2], subgroups.handle_of, "even").values()
        members.ask([0, 2], subgroups.regroup, "even", members.uuid(), [handles[2], handles[0]]).values()
        members.ask([0, 2], subgroups.check_subgroup, "even", [2, 0]).values()
        assert set(members.ask(range(4), steps.total).values().values()) == {steps.total_of(4)}


def test_who_asked_is_told(ranks: Ranks) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.ask(range(3), subgroups.listen).values()
        members.regrouped([0, 1])
        members.regrouped([1, 0])
        assert members.ask(range(3), subgroups.heard).values() == {
            0: [("default_pg", 1, 0, 2), ("default_pg", 2, 1, 2)],
            1: [("default_pg", 1, 1, 2), ("default_pg", 2, 0, 2)],
            2: [],
        }
        members.ask([0, 1], subgroups.stop_listening).values()
        members.regrouped([0, 1])
        assert [len(told) for told in members.ask([0, 1], subgroups.heard).values().values()] == [2, 2]
