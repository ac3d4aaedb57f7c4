"""Many threads use the runtime at once; docs/cuda_emulator.md says how to run the same program under TSan."""

from __future__ import annotations

import subprocess

from tests.cuda_emulator._build import library_folder


def test_many_threads_at_once() -> None:
    done = subprocess.run([str(library_folder() / "cuemu_stress_test")], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, "0 objects left, 0 arguments left\n"), done.stderr
