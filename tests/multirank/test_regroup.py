"""Groups whose members change: by any shape of change, from any state of the old group. How a regroup fails is in
test_regroup_failures.py, what is built on groups in test_regroup_training.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from . import _member_steps as steps
from . import _regroup_steps as states
from ._harness import Ranks
from ._members import Members

pytestmark = [
    pytest.mark.nccl2_only("gloo regroups through a store, and leaves torch's tables as they were"),
    pytest.mark.needs_torch("2.14", "groups that change their size"),
]

_SIZES = (2, 3, 4, 8)

# The new ranks, in their order, of a group of n processes: numbers from n on are newcomers.
_SHRINKS: dict[str, Callable[[int], list[int]]] = {
    "last": lambda n: list(range(n - 1)),
    "first": lambda n: list(range(1, n)),
    "middle": lambda n: [one for one in range(n) if one != n // 2],
    "several": lambda n: list(range(0, n, 2)),
    "all but one": lambda n: [n - 1],
}
_OTHERS: dict[str, Callable[[int], list[int]]] = {
    "grow by one": lambda n: [*range(n), n],
    "grow by several": lambda n: [*range(n), n, n + 1, n + 2],
    "grow in front": lambda n: [n, *range(n)],
    "replace one": lambda n: [n if one == n // 2 else one for one in range(n)],
    "shrink and grow": lambda n: [*range(1, n), n, n + 1],
    "all new": lambda n: list(range(n, 2 * n)),
    "identity": lambda n: list(range(n)),
    "backwards": lambda n: list(range(n))[::-1],
}


@pytest.mark.parametrize("world", _SIZES)
@pytest.mark.parametrize("shape", _SHRINKS)
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "left out"])
def test_shrink(ranks: Ranks, shape: str, world: int, killed: bool) -> None:
    after = _SHRINKS[shape](world)
    with Members(ranks, world) as members:
        members.init(range(world))
        if killed:
            members.kill(*(set(range(world)) - set(after)))
        members.regrouped(after)


@pytest.mark.parametrize("world", _SIZES)
@pytest.mark.parametrize("shape", _OTHERS)
def test_change(ranks: Ranks, shape: str, world: int) -> None:
    after = _OTHERS[shape](world)
    with Members(ranks, max(*after, world - 1) + 1) as members:
        members.init(range(world))
        members.newcomers(*(one for one in after if one >= world))
        members.regrouped(after)


@pytest.mark.parametrize("world", _SIZES)
def test_from_one_and_back(ranks: Ranks, world: int) -> None:
    with Members(ranks, world) as members:
        members.newcomers(*range(world))
        members.regrouped(range(world))
        members.regrouped([0])
        members.regrouped(range(world))


def test_by_torch_and_by_us(ranks: Ranks) -> None:
    """torch leaves its own tables as they were; ours sets them right."""
    with Members(ranks, 4) as members:
        members.ask(range(4), steps.init_without_members).values()
        handles = list(members.ask(range(3), steps.handle_from_torch).values().values())
        places = members.ask(range(3), steps.regroup_by_torch, members.uuid(), handles).values()
        assert places == {0: (0, 3), 1: (1, 3), 2: (2, 3)}
        assert set(members.ask(range(3), steps.total).values().values()) == {steps.total_of(3)}
        members.regrouped([2, 3, 0])
        handles = list(members.ask([2, 3, 0], steps.handle_from_torch).values().values())
        places = members.ask([2, 3, 0], steps.regroup_by_torch, members.uuid(), set(handles)).values()
        assert places == {2: (0, 3), 3: (1, 3), 0: (2, 3)}


def test_alone_stays_usable(ranks: Ranks) -> None:
    """A newcomer is a group of one until it joins, and one that is left out keeps the group that it had."""
    with Members(ranks, 2) as members:
        members.newcomers(0, 1)
        assert members.ask([0, 1], steps.total).values() == {0: 1, 1: 1}
        members.regrouped([0])
        members.regrouped([0, 1])


def test_a_list_gives_ranks_by_position(ranks: Ranks) -> None:
    with Members(ranks, 6) as members:
        members.init(range(4))
        members.newcomers(4, 5)
        members.regrouped([3, 4, 0, 5, 2])
        members.regrouped([2, 5, 0, 4, 3])


def test_a_set_is_ordered_by_the_number_of_the_old_rank(ranks: Ranks) -> None:
    """By number and not by text: 2 is before 10."""
    world = 12
    with Members(ranks, world) as members:
        members.init(range(world))
        members.regrouped(range(world), as_set=True)
        members.kill(3, 7)
        members.regrouped([one for one in range(world) if one not in (3, 7)], as_set=True)


def test_many_generations(ranks: Ranks) -> None:
    """Members come and go; the generation counts the regroups of each process."""
    with Members(ranks, 5) as members:
        members.init([0, 1, 2])
        members.regrouped([0, 1])
        members.newcomers(3)
        members.regrouped([3, 0, 1])
        members.kill(0)
        members.newcomers(4)
        places = members.regroup([1, 4, 3]).values()
        assert {number: place.generation for number, place in places.items()} == {1: 3, 4: 1, 3: 2}
        members.check([1, 4, 3])


def test_one_that_was_left_out_comes_back(ranks: Ranks) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.regrouped([0, 2])
        members.regrouped([0, 1, 2])


def test_one_that_was_left_out_is_told(ranks: Ranks) -> None:
    """It keeps the group that it had, which the others have left."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.regrouped([0, 2])
        caught = members.ask([1], steps.total).caught()[1]
        assert caught.kind in ("CommunicatorRevoked", "PeerFailure"), caught
        assert caught.seconds() < 2.0, caught
        assert members.ask([1], steps.place).values()[1] == (1, 3, 0)
        members.check([0, 2], is_new=False)


