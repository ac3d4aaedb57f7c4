"""Who has complained of whom while memberships could not be formed, and whose going would most likely help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from pycomms.ft.core.messages import MemberId


class Complaints:
    """Of one attempt after the other: in each alone, members name the victims of a failure beside its cause.

    Who cannot hear the others is named by all of them; but one that waits for it is late as well, and is named by those
    who wait for that one. The cause is named each time, its victims now and then.
    """

    def __init__(self) -> None:
        self._of: dict[MemberId, Counter[MemberId]] = {}  # and how often each other one did
        self._struck: set[str] = set()  # hosts from which one was sent away, which did not help

    def clear(self) -> None:
        self._of.clear()
        self._struck.clear()

    def add(self, accusers: Mapping[MemberId, Iterable[MemberId]]) -> None:
        for accused, others in accusers.items():
            self._of.setdefault(accused, Counter()).update(iter(others))

    def worst(self, standing: Sequence[MemberId]) -> list[MemberId]:
        """Whom to send away of those who stand: nobody, a member, or all of a host.

        A host goes if those on others complain of several of its members alike, or if one of it has gone already. Of
        two hosts that do not reach each other that is the smaller one.
        """
        present = set(standing)
        total = {member: self._count(member, present) for member in standing}
        across = {member: self._count(member, present, from_others=True) for member in standing}
        if not any(total.values()):
            return []
        chosen = list(standing)
        hosts = Counter[str]()
        for member, count in across.items():
            hosts[member.host] += count
        are_apart = any(hosts.values())
        if are_apart:
            sizes = Counter(member.host for member in standing)
            host = max(hosts, key=lambda name: (hosts[name], -sizes[name], name))
            chosen = [member for member in standing if member.host == host]
        worst = max(enumerate(chosen), key=lambda one: (total[one[1]], one[0]))[1]
        is_of_several = are_apart and 2 * across[worst] <= hosts[worst.host]
        if not is_of_several and worst.host not in self._struck:
            chosen = [worst]
        if are_apart:
            self._struck.add(worst.host)
        return chosen

    def _count(self, accused: MemberId, present: set[MemberId], *, from_others: bool = False) -> int:
        """How often those who stand complain of it; from_others: those on other hosts."""
        of = self._of.get(accused, Counter())
        return sum(times for by, times in of.items() if by in present and not (from_others and by.host == accused.host))
