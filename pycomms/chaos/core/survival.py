"""Whether the job gets over its faults in time, and suffers from nothing else. Pure functions of the log."""

from __future__ import annotations

import re
from collections import Counter

from pycomms.chaos.core.finding import Finding, judged, unchecked
from pycomms.chaos.core.kinds import Effect
from pycomms.chaos.core.log import Hit, Log, Process
from pycomms.chaos.core.plan import words

_LETHAL = (Effect.DEATH, Effect.STALL, Effect.PROGRAM, Effect.NETWORK)
"""Of these something has to be said."""
_MAY_COST_A_PROCESS = (Effect.DEATH, Effect.STALL, Effect.PROGRAM, Effect.DATA, Effect.NETWORK, Effect.RESOURCE)
_AFTERMATH_S = 5.0
_JOINED = re.compile(r"slot \d+ joined")
_EXPECTED_FAILURE = "the plan expects the job to fail"


def injected(log: Log) -> Finding:
    """Every fault of the plan has happened; otherwise the run proves nothing."""
    problems = [f"{words(log.plan.faults[one['fault']])}: {one['why']}" for one in log.of("not-injected")]
    happened = Counter((hit.fault, hit.rank) for hit in log.hits)
    for number, fault in enumerate(log.plan.faults):
        wanted = [-1] if fault.process else list(fault.ranks)
        missing = [rank for rank in wanted if happened[number, rank] < fault.times]
        if missing and not (log.plan.expect.outcome == "fails" and log.hits):
            often = f" {fault.times} times" if fault.times > 1 else ""
            problems.append(f"{words(fault)}: has not happened{often}{'' if fault.process else f' to ranks {missing}'}")
    is_enough = log.plan.expect.injected == "some" and log.hits
    told = tuple(problems) if is_enough else ()
    return judged("injected", f"{len(log.hits)} faults happened", [] if is_enough else problems, told)


def ends(log: Log) -> Finding:
    """The job ends by itself, within the plan's duration."""
    end = log.end
    if end is None:
        return judged("ends", "", ["the log has no end: the controller was killed"])
    if end["how"] == "deadline":
        return judged("ends", "", [f"the job did not end within {log.plan.duration:g} s, and was ended"])
    if end["how"] == "interrupted":
        return unchecked("ends", "the run was interrupted")
    return judged("ends", f"by itself after {end['t']:.1f} s", [])


def outcome(log: Log) -> Finding:
    """The exit code is what the plan expects."""
    expected = log.plan.expect.outcome
    if log.end is None or log.end["how"] != "exited":
        return unchecked("outcome", "the job did not end by itself")
    code = log.end["code"]
    said = f"exit code {code}"
    if log.beginnings:
        said += f", begun anew {len(log.beginnings)} times"
    fits = expected == "any" or (code == 0) == (expected != "fails")
    if expected == "restarts" and log.commits:
        fits = fits and bool(log.beginnings)
    return judged("outcome", said, [] if fits else [f"{said}, but the plan expects that the job {expected}"])


def recovery(log: Log) -> Finding:
    """After a fault those who are left take their next step in time."""
    if log.plan.expect.outcome == "fails":
        return unchecked("recovery", _EXPECTED_FAILURE)
    if log.plan.expect.outcome == "any" and log.end is not None and log.end["code"] != 0:
        return unchecked("recovery", "the job has failed, which the plan allows")
    if not log.commits and not log.of("step"):
        return unchecked("recovery", "the program has told of no step")
    problems, details = [], []
    for hit in log.hits:
        took = recovery_time(log, hit)
        name = words(log.plan.faults[hit.fault])
        limit = log.plan.expect.recovery + _lasted(log, hit)
        if took is None:
            if not _was_at_end(log, hit):
                problems.append(f"{name}: no step was taken after it")
        elif took > limit:
            problems.append(f"{name}: the next step came after {took:.2f} s, expected {limit:g} s at most")
        else:
            details.append(f"{name}: next step after {1e3 * took:.0f} ms")
    return judged("recovery", f"each time within {log.plan.expect.recovery:g} s", problems, tuple(details))


def recovery_time(log: Log, hit: Hit) -> float | None:
    """Seconds to the first step that is taken by a group that has got over it; None: there was none."""
    is_lost = _has_cost_it(log, hit)
    since = hit.t
    was_member = any(one.pid == hit.pid and one.t <= hit.t for one in log.settlings)
    if log.is_session and is_lost and was_member:
        others = (one.t for one in log.settlings if one.t > hit.t and not one.is_first and one.pid != hit.pid)
        since = next(others, float("inf"))
    # The others may still take the step that it was in, with what it has given.
    last = log.last_step(hit.pid, hit.t) + 1 if hit.rank >= 0 else 0
    later = (one.t for one in log.taken_from(since) if one.step > last and not (is_lost and one.pid == hit.pid))
    return next((t - hit.t for t in later if t > hit.t), None)


def _lasted(log: Log, hit: Hit) -> float:
    """Faults that take a while may hold the job up for as long: this one, and those that are not over by then."""
    others = {one.fault: one for one in log.hits if one.t <= hit.t <= log.is_over_at(one)}
    given = [log.plan.faults[one.fault].settings.get("for", 0.0) for one in (hit, *others.values())]
    return max(float(seconds) for seconds in given if isinstance(seconds, (int, float)))


