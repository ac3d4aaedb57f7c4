"""What else a process does while it regroups: ends the group, forks, has a thread that waits for the old members."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from . import _interference_steps as meanwhile
from . import _member_steps as steps
from . import _regroup_steps as states
from ._harness import Ranks
from ._members import Members

pytestmark = [
    pytest.mark.nccl2_only("gloo regroups through a store, and leaves torch's tables as they were"),
    pytest.mark.needs_torch("2.14", "groups that change their size"),
]

_TIMEOUT_S = 10.0
# An end is noticed, and told to all, long before the deadline.
_SOON_S = 3.0


@pytest.mark.parametrize("end", [meanwhile.begin_and_abort, meanwhile.begin_and_destroy])
def test_the_group_is_ended_as_soon_as_the_regroup_has_begun(ranks: Ranks, end: object) -> None:
    """Whoever ends the group does not wait for members that do not come."""
    assert callable(end)
    with Members(ranks, 2) as members:
        members.init(range(2))
        handles = members.handles(range(2))
        caught = members.ask([0], end, members.uuid(), handles, _TIMEOUT_S).values()[0]
        assert caught.kind == "CommunicatorClosed", caught
        assert caught.seconds() < _SOON_S, caught


def test_a_thread_waits_for_a_group_that_has_never_been_complete(ranks: Ranks) -> None:
    """Its operation is cancelled as one in flight is, and the regroup does not wait for it."""
    with Members(ranks, 1) as members:
        members.ask([0], meanwhile.init_lazily, 0, 2).values()
        members.ask([0], states.block_in_a_thread).values()
        members.regrouped([0], timeout=_SOON_S)
        assert members.ask([0], states.how_the_thread_ended).values()[0] == "CommunicatorRevoked"


def test_a_child_that_is_forked_meanwhile_is_not_kept_waiting(ranks: Ranks) -> None:
    """Calls of the parent wait until the regroup has ended; in a child nobody will ever end it."""
    with Members(ranks, 2) as members:
        members.init(range(2))
        handles = members.handles(range(2))
        members.ask([1], meanwhile.hold_at, "prepared").values()
        members.ask(range(2), meanwhile.begin, members.uuid(), handles, _TIMEOUT_S).values()
        assert members.ask([1], meanwhile.await_point).values()[1]
        codes = [members.ask([0], meanwhile.operate_in_a_child).values()[0] for _ in range(3)]
        members.ask([1], meanwhile.release).values()
        members.ask(range(2), meanwhile.finish).values()
        assert codes == [0, 0, 0]
        members.check(range(2))


def test_a_forked_child_has_no_handle_of_its_parents_group(ranks: Ranks) -> None:
    with Members(ranks, 1) as members:
        members.newcomers(0)
        assert members.ask([0], meanwhile.ask_for_a_handle_in_a_child).values()[0] == 0


@pytest.mark.parametrize("victim", [0, 1])
def test_a_child_that_lives_on_does_not_hide_the_death_of_its_parent(ranks: Ranks, victim: int) -> None:
    """Forked while the members meet, as by a DataLoader; 0 convenes the others."""
    with Members(ranks, 3) as members:
        members.init(range(3))
        handles, uuid = members.handles(range(3)), members.uuid()
        survivor = 1 - victim
        members.ask([victim], meanwhile.begin, uuid, handles, _TIMEOUT_S).values()
        members.ask([survivor], meanwhile.begin, uuid, handles, _TIMEOUT_S).values()
        members.ask([0], meanwhile.await_guests, 2).values()
        child = members.ask([victim], meanwhile.live_on_in_a_child).values()[victim]
        try:
            members.kill(victim)
            caught = members.ask([survivor], meanwhile.finish).caught()[survivor]
        finally:
            os.kill(child, signal.SIGKILL)
        assert (caught.kind, caught.ranks) == ("PeerFailure", (victim,)), caught
        assert caught.seconds() < _SOON_S, caught
        members.regrouped([survivor, 2])


def test_a_member_that_is_frozen_until_after_the_deadline_agrees_with_the_others(ranks: Ranks) -> None:
    """If its vote was out before it was frozen, the others have gone on, and their answer is there when it looks."""
    timeout = 1.0
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.ask([1], meanwhile.stop_at, "prepared").values()
        handles = members.handles(range(3))
        members.order(range(3), steps.regroup, members.uuid(), handles, timeout)
        members.await_state(1, "T")
        threading.Event().wait(2 * timeout)
        members.signal(1, signal.SIGCONT)
        answers = members.answers(range(3)).of
        assert len({isinstance(one, steps.Returned) for one in answers.values()}) == 1, answers
        members.regrouped(range(3))


def test_one_regroups_by_the_function_of_torch(ranks: Ranks) -> None:
    with Members(ranks, 2) as members:
        members.init(range(2))
        handles, uuid = members.handles(range(2)), members.uuid()
        members.order([0], meanwhile.regroup_by_torch, uuid, handles)
        members.order([1], steps.regroup, uuid, handles, _TIMEOUT_S)
        members.answers(range(2)).values()
        members.check(range(2))
        members.regrouped(range(2))


def test_a_block_that_an_exception_has_left_is_no_obstacle(ranks: Ranks) -> None:
    with Members(ranks, 2) as members:
        members.init(range(2))
        members.ask(range(2), meanwhile.fail_in_a_block).values()
        members.regrouped(range(2))


def test_a_block_has_to_be_closed_first(ranks: Ranks) -> None:
    with Members(ranks, 2) as members:
        members.init(range(2))
        handles = members.handles(range(2))
        refusals = members.ask(range(2), meanwhile.regroup_in_a_block, members.uuid(), handles).values()
        assert all(one.startswith("ValueError") and "block" in one for one in refusals.values()), refusals
        members.regrouped(range(2))
