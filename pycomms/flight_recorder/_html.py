"""The report of a job as one HTML file that needs nothing else: no network, no server, no library.

Everything that comes from a record is text of strangers: it is escaped, and the page forbids any script but its
own (by hash). Without JavaScript all but the timeline is there. Must not know: how verdicts are found.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template

from pycomms.flight_recorder._clocks import align
from pycomms.flight_recorder._markup import safe
from pycomms.flight_recorder._model import Record
from pycomms.flight_recorder._processes import one_of_each_process
from pycomms.flight_recorder._report import replaced_text
from pycomms.flight_recorder._standing import Standing, stand
from pycomms.flight_recorder._timeline import timeline
from pycomms.flight_recorder._verdict_card import sentence, tone, verdict_card, waiting_ranks
from pycomms.flight_recorder._wait_graph import draw
from pycomms.flight_recorder._whole_file import whole_file
from pycomms.flight_recorder._words import duration_text, ranks_text
from pycomms.flight_recorder.analysis import Analysis, Finding

MOST_ROWS = 2_000
"""Of the table of ranks: a browser takes seconds to lay out more."""

_MOST_LINES = 200

_HEADS = (
    ("rank", True), ("host", False), ("", False), ("in operation", False), ("group", False), ("seq", True),
    ("age", True), ("last completed", False), ("called at", False),
)  # fmt: skip


def write(path: str | Path, records: Sequence[Record], analysis: Analysis) -> None:
    """Writes the report. The file appears when it is whole."""
    with whole_file(Path(path)) as file:
        file.write(page(records, analysis).encode("utf-8", "replace"))


def page(records: Sequence[Record], analysis: Analysis) -> str:
    """The whole page, as text."""
    records = one_of_each_process(records)
    alignment = align(records)
    drawn = timeline(records, analysis, alignment)
    script = _asset("report.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # What a process that ended has been doing since: nothing, until the last look at the others.
    latest = max((record.taken_ns for record in records), default=0)
    standings = [stand(record, latest if record.alive is False else record.taken_ns) for record in records]
    rows, rows_text = _rows(standings, analysis)
    return Template(_asset("report.html")).substitute(
        script_hash=f"sha256-{digest}",
        title=safe(f"{analysis.verdict.value}: flight recorder of {_job_name(records)}"),
        style=_asset("report.css"),
        job=_job(records, analysis),
        tone=tone(analysis),
        verdict=verdict_card(analysis, standings),
        timeline_text=safe(f"{drawn.summary} {drawn.left_out}".strip()),
        nearby="Around the fault" if analysis.findings else "Latest",
        graph=_graph(analysis),
        heads="".join(
            f'<th{" class=right" if right else ""} scope="col"><button>{name or "state"}</button></th>'
            for name, right in _HEADS
        ),
        rows=rows,
        rows_text=safe(rows_text),
        more=_other_findings(analysis.findings[1:]) + _replaced(analysis) + _warnings(analysis),
        footer=f"{safe(alignment.said)} Ages are those at the moment that each record was taken;"
        " of processes that had ended, that the last one was.",
        data=script_data(drawn.data),
        script=script,
    )


def script_data(value: object) -> str:
    """JSON that can stand inside a script element: nothing in it can end that element."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _asset(name: str) -> str:
    return files("pycomms.flight_recorder").joinpath("report").joinpath(name).read_text("utf-8").rstrip("\n")


def _job_name(records: Sequence[Record]) -> str:
    return next((f"job {record.job}" for record in records if record.job), "a job")


def _job(records: Sequence[Record], analysis: Analysis) -> str:
    hosts = {record.host for record in records if record.host}
    size = max((record.world_size for record in records), default=0)
    taken = max((record.taken_ns for record in records), default=0)
    parts = [
        f"pycomms flight recorder · {_job_name(records)}",
        f"{len(records)} records of {max(size, len(analysis.ranks))} ranks",
        f"{len(hosts)} host{'s' * (len(hosts) != 1)}" if hosts else "",
        time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(taken / 1e9)) if taken else "",
    ]
    return safe(" · ".join(filter(None, parts)))


