"""For people, at a terminal."""

from __future__ import annotations

from pycomms.chaos._report.facts import Facts, story
from pycomms.chaos.core.finding import State
from pycomms.chaos.core.plan import words

_SIGNS = {State.HELD: "ok  ", State.VIOLATED: "FAIL", State.UNCHECKED: " -  "}
_MOST = 40
_KINDS = ("fault", "over", "gone", "settled", "not-injected")


def to_text(facts: Facts) -> str:
    log, judgement = facts.log, facts.judgement
    plan = log.plan
    lines = [
        f"{judgement.result.value.upper()}: {plan.name}, seed {plan.seed}: {judgement.why}",
        "",
        *(f"  fault {number}: {words(fault)}" for number, fault in enumerate(plan.faults)),
        "",
    ]
    for finding in judgement.findings:
        lines.append(f"  {_SIGNS[finding.state]} {finding.invariant:14} {finding.what}")
        lines += [f"       {'':14} {detail}" for detail in finding.details]
    told = [one for one in story(log) if one.kind in _KINDS]
    lines += ["", "  what happened:"]
    for one in told[:_MOST]:
        who = f"rank {one.rank}" if one.rank >= 0 else ""
        lines.append(f"  {one.t:8.3f} s  {who:8} {one.text}")
    if len(told) > _MOST:
        lines.append(f"  and {len(told) - _MOST} more")
    if log.verdict.get("text"):
        lines += ["", "  the flight recorder says:", *(f"    {line}" for line in log.verdict["text"].splitlines())]
    lines += ["", f"  all of it: {facts.folder}", f"  again:     pycomms chaos replay {facts.folder}"]
    return "\n".join(lines)
