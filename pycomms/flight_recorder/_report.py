"""An analysis as text, and as one JSON object."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pycomms.flight_recorder._model import Site
from pycomms.flight_recorder._words import duration_text
from pycomms.flight_recorder.analysis import Analysis, Edge, Finding, GroupRef, RanksAt, Replaced, Suspicion
from pycomms.flight_recorder.analysis._text import ranks_text, runs

_SHOWN = 12
"""Lines of one sort in the text: the JSON has all of them."""


def to_text(analysis: Analysis, explain: bool = False) -> str:
    """A headline that holds what matters, then what happened and what to do, for each finding."""
    lines: list[str] = []
    if not analysis.findings:
        ranks = "1 rank" if len(analysis.ranks) == 1 else f"{len(analysis.ranks)} ranks"
        lines.append(f"{analysis.verdict.value}: {ranks}, {analysis.entries} operations, no fault found")
    for number, finding in enumerate(analysis.findings):
        if number:
            lines.append("")
        lines.extend(_finding(finding))
    for suspicion in analysis.suspicions:
        lines.extend(_suspicion(suspicion))
    lines.extend(_cut(f"before: {replaced_text(one)}" for one in analysis.replaced))
    if explain:
        lines.extend(["", *_explanation(analysis)])
    if analysis.warnings:
        lines.append("")
        lines.extend(_cut(f"warning: {text}" for text in analysis.warnings))
    return "\n".join(lines)


def headline(finding: Finding) -> str:
    """``MISSING_RANK root ranks [5] group tp2 seq 4 all_reduce; last op of 5: seq 3 at train.py:88; victims: …``."""
    parts = [finding.verdict.value]
    parts.append(f"root ranks [{_short(finding.root_ranks)}]")
    if finding.group is not None:
        parts.append(f"group {finding.group.label}")
    if finding.op is not None:
        parts.append(f"seq {finding.op.sequence} {finding.op.kind}")
    text = [" ".join(parts)]
    for place in finding.culprit_sites[:3]:
        at = f" at {place.site}" if place.site.file else ""
        another = finding.op is not None and place.op.kind != finding.op.kind
        kind = f" {place.op.kind}" if another else ""
        text.append(f"last op of {_short(place.ranks)}: seq {place.op.sequence}{kind}{at}")
    if finding.victims:
        text.append("victims: " + ", ".join(f"{one.group.label}[{_short(one.ranks)}]" for one in finding.victims[:8]))
    return "; ".join(text)


def _short(ranks: Sequence[int]) -> str:
    return runs(ranks).replace(", ", ",")


def _finding(finding: Finding) -> Iterable[str]:
    yield headline(finding)
    yield f"  what happened: {finding.what}"
    for side in finding.sides[:_SHOWN]:
        yield f"  side: {ranks_text(side.ranks)}: {side.what}"
    yield from _issued_at(finding)
    yield f"  next: {finding.next_step}"
    if finding.would_decide:
        yield f"  what would tell more: {finding.would_decide}"
    yield f"  confidence: {finding.confidence:.0%}"


def _issued_at(finding: Finding) -> Iterable[str]:
    for place in finding.victim_sites[:_SHOWN]:
        if place.site.file:
            yield f"  {ranks_text(place.ranks)} issued {place.op.kind} {place.op.sequence} at {_where(place.site)}"


def _suspicion(suspicion: Suspicion) -> Iterable[str]:
    lasted, most = duration_text(suspicion.lasted_ns), duration_text(suspicion.fault_ns)
    yield f"if it lasts: {headline(suspicion.finding)}"
    yield f"  so far: {lasted}, which may be no fault; after {most} it is called one (--patience S: after S seconds)"
    yield f"  what is seen: {suspicion.finding.what}"
    yield from _issued_at(suspicion.finding)


def replaced_text(one: Replaced) -> str:
    """``process 47 of rank 3 was killed, behind send 5 at train.py:12; another has taken its place``."""
    behind = f", behind {one.op.kind} {one.op.sequence}" if one.op else ""
    at = f" at {_where(one.site)}" if one.site.file else ""
    return f"process {one.pid} of rank {one.rank} was killed{behind}{at}; another has taken its place"


def _where(site: Site) -> str:
    return f"{site} in {site.function}" if site.function else str(site)


def _explanation(analysis: Analysis) -> Iterable[str]:
    yield f"read {analysis.entries} operations of {len(analysis.ranks)} ranks in {len(analysis.groups)} groups"
    if analysis.absent_ranks:
        yield f"without a record: {ranks_text(analysis.absent_ranks)}"
    if analysis.edges:
        yield "who waits for whom:"
        disagreed = {(one.group, one.op.sequence) for one in analysis.findings if one.sides and one.op is not None}
        yield from _cut(_edge(edge, (edge.group, edge.op.sequence) in disagreed) for edge in analysis.edges)
    yield "a rank, or an operation, that waits for nothing else is a root cause; a circle is a deadlock"
    yield "of ranks that disagree about an operation, those are blamed that are fewer"


def _edge(edge: Edge, is_disagreed: bool) -> str:
    kind, met = ("operation", "all have come, and they disagree") if is_disagreed else (edge.op.kind, "all have come")
    waits_for = ranks_text(edge.waits_for) if edge.waits_for else f"nobody: {met}"
    return f"  rank {edge.waiter} in {kind} {edge.op.sequence} of {edge.group.label} waits for {waits_for}"


def _cut(lines: Iterable[str]) -> Iterable[str]:
    every = list(lines)
    yield from every[:_SHOWN]
    if len(every) > _SHOWN:
        yield f"  and {len(every) - _SHOWN} more (--json has all)"


def to_json(analysis: Analysis, explain: bool = False) -> str:
    """The first finding at the top level, all of them in ``findings``."""
    found = [_as_object(finding) for finding in analysis.findings]
    top = found[0] if found else {"verdict": analysis.verdict.value, **_NOTHING}
    document: dict[str, Any] = {
        "schema": 1,
        **top,
        "warnings": list(analysis.warnings),
        "degraded": analysis.degraded,
        "ranks": len(analysis.ranks),
        "absent_ranks": list(analysis.absent_ranks),
        "entries": analysis.entries,
        "findings": found,
        "suspicions": [
            {
                **_as_object(suspicion.finding),
                "lasted_s": suspicion.lasted_ns / 1e9,
                "fault_after_s": suspicion.fault_ns / 1e9,
            }
            for suspicion in analysis.suspicions
        ],
    }
    if analysis.replaced:
        document["replaced"] = [_replaced(one) for one in analysis.replaced]
    if explain:
        document["waits"] = [
            {
                "rank": edge.waiter,
                "group": _group(edge.group),
                "op": {"kind": edge.op.kind, "seq": edge.op.sequence},
                "waits_for": list(edge.waits_for),
            }
            for edge in analysis.edges
        ]
    return json.dumps(document)


_NOTHING: dict[str, Any] = {
    "root_ranks": [],
    "group": None,
    "op": None,
    "sites": [],
    "victims": [],
    "confidence": 1.0,
}


def _group(group: GroupRef) -> dict[str, Any]:
    return {"name": group.name, "desc": group.description, "ranks": list(group.ranks)}


def _places(places: Iterable[RanksAt]) -> list[dict[str, Any]]:
    return [
        {
            "ranks": list(place.ranks),
            "file": place.site.file,
            "line": place.site.line,
            "op": {"kind": place.op.kind, "seq": place.op.sequence},
        }
        for place in places
    ]


def _replaced(one: Replaced) -> dict[str, Any]:
    op = {"kind": one.op.kind, "seq": one.op.sequence, "p2p": one.op.p2p} if one.op else None
    place = {"file": one.site.file, "line": one.site.line}
    return {"rank": one.rank, "pid": one.pid, "host": one.host, "op": op, **place}


def _as_object(finding: Finding) -> dict[str, Any]:
    op = finding.op
    return {
        "verdict": finding.verdict.value,
        "root_ranks": list(finding.root_ranks),
        "group": _group(finding.group) if finding.group is not None else None,
        "op": {"kind": op.kind, "seq": op.sequence, "p2p": op.p2p} if op is not None else None,
        "sites": _places(finding.culprit_sites),
        "victim_sites": _places(finding.victim_sites),
        "victims": [
            {
                "group": one.group.name,
                "desc": one.group.description,
                "ranks": list(one.ranks),
                "op": {"kind": one.op.kind, "seq": one.op.sequence},
            }
            for one in finding.victims
        ],
        "sides": [{"ranks": list(side.ranks), "what": side.what} for side in finding.sides],
        "confidence": finding.confidence,
        "what": finding.what,
        "next": finding.next_step,
        "would_decide": finding.would_decide,
        "silent": finding.silent,
    }
