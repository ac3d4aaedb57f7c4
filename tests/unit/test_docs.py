"""What is generated of the documentation is up to date."""

from __future__ import annotations

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
