"""Which subgroups there are after a regroup, and who is in them. A process is a contribution; no process is started."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from pycomms.process_group._recipes import (
    Contribution,
    Gist,
    Place,
    Plan,
    Recipe,
    Seat,
    derived_uuid,
    membership_of,
    plan,
)

FIRST = "first"


class World:
    """Processes by number, and what each remembers."""

    def __init__(self, size: int, membership: str = FIRST) -> None:
        self.of = {number: alone(membership, number) for number in range(size)}
        self.of = {number: replace(one, fresh=False) for number, one in self.of.items()}
        self.order = list(self.of)
        self.membership = membership

    def make(self, name: str, ranks: Sequence[int]) -> None:
        members = [self.order[rank] for rank in ranks]
        recipe = Recipe(
            name=name,
            born=self.membership,
            of_all=len(members) == len(self.order),
            membership=self.membership,
            version=0,
            places=tuple(Place(seat=Seat(membership=self.membership, rank=rank)) for rank in ranks),
            settings={},
        )
        for number in members:
            one = self.of[number]
            self.of[number] = replace(one, recipes=(*one.recipes, recipe), names=one.names | {name})

    def newcomer(self, number: int) -> None:
        self.of[number] = alone(f"alone {number}", 0)

    def regroup(self, order: Sequence[int], membership: str, behind: Sequence[int] = ()) -> None:
        """`behind`: these do not get to hear of the plan."""
        self.order, self.membership = list(order), membership
        for rank, number in enumerate(order):
            one = self.of[number]
            self.of[number] = replace(one, ranks={**one.ranks, membership: rank})
        plans = self.plans()
        for rank, number in enumerate(order):
            if number not in behind:
                mine = [one for one in plans if rank in one.members]
                recipes = tuple(one.recipe for one in mine)
                names = self.of[number].names | {one.name for one in recipes}
                ranks = {membership: rank}
                self.of[number] = replace(self.of[number], fresh=False, ranks=ranks, recipes=recipes, names=names)

    def plans(self) -> list[Plan]:
        before = [self.of[number] for number in self.order]
        sent = [Contribution.from_json(json.loads(json.dumps(one.to_json()))) for one in before]
        return plan(sent, self.membership)

    def members(self) -> dict[str, list[int]]:
        """By the name of the group, the numbers of its members in the order of its ranks, from what each believes."""
        found: dict[str, list[int]] = {}
        for number in self.order:
            for recipe in self.of[number].recipes:
                believed = [self.order[place.seat.rank] for place in recipe.places if not place.vacant]
                assert found.setdefault(recipe.key.partition("@")[0], believed) == believed
                assert number in believed
        return found


def alone(membership: str, rank: int) -> Contribution:
    return Contribution(fresh=True, ranks={membership: rank}, names=frozenset(), recipes=())


def even_and_odd(size: int) -> World:
    world = World(size)
    world.make("even", range(0, size, 2))
    world.make("odd", range(1, size, 2))
    world.make("all", range(size))
    return world


def test_survivors_stay_and_all_stays_all() -> None:
    world = even_and_odd(5)
    world.regroup([0, 1, 3, 4], "second")
    assert world.members() == {"even": [0, 4], "odd": [1, 3], "all": [0, 1, 3, 4]}


def test_a_group_that_has_lost_all_is_forgotten() -> None:
    world = even_and_odd(3)
    world.regroup([0, 2], "second")
    assert world.members() == {"even": [0, 2], "all": [0, 2]}


def test_a_newcomer_takes_the_place_whose_rank_it_gets() -> None:
    world = even_and_odd(4)
    for number in (4, 5):
        world.newcomer(number)
    world.regroup([0, 4, 2, 3, 5], "second")
    assert world.members() == {"even": [0, 2], "odd": [4, 3], "all": [0, 4, 2, 3, 5]}


def test_a_newcomer_with_the_rank_of_a_survivor_takes_no_place() -> None:
    world = even_and_odd(4)
    world.newcomer(4)
    world.regroup([0, 2, 3, 4], "second")
    assert world.members() == {"even": [0, 2], "odd": [3], "all": [0, 2, 3, 4]}


def test_a_vacant_place_is_kept() -> None:
    world = even_and_odd(4)
    world.regroup([0, 2, 3], "second")
    world.newcomer(4)
    world.regroup([0, 4, 2, 3], "third")
    assert world.members() == {"even": [0, 2], "odd": [4, 3], "all": [0, 4, 2, 3]}


def test_a_newcomer_is_the_heir_of_one() -> None:
    """Rank 0 has died twice: the first was even, the second odd."""
    world = even_and_odd(6)
    world.regroup([1, 2, 3, 4], "second")
    world.newcomer(6)
    world.regroup([6, 2, 3, 4], "third")
    assert world.members() == {"even": [2, 4], "odd": [6, 3], "all": [6, 2, 3, 4]}


def test_order_within_a_group_is_kept_and_all_follows_the_ranks() -> None:
    world = even_and_odd(4)
    world.regroup([3, 2, 1, 0], "second")
    assert world.members() == {"even": [0, 2], "odd": [1, 3], "all": [3, 2, 1, 0]}


def test_one_that_had_no_group_is_no_newcomer() -> None:
    world = World(3)
    world.make("pair", [0, 1])
    world.regroup([0, 2], "second")  # the process 2 gets the rank of the process 1
    assert world.members() == {"pair": [0]}


def test_names_that_a_newcomer_has_given_are_left_to_it() -> None:
    world = World(3)
    world.make("pair", [0, 1])
    world.newcomer(3)
    world.of[3] = replace(world.of[3], names=frozenset({"pair"}))
    world.regroup([0, 3, 2], "second")
    assert world.members() == {"pair": [0]}


def test_merged_jobs_keep_groups_of_one_name_apart() -> None:
    one, another = World(3, "one"), World(3, "another")
    for world in (one, another):
        world.make("pair", [0, 1])
        world.make("all", [0, 1, 2])
    merged = World(6)
    merged.of = {**one.of, **{number + 3: each for number, each in another.of.items()}}
    merged.regroup(range(6), "both")
    members = [(one.recipe.name, one.members) for one in merged.plans()]
    assert members == [("all", (0, 1, 2, 3, 4, 5)), ("pair", (3, 4)), ("pair", (0, 1))]


def test_groups_of_one_that_grows() -> None:
    world = World(1)
    world.make("all", [0])
    for number in (1, 2):
        world.newcomer(number)
    world.regroup([1, 0, 2], "second")
    assert world.members() == {"all": [1, 0, 2]}


def test_a_rebuild_that_some_did_not_hear_of_is_made_up_for() -> None:
    world = even_and_odd(5)
    world.newcomer(5)
    world.regroup([0, 1, 5, 3, 4], "second", behind=[1, 4])
    world.regroup([4, 0, 1, 5], "third")
    assert world.members() == {"even": [0, 5, 4], "odd": [1], "all": [4, 0, 1, 5]}


def test_a_newcomer_that_heard_of_nothing_may_still_take_a_place() -> None:
    world = even_and_odd(4)
    world.newcomer(4)
    world.regroup([0, 4, 2, 3], "second", behind=[0, 4, 2, 3])
    world.regroup([0, 4, 3], "third")
    assert world.members() == {"even": [0], "odd": [4, 3], "all": [0, 4, 3]}


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_all_believe_the_same_whatever_happens(data: st.DataObject) -> None:
    """`World.members` compares what the members of each group believe."""
    world = even_and_odd(data.draw(st.integers(2, 6)))
    fresh = 100
    for turn in range(data.draw(st.integers(1, 5))):
        stay = data.draw(st.lists(st.sampled_from(world.order), min_size=1, unique=True))
        new = list(range(fresh, fresh + data.draw(st.integers(0, 2))))
        fresh += len(new)
        for number in new:
            world.newcomer(number)
        order = data.draw(st.permutations([*stay, *new]))
        behind = data.draw(st.lists(st.sampled_from(order), unique=True)) if data.draw(st.booleans()) else []
        world.regroup(order, f"turn {turn}", behind)
    world.regroup(world.order, "last")
    found = world.members()
    assert set(found.get("all", world.order)) == set(world.order)
    assert not set(found.get("even", [])) & set(found.get("odd", []))


def test_the_gist_of_all_notes() -> None:
    """How many groups torch has counted at most, and whether anybody has any. A note has room for 128 bytes."""
    world = even_and_odd(3)
    notes = [replace(one, groups_made=10**12 + number).note() for number, one in world.of.items()]
    assert Gist.of(notes) == Gist(groups_made=10**12 + 2, recipes=6)
    assert Gist.of([alone(FIRST, 0).note()]).recipes == 0
    assert all(len(note) < 128 for note in notes)


def test_the_gist_where_one_tells_nothing() -> None:
    """It regroups by torch's own `_reconfigure`, or regroups a group that is no default group to the others."""
    note = Contribution(fresh=False, ranks={}, names=frozenset(), recipes=(), groups_made=5).note()
    for other in (b"", b"3"):
        assert Gist.of([note, other]) == Gist(groups_made=5, recipes=0)
    assert Gist.of([b"", b""]) == Gist(groups_made=0, recipes=0)


def test_names_and_uuids_follow_from_what_all_know() -> None:
    assert membership_of(1, ["b", "a"]) == membership_of(1, ["a", "b"]) != membership_of(2, ["a", "b"])
    assert derived_uuid("a", "b") == derived_uuid("a", "b") != derived_uuid("ab")
    assert all(0 <= derived_uuid(str(number)) < 1 << 63 for number in range(1000))
