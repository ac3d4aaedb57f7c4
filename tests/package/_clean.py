"""An environment of its own, as a user's who has no compiler, and what is run in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_COMPILERS = ("cc", "c++", "gcc", "g++", "clang", "clang++", "nvcc", "ld", "cmake", "ninja")
_INSTALL_SECONDS = 1800
_RUN_SECONDS = 600


@dataclass(frozen=True, kw_only=True)
class Clean:
    folder: Path

    @property
    def programs(self) -> Path:
        return self.folder / "venv" / "bin"

    def make(self) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(self.folder / "venv")], check=True, timeout=300)

    def install(self, *what: str) -> None:
        """With the settings that pip has here. What would have to be compiled cannot be installed."""
        command = [str(self.programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME")}
        environment |= {"CC": "false", "CXX": "false"}
        subprocess.run(
            [*command, "--only-binary=:all:", *what],
            check=True,
            timeout=_INSTALL_SECONDS,
            cwd=self.folder,
            env=environment,
        )

    def run(self, program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """In the folder, with nothing on the path but the environment's own programs; standard error is shown."""
        return subprocess.run(
            [self.programs / program, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            timeout=_RUN_SECONDS,
            check=False,
            cwd=self.folder,
            env=self._environment(),
        )

    def compilers(self) -> list[str]:
        """Those that a program finds there: none is expected."""
        return [name for name in _COMPILERS if shutil.which(name, path=self._environment()["PATH"])]

    def _environment(self) -> Mapping[str, str]:
        return {"PATH": str(self.programs), "HOME": str(self.folder), "CC": "false", "CXX": "false"}

    def copy(self, files: Sequence[Path]) -> None:
        for file in files:
            shutil.copy(file, self.folder)
