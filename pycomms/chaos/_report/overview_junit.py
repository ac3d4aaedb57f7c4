"""A set of plans for continuous integration: a test suite, with a test case for each plan."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from pycomms.chaos._report.junit import clean, document
from pycomms.chaos._report.overview import Overview, Row, State
from pycomms.chaos.core import finding


def to_junit(overview: Overview) -> str:
    counts = overview.counts
    suite = Xml.Element(
        "testsuite",
        name=clean(f"chaos.{overview.name}"),
        tests=str(len(overview.rows)),
        failures=str(counts[State.FAILED]),
        errors=str(counts[State.UNDECIDED]),
        skipped=str(counts[State.NOT_APPLICABLE]),
        time=f"{overview.seconds:.3f}",
    )
    for row in overview.rows:
        case = Xml.SubElement(
            suite,
            "testcase",
            classname=clean(f"chaos.{overview.name}"),
            name=clean(row.plan.name),
            time=f"{row.seconds:.3f}",
        )
        if row.state is State.NOT_APPLICABLE:
            Xml.SubElement(case, "skipped", message=clean(row.why))
        elif row.state is not State.PASSED:
            tag = "failure" if row.state is State.FAILED else "error"
            Xml.SubElement(case, tag, message=clean(row.why)).text = clean(_violations(row))
    return document(suite)


def _violations(row: Row) -> str:
    violated = [one for one in row.findings if one.state is finding.State.VIOLATED]
    return "\n".join("\n  ".join([f"{one.invariant}: {one.what}", *one.details]) for one in violated)
