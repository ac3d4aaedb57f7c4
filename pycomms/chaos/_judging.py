"""From the folder of a run to its judgement and reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pycomms.chaos._controller.folder import Folder, read_events, recorded
from pycomms.chaos._report.as_json import to_json
from pycomms.chaos._report.facts import Facts
from pycomms.chaos._report.html import to_html
from pycomms.chaos._report.junit import to_junit
from pycomms.chaos.core.invariants import judge
from pycomms.chaos.core.log import Log


def judge_folder(path: Path) -> Facts:
    """Raises RunError where that is no folder of a run."""
    told = recorded(path)
    folder = Folder(path=path.absolute())
    events = read_events(folder.events, len(told.plan.faults))
    output = folder.output.read_text(errors="replace") if folder.output.exists() else ""
    log = Log(told.plan, events, verdict(folder.records), output)
    return Facts(folder=folder.path, command=told.command, log=log, judgement=judge(log))


def write_reports(facts: Facts) -> None:
    (facts.folder / "report.json").write_text(to_json(facts) + "\n")
    (facts.folder / "report.xml").write_text(to_junit(facts))
    (facts.folder / "report.html").write_text(to_html(facts))


def verdict(records: Path) -> dict[str, Any]:
    """What `pycomms fr analyze` says of what the job has left; empty: there is nothing."""
    files = sorted(path for path in records.rglob("*") if path.suffix in (".ring", ".dump"))
    if not files:
        return {}
    # Here, for numpy takes longer to import than all the rest.
    from pycomms.flight_recorder._load import load
    from pycomms.flight_recorder._report import to_text
    from pycomms.flight_recorder.analysis import analyze

    loaded = load(files)
    if not loaded.records:
        return {}
    analysis = analyze(loaded.records, loaded.warnings, degraded=bool(loaded.unreadable))
    return {
        "verdict": analysis.verdict.value,
        "root_ranks": sorted({rank for finding in analysis.findings for rank in finding.root_ranks}),
        "text": to_text(analysis),
    }
