"""The report as one HTML file that needs nothing else: no network, no script. What comes from the job is escaped."""

from __future__ import annotations

from html import escape

from pycomms.chaos._report.facts import Facts, story
from pycomms.chaos._report.page import page
from pycomms.chaos._report.timeline import timeline
from pycomms.chaos.core.finding import Finding, State
from pycomms.chaos.core.plan import words
from pycomms.chaos.core.toml import to_toml

_MOST = 500
_CLASSES = {State.HELD: "held", State.VIOLATED: "violated", State.UNCHECKED: "unchecked"}


def to_html(facts: Facts) -> str:
    log, judgement = facts.log, facts.judgement
    plan = log.plan
    happenings = story(log)
    rows = [
        f'<tr class="{one.kind}"><td>{one.t:.3f} s</td><td>{one.rank if one.rank >= 0 else ""}</td>'
        f"<td>{escape(one.text)}</td></tr>"
        for one in happenings[:_MOST]
    ]
    if len(happenings) > _MOST:
        rows.append(f"<tr><td></td><td></td><td>and {len(happenings) - _MOST} more, in events.jsonl</td></tr>")
    return page(
        "report.html",
        title=escape(f"{judgement.result.value}: {plan.name}"),
        result=escape(judgement.result.value),
        heading=escape(plan.name),
        about=escape(plan.about),
        why=escape(judgement.why),
        seed=plan.seed,
        command=escape(" ".join(facts.command)),
        folder=escape(str(facts.folder)),
        faults="\n".join(f"<li>{escape(words(fault))}</li>" for fault in plan.faults),
        timeline=timeline(log) or "<p>No worker was seen.</p>",
        findings="\n".join(map(_row, judgement.findings)),
        story="\n".join(rows),
        recorder=_recorder(str(log.verdict.get("text", ""))),
        plan=escape(to_toml(plan)),
    )


def _row(finding: Finding) -> str:
    details = "".join(f"<li>{escape(detail)}</li>" for detail in finding.details)
    more = f"<ul>{details}</ul>" if details else ""
    state = finding.state.value
    return (
        f'<tr class="{_CLASSES[finding.state]}"><td>{state}</td><th scope="row">{finding.invariant}</th>'
        f"<td>{escape(finding.what)}{more}</td></tr>"
    )


def _recorder(text: str) -> str:
    return f"<h2>The flight recorder says</h2><pre>{escape(text)}</pre>" if text else ""
