"""May those who stand still go on without the others? The rule against two memberships side by side.

Members of one membership may be told the next by two coordinators: one that was cut off and one that took its place.
Of the members that are not known dead more than half are needed, so that at most one of the two gets enough. Exactly
half is enough for a coordinator that has itself heard each of the others before they fell silent; one that took over
has not.

A membership that was announced and in which nobody has settled may have come to nothing: then the one before it
counts as well, for another coordinator may know only that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pycomms.ft.core.messages import EpochId, MemberId


@dataclass(slots=True)
class Electorate:
    """The members of one membership.

    Attributes:
        electors: how many of them are not known dead.
        standing: how many of those stand still and can go on.
    """

    epoch: EpochId
    members: frozenset[MemberId]
    electors: int
    standing: int = 0


class Electorates:
    """The last membership that was settled, and those that were tried since."""

    def __init__(self) -> None:
        self._all: list[Electorate] = []
        self._dead: set[MemberId] = set()  # of those

    def announced(self, epoch: EpochId, members: Iterable[MemberId]) -> None:
        """All start anew: nobody stands still."""
        known = frozenset(members)
        for one in self._all:
            one.standing = 0
        self._all = [one for one in self._all if one.members != known]
        self._all.append(Electorate(epoch, known, len(known)))

    def settled(self, epoch: EpochId) -> None:
        """One member has: so all had agreed to be in, and what was before is over."""
        if len(self._all) > 1 and self._all[-1].epoch == epoch:
            del self._all[:-1]
            self._dead &= self._all[0].members

    def stands(self, member: MemberId, by: int = 1) -> None:
        for one in self._all:
            if member in one.members:
                one.standing += by

    def died(self, member: MemberId) -> None:
        """Whoever stood still has been taken back before."""
        if member in self._dead:
            return
        for one in self._all:
            if member in one.members:
                one.electors -= 1
                self._dead.add(member)

    @property
    def standing(self) -> int:
        """Of the last membership."""
        return self._all[-1].standing if self._all else 0

    def objection(self, fell_silent: Callable[[MemberId], bool], stands: Callable[[MemberId], bool]) -> str:
        """Why those who stand still may not go on; empty: they may.

        Args:
            fell_silent: whether a member's host was heard by this coordinator and is lost.
            stands: whether it stands still.
        """
        for one in self._all:
            if 2 * one.standing > one.electors or one.electors == 0:
                continue
            others = (member for member in one.members if member not in self._dead and not stands(member))
            if 2 * one.standing == one.electors and all(map(fell_silent, others)):
                continue
            return (
                f"{one.standing} of the {one.electors} members of epoch {one.epoch.boot}.{one.epoch.counter} that are "
                "not known dead are not a majority: the others may go on elsewhere"
            )
        return ""
