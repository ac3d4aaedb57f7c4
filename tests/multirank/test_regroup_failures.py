"""Regroups that fail: every survivor raises within the deadline, keeps or gets a usable group, and a retry with a new
uuid succeeds. Usable is what is tried afterwards, not what is promised.
"""

from __future__ import annotations

import signal

import pytest

from . import _member_steps as steps
from . import _regroup_steps as states
from ._errors import Caught
from ._harness import Ranks
from ._members import Members

pytestmark = [
    pytest.mark.nccl2_only("gloo regroups through a store, and leaves torch's tables as they were"),
    pytest.mark.needs_torch("2.14", "groups that change their size"),
]

_TIMEOUT_S = 3.0
# A death is noticed, and told to all, long before the deadline.
_SOON_S = 2.0
_NEVER_BEFORE = "nccl2:1:0123456789abcdef:0:0:"


def test_a_uuid_is_used_once(ranks: Ranks) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.regrouped(range(3), uuid=77)
        caught = members.regroup(range(3), uuid=77).caught()
        assert {one.kind for one in caught.values()} == {"ValueError"}
        assert all("77" in one.text for one in caught.values())
        assert set(members.ask(range(3), steps.total).values().values()) == {steps.total_of(3)}
        members.regrouped(range(3), uuid=78)


@pytest.mark.parametrize(
    "malformed",
    ["", "x", "gloo:0:1:2:127.0.0.1:29500", "nccl2:1:zz:0:0:x", "nccl2:2:0123:0:0:x", _NEVER_BEFORE, "nccl2:1:" * 9],
)
def test_a_malformed_handle(ranks: Ranks, malformed: str) -> None:
    """Refused at once by each that is given it. The group goes on."""
    with Members(ranks, 2) as members:
        members.init(range(2))
        handles = [*members.handles(range(2)), malformed]
        caught = members.ask(range(2), steps.regroup, members.uuid(), handles, _TIMEOUT_S).caught()
        _refused(members, caught, range(2))


def test_every_cut_of_a_handle_is_refused(ranks: Ranks) -> None:
    """However a handle was cut short on its way: nobody is asked to join at half an address."""
    with Members(ranks, 2) as members:
        members.init(range(2))
        handles = members.handles(range(2))
        for end in range(0, len(handles[1]), 3):
            cut = [handles[0], handles[1][:end]]
            caught = members.ask([0], steps.regroup, members.uuid(), cut, 0.3).caught()[0]
            assert caught.kind in ("ValueError", "CollectiveTimeout", "PeerFailure"), (cut[1], caught)
        members.regrouped(range(2))


@pytest.mark.parametrize("wrong", ["duplicated", "own is missing", "none"])
def test_a_wrong_list(ranks: Ranks, wrong: str) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        first, second, third = members.handles(range(3))
        lists: dict[str, dict[int, list[str]]] = {
            "duplicated": {0: [first, second, second], 1: [first, second, second]},
            "own is missing": {0: [second, third], 1: [first, third]},
            "none": {0: [], 1: []},
        }
        uuid = members.uuid()
        members.order_each(steps.regroup, {number: (uuid, given, _TIMEOUT_S) for number, given in lists[wrong].items()})
        _refused(members, members.answers([0, 1]).caught(), range(3))


def _refused(members: Members, caught: dict[int, Caught], who: range) -> None:
    for number, one in caught.items():
        assert one.kind == "ValueError", (number, one)
        assert one.seconds() < _SOON_S, (number, one)
    assert set(members.ask(who, steps.total).values().values()) == {steps.total_of(len(who))}
    members.regrouped(who)


def test_one_that_is_refused_lets_the_others_know_in_time(ranks: Ranks) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        handles, uuid = members.handles(range(3)), members.uuid()
        members.order([0, 1], steps.regroup, uuid, handles, _TIMEOUT_S)
        members.order([2], steps.regroup, uuid, handles[:2], _TIMEOUT_S)
        answers = members.answers(range(3)).caught()
        assert answers[2].kind == "ValueError"
        for number in (0, 1):
            _in_time(answers[number])
        members.regrouped(range(3))


@pytest.mark.parametrize("differ", ["uuid", "order", "member"])
def test_members_that_disagree(ranks: Ranks, differ: str) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        handles, uuid = members.handles(range(3)), members.uuid()
        other = {
            "uuid": (members.uuid(), handles),
            "order": (uuid, handles[::-1]),
            "member": (uuid, [handles[0], handles[2]]),
        }[differ]
        members.order([0, 1], steps.regroup, uuid, handles, _TIMEOUT_S)
        members.order([2], steps.regroup, *other, _TIMEOUT_S)
        for one in members.answers(range(3)).caught().values():
            assert one.kind in ("CollectiveMismatch", "CollectiveTimeout"), one
            _in_time(one)
        assert set(members.ask(range(3), steps.total).values().values()) == {steps.total_of(3)}
        members.regrouped(range(3))


def test_one_that_does_not_come_is_named_and_the_old_group_goes_on(ranks: Ranks) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        handles = members.handles(range(3))
        caught = members.ask([0, 2], steps.regroup, members.uuid(), handles, 1.0).caught()
        for one in caught.values():
            assert (one.kind, one.ranks) == ("CollectiveTimeout", (1,)), one
            assert 0.9 < one.seconds() < 1.0 + _SOON_S, one
        assert set(members.ask(range(3), steps.total).values().values()) == {steps.total_of(3)}
        members.regrouped(range(3))


