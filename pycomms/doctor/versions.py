"""The section on versions: pycomms and its extension, torch, Python, the system. Pure but for `look`."""

from __future__ import annotations

import platform
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from pycomms._version import __version__
from pycomms.doctor.child import Told
from pycomms.doctor.finding import Finding, note, ok, problem

_GET_TORCH = (
    "install torch 2.11 or newer (https://pytorch.org/get-started), and then pycomms, which is built for the torch "
    "that is there"
)
_BUILD_AGAIN = (
    "build pycomms again for this torch: pip install --no-build-isolation --force-reinstall --no-deps . in its sources "
    "(docs/building.md)"
)


@dataclass(frozen=True, kw_only=True)
class Own:
    """What is known without torch. modules: files of the extension, for any Python. suffix: of the one for this."""

    version: str
    folder: str
    modules: tuple[str, ...]
    suffix: str
    python: str
    executable: str
    system: str


def look() -> Own:
    folder = Path(__file__).parents[1]
    libc = "-".join(platform.libc_ver())
    return Own(
        version=__version__,
        folder=str(folder),
        modules=tuple(sorted(path.name for path in folder.glob("_C.*.so"))),
        suffix=str(sysconfig.get_config_var("EXT_SUFFIX")),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        executable=sys.executable,
        system=f"{platform.system()} {platform.release()}, {platform.machine()}, {libc}",
    )


def judge(own: Own, told: Told) -> list[Finding]:
    return [
        ok("pycomms", f"{own.version}, {own.folder}", own.version),
        _torch(told),
        _extension(own, told),
        _engine(told),
        ok("python", f"{own.python}, {own.executable}", own.python),
        ok("system", own.system, own.system),
    ]


def _torch(told: Told) -> Finding:
    torch = told.of("torch")
    if torch is None:
        return problem(
            "torch", f"its import did not come to an end: {told.why_not('torch')}", "mend or reinstall torch"
        )
    if torch["error"]:
        if torch["missing"]:
            return problem("torch", "it is not installed for this Python", _GET_TORCH)
        return problem("torch", f"it cannot be imported: {torch['error']}", "mend or reinstall torch")
    kind = f"for CUDA {torch['cuda']}" if torch["cuda"] else f"for ROCm {torch['hip']}" if torch["hip"] else "for CPUs"
    text = f"{torch['version']}, {kind}, {torch['path']}"
    if not torch["distributed"]:
        return problem("torch", f"{text}: it is built without torch.distributed", _GET_TORCH, torch["version"])
    return ok("torch", text, torch["version"])


def _extension(own: Own, told: Told) -> Finding:
    """Of what is amiss the cause is said, not what follows from it."""
    name = "extension"
    torch, extension = told.of("torch"), told.of("extension")
    if not own.modules:
        return problem(
            name, f"there is no _C{own.suffix} in {own.folder}: pycomms has not been built there", _BUILD_AGAIN
        )
    if f"_C{own.suffix}" not in own.modules:
        found = ", ".join(own.modules)
        return problem(name, f"it is built for another Python ({found}), this one needs _C{own.suffix}", _BUILD_AGAIN)
    if torch is None or torch["error"]:
        return note(name, "not looked at: it needs torch")
    if extension is None:
        return problem(name, f"its import did not come to an end: {told.why_not('extension')}", _BUILD_AGAIN)
    if extension["error"]:
        hint = (
            " (a symbol that is missing means: it was built for another torch)"
            if "symbol" in extension["error"]
            else ""
        )
        return problem(name, f"it cannot be used: {extension['error']}{hint}", _BUILD_AGAIN, extension["torch"])
    return ok(name, f"it imports, and was built for torch {extension['torch']}", extension["torch"])


def _engine(told: Told) -> Finding:
    """What moves data between CPU tensors; it does not need torch."""
    engine = told.of("engine")
    if engine is None:
        return problem("engine", f"it was not looked at: {told.why_not('engine')}", _BUILD_AGAIN)
    if engine["error"]:
        return problem(
            "engine",
            f"it cannot be loaded: {engine['error']}",
            f"PYCOMMS_ENGINE, if set, has to name it; else {_BUILD_AGAIN}",
        )
    if not engine["vectors"]:
        return problem(
            "engine",
            f"PYCOMMS_VECTOR_WIDTH asks for vectors that this processor has not; the widest are {engine['widest']}",
            f"unset PYCOMMS_VECTOR_WIDTH, or set it to {engine['widest']}",
        )
    narrowed = "" if engine["vectors"] == engine["widest"] else f" by PYCOMMS_VECTOR_WIDTH; {engine['widest']} is there"
    return ok("engine", f"{engine['path']}, vectors: {engine['vectors']}{narrowed}", engine["vectors"])
