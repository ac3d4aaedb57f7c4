"""Whether a job is as strong at its end as it was at its beginning. Pure functions of the log."""

from __future__ import annotations

from pycomms.chaos.core.finding import Finding, judged, unchecked
from pycomms.chaos.core.log import Log

_START_S = 10.0
"""A process takes as long to start, on a machine that has much to do."""


def strength(log: Log) -> Finding:
    """In the place of whoever was lost another one trains."""
    if log.plan.expect.outcome != "completes" or log.end is None or log.end["code"] != 0:
        return unchecked("strength", "for jobs that complete")
    if not log.settlings:
        return unchecked("strength", "the job has no session, which replaces whoever is lost")
    full = max(len(one.members) for one in log.settlings)
    weaker = [one for one in log.settlings if len(one.members) < full]
    if not weaker:
        return judged("strength", f"{full} members all the time", [])
    last = log.settlings[-1]
    if len(last.members) >= full:
        return judged("strength", f"{full} members again, after {len(weaker[0].members)}", [])
    whole = max(one.t for one in log.settlings if len(one.members) == full)
    since = min(one.t for one in weaker if one.t > whole)
    over = min((one.done for one in log.processes if one.done is not None), default=log.end["t"])
    told = f"{len(last.members)} of {full} members at the end, {over - since:.1f} s after one was lost"
    if over - since < _START_S:
        return unchecked("strength", f"{told}: too soon for another one")
    return judged("strength", "", [told])
