"""Python environments of the peers, made in a cache folder.

Each peer has its own, for they bring files of the same names.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

INSTALL_TIMEOUT_S = 600


class SetupError(Exception):
    """An environment could not be made; the text holds pip's last lines."""


def default_cache() -> Path:
    """Where environments and compiled programs are kept unless the command line says otherwise."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "pycomms-bench"


@dataclass(frozen=True)
class Environment:
    """borrows: it has the packages of this interpreter too, behind its own: torch is large."""

    name: str
    packages: tuple[str, ...]
    borrows: bool = False

    def folder(self, cache: Path) -> Path:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        return cache / "environments" / f"{self.name}-py{version}"

    def ready(self, cache: Path) -> bool:
        return self._stamp(cache).exists()

    def make(self, cache: Path) -> None:
        """Makes it anew. Raises SetupError; nothing half made is left behind as ready."""
        folder = self.folder(cache)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._run([sys.executable, "-m", "venv", str(folder)])
        if self.borrows:
            (own,) = (folder / "lib").glob("python*/site-packages")
            (own / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
        pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q"]
        self._run([*pip, "install", *self.packages])
        self._stamp(cache).write_text("\n".join(self.packages) + "\n")

    def _stamp(self, cache: Path) -> Path:
        return self.folder(cache) / "ready"

    def _run(self, command: list[str]) -> None:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as err:
            raise SetupError(f"{self.name}: more than {INSTALL_TIMEOUT_S} s") from err
        if done.returncode != 0:
            raise SetupError(f"{self.name}:\n" + "\n".join((done.stdout + done.stderr).strip().splitlines()[-6:]))
