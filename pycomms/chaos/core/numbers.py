"""Whether the numbers are right: values, agreement, steps, samples. Pure functions of the log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from pycomms.chaos.core import payload
from pycomms.chaos.core.finding import Finding, judged, unchecked
from pycomms.chaos.core.log import Event, Log

_NO_SUMS = "the program does not say what it has summed; pycomms.chaos.workload does"
_NO_VALUES = "the program tells no values: pycomms.chaos.record('values', step=…, digest=…)"
_NO_SAMPLES = "the program tells no samples: pycomms.chaos.record('values', step=…, samples=…)"
_AGREED = ("head", "total", "digest")
_NO_STEPS = "the program has told of no step: it has no session, calls no pycomms.chaos.step() and has no optimizer"


def values(log: Log) -> Finding:
    """Every sum equals the reference over the members that are in it, and these are who they are said to be."""
    told = [event for event in log.of("values") if "head" in event]
    if not told:
        return unchecked("values", _NO_SUMS)
    problems: list[str] = []
    members_now = {}
    settlings = iter(log.settlings)
    coming = next(settlings, None)
    for event in told:
        while coming is not None and coming.t <= event["t"]:
            members_now[coming.pid] = list(coming.members)
            coming = next(settlings, None)
        problem = _wrong(event, members_now.get(event["pid"]))
        if problem:
            problems.append(f"step {event['step']} on rank {event['rank']}: {problem}")
    return judged("values", f"{len(told)} sums, each what its members have contributed", problems)


def _wrong(event: Event, members_told: list[int] | None) -> str:
    head = event["head"]
    if head is None:
        return f"{event['wrong']} of {event['elements']} elements are not finite"
    members = payload.members_of(head)
    if members is None:
        return f"the sum does not consist of one contribution of each: its digits are {head:#x}"
    if members_told is not None and not set(members) <= set(members_told):
        return f"slots {members} are in the sum, but the members are {members_told}"
    if event["wrong"] or event["total"] != payload.total(event["step"], members, event["elements"]):
        return f"{event['wrong']} of {event['elements']} elements are wrong, for a sum over slots {members}"
    return ""


def agreement(log: Log) -> Finding:
    """Whoever has taken a step has taken the same one, and has the same state behind it."""
    told = [event for event in log.of("values") if any(name in event for name in _AGREED)]
    if not told:
        return unchecked("agreement", _NO_VALUES)
    problems = [problem for life in log.lives for problem in _disagreements(life)]
    count = len({event["step"] for event in told})
    return judged("agreement", f"{count} steps, the same on all who have taken them", problems)


def _disagreements(life: Log) -> Iterator[str]:
    seen: dict[int, Event] = {}
    for event in life.of("values"):
        first = seen.setdefault(event["step"], event)
        for name in _AGREED:
            if first.get(name) != event.get(name):
                yield (
                    f"step {event['step']}: rank {first['rank']} has {name} {first.get(name)}, rank {event['rank']} "
                    f"has {event.get(name)}"
                )
                break


def steps(log: Log) -> Finding:
    """No step is left out, none is taken again once a later one was taken, and few are tried again."""
    if not log.commits:
        return _steps_of_others(log)
    # Told first, for all that is lost because nobody was left who had it.
    may_begin_anew = log.plan.expect.outcome == "restarts"
    problems = [] if may_begin_anew else [
        f"at {begin:.2f} s the job has begun anew, after step {before.commits[-1].step} had been taken"
        for begin, before in zip(log.beginnings, log.lives, strict=False)
    ]  # fmt: skip
    for life in log.lives:
        problems += _misplaced(life)
    tries = _tries(log)
    most = 1 + len(log.hits)
    problems += [
        f"rank {rank} has begun step {step} {count} times, with {most - 1} faults"
        for (rank, _, step), count in tries.items()
        if count > most
    ]
    again = len({step for (_, _, step), count in tries.items() if count > 1})
    last = max(commit.step for commit in log.commits)
    return judged("steps", f"1 to {last}, each taken once; {again} were tried again", problems)


def _misplaced(life: Log) -> list[str]:
    problems = []
    first_of: dict[int, float] = {}
    for commit in life.commits:
        first_of.setdefault(commit.step, commit.t)
    for commit in life.commits:
        later = first_of.get(commit.step + 1)
        if later is not None and commit.t > later:
            problems.append(
                f"rank {commit.rank} has taken step {commit.step} after another had taken step {commit.step + 1}"
            )
    missing = sorted(set(range(1, max(first_of) + 1)) - set(first_of))
    if missing:
        problems.append(f"nobody has taken the steps {missing[:10]}")
    return problems + _holes_of_processes(life)


def _holes_of_processes(life: Log) -> list[str]:
    last: dict[int, int] = {}
    restored = sorted((one.t, one.pid) for one in life.settlings)
    fetched = {(one["pid"], one["step"]) for one in life.of("restored")}
    problems = []
    for commit in life.commits:
        before = last.get(commit.pid)
        if before is not None and commit.step != before + 1 and (commit.pid, commit.step - 1) not in fetched:
            between = [t for t, pid in restored if pid == commit.pid and t <= commit.t]
            if len(between) < 2:
                problems.append(f"rank {commit.rank} has taken step {before}, then step {commit.step}")
        last[commit.pid] = commit.step
    return problems


def _steps_of_others(log: Log) -> Finding:
    begun = log.of("step")
    if not begun:
        return unchecked("steps", _NO_STEPS)
    return unchecked(
        "steps", f"{max(event['step'] for event in begun)} steps begun; the program does not say which it has taken"
    )


def _tries(log: Log) -> dict[tuple[int, int, int], int]:
    count: dict[tuple[int, int, int], int] = defaultdict(int)
    for event in log.of("step"):
        count[event["rank"], event["pid"], event["step"]] += 1
    return count


def samples(log: Log) -> Finding:
    """Each sample is used exactly once: the steps' samples lie one behind the other, and each member has its own."""
    told = [event for event in log.of("values") if event.get("samples")]
    if not told:
        return unchecked("samples", _NO_SAMPLES)
    if not any("head" in event for event in told):
        return _samples_of_others(log)
    problems: list[str] = []
    place, used = 0, 0
    for life in log.lives:
        ledger = _ledger(life)
        problems += ledger.problems
        if ledger.unknown:
            return judged("samples", "", problems) if problems else unchecked("samples", ledger.unknown)
        place, used = place + ledger.place, used + ledger.used
    return judged("samples", f"{place} samples, each used once ({used} seen)", problems)


