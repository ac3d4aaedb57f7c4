"""Windows of a group whose members change: they say so, and open again over the same memory."""

from __future__ import annotations

import pytest

from . import _rma_steps as steps
from ._harness import Ranks
from ._members import Members

pytestmark = [
    pytest.mark.nccl2_only("gloo has no windows"),
    pytest.mark.needs_torch("2.14", "groups that change their size"),
]


@pytest.mark.parametrize("after", [[0, 1, 2], [0, 2], [2, 0, 1], [0, 1, 2, 3], [3, 0, 2]])
def test_a_window_opens_again_in_the_new_generation(ranks: Ranks, after: list[int]) -> None:
    """Newcomers make theirs at the same time; what survivors had is still in their memory."""
    with Members(ranks, max(after) + 1 if 3 in after else 3) as members:
        members.init(range(3))
        members.ask(range(3), steps.open_window).values()
        members.ask(range(3), steps.use_all).values()
        survivors = [one for one in after if one < 3]
        newcomers = [one for one in after if one >= 3]
        if 1 not in after:
            members.kill(1)
        if newcomers:
            members.newcomers(*newcomers)
        members.regroup(after).values()
        for caught in (
            one for found in members.ask(survivors, steps.use_stale).values().values() for one in found.items()
        ):
            assert caught[1].kind == "CommunicatorRevoked", caught
            assert "reopen()" in caught[1].text, caught
        members.order(survivors, steps.reopen)
        members.order(newcomers, steps.open_window)
        contents = members.answers(survivors).values()
        members.answers(newcomers).values()
        # Rank r had the number of its left neighbour, and one more in front.
        assert contents == {one: [(one - 1) % 3 + 1.0] + [(one - 1) % 3 + 0.0] * 3 for one in survivors}
        everything = [contents[one] if one in contents else [100.0 + after.index(one)] * 4 for one in after]
        gathered = members.ask(after, steps.gather).values()
        assert all(one == everything for one in gathered.values()), gathered
        members.ask(after, steps.use_all).values()
        members.ask(after, steps.close_all).values()


def test_many_generations(ranks: Ranks) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.ask(range(3), steps.open_window).values()
        for after in ([1, 0, 2], [0, 1, 2], [2, 1, 0], [0, 1, 2]):
            members.regroup(after).values()
            members.ask(after, steps.reopen).values()
            members.ask(after, steps.use_all).values()
        members.ask(range(3), steps.close_all).values()


@pytest.mark.parametrize("killed", [True, False], ids=["killed", "left out"])
def test_a_regroup_frees_whoever_waits(ranks: Ranks, killed: bool) -> None:
    with Members(ranks, 3) as members:
        members.init(range(3))
        members.ask(range(3), steps.open_window).values()
        members.ask([1], steps.take_lock, 1).values()
        members.ask([0], steps.wait_in_threads).values()
        if killed:
            members.kill(1)
        members.regroup([0, 2]).values()
        kinds = ("CommunicatorRevoked", "CommunicatorClosed", *(["PeerFailure"] if killed else []))
        for caught in members.ask([0], steps.how_the_threads_ended).values()[0]:
            assert caught.kind in kinds, caught
        members.ask([0, 2], steps.reopen).values()
        members.ask([0, 2], steps.use_all).values()


def test_a_lock_that_was_held_before(ranks: Ranks) -> None:
    """Giving it back says that there is nothing to give back; the new window's lock is free."""
    with Members(ranks, 2) as members:
        members.init(range(2))
        members.ask([0, 1], steps.open_window).values()
        members.ask([1], steps.take_lock, 0).values()
        members.regroup([0, 1]).values()
        caught = members.ask([1], steps.release_lock).values()[1]
        assert caught.kind == "CommunicatorRevoked", caught
        members.ask([0, 1], steps.reopen).values()
        members.ask([0, 1], steps.use_all).values()


def test_windows_of_an_earlier_generation_can_be_closed(ranks: Ranks) -> None:
    """By each by itself, at any time."""
    with Members(ranks, 2) as members:
        members.init(range(2))
        members.ask([0, 1], steps.open_window).values()
        members.ask([0, 1], steps.open_window).values()
        members.regroup([1, 0]).values()
        members.ask([0], steps.close_all).values()
        members.ask([1, 0], steps.open_window).values()
        members.ask([1, 0], steps.use_all).values()
        members.order([0], steps.close_all)
        members.ask([1], steps.close_all).values()
        members.answers([0]).values()
