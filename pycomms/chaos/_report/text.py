"""For people, at a terminal."""

from __future__ import annotations

from pycomms.chaos._report.facts import Facts, story
from pycomms.chaos.core.figures import figures
from pycomms.chaos.core.finding import State
from pycomms.chaos.core.log import Log
from pycomms.chaos.core.plan import Plan, words

_SIGNS = {State.HELD: "ok  ", State.VIOLATED: "FAIL", State.UNCHECKED: " -  "}
_MOST = 40
_KINDS = ("fault", "over", "gone", "settled", "not-injected")


def to_text(facts: Facts) -> str:
    log, judgement = facts.log, facts.judgement
    plan = log.plan
    lines = [
        f"{judgement.result.value.upper()}: {plan.name}, seed {plan.seed}: {judgement.why}",
        "",
        *_faults(plan),
        "",
    ]
    for finding in judgement.findings:
        lines.append(f"  {_SIGNS[finding.state]} {finding.invariant:14} {finding.what}")
        lines += [f"       {'':14} {detail}" for detail in finding.details]
    if len(log.hits) > 1:
        lines += ["", *_figures(log)]
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


def _faults(plan: Plan) -> list[str]:
    told = [f"  fault {number}: {words(fault)}" for number, fault in enumerate(plan.faults[:_MOST])]
    left = len(plan.faults) - len(told)
    return [*told, f"  and {left} more, in plan.toml"] if left else told


def _figures(log: Log) -> list[str]:
    seen = figures(log)
    lines = []
    if seen.recoveries:
        lines.append(
            f"  {seen.recoveries} recoveries: the next step after {1e3 * seen.median:.0f} ms (median), "
            f"{1e3 * seen.late:.0f} ms (99th percentile), {1e3 * seen.worst:.0f} ms (worst)"
        )
    if seen.kept is not None:
        lines.append(f"  throughput: {seen.kept:.1%} of what it is without faults")
    if seen.memory:
        lines.append("  memory of its own, at first and at last:")
        for name, (first, last) in sorted(seen.memory.items()):
            lines.append(f"    {name}: {first / 2**20:.0f} MiB, {last / 2**20:.0f} MiB")
    return lines
