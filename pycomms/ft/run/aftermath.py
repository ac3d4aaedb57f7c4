"""What is said when a job has failed: who died first and how, what its last words were, and what the flight recorder
knows. And the summary for programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pycomms.ft.run.agent import History
from pycomms.ft.run.worker import Worker

_FIRST = 5
"""Deaths that are told one by one."""


def failure(reason: str, history: History, logs: Path | None) -> str:
    """For people; several lines."""
    lines = [f"the job has failed: {reason}"]
    deaths = history.deaths[history.before :] or history.deaths
    for number, worker in enumerate(deaths[:_FIRST]):
        order = "first" if number == 0 else "then"
        lines.append(f"  {order}: {_death(worker)}")
        if number == 0:
            lines.extend(f"    | {line}" for line in last_words(worker))
    if len(deaths) > _FIRST:
        lines.append(f"  and {len(deaths) - _FIRST} more")
    if logs is not None:
        lines.append(f"  output of the workers: {logs}")
    return "\n".join(lines)


def _death(worker: Worker) -> str:
    pid = worker.child.process.pid
    return (
        f"rank {worker.rank} (local rank {worker.local_rank}, pid {pid}, start {worker.incarnation + 1}), "
        f"{worker.ending}"
    )


def last_words(worker: Worker) -> list[str]:
    """What torch's ``@record`` has written, or the end of stderr."""
    recorded = _recorded(worker.destinations.error_file)
    return recorded or worker.child.stderr.tail


def _recorded(file: Path) -> list[str]:
    try:
        message = json.loads(file.read_text())["message"]
        text = message if isinstance(message, str) else message["extraInfo"]["py_callstack"]
        return str(text).splitlines()[-20:]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def records_of(folder: Path, pids: Iterable[int]) -> list[Path]:
    """The flight recorder's files of these processes."""
    wanted = {str(pid) for pid in pids}
    try:
        return sorted(
            path
            for path in folder.iterdir()
            if path.suffix in (".ring", ".dump") and not wanted.isdisjoint(path.name.split("."))
        )
    except OSError:
        return []


def verdict(files: list[Path], folder: Path) -> str:
    """What ``pycomms fr analyze`` says of these files; nothing where the workers have not come to an operation."""
    if not files:
        return ""
    # Here, for numpy takes longer to import than the whole agent.
    from pycomms.flight_recorder._load import load
    from pycomms.flight_recorder._report import to_text
    from pycomms.flight_recorder.analysis import analyze

    loaded = load(files)
    if not loaded.records:
        return f"no record can be read in {folder}"
    if not any(record.entries.size for record in loaded.records):
        return ""
    text = to_text(analyze(loaded.records, loaded.warnings, degraded=bool(loaded.unreadable)))
    return f"the flight recorder says:\n{_indented(text)}\n  records: {folder} (pycomms fr analyze {folder})"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.splitlines())


def summary(code: int, reason: str, job: str, rounds: int, history: History, logs: Path | None) -> str:
    """One line of JSON."""
    return json.dumps(
        {
            "exit_code": code,
            "reason": reason,
            "job": job,
            "rounds": rounds,
            "replaced": history.replaced,
            "by_spares": history.by_spares,
            "evicted": history.evicted,
            "deaths": [
                {
                    "rank": worker.rank,
                    "incarnation": worker.incarnation,
                    "pid": worker.child.process.pid,
                    "time": worker.ended,
                    "how": str(worker.ending),
                    "exit_code": worker.ending.code if worker.ending else None,
                    "settled": worker.settled,
                }
                for worker in history.deaths
            ],
            "logs": str(logs) if logs else None,
        }
    )
