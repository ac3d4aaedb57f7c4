"""The top of the HTML report: what happened, who, where, and what to do, for somebody who was woken up for it.

Pure. Must not know: how the verdict was found, the rest of the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from pycomms.flight_recorder._markup import safe
from pycomms.flight_recorder._standing import Standing
from pycomms.flight_recorder._words import duration_text, group_label, ranks_text
from pycomms.flight_recorder.analysis import Analysis, Finding, GroupRef, OpRef, RanksAt, Suspicion, Verdict

_HEADLINES = {
    Verdict.HEALTHY: "Nothing is wrong in these records",
    Verdict.MISSING_RANK: "{Who} did not join {op}",
    Verdict.OP_MISMATCH: "Ranks called different operations as {place}",
    Verdict.SIZE_MISMATCH: "Ranks disagree about the size of {op}",
    Verdict.DTYPE_MISMATCH: "Ranks disagree about the data type of {op}",
    Verdict.REDOP_MISMATCH: "Ranks disagree about the reduction of {op}",
    Verdict.ROOT_MISMATCH: "Ranks disagree about the root of {op}",
    Verdict.SPLIT_MISMATCH: "Split sizes of {op} do not fit together",
    Verdict.ORDER_SWAP: "{Who} called operations in another order",
    Verdict.ORDER_DEADLOCK: "Deadlock: ranks use their groups in different orders",
    Verdict.P2P_UNMATCHED: "{op} has no counterpart",
    Verdict.P2P_DEADLOCK: "Deadlock: ranks wait for messages of each other",
    Verdict.P2P_TAG_MISMATCH: "Sender and receiver use different tags",
    Verdict.P2P_SIZE_MISMATCH: "Sender and receiver disagree about the size",
    Verdict.ALL_JOINED_NOT_DONE: "All ranks joined {op}, and it does not end",
    Verdict.DEVICE_QUEUE_BLOCKED: "{Who} issued {op}, but the device has not started it",
    Verdict.COMPLETION_STUCK: "{op} ended everywhere except on {who}",
    Verdict.RANK_DIED: "{Who} died",
    Verdict.RANK_RESTARTED: "{Who} was restarted while others went on",
    Verdict.REJECTED_OP: "{Who} had an operation refused",
    Verdict.SLOW_RANK: "{Who} is slower than the others",
    Verdict.INSUFFICIENT_DATA: "The records do not tell what is wrong",
}


def tone(analysis: Analysis) -> str:
    """The class of the card: nothing wrong, something wrong, or not to be told."""
    if analysis.verdict is Verdict.HEALTHY:
        return "good"
    unsure = analysis.verdict in (Verdict.INSUFFICIENT_DATA, Verdict.SLOW_RANK) or not analysis.root_ranks
    return "unsure" if unsure else "bad"


def waiting_ranks(analysis: Analysis) -> set[int]:
    return {edge.waiter for edge in analysis.edges} | {
        rank for finding in analysis.findings for rank in finding.victim_ranks
    }


def who_text(ranks: tuple[int, ...]) -> str:
    if not ranks:
        return "a rank"
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {ranks_text(ranks)}"


def place_text(group: GroupRef | None, op: OpRef | None) -> str:
    """``number 6 of tp2``."""
    number = f"number {op.sequence}" if op is not None and op.sequence else "the same number"
    return f"{number} of {group_label(group)}" if group is not None else number


def headline(analysis: Analysis) -> str:
    """One line in plain words."""
    finding = analysis.findings[0] if analysis.findings else Finding(verdict=Verdict.HEALTHY)
    who = who_text(finding.root_ranks)
    op = f"{finding.op.kind} {place_text(finding.group, finding.op)}" if finding.op is not None else "an operation"
    text = _HEADLINES[finding.verdict].format(
        Who=who[0].upper() + who[1:], who=who, op=op, place=place_text(finding.group, finding.op)
    )
    return text[0].upper() + text[1:]


def sentence(text: str) -> str:
    """With a capital and a full stop: findings are written so that they can follow a colon."""
    text = text.strip()
    return f"{text[0].upper()}{text[1:]}{'' if text[-1] in '.!?' else '.'}" if text else ""


def verdict_card(analysis: Analysis, standings: Sequence[Standing]) -> str:
    """HTML. standings: of all ranks; it is looked up where the root causes run."""
    finding = analysis.findings[0] if analysis.findings else None
    sure = f"confidence {finding.confidence:.0%}" if finding is not None else ""
    unsure = "input was incomplete" if analysis.degraded else ""
    said = " · ".join(filter(None, (sure, unsure)))
    parts = [
        f'<p class="job"><span class="code">{analysis.verdict.value}</span> {said}</p>',
        f'<h1 id="verdict">{safe(headline(analysis))}</h1>',
    ]
    if finding is None:
        ranks = len(analysis.ranks)
        parts.append(
            f'<p class="happened">{analysis.entries:,} operations of {ranks} ranks were compared; every operation that'
            " one rank of a group joined was joined by the others, with the same arguments.</p>"
            if not analysis.suspicions
            else "".join(f'<p class="happened">{safe(_suspected(one))}</p>' for one in analysis.suspicions)
        )
        return "\n".join(parts)
    if finding.what:
        parts.append(f'<p class="happened">{safe(sentence(finding.what))}</p>')
    facts = "".join(
        f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in _facts(finding, analysis, standings)
    )
    parts.append(f'<dl class="facts">{facts}</dl>')
    if finding.next_step:
        parts.append(f'<p class="next"><b>Do next</b>{safe(sentence(finding.next_step))}</p>')
    if finding.would_decide:
        parts.append(f'<p class="next"><b>What would tell more</b>{safe(sentence(finding.would_decide))}</p>')
    return "\n".join(parts)


def _suspected(suspicion: Suspicion) -> str:
    return sentence(suspicion.finding.what) + (
        f" That has lasted for {duration_text(suspicion.lasted_ns)}, and is called a fault after"
        f" {duration_text(suspicion.fault_ns)}."
    )


def _facts(finding: Finding, analysis: Analysis, standings: Sequence[Standing]) -> list[tuple[str, str]]:
    roots = [row for row in standings if row.rank in finding.root_ranks]
    named = safe(who_text(finding.root_ranks)) if finding.root_ranks else "nobody can be named"
    facts = [("Root cause", "<br>".join([named, *map(_whereabouts, roots[:3])]))]
    if done := [row for row in roots[:3] if row.last_completed]:
        facts.append(("Last completed by it", "<br>".join(dict.fromkeys(map(_last, done)))))
    if finding.op is not None and finding.group is not None:
        members = f"ranks {ranks_text(finding.group.ranks)}" if finding.group.ranks else ""
        op = f"{finding.op.kind} {group_label(finding.group)}[{finding.op.sequence or '?'}]"
        facts.append(("Operation in question", f"{safe(op)} <span class=hint>{safe(members)}</span>"))
    others = "Others called at" if finding.culprit_sites else "Called at"
    facts += [("Root cause called at", _sites(finding.culprit_sites))] if finding.culprit_sites else []
    facts += [(others, _sites(finding.victim_sites))] if finding.victim_sites else []
    waiting = tuple(sorted(waiting_ranks(analysis) - set(finding.root_ranks)))
    if waiting:
        facts.append((f"Waiting because of it ({len(waiting)})", safe(who_text(waiting))))
    # In a deadlock the sentence above has said what each side does.
    if finding.verdict not in (Verdict.ORDER_DEADLOCK, Verdict.P2P_DEADLOCK):
        facts += [
            (f"Side {'ABCDEFGH'[n]}", f"{safe(who_text(side.ranks))}: {safe(side.what)}")
            for n, side in enumerate(finding.sides[:8])
        ]
    return facts


def _whereabouts(row: Standing) -> str:
    """What one needs to log in and look."""
    place = ", ".join(filter(None, (row.host, f"pid {row.pid}" if row.pid else "")))
    alive = {True: "alive", False: "not alive", None: ""}[row.alive]
    quiet = f"quiet for {duration_text(row.quiet_ns)}" if row.quiet_ns is not None and not row.operation else ""
    return f"<span class=hint>{safe(' · '.join(filter(None, (place, alive, quiet))))}</span>"


def _last(row: Standing) -> str:
    return f"{safe(row.last_completed)}<br><code>{safe(row.last_site)}</code>"


def _sites(sites: tuple[RanksAt, ...]) -> str:
    """A line each; the first few are enough to begin with."""
    lines = []
    for at in sites[:2]:
        function = f" in {at.site.function}" if at.site.function else ""
        where = str(at.site) or "unknown line"
        lines.append(
            f"<code>{safe(where)}</code>{safe(function)} <span class=hint>({safe(who_text(at.ranks))},"
            f" {safe(at.op.kind)} {at.op.sequence or ''})</span>"
        )
    if len(sites) > 2:
        lines.append(f"and {len(sites) - 2} more")
    return "<br>".join(lines)
