"""The phases of a job, as its coordinator sees it, and the only table of what leads from one to the next."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    GATHERING = "gathering"  # no membership yet
    RELEARNING = "relearning"  # this coordinator is younger than the membership, and is told of it
    FORMING = "forming"  # a membership was announced; not all have settled
    STABLE = "stable"  # all train
    CHANGING = "changing"  # the membership ends: waiting until the living stand still
    TOO_FEW = "too few"  # all stand still, and may not go on alone
    ENDED = "ended"
    SUPERSEDED = "superseded"  # a later coordinator decides


class Cause(Enum):
    TAUGHT = "taught"  # a member knows a membership that this coordinator does not
    RECALLED = "recalled"  # that membership is known now
    VOID = "void"  # nobody was ever in it
    ENOUGH = "enough"  # the next membership can be announced
    SETTLED = "settled"  # the last of its members has settled
    BROKEN = "broken"  # somebody died, failed, or wants to join
    FEW = "few"  # too few stand still, or too few of the ones before
    OVER = "over"
    SUPERSEDED = "superseded"


TABLE: dict[tuple[Phase, Cause], Phase] = {
    (Phase.GATHERING, Cause.TAUGHT): Phase.RELEARNING,
    (Phase.STABLE, Cause.TAUGHT): Phase.RELEARNING,
    (Phase.CHANGING, Cause.TAUGHT): Phase.RELEARNING,
    (Phase.TOO_FEW, Cause.TAUGHT): Phase.RELEARNING,
    (Phase.GATHERING, Cause.ENOUGH): Phase.FORMING,
    (Phase.RELEARNING, Cause.RECALLED): Phase.STABLE,
    (Phase.RELEARNING, Cause.VOID): Phase.GATHERING,
    (Phase.FORMING, Cause.SETTLED): Phase.STABLE,
    (Phase.FORMING, Cause.BROKEN): Phase.CHANGING,
    (Phase.STABLE, Cause.BROKEN): Phase.CHANGING,
    (Phase.CHANGING, Cause.ENOUGH): Phase.FORMING,
    (Phase.CHANGING, Cause.FEW): Phase.TOO_FEW,
    (Phase.TOO_FEW, Cause.ENOUGH): Phase.FORMING,
    **{(phase, Cause.OVER): Phase.ENDED for phase in Phase if phase not in (Phase.ENDED, Phase.SUPERSEDED)},
    **{(phase, Cause.SUPERSEDED): Phase.SUPERSEDED for phase in Phase if phase is not Phase.ENDED},
}

DECIDED = frozenset({Phase.ENDED, Phase.SUPERSEDED})  # nothing leads out of these
