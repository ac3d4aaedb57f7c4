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


def declared(*headers: str) -> set[str]:
    texts = [(ROOT / "csrc" / "hostccl" / name).read_text() for name in headers]
    return {name for text in texts for name in re.findall(r"X\(\w+, ((?:nccl|hostccl)\w+),", text)}


def test_exports_are_what_the_headers_declare() -> None:
    always = declared("nccl_abi.h", "hostccl.h", "hostccl_windows.h")
    newer = declared("nccl_abi_newer.h")  # of these not every library has all
    assert always <= exported() <= always | newer
