"""Which groups there are after a regroup of the default group, and who is in them. Pure: no torch, no communication.

A subgroup is a list of places. While its member lives, a place belongs to that member, whatever rank it gets. When the
member is gone the place stays, and whoever is new to the job and gets the rank that the member had takes it. A group
that was made of all ranks is of all ranks for ever, in their order.

Every process brings its recipes, and its ranks in earlier memberships of the default group. It does not matter if an
earlier rebuild was cut short and some are behind: the newest recipe counts, and its ranks are of a membership that all
its members have been through. Groups of the same name are told apart by the membership that they were made in, for two
jobs may have merged.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Place:
    """rank: of the default group, in the membership of the recipe, or (vacant) the one that its last member had."""

    rank: int
    vacant: bool = False


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a group is made again. `settings` are for who makes it."""

    name: str
    born: str  # the membership of the default group that it was made in
    of_all: bool
    membership: str  # the one that the ranks of its places are of
    version: int  # grows with each rebuild
    places: tuple[Place, ...]  # in the order of its ranks
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{self.name}@" if self.of_all else f"{self.name}@{self.born}"

    def to_json(self) -> dict[str, Any]:
        places = [[place.rank, place.vacant] for place in self.places]
        return {**vars(self), "places": places, "settings": dict(self.settings)}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Recipe:
        places = tuple(Place(rank=rank, vacant=vacant) for rank, vacant in raw["places"])
        return Recipe(**{**raw, "places": places})


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one process brings."""

    fresh: bool  # it was in no group with others before
    ranks: Mapping[str, int]  # its rank in each membership of the default group that it remembers
    names: frozenset[str]  # of its groups
    recipes: tuple[Recipe, ...]
    groups_made: int  # torch's counter, of which it makes names

    def to_json(self) -> dict[str, Any]:
        return {
            "fresh": self.fresh,
            "ranks": dict(self.ranks),
            "names": sorted(self.names),
            "recipes": [recipe.to_json() for recipe in self.recipes],
            "groups_made": self.groups_made,
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Contribution:
        return Contribution(
            fresh=raw["fresh"],
            ranks=raw["ranks"],
            names=frozenset(raw["names"]),
            recipes=tuple(Recipe.from_json(one) for one in raw["recipes"]),
            groups_made=raw["groups_made"],
        )

    def recipe(self, key: str) -> Recipe | None:
        return next((one for one in self.recipes if one.key == key), None)


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """One group: its recipe for the next time, its members (new ranks, in the order of its own ranks), and who of
    them has no group of that name yet."""

    recipe: Recipe
    members: tuple[int, ...]
    joining: frozenset[int]


def plan(brought: Sequence[Contribution], membership: str) -> list[Plan]:
    """The groups, in an order that is the same everywhere. `brought`: by new rank of the default group."""
    newest: dict[str, Recipe] = {}
    for one in brought:
        for recipe in one.recipes:
            known = newest.get(recipe.key)
            if known is None or recipe.version > known.version:
                newest[recipe.key] = recipe
    taken: dict[int, set[str]] = {rank: set(one.names) for rank, one in enumerate(brought)}
    plans = []
    for key in sorted(newest):
        made = _plan_all(newest[key], brought, taken) if newest[key].of_all else _plan(newest[key], brought, taken)
        for rank in made.joining:
            taken[rank].add(made.recipe.name)
        plans.append(replace(made, recipe=replace(made.recipe, membership=membership)))
    return plans


def _plan_all(recipe: Recipe, brought: Sequence[Contribution], taken: Mapping[int, set[str]]) -> Plan:
    holding = {rank for rank, one in enumerate(brought) if one.recipe(recipe.key)}
    joining = {rank for rank in range(len(brought)) if rank not in holding and recipe.name not in taken[rank]}
    members = tuple(sorted(holding | joining))
    places = tuple(Place(rank=rank) for rank in members)
    again = replace(recipe, version=recipe.version + 1, places=places)
    return Plan(recipe=again, members=members, joining=frozenset(joining))


def _plan(recipe: Recipe, brought: Sequence[Contribution], taken: Mapping[int, set[str]]) -> Plan:
    holders = {
        one.ranks[recipe.membership]: rank
        for rank, one in enumerate(brought)
        if recipe.membership in one.ranks and one.recipe(recipe.key)
    }
    places: list[Place] = []
    joining: set[int] = set()
    for place in recipe.places:
        holder = None if place.vacant else holders.get(place.rank)
        if holder is None and _may_join(place.rank, recipe, brought, taken) and place.rank not in joining:
            holder = place.rank
            joining.add(holder)
        places.append(Place(rank=place.rank, vacant=True) if holder is None else Place(rank=holder))
    again = replace(recipe, version=recipe.version + 1, places=tuple(places))
    members = tuple(place.rank for place in places if not place.vacant)
    return Plan(recipe=again, members=members, joining=frozenset(joining))


def _may_join(rank: int, recipe: Recipe, brought: Sequence[Contribution], taken: Mapping[int, set[str]]) -> bool:
    if rank >= len(brought):
        return False
    return brought[rank].fresh and recipe.membership not in brought[rank].ranks and recipe.name not in taken[rank]


def membership_of(uuid: int, handles: Iterable[str]) -> str:
    """The name of what these form, known to all of them and to nobody else."""
    return _digest(str(uuid), *sorted(handles))


def derived_uuid(*parts: str) -> int:
    """A uuid that follows from these, positive and of 63 bits."""
    return int(_digest(*parts), 16) >> 1


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
