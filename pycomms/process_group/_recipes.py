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
class Seat:
    """Who that was: `rank` of the default group in a membership."""

    membership: str
    rank: int


@dataclass(frozen=True, kw_only=True)
class Place:
    """The seat of its member; vacant: the last one that its member had."""

    seat: Seat
    vacant: bool = False


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a group is made again. `settings` are for who makes it."""

    name: str
    born: str  # the membership of the default group that it was made in
    of_all: bool
    membership: str  # the one that its members have their seats in
    version: int  # grows with each rebuild
    places: tuple[Place, ...]  # in the order of its ranks
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{self.name}@" if self.of_all else f"{self.name}@{self.born}"

    def to_json(self) -> dict[str, Any]:
        places = [[place.seat.membership, place.seat.rank, place.vacant] for place in self.places]
        return {**vars(self), "places": places, "settings": dict(self.settings)}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Recipe:
        places = tuple(
            Place(seat=Seat(membership=membership, rank=rank), vacant=vacant)
            for membership, rank, vacant in raw["places"]
        )
        return Recipe(**{**raw, "places": places})


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one process brings."""

    fresh: bool  # it was in no group with others before
    ranks: Mapping[str, int]  # its rank in each membership of the default group that it remembers
    names: frozenset[str]  # of its groups
    recipes: tuple[Recipe, ...]
    groups_made: int = 0  # torch's counter, of which it makes names; only in the note

    def to_json(self) -> dict[str, Any]:
        return {
            "fresh": self.fresh,
            "ranks": dict(self.ranks),
            "names": sorted(self.names),
            "recipes": [recipe.to_json() for recipe in self.recipes],
        }

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Contribution:
        return Contribution(
            fresh=raw["fresh"],
            ranks=raw["ranks"],
            names=frozenset(raw["names"]),
            recipes=tuple(Recipe.from_json(one) for one in raw["recipes"]),
        )

    def note(self) -> bytes:
        """Its part in the gist: a few bytes."""
        return f"{self.groups_made} {len(self.recipes)}".encode()

    def recipe(self, key: str) -> Recipe | None:
        return next((one for one in self.recipes if one.key == key), None)


_NUMBERS_IN_NOTE = 2


@dataclass(frozen=True, kw_only=True)
class Gist:
    """What all need to know of all contributions before they tell each other more, if they have to."""

    groups_made: int
    recipes: int

    @staticmethod
    def of(notes: Iterable[bytes]) -> Gist:
        """With a member that has brought another note, or none, as by torch's own `_reconfigure`, there is nothing to
        tell each other: it would not listen.
        """
        read = [[int(number) for number in note.split()] for note in notes]
        told = [one for one in read if len(one) == _NUMBERS_IN_NOTE]
        recipes = sum(one[1] for one in told) if len(told) == len(read) else 0
        return Gist(groups_made=max((one[0] for one in told), default=0), recipes=recipes)


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
    recipes = [newest[key] for key in sorted(newest)]
    settled = {recipe.key: _settle_survivors(recipe, brought) for recipe in recipes if not recipe.of_all}
    heirs = _heirs(settled, {recipe.key: recipe.membership for recipe in recipes}, brought)
    taken = [set(one.names) for one in brought]
    plans = []
    for recipe in recipes:
        seated, joining = (
            _seat_all(recipe, brought, taken)
            if recipe.of_all
            else _seat(settled[recipe.key], heirs, [recipe.name in names for names in taken])
        )
        for rank in joining:
            taken[rank].add(recipe.name)
        places = tuple(
            gone if rank is None else Place(seat=Seat(membership=membership, rank=rank)) for rank, gone in seated
        )
        plans.append(
            Plan(
                recipe=replace(recipe, membership=membership, version=recipe.version + 1, places=places),
                members=tuple(rank for rank, _ in seated if rank is not None),
                joining=frozenset(joining),
            )
        )
    return plans


# A place: the new rank of its member, or None, and what it is then.
_Seated = list[tuple[int | None, Place]]


def _settle_survivors(recipe: Recipe, brought: Sequence[Contribution]) -> _Seated:
    holders = {
        one.ranks[recipe.membership]: rank
        for rank, one in enumerate(brought)
        if recipe.membership in one.ranks and one.recipe(recipe.key)
    }
    return [
        (None if place.vacant else holders.get(place.seat.rank), replace(place, vacant=True)) for place in recipe.places
    ]


def _heirs(
    settled: Mapping[str, _Seated], memberships: Mapping[str, str], brought: Sequence[Contribution]
) -> dict[Seat, int]:
    """Whose places are taken, and by which new rank. A newcomer is the heir of one: rather of one that was alive until
    now than of one whose places have long been vacant.
    """
    gone: dict[int, set[tuple[bool, Seat]]] = {}
    for key, seated in settled.items():
        for rank, place in seated:
            if rank is None:
                long_ago = place.seat.membership != memberships[key]
                gone.setdefault(place.seat.rank, set()).add((long_ago, place.seat))
    heirs = {}
    for rank, candidates in gone.items():
        if rank < len(brought) and brought[rank].fresh:
            known = brought[rank].ranks
            others = [one for one in candidates if one[1].membership not in known]
            if others:
                heirs[min(others, key=lambda one: (one[0], one[1].membership))[1]] = rank
    return heirs


def _seat(settled: _Seated, heirs: Mapping[Seat, int], named: Sequence[bool]) -> tuple[_Seated, set[int]]:
    seated: _Seated = []
    joining = set()
    for rank, place in settled:
        heir = heirs.get(place.seat) if rank is None else None
        if heir is not None and not named[heir]:
            joining.add(heir)
            seated.append((heir, place))
        else:
            seated.append((rank, place))
    return seated, joining


def _seat_all(recipe: Recipe, brought: Sequence[Contribution], taken: Sequence[set[str]]) -> tuple[_Seated, set[int]]:
    holding = {rank for rank, one in enumerate(brought) if one.recipe(recipe.key)}
    joining = {rank for rank in range(len(brought)) if rank not in holding and recipe.name not in taken[rank]}
    nobody = Place(seat=Seat(membership=recipe.membership, rank=0), vacant=True)
    return [(rank, nobody) for rank in sorted(holding | joining)], joining


def membership_of(uuid: int, handles: Iterable[str]) -> str:
    """The name of what these form, known to all of them and to nobody else."""
    return _digest(str(uuid), *sorted(handles))


def derived_uuid(*parts: str) -> int:
    """A uuid that follows from these, positive and of 63 bits."""
    return int(_digest(*parts), 16) >> 1


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
