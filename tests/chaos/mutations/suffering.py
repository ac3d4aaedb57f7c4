"""The standard job with a planted bug, under a plan of the standard set."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

from pycomms.chaos._plans import standard_set
from pycomms.chaos.core.plan import Plan
from pycomms.chaos.core.toml import to_toml
from tests.chaos.run._runs import Ran, chaos, elastic

from .planted import Bug, plant

PLANS = {plan.name: plan for plan in standard_set()}
_DURATION_S = 45.0
_COLD = ("freeze-for-good",)
"""A warm interpreter is a child of the worker that the agent watches: it would not see that it is stopped."""


def suffer(folder: Path, bug: Bug | None, plan: Plan, warm_python: str) -> Ran:
    """In this folder, which is empty: a tree of the package, the plan, the run."""
    tree = plant(bug, folder / "tree")
    (folder / "plan.toml").write_text(to_toml(replace(plan, duration=_DURATION_S)))
    python = sys.executable if plan.name in _COLD else warm_python
    command = elastic(python, ranks=plan.ranks, deadline=5.0)
    options = ("run", "plan.toml", "--out", "run", "--quiet")
    return chaos(folder, *options, "--", *command, environment={"PYTHONPATH": str(tree)})


def again(folder: Path, *arguments: str) -> Ran:
    """Another command on that run, with the same tree: replay, shrink."""
    return chaos(folder, *arguments, environment={"PYTHONPATH": str(folder / "tree")})