def _graph(analysis: Analysis) -> str:
    svg, words, left_out = draw(analysis)
    if not svg:
        return ""
    lines = "".join(f"<li>{safe(line)}</li>" for line in words)
    note = f'<p class="hint">{safe(left_out)}</p>' if left_out else ""
    return (
        '<section aria-labelledby="graph-head"><div class="bar"><h2 id="graph-head">Who waits for whom</h2></div>'
        f"<div>{svg}</div>{note}<details><summary>In words</summary><ul>{lines}</ul></details></section>"
    )


def _rows(standings: Sequence[Standing], analysis: Analysis) -> tuple[str, str]:
    """The table of ranks: root causes first, then those who wait; and how many there are."""
    roots = set(analysis.root_ranks)
    waiting = waiting_ranks(analysis) - roots
    order = sorted(
        standings,
        key=lambda row: (row.rank not in roots, row.rank not in waiting, row.rank),
    )
    marks = {**dict.fromkeys(waiting, "waits"), **dict.fromkeys(roots, "root cause")}
    lines = [_row(row, marks.get(row.rank, ""), row.rank in roots) for row in order[:MOST_ROWS]]
    lines += [
        f'<tr{" class=root" if rank in roots else ""}><td class="right">{rank}</td><td></td>'
        f'<td class="mark">no record</td>{"<td></td>" * 6}</tr>'
        for rank in analysis.absent_ranks[:MOST_ROWS]
    ]
    text = f"{len(order)} records."
    if len(order) > MOST_ROWS:
        text = f"The first {MOST_ROWS:,} of {len(order):,} records; --ranks chooses others."
    if analysis.absent_ranks:
        text += f" No record of rank {ranks_text(analysis.absent_ranks)}."
    return "\n".join(lines), text


def _row(row: Standing, mark: str, is_root: bool) -> str:
    died = "died" if row.alive is False and not mark else ""
    age = row.age_ns if row.operation else row.quiet_ns
    shown = duration_text(age) if age is not None else ""
    if not row.operation and shown:
        shown = f"idle {shown}"
    state = f" ({row.state})" if row.operation and row.state not in ("issued", "running") else ""
    cells = (
        ("right", str(row.rank) if row.rank >= 0 else "?", ""),
        ("", row.host, ""),
        ("mark", mark or died, ""),
        ("", row.operation + state, ""),
        ("", row.group, ""),
        ("right", str(row.sequence or ""), ""),
        ("right", shown, str(age if age is not None else -1)),
        ("", row.last_completed, ""),
        ("site", row.site or row.last_site, ""),
    )
    return (
        f"<tr{' class=root' if is_root else ''}>"
        + "".join(
            f"<td{f' class={name}' if name else ''}{f' data-key={key}' if key else ''}>{safe(text)}</td>"
            for name, text, key in cells
        )
        + "</tr>"
    )


def _other_findings(findings: Sequence[Finding]) -> str:
    if not findings:
        return ""
    items = "".join(
        f'<div class="finding"><h3><code>{finding.verdict.value}</code></h3><p>{safe(sentence(finding.what))}</p>'
        + (f"<p>{safe(sentence(finding.next_step))}</p>" if finding.next_step else "")
        + "</div>"
        for finding in findings
    )
    return (
        '<section aria-labelledby="more-head"><div class="bar"><h2 id="more-head">Other, independent findings'
        f" ({len(findings)})</h2></div>{items}</section>"
    )


def _replaced(analysis: Analysis) -> str:
    told = [sentence(replaced_text(one)) for one in analysis.replaced]
    return _lines("before", "Killed before, and replaced", told)


def _warnings(analysis: Analysis) -> str:
    return _lines("warn", "What makes this less certain", analysis.warnings)


def _lines(name: str, title: str, lines: Sequence[str]) -> str:
    """A section that lists them, the first `_MOST_LINES` of them; none for none. Its head says how many there are."""
    if not lines:
        return ""
    items = "".join(f"<li>{safe(line)}</li>" for line in lines[:_MOST_LINES])
    return (
        f'<section class="lines" aria-labelledby="{name}-head"><div class="bar"><h2 id="{name}-head">{title}'
        f" ({len(lines)})</h2></div><ul>{items}</ul></section>"
    )
