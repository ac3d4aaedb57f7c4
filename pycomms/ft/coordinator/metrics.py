"""The metrics of a coordinator, as text that Prometheus reads. Pure.

https://prometheus.io/docs/instrumenting/exposition_formats/ describes the format.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from pycomms.ft.coordinator.status import Snapshot
from pycomms.ft.coordinator.tally import BUCKETS
from pycomms.ft.core.phases import Phase
from pycomms.ft.core.roster import State

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def text(snapshot: Snapshot) -> str:
    """All metrics; docs/ft_coordinator.md has the same as a table."""
    counts, view = snapshot.counts, snapshot.view
    states = Counter(one.state.value for one in view.members)
    in_epoch = sum(one.rank is not None for one in view.members)
    epoch = view.epoch
    page = _Page()
    page.gauge("hosts", "hosts that are attached", len(snapshot.hosts))
    page.gauges("members", "living members", "state", {one.value: states[one.value] for one in State})
    page.gauge("world_size", "members of the epoch that live", in_epoch)
    page.gauges("phase", "1 for the phase that the job is in", "phase", {p.value: int(p is view.phase) for p in Phase})
    page.gauge("epoch_boot", "first part of the epoch's name", epoch.boot if epoch else 0)
    page.gauge("epoch_counter", "second part of the epoch's name", epoch.counter if epoch else 0)
    page.gauge("forming_attempts", "memberships in a row that could not be formed", view.attempts)
    page.gauge("committed_step", "the last step that a member has committed", snapshot.committed)
    page.gauge("steps_per_second", "of the middle member of the epoch", snapshot.steps_per_second)
    page.gauge("start_time_seconds", "when this coordinator has started, since 1970", snapshot.started)
    page.counter("forms", "memberships that were announced", counts.forms)
    page.counter("changes", "announcements that a membership is to end", counts.changes)
    page.counter("deaths", "members of an epoch that have died or were lost", counts.deaths)
    page.counter("evictions", "members that their host was told to end", counts.evictions)
    page.counters("refusals", "members that were not, or no longer, let in", "verdict", counts.refusals)
    page.counter("attaches", "connections of hosts, ever", counts.attached)
    page.counters("denied_calls", "calls that did not prove to have the token", "kind", counts.denied)
    page.counter("bad_messages", "messages that made no sense and have ended their connection", counts.bad_messages)
    page.counter("overflows", "messages for hosts that did not read", counts.overflows)
    page.counter("errors", "what has failed in the coordinator itself: see its log", counts.errors)
    page.counters("messages_received", "events of members and hosts", "kind", counts.received)
    page.counters("messages_sent", "notices, once for each host", "kind", counts.sent)
    page.counter("received_bytes", "bytes of all events", counts.bytes_received)
    page.counter("sent_bytes", "bytes of all notices", counts.bytes_sent)
    page.histogram("recovery_seconds", "from a member's failure to its next step, as it says", counts.recovery)
    page.histogram("change_seconds", "from the end of a membership to the next", counts.change_to_form)
    page.histogram("log_write_seconds", "to write an epoch to the log", counts.log_write)
    return page.text()


class _Page:
    def __init__(self) -> None:
        self._lines: list[str] = []

    def gauge(self, name: str, what: str, value: float) -> None:
        self._family(name, "gauge", what, [("", value)])

    def gauges(self, name: str, what: str, label: str, values: Mapping[str, float]) -> None:
        self._family(name, "gauge", what, _labelled(label, values))

    def counter(self, name: str, what: str, value: float) -> None:
        self._family(f"{name}_total", "counter", what, [("", value)])

    def counters(self, name: str, what: str, label: str, values: Mapping[str, float]) -> None:
        self._family(f"{name}_total", "counter", what, _labelled(label, values))

    def histogram(self, name: str, what: str, told: tuple[tuple[int, ...], float]) -> None:
        counts, total = told
        full = self._begin(name, "histogram", what)
        below = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
            below += count
            self._lines.append(f'{full}_bucket{{le="{bound}"}} {below}')
        self._lines.append(f"{full}_sum {total!r}")
        self._lines.append(f"{full}_count {below}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def _family(self, name: str, kind: str, what: str, samples: Iterable[tuple[str, float]]) -> None:
        full = self._begin(name, kind, what)
        self._lines += [f"{full}{labels} {value!r}" for labels, value in samples]

    def _begin(self, name: str, kind: str, what: str) -> str:
        full = f"pycomms_coordinator_{name}"
        self._lines += [f"# HELP {full} {what}", f"# TYPE {full} {kind}"]
        return full


def _labelled(label: str, values: Mapping[str, float]) -> list[tuple[str, float]]:
    """The values of labels are words of ours: nothing in them has to be escaped."""
    return [(f'{{{label}="{key}"}}', value) for key, value in sorted(values.items())]
