"""python -m pycomms.ft.core.simulator.cost: what a change of members costs the coordinator, decisions alone."""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from dataclasses import dataclass
from datetime import timedelta

from pycomms.ft.core.messages import Announce, Died, EpochId, Event, Form, MemberId, Position, Ready, Settled, Standing
from pycomms.ft.core.quorum import Quorum
from pycomms.ft.core.rule import Outgoing, Rule
from pycomms.ft.core.timeouts import derive

RANKS_PER_HOST = 8


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Seconds of the processor, for all events of the change together."""

    death: float
    newcomer: float


class Coordinated:
    """A job of members that do what they are told at once."""

    def __init__(self, members: int) -> None:
        rule = Rule(min_ranks=1, max_ranks=members, expected=members, timeouts=derive(timedelta(seconds=10)))
        self._quorum = Quorum(rule, 1)
        self._members = [MemberId(f"host{slot // RANKS_PER_HOST}", f"first{slot}") for slot in range(members)]
        self._step = 0
        out = [sent for slot in range(members) for sent in self._say(self._announcement(slot))]
        self._settle(out)

    def death(self, slot: int) -> float:
        """The death is told, all others stand still, the next membership is announced, and they settle."""
        dead = self._members[slot]
        began = time.process_time()
        self._say(Died(member=dead, how="signal 9"))
        out = self._stand(dead)
        self._settle(out)
        return time.process_time() - began

    def newcomer(self, slot: int) -> float:
        """Into the slot of one that has died."""
        dead = self._members[slot]
        self._members[slot] = MemberId(dead.host, f"{dead.nonce}+")
        began = time.process_time()
        self._say(self._announcement(slot))
        out = self._stand(self._members[slot])
        self._settle(out)
        return time.process_time() - began

    def _announcement(self, slot: int) -> Announce:
        return Announce(member=self._members[slot], slot=slot, pid=slot, handle="", position=Position())

    def _stand(self, absent: MemberId) -> list[Outgoing]:
        self._step += 1
        position = Position(committed=self._step, standing=Standing.TRAINED)
        out: list[Outgoing] = []
        for one in self._members:
            if one != absent:
                out = self._say(Ready(member=one, epoch=self._epoch, handle="", position=position))
        return out

    def _settle(self, out: list[Outgoing]) -> None:
        (form,) = {id(one.notice): one.notice for one in out if isinstance(one.notice, Form)}.values()
        self._epoch: EpochId = form.epoch
        for seat in form.seats:
            self._say(Settled(member=seat.member, epoch=form.epoch, seconds=0.0))

    def _say(self, event: Event) -> list[Outgoing]:
        return self._quorum.apply(0.0, event)


def measure(members: int, rounds: int) -> Cost:
    """The median over rounds, in each of which one dies and another takes its slot."""
    job = Coordinated(members)
    slots = [members * one // rounds for one in range(rounds)]
    costs = [(job.death(slot), job.newcomer(slot)) for slot in slots]
    return Cost(
        death=statistics.median(death for death, _ in costs),
        newcomer=statistics.median(newcomer for _, newcomer in costs),
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m pycomms.ft.core.simulator.cost", description=__doc__)
    parser.add_argument("--members", type=int, nargs="+", default=[1_000, 4_096, 10_000])
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    gc.freeze()
    print("members   a death   a newcomer   (CPU, median)")
    for members in options.members:
        cost = measure(members, options.rounds)
        print(f"{members:7}  {1e3 * cost.death:5.0f} ms     {1e3 * cost.newcomer:5.0f} ms")


if __name__ == "__main__":
    main()
