"""The folder of a run cannot take any more."""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import pytest

from pycomms.chaos._controller.conduct import conduct
from pycomms.chaos._controller.folder import RunError, create
from pycomms.chaos.core.parse import parse
from tests.chaos.run._runs import chaos

LIMIT_S = 30.0
TALKS = "import sys; sys.stdout.write('x' * (1 << 20)); sys.stdout.flush()"


def test_output_that_has_no_room_stops_nobody(tmp_path: Path) -> None:
    """The folder's files may have 64 KiB each: a job that says more comes to its end, and is judged."""
    limited = f'ulimit -f 64; exec {sys.executable} -m pycomms chaos "$@"'
    (tmp_path / "plan.toml").write_text(f"duration = {LIMIT_S}\n")
    command = ["sh", "-c", limited, "sh", "run", "plan.toml", "--out", "inner", "--quiet", "--", sys.executable]
    done = chaos(tmp_path, "run", "plan.toml", "--out", "run", "--quiet", "--", *command, "-c", TALKS)
    assert done.code == 0, done.out
    assert 0 < (tmp_path / "inner" / "output.log").stat().st_size < 1 << 18


def test_a_log_that_has_no_room_ends_the_run(tmp_path: Path) -> None:
    folder = create(tmp_path / "run", "run")
    folder.events.symlink_to("/dev/full")
    began = time.monotonic()
    with pytest.raises(RunError, match=r"events\.jsonl: cannot be written: No space left on device; the job was ended"):
        asyncio.run(conduct(parse({"duration": LIMIT_S}), ["sleep", str(LIMIT_S)], folder, {}, quiet=True))
    assert time.monotonic() - began < LIMIT_S
