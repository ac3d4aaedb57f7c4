"""What is generated of the documentation is up to date."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["generate_env.py", "generate_versions.py", "draw_layers.py"])
def test_what_is_generated_is_up_to_date(name: str) -> None:
    script = ROOT / "docs" / name
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_of_the_matrix_gets_its_place_in_the_table(tmp_path: Path) -> None:
    """By torch, of which the newest comes first, and by Python."""
    script = shutil.copy(ROOT / "docs/generate_versions.py", tmp_path)
    (tmp_path / "versions.json").write_text("{}")
    runs = [("2.9.0", "3.12.1"), ("2.14.1+cu130", "3.11.7"), ("2.14.1+cu130", "3.12.1"), ("2.13.0+cpu", "3.11.8")]
    for torch, python in runs:
        step = {"passed": 1234, "failed": 2 if python == "3.12.1" else 0, "skipped": 5}
        took = {"setup": {"seconds": 60, "status": 0}, "test": {"seconds": 999, "status": 0}}
        doctor = {"torch": torch, "capabilities": {"cpu_tensors": {"available": True, "missing": []}}}
        said = {"python": python, "cores": 2, "doctor": doctor, "took": took, "steps": {"unit tests": step}}
        (tmp_path / "result.json").write_text(json.dumps(said))
        subprocess.run([sys.executable, script, "--take", tmp_path / "result.json"], cwd=ROOT, timeout=60, check=True)
    kept = ("###", "|  |", "| unit", "| `make ", "| with")
    tables = (tmp_path / "versions.md").read_text().partition("## Tests passed")[2]
    assert [line for line in tables.splitlines() if line.startswith(kept)] == [
        "### Python 3.12",
        "|  | torch 2.14.1 | torch 2.9.0 |",
        "| unit tests | 1,234, **2 failed** (5 skipped) | 1,234, **2 failed** (5 skipped) |",
        "| `make setup` | 60 s | 60 s |",
        "| `make demo` | not run | not run |",
        "| `make test` | 999 s | 999 s |",
        "| with | Python 3.12.1, 2 cores | Python 3.12.1, 2 cores |",
        "### Python 3.11",
        "|  | torch 2.14.1 | torch 2.13.0+cpu |",
        "| unit tests | 1,234 (5 skipped) | 1,234 (5 skipped) |",
        "| `make setup` | 60 s | 60 s |",
        "| `make demo` | not run | not run |",
        "| `make test` | 999 s | 999 s |",
        "| with | Python 3.11.7, 2 cores | Python 3.11.8, 2 cores |",
    ]