def _samples_of_others(log: Log) -> Finding:
    """Of a program that does not say who is in a step nobody knows what it should have used, but for: nothing twice."""
    problems: list[str] = []
    used = 0
    for life in log.lives:
        users: dict[str, tuple[int, int]] = {}  # step and rank, by sample
        for event in life.of("values"):
            samples_ = [repr(sample) for sample in event.get("samples", [])]
            who = (event["step"], event["rank"])
            for sample in dict.fromkeys(samples_):
                step, rank = users.setdefault(sample, who)
                if (step, rank) != who or samples_.count(sample) > 1:
                    problems.append(
                        f"sample {sample:.80}: used in step {step} by rank {rank}, and again in step {event['step']} "
                        f"by rank {event['rank']}"
                    )
        used += len(users)
    return judged("samples", f"{used} samples, none used twice", problems)


@dataclass
class _Ledger:
    """place: where the sequence has come to. unknown: why no more can be said."""

    place: int = 0
    used: int = 0
    unknown: str = ""
    problems: list[str] = field(default_factory=list)


def _ledger(life: Log) -> _Ledger:
    by_step: dict[int, dict[int, Event]] = defaultdict(dict)
    found = _Ledger()
    for event in life.of("values"):
        if not event.get("samples"):
            continue
        again = by_step[event["step"]].setdefault(event["rank"], event)
        if again["samples"] != event["samples"]:
            found.problems.append(
                f"step {event['step']}: rank {event['rank']} has used samples {event['samples']} as well"
            )
    for step in range(1, max(by_step, default=0) + 1):
        events = by_step.get(step, {})
        heads = [head for event in events.values() if (head := event.get("head")) is not None]
        members = payload.members_of(heads[0]) if heads else None
        if members is None:
            found.unknown = f"step {step} is not known"
            break
        _enter(found, step, events, len(members))
    return found


def _enter(ledger: _Ledger, step: int, events: Mapping[int, Event], members: int) -> None:
    """A step's samples."""
    size = len(next(iter(events.values()))["samples"])
    expected = set(range(ledger.place, ledger.place + size * members))
    used = [sample for event in events.values() for sample in event["samples"]]
    if len(set(used)) != len(used):
        ledger.problems.append(f"step {step}: two ranks have used the same of {sorted(used)}")
    if not set(used) <= expected or (len(events) == members and set(used) != expected):
        ledger.problems.append(f"step {step}: used {_span(used)}, expected {_span(expected)} for {members} members")
    ledger.place += size * members
    ledger.used += len(used)


def _span(samples_: Collection[int]) -> str:
    ordered = sorted(samples_)
    return f"{len(ordered)} samples from {ordered[0]} to {ordered[-1]}" if ordered else "none"
