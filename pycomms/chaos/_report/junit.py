"""For continuous integration: a test suite for the run, a test case for each invariant."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

from pycomms.chaos._report.facts import Facts
from pycomms.chaos.core.finding import State

_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_junit(facts: Facts) -> str:
    """A violation that the plan expects is no failure; one that it expects and that did not come is one."""
    log, findings = facts.log, facts.judgement.findings
    expected = log.plan.expect.violations
    failed = [one for one in findings if (one.state is State.VIOLATED) != (one.invariant in expected)]
    skipped = [one for one in findings if one.state is State.UNCHECKED and one not in failed]
    suite = Xml.Element(
        "testsuite",
        name=clean(f"chaos.{log.plan.name}"),
        tests=str(len(findings)),
        failures=str(len(failed)),
        skipped=str(len(skipped)),
        time=f"{log.end['t'] if log.end else 0:.3f}",
    )
    for one in findings:
        case = Xml.SubElement(suite, "testcase", classname=clean(f"chaos.{log.plan.name}"), name=one.invariant)
        if one in failed:
            said = one.what if one.state is State.VIOLATED else f"expected to be violated: {one.what}"
            Xml.SubElement(case, "failure", message=clean(said)).text = clean("\n".join(one.details))
        elif one in skipped:
            Xml.SubElement(case, "skipped", message=clean(one.what))
    properties = {"seed": log.plan.seed, "folder": facts.folder, "result": facts.judgement.result.value}
    told = Xml.SubElement(suite, "properties")
    for name, value in properties.items():
        Xml.SubElement(told, "property", name=name, value=clean(str(value)))
    return document(suite)


def document(suite: Xml.Element) -> str:
    suites = Xml.Element("testsuites")
    suites.append(suite)
    Xml.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(suites, encoding="unicode") + "\n"


def clean(text: str) -> str:
    """Without what XML cannot hold."""
    return _NOT_XML.sub("?", text)
