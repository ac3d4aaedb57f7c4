"""A plan, a command: one run, judged."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pycomms._config import inherited
from pycomms.chaos._command import FAILED, PASSED, UNDECIDED
from pycomms.chaos._controller.conduct import CannotStartError, conduct
from pycomms.chaos._controller.folder import RunError, create, describe
from pycomms.chaos._judging import judge_folder, write_reports
from pycomms.chaos._report.as_json import to_json
from pycomms.chaos._report.facts import Facts
from pycomms.chaos._report.text import to_text
from pycomms.chaos.core.invariants import Result
from pycomms.chaos.core.plan import Plan

__all__ = ["CannotStartError", "Done", "report", "trial"]

_CODES = {Result.PASSED: PASSED, Result.FAILED: FAILED, Result.UNDECIDED: UNDECIDED}


@dataclass(frozen=True)
class Done:
    facts: Facts

    @property
    def exit_code(self) -> int:
        return _CODES[self.facts.judgement.result]

    @property
    def is_interrupted(self) -> bool:
        end = self.facts.log.end
        return end is not None and end["how"] == "interrupted"

    @property
    def text(self) -> str:
        return to_text(self.facts)

    @property
    def json(self) -> str:
        return to_json(self.facts)


def trial(plan: Plan, command: Sequence[str], out: Path | None = None, *, quiet: bool = False) -> Done:
    """Raises RunError or CannotStartError."""
    folder = create(out, plan.name)
    environment = inherited()
    try:
        describe(folder, plan, command, environment)
    except OSError as error:
        raise RunError(f"{folder.path}: cannot be written: {error.strerror}") from error
    asyncio.run(conduct(plan, command, folder, environment, quiet=quiet))
    return report(folder.path)


def report(path: Path) -> Done:
    """Judges what lies there. Raises RunError."""
    facts = judge_folder(path)
    try:
        write_reports(facts)
    except OSError as error:
        raise RunError(f"{path}: cannot be written: {error.strerror}") from error
    return Done(facts)
