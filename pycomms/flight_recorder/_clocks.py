"""How far the wall clocks of the hosts are apart, as far as the records tell.

A collective in which every rank waits for every other ends at about the same moment on all of them. So the ends, as
each host's clock gave them, differ by what the clocks differ, plus noise. The median over many collectives takes out
the noise. A difference is used only where it stands out from that noise: aligning by a guess would move causes behind
effects. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pycomms.flight_recorder._collectives import Integers, meetings
from pycomms.flight_recorder._model import Record, State
from pycomms.flight_recorder._words import duration_text

EVERY_RANK_WAITS = frozenset(
    {"all_reduce", "all_gather", "all_gather_single", "reduce_scatter", "reduce_scatter_single", "all_to_all",
     "all_to_all_single", "barrier", "all_reduce_coalesced", "all_gather_single_coalesced",
     "reduce_scatter_single_coalesced"}
)  # fmt: skip

FEWEST = 3
"""Common collectives below which a median says nothing."""

SMALLEST_NS = 1_000_000
"""NTP keeps hosts this close, and a watchdog that looks now and then sees ends this late: below it nothing is moved."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Alignment:
    """offsets_ns: for each record, to be added to its times. said: how that was found, for people."""

    offsets_ns: Integers
    said: str


def host_of(record: Record, number: int) -> str:
    """Whose clock it is. torch's dumps do not say: then every record counts as a host of its own."""
    return record.host or f"rank {record.rank}, record {number}"


def align(records: Sequence[Record]) -> Alignment:
    """Moves every host to the clock of the host of the first record."""
    hosts = [host_of(record, number) for number, record in enumerate(records)]
    names = {name: index for index, name in enumerate(dict.fromkeys(hosts))}
    nothing = np.zeros(len(records), np.int64)
    if len(names) < 2:
        return Alignment(offsets_ns=nothing, said="Times are by the clock of the one host.")
    host_index = np.array([names[host] for host in hosts], np.int64)
    shift, unclear = _shifts(_differences(records, host_index), len(names))
    moved = [int(step) for step in shift if step]
    said = [f"Times are by the clock of {next(iter(names))}."]
    if moved:
        said.append(
            f"{len(moved)} of {len(names)} clocks were moved to it (most: {duration_text(max(moved, key=abs))}), so"
            " that collectives in which every rank waits end together."
        )
    else:
        said.append(f"All {len(names)} clocks agree within what the records can show.")
    if unclear:
        said.append(f"{unclear} of them share too few completed collectives with the rest to be compared.")
    return Alignment(offsets_ns=shift[host_index], said=" ".join(said))


def _differences(records: Sequence[Record], host_index: Integers) -> dict[tuple[int, int], list[float]]:
    """For pairs (earlier host, later host): how much later the same collective ended by the later one's clock."""
    found: dict[tuple[int, int], list[float]] = defaultdict(list)
    for meeting in meetings(records):
        waits = np.array([kind in EVERY_RANK_WAITS for kind in meeting.kind])
        usable = waits[meeting.kind_index] & (meeting.state == State.COMPLETED) & (meeting.ended_ns > 0)
        sequence, ended = meeting.sequence[usable], meeting.ended_ns[usable]
        host = host_index[meeting.record[usable]]
        order = np.lexsort((ended, host, sequence))
        sequence, ended, host = sequence[order], ended[order], host[order]
        # The first end on each host: whoever looked late says least about the clock.
        first = np.flatnonzero(np.diff(sequence, prepend=-1) | np.diff(host, prepend=-1))
        sequence, ended, host = sequence[first], ended[first], host[first]
        # Neighbours are enough: they chain all hosts of a collective together.
        same = np.flatnonzero(sequence[1:] == sequence[:-1])
        for left in same.tolist():
            found[int(host[left]), int(host[left + 1])].append(float(ended[left + 1] - ended[left]))
    return found


def _shifts(differences: dict[tuple[int, int], list[float]], hosts: int) -> tuple[Integers, int]:
    """Walks from host 0 along the pairs that can be compared. Returns the shifts, and how many were not reached."""
    neighbours: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for (left, right), values in differences.items():
        if len(values) < FEWEST:
            continue
        middle = float(np.median(values))
        noise = float(np.median(np.abs(np.asarray(values) - middle)))
        if abs(middle) < max(SMALLEST_NS, 3 * noise):
            middle = 0.0
        neighbours[left].append((right, -middle))
        neighbours[right].append((left, middle))
    shift = np.zeros(hosts, np.int64)
    reached, edge = {0}, [0]
    while edge:
        here = edge.pop()
        for there, step in neighbours[here]:
            if there not in reached:
                reached.add(there)
                shift[there] = shift[here] + round(step)
                edge.append(there)
    return shift, hosts - len(reached)
