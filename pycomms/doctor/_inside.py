"""The child that looks at what may be missing, hang or crash: engine, torch, extension, NCCL, CUDA, in this order.

Run as a child of the doctor (child.py); each stage tells what it knows before the next begins.
"""

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pycomms import _built_for
from pycomms._config import Config, inherited
from pycomms.doctor.capabilities import missing
from pycomms.doctor.child import begin, tell

_WIDTHS = ("avx512", "avx2", "baseline")
_ADDRESS_BYTES = 128  # kAddressBytes of csrc/hostccl/hostccl.h


def main(arguments: Sequence[str]) -> None:
    """arguments: the path of an open file of the parent's that this process may map."""
    begin("peers")
    tell("peers", error=_map(arguments[0]))
    begin("engine")
    tell("engine", **_engine())
    begin("torch")
    torch = _torch()
    if torch is None:
        return
    begin("extension")
    found = Found(_extension(torch))
    begin("nccl")
    tell("nccl", **found.look_at_nccl(torch))
    begin("cuda")
    tell("cuda", **found.look_at_gpus(torch))
    begin("capabilities")
    tell("capabilities", **missing(found))


class Found:
    """What is installed, for needs to look at."""

    def __init__(self, extension: str) -> None:
        self.python = sys.version_info[:2]
        self.extension = extension
        self.gpus = 0
        self._nccl: ctypes.CDLL | None = None

    def has(self, place: str) -> bool:
        home, _, attributes = place.partition(":")
        try:
            found: object = import_module(home)
        except Exception:  # a package that is broken raises anything, and is as good as none
            return False
        for name in filter(None, attributes.split(".")):
            found = getattr(found, name, None)
        return found is not None and found is not False

    def is_entry_point(self, group: str, name: str) -> bool:
        return any(one.name == name for one in entry_points(group=group))

    def nccl_has(self, function: str) -> bool:
        return self._nccl is not None and (not function or hasattr(self._nccl, function))

    def look_at_nccl(self, torch: Any) -> dict[str, Any]:
        loaded = mapped(Path("/proc/self/maps").read_text(), "libnccl.so")
        facts: dict[str, Any] = {"loaded": loaded, "version": None, "built_with": None}
        if torch.distributed.is_available() and torch.distributed.is_nccl_available():
            facts["built_with"] = [part for part in torch.cuda.nccl.version() if isinstance(part, int)]
        if not self.extension:
            facts["version"] = import_module("pycomms._C").loaded_nccl_version()
        if facts["version"] is not None and len(loaded) == 1:
            self._nccl = ctypes.CDLL(loaded[0])
        return facts

    def look_at_gpus(self, torch: Any) -> dict[str, Any]:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            self.gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
            models = [torch.cuda.get_device_name(i) for i in range(self.gpus)]
        return {"models": models, "warnings": [str(one.message) for one in warned]}


def _map(path: str) -> str:
    """As a rank maps memory of another: why it cannot; empty: it can."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return str(error)
    return ""


def _engine() -> dict[str, Any]:
    try:
        settings = Config.from_environment(inherited())
    except ValueError:  # told elsewhere
        settings = Config()
    try:
        engine = ctypes.CDLL(str(settings.engine))
        engine.ncclGetLastError.restype = ctypes.c_char_p
    except (OSError, AttributeError) as error:
        return {"path": str(settings.engine), "error": str(error)}
    widest = next(width for width in _WIDTHS if engine.hostcclSetVectorWidth(width.encode()) == 0)
    wanted = settings.vector_width
    is_known = not wanted or engine.hostcclSetVectorWidth(wanted.encode()) == 0
    text = ctypes.create_string_buffer(_ADDRESS_BYTES)
    trouble = ""
    if engine.hostcclAddress(text, _ADDRESS_BYTES) != 0:
        trouble = engine.ncclGetLastError(None).decode()
    return {
        "path": str(settings.engine),
        "error": "",
        "widest": widest,
        "vectors": (wanted or widest) if is_known else "",
        "address": text.value.decode(),
        "address_error": trouble,
    }


def _torch() -> Any:
    try:
        torch = import_module("torch")
    except Exception as error:  # a broken torch raises anything: OSError for a library that is missing
        missing = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        tell("torch", error=f"{type(error).__name__}: {error}", missing=missing)
        return None
    tell(
        "torch",
        error="",
        version=torch.__version__,
        cuda=torch.version.cuda or "",
        hip=torch.version.hip or "",
        path=str(Path(str(torch.__file__)).parent),
        distributed=torch.distributed.is_available(),
    )
    return torch


def _extension(torch: Any) -> str:
    """Why it cannot be used."""
    error, built = _built_for.why_not(torch.__version__), ""
    if not error:
        try:
            built = import_module("pycomms._C").torch_version
            import_module("pycomms._register").register()
        except Exception as raised:  # whatever there is: that is what is asked
            error = f"{type(raised).__name__}: {raised}"
        else:
            error = _built_for.mismatch(built, torch.__version__)
    tell("extension", error=error, torch=built)
    return error


def mapped(maps: str, name: str) -> list[str]:
    """Files that begin with this name, of the text of /proc/PID/maps."""
    paths = {line[line.index("/") :] for line in maps.splitlines() if "/" in line}
    return sorted(path for path in paths if Path(path).name.startswith(name))