def test_groups_that_grew_apart_merge(ranks: Ranks) -> None:
    """Each has a store of its own, and both have a rank 0."""
    with Members(ranks, 6) as members:
        members.init([0, 1], name="one")
        members.init([2, 3], name="another")
        members.newcomers(4, 5)
        members.regrouped([0, 1, 4])
        members.regrouped([5, 2, 3])
        members.regrouped([0, 1, 4, 5, 2, 3])
        members.regrouped([0, 1, 4])


_STATES: dict[str, Callable[[], str]] = {
    "abort": states.abort,
    "timeout": states.time_out,
    "mismatch": states.mismatch,
}


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("state", _STATES)
def test_after_the_old_group_has_ended(ranks: Ranks, state: str, world: int) -> None:
    with Members(ranks, world) as members:
        members.init(range(world), timeout=1.0 if state == "timeout" else 20.0)
        kinds = members.ask(range(world), _STATES[state]).values()
        assert (
            set(kinds.values())
            == {
                "abort": {"CommunicatorClosed"},
                "timeout": {"CollectiveTimeout", ""},
                "mismatch": {"CollectiveMismatch"},
            }[state]
        )
        members.regrouped(range(world))


def test_after_a_death_that_all_have_seen(ranks: Ranks) -> None:
    with Members(ranks, 4) as members:
        members.init(range(4))
        members.kill(1)
        caught = members.ask([0, 2, 3], steps.total).caught()
        assert {(one.kind, one.ranks) for one in caught.values()} == {("PeerFailure", (1,))}
        members.regrouped([0, 2, 3])


def test_the_old_group_works_until_all_have_come(ranks: Ranks) -> None:
    """A member that has said that it regroups is missing from the old group's collectives; it had said so."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        uuid, handles = members.uuid(), members.handles(range(3))
        members.order([0], steps.regroup, uuid, handles, 10.0)
        assert members.ask([1, 2], states.send_and_receive).values() == {1: 1, 2: 2}
        members.order([1, 2], steps.regroup, uuid, handles, 10.0)
        members.answers(range(3)).values()
        members.check(range(3))


@pytest.mark.parametrize("after", [[0, 1, 2], [0, 1], [1, 0, 3]], ids=["identity", "shrink", "replace"])
def test_works_in_flight_end_cancelled(ranks: Ranks, after: list[int]) -> None:
    """Rank 2 has not come to the operations of the others when they all regroup. None is a success, none comes back to
    life, and nothing is written to what they were given.
    """
    with Members(ranks, 4) as members:
        members.init(range(3))
        members.newcomers(3)
        members.ask([0, 1], states.leave_in_flight).values()
        members.regrouped(after)
        for number, found in members.ask([0, 1], states.what_became_of_them).values().items():
            assert found.kinds == {"CommunicatorRevoked"} or found.kinds == {"CommunicatorClosed"}, (number, found)
            assert found.completed, number
            assert found.successes == 0, number
            assert found.untouched, number


def test_one_who_is_blocked_is_freed(ranks: Ranks) -> None:
    """A thread waits in an all_reduce that will not come about; another one regroups."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.ask([0], states.block_in_a_thread).values()
        members.regrouped([0, 2])
        kind = members.ask([0], states.how_the_thread_ended).values()[0]
        assert kind in ("CommunicatorRevoked", "CommunicatorClosed")
