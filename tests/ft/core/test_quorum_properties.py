"""Whatever is said to a coordinator, in whatever order."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pycomms.ft.core.messages import (
    DONE,
    Announce,
    Beat,
    Change,
    Died,
    EpochId,
    Event,
    Evict,
    Form,
    Leaving,
    MemberId,
    Position,
    Ready,
    Refused,
    Settled,
    Standing,
    Verdict,
)
from pycomms.ft.core.phases import Phase
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Outgoing, Rule

from ._job import TIMES

SLOTS = 5


class Life:
    """A member as the test plays it: what it was told, and whether it stands still."""

    def __init__(self, member: MemberId, slot: int) -> None:
        self.member = member
        self.slot = slot
        self.epoch: EpochId | None = None
        self.before: EpochId | None = None
        self.stands = True
        self.committed = 0
        self.is_in_doubt = False
        self.refused: Verdict | None = None

    @property
    def position(self) -> Position:
        standing = Standing.TRAINED if self.epoch else Standing.FRESH
        return Position(
            committed=self.committed, in_doubt=self.committed + 1 if self.is_in_doubt else None, standing=standing
        )


class Adversary:
    """Says anything that hosts and members may say, and checks each answer."""

    def __init__(self, min_ranks: int) -> None:
        self.now = 0.0
        self.min_ranks = min_ranks
        self.quorum = Quorum(Rule(min_ranks=min_ranks, max_ranks=SLOTS, expected=SLOTS, timeouts=TIMES), 5)
        self.living: dict[int, Life] = {}
        self.dead: set[MemberId] = set()
        self.epochs: dict[EpochId, frozenset[MemberId]] = {}
        self.stood: frozenset[MemberId] = frozenset()
        self.newest: EpochId | None = None
        self.is_done = False
        self._last: dict[int, MemberId] = {}
        self._lives = 0

    def host(self, slot: int) -> str:
        return f"host{slot // 2}"

    def spawn(self, slot: int) -> None:
        if slot in self.living:
            return
        self._lives += 1
        life = self.living[slot] = Life(MemberId(self.host(slot), f"{slot}.{self._lives}"), slot)
        known = set(self.dead)
        if slot in self._last:
            self.dead.add(self._last[slot])  # its host says so by starting another
        self.announce(slot)
        if life.refused:
            self.dead = known
        self._last[slot] = life.member

    def announce(self, slot: int) -> None:
        if life := self.living.get(slot):
            self.say(
                Announce(
                    member=life.member,
                    slot=slot,
                    pid=1,
                    handle=f"{life.epoch}",
                    position=life.position,
                    epoch=life.epoch,
                )
            )

    def stand(self, slot: int, suspects: tuple[int, ...] = (), *, old: bool = False) -> None:
        life = self.living.get(slot)
        if life is None or life.epoch is None:
            return
        epoch = life.before if old and life.before else life.epoch
        if not old:
            life.stands = True
        named = tuple(self.living[one].member for one in suspects if one in self.living and one != slot)
        self.say(Ready(member=life.member, epoch=epoch, handle=f"{life.epoch}", position=life.position, suspects=named))

    def settle(self, slot: int) -> None:
        life = self.living.get(slot)
        if life is not None and life.epoch is not None and life.stands:
            life.stands = False
            self.stood = self.epochs[life.epoch] if life.epoch == self.newest else self.stood
            self.say(Settled(member=life.member, epoch=life.epoch, seconds=0.1))

    def kill(self, slot: int, *, told: bool = True) -> None:
        life = self.living.pop(slot, None)
        if life is not None and told:
            self.dead.add(life.member)
            self.say(Died(member=life.member, how="signal 9"))

    def leave(self, slot: int, reason: str) -> None:
        life = self.living.pop(slot, None)
        if life is not None:
            self.is_done = self.is_done or reason == DONE
            self.dead.add(life.member)
            self.say(Leaving(member=life.member, reason=reason))

    def lose_host(self, slot: int) -> None:
        self.hear(self.quorum.host_lost(self.now, self.host(slot), "reset"))

    def pass_(self, seconds: float, *, beating: bool = True) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 2.0)
            if beating:
                for host in {self.host(slot): None for slot in self.living}:
                    self.say(Beat(host=host))
            deadline = self.quorum.next_deadline()
            if deadline is not None and deadline <= self.now:
                self.hear(self.quorum.tick(self.now))

    def say(self, event: Event) -> None:
        self.hear(self.quorum.apply(self.now, event))

    def hear(self, out: list[Outgoing]) -> None:
        for one in out:
            notice = one.notice
            if isinstance(notice, Form):
                self._check(notice)
                self._told(one.to, notice)
            elif isinstance(notice, Refused):
                for life in self.living.values():
                    if life.member == notice.member:
                        life.refused = notice.verdict
            elif isinstance(notice, Evict):
                assert notice.member not in self.dead

    def _told(self, to: MemberId | str, form: Form) -> None:
        for life in self.living.values():
            if life.member == to and (life.epoch is None or form.epoch > life.epoch):
                life.before, life.epoch, life.stands = life.epoch, form.epoch, True

    def _check(self, form: Form) -> None:
        members = frozenset(seat.member for seat in form.seats)
        if form.epoch in self.epochs:
            assert self.epochs[form.epoch] == members, "two lists of members for one epoch"
            return
        assert self.newest is None or form.epoch > self.newest, "epochs have to grow"
        assert form.previous == self.newest
        assert not members & self.dead, "a member that is known dead"
        assert len(members) >= self.min_ranks or self.is_done, "fewer than min_ranks"
        assert [seat.slot for seat in form.seats] == sorted({seat.slot for seat in form.seats})
        electors = self.stood - self.dead
        assert 2 * len(members & electors) >= len(electors), "a minority of the last that stood"
        self.newest = form.epoch
        self.epochs[form.epoch] = members


slot = st.integers(0, SLOTS - 1)
some = st.lists(slot, max_size=3).map(tuple)
ACTION = st.one_of(
    st.tuples(st.sampled_from(("spawn", "announce", "settle", "kill", "lose_host")), slot),
    st.tuples(st.just("settle_all"), slot),
    st.tuples(st.just("stand_all"), slot),
    st.tuples(st.just("stand"), slot, some, st.booleans()),
    st.tuples(st.just("leave"), slot, st.sampled_from(("preempted", "preempted", "preempted", DONE))),
    st.tuples(st.just("vanish"), slot),
    st.tuples(st.just("pass"), st.sampled_from((0.01, 1.0, 3.0, 11.0, 70.0)), st.booleans()),
)


def play(adversary: Adversary, action: tuple[Any, ...]) -> None:
    kind, *rest = action
    if kind == "pass":
        adversary.pass_(rest[0], beating=rest[1])
    elif kind == "stand":
        adversary.stand(rest[0], rest[1], old=rest[2])
    elif kind == "stand_all":
        for one in range(SLOTS):
            adversary.stand(one)
    elif kind == "settle_all":
        for one in range(SLOTS):
            adversary.settle(one)
    elif kind == "vanish":
        adversary.kill(rest[0], told=False)
    else:
        getattr(adversary, kind)(*rest)


VANISHED_AND_STARTED_AGAIN = [
    ("settle_all", 0),
    ("vanish", 0),
    ("vanish", 1),
    ("spawn", 0),
    ("spawn", 1),
    ("vanish", 2),
]


@settings(max_examples=150, deadline=None)
@example(1, VANISHED_AND_STARTED_AGAIN)
@given(st.integers(1, 3), st.lists(ACTION, max_size=40))
def test_whatever_is_said_the_rules_hold_and_all_who_live_are_answered(
    min_ranks: int,
    actions: list[tuple[Any, ...]],
) -> None:
    adversary = Adversary(min_ranks)
    for one in range(SLOTS):
        adversary.spawn(one)
    for action in actions:
        play(adversary, action)
    _behave(adversary)
    phase = adversary.quorum.view().phase
    assert phase in (Phase.STABLE, Phase.ENDED), adversary.quorum.view()
    for life in adversary.living.values():
        assert life.refused or (phase is Phase.STABLE and life.epoch == adversary.newest), adversary.quorum.view()


def _behave(adversary: Adversary) -> None:
    """From now on all who live do what they are asked to: they stand still when they have to, or are evicted."""
    for _ in range(4):
        for slot in list(adversary.living):
            adversary.announce(slot)
        for _ in range(3):
            _answer(adversary)
        adversary.pass_(70.0)


def _answer(adversary: Adversary) -> None:
    view = adversary.quorum.view()
    for slot, life in list(adversary.living.items()):
        if life.refused in (Verdict.STALE, Verdict.DUPLICATE, Verdict.FULL):
            adversary.kill(slot)
        elif view.phase in (Phase.CHANGING, Phase.TOO_FEW):
            adversary.stand(slot)
        elif view.phase is Phase.FORMING:
            adversary.settle(slot)


@settings(max_examples=100, deadline=None)
@given(st.permutations(range(SLOTS)), st.sets(slot, min_size=1, max_size=SLOTS - 1))
def test_the_order_of_deaths_and_answers_does_not_matter(order: list[int], dying: set[int]) -> None:
    adversary = Adversary(1)
    for one in range(SLOTS):
        adversary.spawn(one)
    for one in range(SLOTS):
        adversary.settle(one)
    for one in order:
        if one in dying:
            adversary.kill(one)
        else:
            adversary.stand(one)
    assert adversary.epochs[EpochId(5, 2)] == {life.member for life in adversary.living.values()}


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 60), st.data())
def test_a_change_costs_a_few_notices_for_each_member(members: int, data: st.DataObject) -> None:
    quorum = Quorum(Rule(min_ranks=1, max_ranks=members, expected=members, timeouts=TIMES), 1)
    names = [MemberId(f"h{one}", str(one)) for one in range(members)]
    for rank, one in enumerate(names):
        out = quorum.apply(0.0, Announce(member=one, slot=rank, pid=1, handle="", position=Position()))
    epoch = next(one.notice.epoch for one in out if isinstance(one.notice, Form))
    for one in names:
        assert quorum.apply(0.0, Settled(member=one, epoch=epoch, seconds=0.0)) == []
    dying = data.draw(st.sets(st.integers(0, members - 1), min_size=1, max_size=members - 1))
    out = [sent for one in dying for sent in quorum.apply(1.0, Died(member=names[one], how=""))]
    assert sum(isinstance(one.notice, Change) for one in out) <= members
    for rank, one in enumerate(names):
        if rank not in dying:
            out += quorum.apply(1.0, Ready(member=one, epoch=epoch, handle="", position=Position()))
    assert len(out) <= 2 * members
