"""What a session tells of a change of members."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """One change of members, as this one has seen it.

    Attributes:
        step: the last one that was committed when training went on.
        world: members afterwards.
        reason: who died and how, or who came.
        plan: what was done about the step that was in progress, and who has restored.
        seconds: from the failure, or the request to stop, to here.
        restored: whether this member had to fetch the state.
    """

    step: int
    world: int
    reason: str
    plan: str
    seconds: float
    restored: bool