def _was_at_end(log: Log, hit: Hit) -> bool:
    """No step was left to be taken: all others have come to the end without another."""
    others = [one for one in log.processes if one.pid != hit.pid]
    has_one_come = any(one.done is not None for one in others)
    return has_one_come and all(one.done is not None for one in others if one.lives_at(hit.t))


def explained(log: Log) -> Finding:
    """Of every fault that costs a process or stops the job, somebody says which rank it was."""
    hits = [hit for hit in log.hits if hit.rank >= 0 and log.effect(hit) in _LETHAL and _was_felt(log, hit)]
    if not hits:
        return unchecked("explained", "no fault that has stopped anybody")
    problems, details = [], []
    for hit in hits:
        name = words(log.plan.faults[hit.fault])
        sources = _who_names(log, hit)
        if sources:
            details.append(f"{name}: {'; '.join(sources)}")
        else:
            problems.append(f"{name}: nobody has named rank {hit.rank}")
    return judged("explained", f"{len(hits)} faults, each with its culprit named", problems, tuple(details))


def _was_felt(log: Log, hit: Hit) -> bool:
    """Whether it has stopped anybody: one that stands still for a moment only is late, and nobody has to say so."""
    if log.effect(hit) is Effect.STALL:
        return _has_cost_it(log, hit)
    if log.effect(hit) is Effect.NETWORK:
        until = log.is_over_at(hit) + _AFTERMATH_S
        return any(hit.t < one.t < until and not one.is_first for one in log.settlings)
    has_failed = log.end is not None and log.end["code"] != 0
    if log.effect(hit) is Effect.DEATH and not _has_cost_it(log, hit):
        return False  # it does not care for this signal
    return has_failed or recovery_time(log, hit) is not None


def _has_cost_it(log: Log, hit: Hit) -> bool:
    """Its process has ended before it came to the end of the training, and did nothing more when the fault was over."""
    process = next((one for one in log.processes if one.pid == hit.pid), None)
    over = log.is_over_at(hit)
    went_on = log.last_begun.get(hit.pid, 0.0) > over
    return process is not None and process.went is not None and process.done is None and not went_on


def _who_names(log: Log, hit: Hit) -> list[str]:
    sources = []
    pattern = re.compile(rf"\b(?:rank|slot|ranks|rank\(s\))\s*\[?{hit.rank}\b")
    for settling in log.settlings:
        if settling.t > hit.t and not settling.is_first and pattern.search(_JOINED.sub("", settling.reason)):
            sources.append(f"recovery on rank {settling.rank}: {settling.reason[:160]}")
            break
    roots = log.verdict.get("root_ranks", [])
    if hit.rank in roots:
        sources.append(f"flight recorder: {log.verdict.get('verdict')} of rank {hit.rank}")
    if not sources:
        line = next((one for one in log.output.splitlines() if pattern.search(one)), "")
        if line:
            sources.append(f"output: {line.strip()[:160]}")
    return sources


def no_false_alarm(log: Log) -> Finding:
    """Nobody ends and no group changes but for a fault."""
    if log.plan.expect.outcome == "fails":
        return unchecked("no-false-alarm", _EXPECTED_FAILURE)
    if log.end is None or log.end["how"] != "exited":
        return unchecked("no-false-alarm", "the job was ended")
    if log.end["code"] != 0:
        return unchecked("no-false-alarm", "the job has failed, and its workers ended with it")
    problems = []
    over = min((one.done for one in log.processes if one.done is not None), default=float("inf"))
    for process in log.processes:
        has_come_to_end = process.done is not None or process.pid in log.ended_in_order
        if process.went is None or has_come_to_end or process.went > over or _has_reason(log, process):
            continue
        problems.append(
            f"rank {process.rank} (pid {process.pid}) has ended {process.went:.2f} s after the start, and no fault was "
            "done to it"
        )
    for settling in log.settlings:
        # On a busy machine the job begins with whoever has come, and the others join: nothing was lost.
        has_lost = _JOINED.sub("", settling.reason).strip("; ,") != ""
        if not settling.is_first and has_lost and not any(hit.t < settling.t for hit in log.hits):
            problems.append(f"rank {settling.rank} has recovered before any fault: {settling.reason}")
            break
    return judged("no-false-alarm", "only those ended to whom something was done", problems)


def _has_reason(log: Log, process: Process) -> bool:
    """A fault of its own; one that all are told of, as of operations that do not match; or one of the agent, whose
    workers end with it."""
    for hit in log.hits:
        fault = log.plan.faults[hit.fault]
        if hit.pid == process.pid and log.effect(hit) in _MAY_COST_A_PROCESS:
            return True
        concerns_all = fault.process == "agent" or log.effect(hit) is Effect.PROGRAM
        if concerns_all and process.went is not None and hit.t <= process.went:
            return True
    return False


def hygiene(log: Log) -> Finding:
    """After the end nothing is left of the job: no process, no name in /dev/shm, no TCP port."""
    left = next(iter(log.of("left")), None)
    if left is None:
        return unchecked("hygiene", "the log has no end")
    problems = [f"process {one} was still there" for one in left["processes"]]
    problems += [f"/dev/shm/{name} is left" for name in left["shared_memory"]]
    problems += [f"somebody still listens at TCP port {port} of the job's" for port in left.get("ports", [])]
    if log.end is not None and log.end["how"] == "deadline":
        return (
            unchecked("hygiene", "the job was ended") if not left["shared_memory"] else judged("hygiene", "", problems)
        )
    return judged("hygiene", "no process, no shared memory and no port is left", problems)
