"""What all reports tell of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pycomms.chaos.core.invariants import Judgement
from pycomms.chaos.core.log import Log


@dataclass(frozen=True, kw_only=True)
class Facts:
    folder: Path
    command: Sequence[str]
    log: Log
    judgement: Judgement


@dataclass(frozen=True, kw_only=True)
class Happening:
    """One thing on the time line. rank: -1: of the job."""

    t: float
    rank: int
    kind: str
    text: str


_POINTS = {
    "standing": "stands still",
    "regrouping": "regroups",
    "fetching": "fetches the state",
    "serving": "serves the state",
}


def story(log: Log) -> list[Happening]:
    """What is worth telling, in order; steps are not."""
    told: list[Happening] = []
    for event in log.events:
        t, rank, kind = event["t"], event.get("rank", -1), event["kind"]
        if kind == "fault":
            whom = event.get("process", "")
            told.append(
                Happening(t=t, rank=rank, kind="fault", text=f"{event['what']} {whom}".strip() + f" ({event['where']})")
            )
        elif kind == "over":
            told.append(Happening(t=t, rank=rank, kind="over", text="the fault is over"))
        elif kind == "worker":
            start = f", start {event['incarnation'] + 1}" if event["incarnation"] else ""
            told.append(Happening(t=t, rank=rank, kind="came", text=f"process {event['pid']} has come{start}"))
        elif kind == "gone":
            told.append(Happening(t=t, rank=rank, kind="gone", text=f"process {event['pid']} has ended"))
        elif kind == "not-injected":
            told.append(Happening(t=t, rank=rank, kind="not-injected", text=event["why"]))
        elif kind == "point" and event["point"] == "settled":
            members = len(event["members"])
            told.append(
                Happening(t=t, rank=rank, kind="settled", text=f"trains with {members} members: {event['reason']}")
            )
        elif kind == "point" and event["point"] in _POINTS:
            told.append(Happening(t=t, rank=rank, kind=event["point"], text=_POINTS[event["point"]]))
    return told
