"""The section of the self-check: two ranks on this host, in processes of their own, that add, and lose one of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import fields
from tempfile import TemporaryDirectory

from pycomms._config import Membership, variable_of
from pycomms.doctor._rank import RANKS, SUMS
from pycomms.doctor.child import Child, Told, python, read
from pycomms.doctor.finding import Finding, note, ok, problem

_SECONDS_BEHIND = 5.0
"""That whoever is left has, where the other rank has come to nothing."""
_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


def run(timeout: float) -> list[Told]:
    """What each rank has told. timeout: s. When it returns, they are gone with all that they wrote.

    Raises OSError: they cannot be started.
    """
    deadline = time.monotonic() + timeout
    with ExitStack() as opening:
        folder = opening.enter_context(TemporaryDirectory(prefix="pycomms-doctor-"))
        ranks = []
        for rank in range(RANKS):
            command = python("pycomms.doctor._rank", [str(rank), folder, f"{timeout:.1f}"], timeout)
            ranks.append(Child(command, _environment(folder)))
            opening.callback(ranks[-1].kill)
        dead = read(ranks[1].finish(deadline))
        if "death" not in dead.stages:  # whoever is left need not wait where it never came to that
            deadline = min(deadline, time.monotonic() + _SECONDS_BEHIND)
        return [read(ranks[0].finish(deadline)), dead]


def _environment(folder: str) -> dict[str, str | None]:
    """A job of its own, whatever job this may be started in; its records go with it."""
    unset = [*_LAUNCHERS, *(variable_of(f.name, Membership) for f in fields(Membership)), "PYCOMMS_FR_DUMP_DIR"]
    return {
        **dict.fromkeys(unset),
        "PYCOMMS_FR_DIR": f"{folder}/records",
        "PYCOMMS_FR_JOB": "self-check",
        "OMP_NUM_THREADS": "1",
    }


def judge(told: Sequence[Told]) -> list[Finding]:
    """Where something is wrong: up to the first stage that a rank did not get through, and what has become of it."""
    stages = ["import", "group", *(one.stage for one in SUMS), "death", "regroup"]
    found: list[Finding] = []
    for stage in stages:
        expected = [0] if stage == "regroup" else range(len(told))  # rank 1 is dead by then
        broken = [f"rank {rank}: {_why(told[rank], stage)}" for rank in expected if stage not in told[rank].stages]
        if broken:
            todo = "docs/errors.md says what the errors mean; with --timeout a slow machine has more time"
            return [*found, problem(stage, "; ".join(broken), todo)]
        found += _success(stage, told)
    return found


def _why(one: Told, stage: str) -> str:
    words = f": {one.last_words}" if one.last_words else ""
    return f"its process {one.ended or 'told nothing'} in {one.broke_in or stage!r}{words}"


def _success(stage: str, told: Sequence[Told]) -> list[Finding]:
    facts = [one.stages.get(stage, {}) for one in told]
    if stage == "import":
        return []
    if stage.startswith("all_reduce"):
        size, us = facts[0]["bytes"], max(fact["median_us"] for fact in facts)
        text = f"the sums over {len(told)} ranks are right; median {us:.1f} us"
        return [ok(stage, text, {"bytes": size, "median_us": us})]
    if stage == "death":
        ms = (facts[0]["at_ns"] - facts[1]["at_ns"]) / 1e6
        return [ok(stage, f"rank 1 was killed, which rank 0 was told {ms:.1f} ms later", {"ms": ms})]
    if needs := facts[0].get("needs"):
        return [note(stage, f"not tried: it needs {needs}")]
    ms = max(fact["ms"] for fact in facts if fact)
    what = "two ranks have connected" if stage == "group" else "the survivor goes on by itself"
    return [ok(stage, f"{what}, in {ms:.1f} ms", {"ms": ms})]


def skipped(why: str) -> list[Finding]:
    return [note("self-check", f"not done: {why}")]


def failed(error: OSError) -> list[Finding]:
    return [problem("self-check", f"the ranks cannot be started: {error}", "see limits")]
