"""The workflow in docs/howto/prove_with_chaos.md: whole YAML, and command lines that pycomms understands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from pycomms.chaos._command import parse
from pycomms.ft.run.arguments import parser_of

yaml = pytest.importorskip("yaml")

DOCS = Path(__file__).parents[3] / "docs" / "howto" / "prove_with_chaos.md"


@pytest.fixture(scope="module")
def steps() -> list[dict[str, Any]]:
    (text,) = re.findall(r"```yaml\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)
    workflow = yaml.safe_load(text)
    found: list[dict[str, Any]] = workflow["jobs"]["chaos"]["steps"]
    return found


def test_its_command_is_understood(steps: list[dict[str, Any]]) -> None:
    (line,) = [step["run"] for step in steps if "chaos set" in step.get("run", "")]
    program, subcommand, *argv = shlex.split(line)
    assert (program, subcommand) == ("pycomms", "chaos")
    arguments, command = parse(argv)
    assert arguments.subcommand == "set"
    assert str(arguments.out) == next(step["with"]["path"] for step in steps if "upload" in step.get("uses", ""))
    assert command[:2] == ["pycomms", "run"]
    job = parser_of({}).parse_args(command[2:])
    assert job.training_script == "pycomms.chaos.workload"


def test_reports_are_kept_of_a_set_that_fails_too(steps: list[dict[str, Any]]) -> None:
    assert steps[-1]["if"] == "always()"