def test_the_group_is_paused_while_it_regroups(ranks: Ranks) -> None:
    """Operations of who has called raise, another regroup is refused, and when it has failed the group is as before."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        handles = members.handles(range(3))
        pause = members.ask([0], states.use_while_regrouping, members.uuid(), members.uuid(), handles).values()[0]
        assert "regrouped" in pause.block.text, pause
        assert pause.operation.kind == "ValueError", pause
        assert "regrouped" in pause.operation.text, pause
        assert pause.operation.seconds() < _SOON_S, pause
        assert pause.again.kind == "ValueError", pause
        assert pause.end.kind == "CollectiveTimeout", pause
        assert set(members.ask(range(3), steps.total).values().values()) == {steps.total_of(3)}
        members.regrouped(range(3))


def test_a_group_is_aborted_while_it_regroups(ranks: Ranks) -> None:
    """It ends at once, and who waits for the regroup learns of it."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        handles = members.handles(range(3))
        uuid = members.uuid()
        members.order([1], steps.regroup, uuid, handles, _TIMEOUT_S)
        end = members.ask([0], states.abort_while_regrouping, uuid, handles).values()[0]
        assert end.kind in ("CommunicatorClosed", "CommunicatorRevoked"), end
        assert end.seconds() < _SOON_S, end
        _in_time(members.answers([1]).caught()[1])
        members.regrouped([1, 2])


def test_a_stale_handle(ranks: Ranks) -> None:
    """Handles of before the last regroup, and of a process that is gone."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        stale = members.handles(range(3))
        members.kill(2)
        members.regrouped([0, 1])
        for one in members.ask([0, 1], steps.regroup, members.uuid(), stale, 1.0).caught().values():
            assert one.kind in ("ValueError", "PeerFailure", "CollectiveTimeout"), one
            assert one.seconds() < 1.0 + _SOON_S, one
        members.regrouped([0, 1])


def test_the_store_is_gone(ranks: Ranks) -> None:
    """Its process is killed; the group shrinks and grows all the same."""
    with Members(ranks, 5) as members:
        port = members.ask([4], states.serve_a_store).values()[4]
        members.order_each(states.init_over_tcp, {number: (port, number, 3) for number in range(3)})
        members.answers(range(3)).values()
        members.kill(4)
        members.regrouped([0, 2])
        members.newcomers(3)
        members.regrouped([0, 3, 2])
        members.regrouped([1, 0])


_POINTS = ("before_prepare", "prepared", "committed")


@pytest.mark.parametrize("point", _POINTS)
@pytest.mark.parametrize("victim", [0, 1, 2])
def test_a_member_dies_while_regrouping(ranks: Ranks, point: str, victim: int) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        survivors = _die_regrouping(members, [0, 1, 2], victim, point)
        members.regrouped(survivors)


@pytest.mark.parametrize("point", _POINTS)
@pytest.mark.parametrize("world", [2, 4])
def test_a_newcomer_dies_while_joining(ranks: Ranks, point: str, world: int) -> None:
    """The others are as they were, until they have committed."""
    with Members(ranks, world + 2) as members:
        members.init(range(world))
        members.newcomers(world)
        survivors = _die_regrouping(members, range(world + 1), world, point)
        if point != "committed":
            assert set(members.ask(survivors, steps.total).values().values()) == {steps.total_of(world)}
        members.newcomers(world + 1)
        members.regrouped([*survivors, world + 1])


@pytest.mark.parametrize("point", _POINTS)
def test_a_member_dies_while_others_join(ranks: Ranks, point: str) -> None:
    with Members(ranks, 6) as members:
        members.init(range(4))
        members.newcomers(4, 5)
        survivors = _die_regrouping(members, range(6), 2, point)
        members.regrouped(survivors)


def _die_regrouping(members: Members, who: list[int] | range, victim: int, point: str) -> list[int]:
    """Regroups; the victim dies at the point, and all others learn of it."""
    survivors = [one for one in who if one != victim]
    members.ask([victim], steps.die_at, point).values()
    members.order_regroup(who, timeout=_TIMEOUT_S)
    members.answers([victim])
    answers = members.answers(survivors)
    for number, one in answers.of.items():
        if point == "committed" and not isinstance(one, Caught):
            continue  # it had been told already: the group is there, and its first operation raises
        assert isinstance(one, Caught), (number, one)
        assert one.kind in ("PeerFailure", "CollectiveTimeout"), (number, one)
        _in_time(one)
        if one.kind == "PeerFailure":
            assert one.ranks == (list(who).index(victim),), (number, one)
            assert one.seconds() < _SOON_S, (number, one)
    if point == "committed":
        for number, one in members.ask(survivors, steps.total).caught().items():
            assert one.kind in ("PeerFailure", "CommunicatorRevoked"), (number, one)
            assert one.seconds() < _SOON_S, (number, one)
    return survivors


def _in_time(one: Caught) -> None:
    assert one.seconds() < _TIMEOUT_S + _SOON_S, one


def test_a_member_is_frozen(ranks: Ranks) -> None:
    """It is not dead, so only the deadline tells; it may come back for the retry."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        handles = members.handles(range(3))
        members.signal(1, signal.SIGSTOP)
        caught = members.ask([0, 2], steps.regroup, members.uuid(), handles, 1.0).caught()
        for one in caught.values():
            assert (one.kind, one.ranks) == ("CollectiveTimeout", (1,)), one
        members.signal(1, signal.SIGCONT)
        members.regrouped(range(3))
