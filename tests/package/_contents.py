"""What is in a source distribution and in a wheel, and what in a wheel's libraries. Files come in as names and text."""

from __future__ import annotations

import re
import subprocess
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email import message_from_string
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

_LEFT_OUT = (".*",)  # of the tracked files: only for who works on pycomms
_OF_TORCH = ("libc10*.so", "libtorch*.so")
_FROM_OUTSIDE = (
    *_OF_TORCH,
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libm.so.6",
    "libc.so.6",
    "ld-linux-*",
)
_LINE = re.compile(r"\((NEEDED|RPATH|RUNPATH)\).*\[(.*)\]")


@dataclass(frozen=True, kw_only=True)
class Library:
    name: str
    needed: tuple[str, ...]
    paths: tuple[str, ...]  # where it looks for what it needs


def of_sdist(path: Path) -> set[str]:
    """The files in it, as they are called in the tree."""
    with tarfile.open(path) as archive:
        return {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}


def of_wheel(path: Path) -> set[str]:
    with zipfile.ZipFile(path) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def sdist_complaints(files: set[str], tracked: Iterable[str]) -> list[str]:
    wanted = {name for name in tracked if not any(fnmatch(name, pattern) for pattern in _LEFT_OUT)}
    return [f"not in the source distribution (MANIFEST.in): {name}" for name in sorted(wanted - files)]


def wheel_complaints(files: set[str], tracked: Iterable[str]) -> list[str]:
    wanted = {name for name in tracked if name.startswith("pycomms/")}
    found = [f"not in the wheel (package-data in pyproject.toml): {name}" for name in sorted(wanted - files)]
    kinds = ("pycomms/_C.*.so", "pycomms/_C.*.torch", "pycomms/lib/libhostccl.so")
    built = {name for name in files if any(fnmatch(name, kind) for kind in kinds)}
    if len(built) != len(kinds):
        found.append(f"built files: {sorted(built)}, expected one of each of {kinds}")
    known = wanted | built
    others = [name for name in files - known if not fnmatch(name, "pycomms-*.dist-info/*")]
    return [*found, *(f"should not be in the wheel: {name}" for name in sorted(others))]


def metadata_complaints(metadata: str, minor: str) -> list[str]:
    """metadata: of a wheel for this minor version of torch, as 2.14."""
    message = message_from_string(metadata)
    version, requires = message["Version"], message.get_all("Requires-Dist", [])
    found = []
    if not re.fullmatch(rf"\d+\.\d+\.\d+\+torch{re.escape(minor)}", version):
        found.append(f"the version is {version}, expected MAJOR.MINOR.PATCH+torch{minor}")
    if f"torch=={minor}.*" not in requires:
        found.append(f"it requires {requires}, expected torch=={minor}.* among them")
    return found


def metadata_of(wheel: Path) -> str:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if fnmatch(name, "pycomms-*.dist-info/METADATA"))
        return archive.read(name).decode()


def libraries_of(folder: Path) -> list[Library]:
    """Of a wheel that is unpacked here."""
    found = []
    for path in sorted(folder.rglob("*.so")):
        text = subprocess.run(["readelf", "-dW", path], check=True, capture_output=True, text=True, timeout=30).stdout
        said = _LINE.findall(text)
        needed = tuple(what for kind, what in said if kind == "NEEDED")
        paths = tuple(part for kind, what in said if kind != "NEEDED" for part in what.split(":"))
        found.append(Library(name=str(path.relative_to(folder)), needed=needed, paths=paths))
    return found


def audit_complaints(said: Mapping[str, Any]) -> list[str]:
    """said: what `auditwheel show --json` says. The tag that it would give does not count: torch stays outside."""
    found = [
        f"auditwheel: {name} comes from outside"
        for name in said["external_libs"]
        if not any(fnmatch(name, known) for known in _OF_TORCH)
    ]
    if said["sym_tag"] not in said["wheel"]:
        found.append(f"auditwheel: {said['wheel']} may only be tagged {said['sym_tag']}")
    if said["unsupported_isa"]:
        found.append("auditwheel: it needs a newer processor than its tag says")
    return found


def library_complaints(library: Library) -> list[str]:
    strange = [name for name in library.needed if not any(fnmatch(name, known) for known in _FROM_OUTSIDE)]
    absolute = [path for path in library.paths if path.split("/")[0] != "$ORIGIN"]
    return [
        *(f"{library.name} needs {name}, which neither torch nor the system has for sure" for name in strange),
        *(f"{library.name} looks for libraries in {path!r}, which is no relative path" for path in absolute),
    ]
