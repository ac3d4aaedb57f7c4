"""What became of a trial on one backend, and how two of them compare. Pure data: no torch, no processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

OURS = "nccl2"
_WORST = ("died", "hung", "raised", "wrong", "not run", "ok")


@dataclass(frozen=True, kw_only=True)
class Outcome:
    kind: str  # ok; wrong: other numbers than the reference; raised; hung: no answer by the deadline; died; not run
    text: str = ""  # the value, or what was said

    @staticmethod
    def of_ranks(outcomes: list[Outcome]) -> Outcome:
        """The worst of all ranks, or all values."""
        worst = min(outcomes, key=lambda outcome: _WORST.index(outcome.kind))
        return worst if worst.kind != "ok" else Outcome(kind="ok", text=" | ".join(o.text for o in outcomes))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    area: str
    name: str
    world: int
    delays: str
    ours: Outcome
    theirs: Outcome

    @property
    def verdict(self) -> str:
        if self.ours.kind == "ok" and self.theirs.kind == "ok":
            return "equal" if self.ours.text == self.theirs.text else "differ"
        if self.ours.kind == "ok":
            return "theirs not run" if self.theirs.kind == "not run" else "theirs fails"
        return "both fail" if self.theirs.kind != "ok" else "ours fails"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict}

    @staticmethod
    def from_json(found: dict[str, Any]) -> Comparison:
        plain = {key: found[key] for key in ("area", "name", "world", "delays")}
        return Comparison(**plain, ours=Outcome(**found["ours"]), theirs=Outcome(**found["theirs"]))


VERDICTS = ("equal", "theirs fails", "differ", "ours fails", "theirs not run", "both fail")
_RARE = ("theirs not run", "both fail")  # shown if there are any


def table(comparisons: Iterable[Comparison]) -> str:
    """Markdown, a row for each area, number of ranks and delay."""
    counts: dict[tuple[str, int, str], Counter[str]] = {}
    for one in comparisons:
        counts.setdefault((one.area, one.world, one.delays), Counter())[one.verdict] += 1
    total: Counter[str] = sum(counts.values(), Counter())
    verdicts = [verdict for verdict in VERDICTS if verdict not in _RARE or total[verdict]]
    rows = [["area", "ranks", "delays", "cases", *verdicts], ["---"] * (4 + len(verdicts))]
    for (area, world, delays), count in sorted(counts.items()):
        rows.append([area, str(world), delays, str(count.total()), *(str(count[verdict]) for verdict in verdicts)])
    rows.append(["all", "", "", str(total.total()), *(str(total[verdict]) for verdict in verdicts)])
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def listing(comparisons: Iterable[Comparison], verdict: str) -> str:
    """The cases of a verdict, those that say the same together."""
    groups: dict[tuple[str, str, str], list[Comparison]] = {}
    for one in comparisons:
        if one.verdict != verdict:
            continue
        said = one.theirs if one.ours.kind == "ok" else one.ours
        first_line = next((line for line in said.text.splitlines() if line.strip()), "")
        groups.setdefault((one.area, said.kind, first_line[:160]), []).append(one)
    lines = []
    for (area, kind, text), members in groups.items():
        names = list(dict.fromkeys(member.name for member in members))
        shown = "; ".join(names[:3]) + (f"; and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"* {area}, {len(members)} times {kind}: {shown}\n  `{text}`")
    return "\n".join(lines) or "none"
