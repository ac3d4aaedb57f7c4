"""What libhostccl.so shows to the process that loads it: its ABI and nothing else, so it cannot clash with libnccl."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "pycomms" / "lib" / "libhostccl.so"


def exported() -> set[str]:
    command = ["nm", "--dynamic", "--defined-only", "--format=just-symbols", str(LIBRARY)]
    return set(subprocess.run(command, check=True, capture_output=True, text=True, timeout=30).stdout.split())


def declared() -> set[str]:
    headers = [ROOT / "csrc" / "hostccl" / name for name in ("nccl_abi.h", "hostccl.h")]
    return {name for header in headers for name in re.findall(r"X\(\w+, ((?:nccl|hostccl)\w+),", header.read_text())}


def test_exports_are_exactly_what_the_headers_declare() -> None:
    assert exported() == declared()
