"""Bugs, each a small change of the code that a job recovers by: to see that the standard plans see them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import pycomms

PACKAGE = Path(pycomms.__file__).parent


@dataclass(frozen=True, kw_only=True)
class Bug:
    """Attributes:
    file: in the package.
    before, after: a piece of it, which is there once, and what it becomes.
    plan: of the standard set: one that a job with the bug does not pass.
    seen_by: the invariants of which one at least is violated.
    """

    name: str
    file: str
    before: str
    after: str
    plan: str
    seen_by: tuple[str, ...]


BUGS = (
    Bug(
        name="a newcomer does not load what it has fetched",
        file="ft/_course.py",
        before="self._trained.load(fetched)",
        after="pass",
        plan="kill-at-step",
        seen_by=("agreement", "samples", "values", "steps"),
    ),
    Bug(
        name="a newcomer counts as one that has trained",
        file="ft/core/recovery.py",
        before="restoring = tuple(rank for rank in range(len(seats)) if rank not in sources)",
        after="restoring = tuple(rank for rank in whole if rank not in sources)",
        plan="kill-at-step",
        seen_by=("agreement", "samples", "steps", "outcome"),
    ),
    Bug(
        name="a step that failed counts as committed",
        file="ft/core/step.py",
        before="given_up = _at(position.committed, None, position.standing)",
        after="given_up = _at(position.committed + now.is_open, None, position.standing)",
        plan="kill-at-step",
        seen_by=("steps", "values"),
    ),
    Bug(
        name="a step that failed is committed with what is left of its sum",
        file="ft/core/step.py",
        before="if _is_among(rank, plan.committing):",
        after="if _is_among(rank, plan.committing) or now.is_open:",
        plan="kill-at-step",
        seen_by=("steps", "values", "samples", "agreement"),
    ),
    Bug(
        name="a step that failed is not done again",
        file="ft/session.py",
        before="number = self.committed + 1\n            step = Step",
        after="number += 1\n            step = Step",
        plan="kill-at-step",
        seen_by=("values", "steps", "outcome"),
    ),
    Bug(
        name="a newcomer begins at the first sample",
        file="ft/sampler.py",
        before='self._position = int(state["position"])',
        after="self._position = 0",
        plan="kill-at-step",
        seen_by=("samples", "outcome"),
    ),
    Bug(
        name="a member's slot is its rank",
        file="ft/_membership.py",
        before="self.slot = next(seat.slot for seat in form.seats if seat.member == self._identity.member)",
        after="self.slot = next(rank for rank, seat in enumerate(chosen) if seat.member == self._identity.member)",
        plan="kill-at-step",
        seen_by=("values", "samples", "steps", "no-false-alarm"),
    ),
    Bug(
        name="the group is not made anew",
        file="ft/_membership.py",
        before="                    self._regroup(form, chosen)",
        after="                    self.form is None and self._regroup(form, chosen)",
        plan="kill-at-step",
        seen_by=("recovery", "ends", "outcome", "steps"),
    ),
    Bug(
        name="whoever is asked to stop does not",
        file="ft/_course.py",
        before="self._advance(Happened.ALL_AND_STOP if stops else Happened.ALL)",
        after="self._advance(Happened.ALL)",
        plan="kill-at-step",
        seen_by=("strength", "recovery"),
    ),
    Bug(
        name="any death starts all workers again",
        file="ft/run/policy.py",
        before="return Respawn(pause=pause(end.failures))",
        after="return Again(reason=str(end))",
        plan="kill-at-step",
        seen_by=("steps", "no-false-alarm"),
    ),
    Bug(
        name="a coordinator that has ended stays away",
        file="ft/run/coordinator.py",
        before="self._timer = asyncio.get_running_loop().call_later(pause, self._start_again)",
        after="pass",
        plan="coordinator-and-worker-killed",
        seen_by=("recovery", "ends", "outcome"),
    ),
    Bug(
        name="the agent does not connect again",
        file="ft/run/upstream.py",
        before="            if self._leaving:\n                return\n",
        after="            if self._leaving or was_welcome:\n                return\n",
        plan="coordinator-and-worker-killed",
        seen_by=("recovery", "ends", "outcome"),
    ),
    Bug(
        name="workers outlive their agent",
        file="ft/run/_boot.py",
        before="if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:",
        after="if libc is None:",
        plan="agent-killed",
        seen_by=("hygiene", "ends"),
    ),
    Bug(
        name="the agent does not see that a worker was stopped",
        file="ft/run/agent.py",
        before="if worker.announced and worker.child.process.was_stopped():",
        after="if False:",
        plan="freeze-for-good",
        seen_by=("recovery", "explained", "ends", "outcome"),
    ),
    Bug(
        name="nobody is missed who does not answer",
        file="ft/core/changing.py",
        before="    for member in job.muster.late(job.now):",
        after="    for member in ():",
        plan="hang",
        seen_by=("recovery", "ends", "outcome"),
    ),
)


def plant(bug: Bug | None, folder: Path) -> Path:
    """Makes the folder with a copy of the package in it, and the bug in that: what has to be in front of PYTHONPATH."""
    copy = folder / "pycomms"
    native = {path.name for path in PACKAGE.glob("_C*.so")} | {"lib"}
    shutil.copytree(PACKAGE, copy, ignore=lambda _, names: native.union({"__pycache__"}).intersection(names))
    for name in native:
        (copy / name).symlink_to(PACKAGE / name)
    if bug is not None:
        target = copy / bug.file
        text = target.read_text()
        count = text.count(bug.before)
        assert count == 1, f"{bug.name}: {bug.file} has {bug.before!r} {count} times"
        target.write_text(text.replace(bug.before, bug.after))
    return folder
