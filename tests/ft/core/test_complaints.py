"""Whom a coordinator sends away when all answer and cannot form. What members name is as it was seen in real jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from pycomms.ft.core.complaints import Complaints
from pycomms.ft.core.messages import MemberId

from ._job import member

ONE_HOST = [member(slot, "host") for slot in range(4)]
TWO_HOSTS = [member(slot) for slot in range(4)]
Said = Mapping[int, Iterable[int]]  # of whom, and who said so


def worst(members: Sequence[MemberId], attempts: Iterable[Said]) -> list[int]:
    complaints = Complaints()
    for said in attempts:
        complaints.add({members[accused]: [members[by] for by in others] for accused, others in said.items()})
    return [members.index(one) for one in complaints.worst(members)]


@pytest.mark.parametrize("members", [ONE_HOST, TWO_HOSTS])
@pytest.mark.parametrize(
    "last",
    [
        ({0: (3,), 1: (2, 0), 3: (2, 0)}, {0: (1,), 1: (0, 2, 3)}),
        ({1: (0, 2), 3: (0, 2), 0: (3,)}, {0: (1, 2, 3)}),
        ({1: (0,), 3: (0,)}, {0: (1, 2, 3)}),
    ],
)
def test_who_does_not_hear_goes_and_not_those_who_wait_for_it(
    members: Sequence[MemberId], last: tuple[Said, ...]
) -> None:
    assert worst(members, [{1: (0, 2, 3)}, {1: (0, 2, 3)}, *last]) == [1]


def test_without_complaints_nobody_goes() -> None:
    assert worst(TWO_HOSTS, [{}]) == []
    assert Complaints().worst([]) == []


def test_of_hosts_that_do_not_reach_each_other_the_smaller_goes_whole() -> None:
    members = [member(slot, "a") for slot in range(2)] + [member(slot, "b") for slot in range(2, 5)]
    apart = {0: (2, 3, 4), 1: (2, 3, 4), 2: (0, 1), 3: (0, 1), 4: (0, 1)}
    assert worst(members, [apart, apart]) == [0, 1]


def test_a_host_goes_if_one_of_it_has_gone_and_that_did_not_help() -> None:
    complaints = Complaints()
    a, b = [member(slot, "a") for slot in range(3)], [member(slot, "b") for slot in range(3, 7)]
    complaints.add({a[0]: b})
    assert complaints.worst([*a, *b]) == [a[0]]
    complaints.add({a[1]: b})
    assert complaints.worst([*a[1:], *b]) == a[1:]


def test_what_was_said_by_or_of_those_who_have_gone_does_not_count() -> None:
    complaints = Complaints()
    first, second, third, fourth = TWO_HOSTS
    complaints.add({first: [second, third], fourth: [third]})
    assert complaints.worst([second, third, fourth]) == [fourth]
    complaints.clear()
    assert complaints.worst([second, third, fourth]) == []
