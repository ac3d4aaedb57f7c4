"""A set of plans as an index of their reports: one HTML file. What comes from the job is escaped."""

from __future__ import annotations

from html import escape

from pycomms.chaos._report.overview import Overview, Row
from pycomms.chaos._report.page import page
from pycomms.chaos.core.plan import words


def to_html(overview: Overview) -> str:
    return page(
        "index.html",
        title=escape(f"{overview.state.value}: {overview.name}"),
        heading=escape(overview.name),
        result=escape(overview.state.value),
        said=escape(f"{overview.said}, {overview.seconds:.0f} s"),
        command=escape(" ".join(overview.command)),
        rows="\n".join(map(_row, overview.rows)),
    )


def _row(row: Row) -> str:
    name = escape(row.plan.name)
    if row.folder is not None:
        name = f'<a href="{escape(row.folder.name)}/report.html">{name}</a>'
    faults = "".join(f"<li>{escape(words(fault))}</li>" for fault in row.plan.faults)
    recovery = "" if row.recovery is None else f"{1e3 * row.recovery:.0f} ms"
    state = row.state.value
    return (
        f'<tr class="{state.split()[0]}"><td>{state}</td><th scope="row">{name}</th>'
        f"<td>{escape(row.plan.about)}<ul>{faults}</ul></td><td>{escape(row.ending.value)}</td>"
        f"<td>{row.seconds:.1f} s</td><td>{recovery}</td><td>{escape(row.why)}</td></tr>"
    )
