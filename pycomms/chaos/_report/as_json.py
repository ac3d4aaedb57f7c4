"""For programs."""

from __future__ import annotations

import json

from pycomms.chaos._report.facts import Facts, story
from pycomms.chaos.core.ending import ending_of
from pycomms.chaos.core.figures import figures
from pycomms.chaos.core.parse import as_table
from pycomms.chaos.core.survival import recovery_time

FORMAT = 1


def to_json(facts: Facts) -> str:
    log, judgement = facts.log, facts.judgement
    return json.dumps(
        {
            "format": FORMAT,
            "result": judgement.result.value,
            "why": judgement.why,
            "ending": ending_of(log, judgement.findings).value,
            "violated": list(judgement.violated),
            "plan": as_table(log.plan),
            "command": list(facts.command),
            "folder": str(facts.folder),
            "end": dict(log.end) if log.end else None,
            "invariants": [
                {
                    "name": one.invariant,
                    "state": one.state.value,
                    "what": one.what,
                    "details": list(one.details),
                }
                for one in judgement.findings
            ],
            "faults": [{**vars(hit), "recovery": recovery_time(log, hit)} for hit in log.hits],
            "figures": vars(figures(log)),
            "story": [vars(one) for one in story(log)],
            "flight_recorder": dict(log.verdict) or None,
        },
        indent=1,
    )
