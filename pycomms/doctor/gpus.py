"""The sections on NCCL, GPUs and their driver. Pure but for `look`."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pycomms.doctor.child import Child, Told
from pycomms.doctor.finding import Finding, note, ok, problem

_OLDEST = "2.18"  # kOldestNccl of csrc/nccl2/driver/nccl_api.cpp
_TOOL_SECONDS = 5.0
_ON_CPUS = "CPU tensors are served by pycomms' own engine: over shared memory within a host, over TCP between hosts"


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """driver: the version of NVIDIA's kernel module; empty: it is not loaded. devices: files of GPUs in /dev.

    tool: what nvidia-smi says; empty: it is not there, or fails. The last three are environment variables; of
    CUDA_VISIBLE_DEVICES None says that it is not set.
    """

    driver: str
    devices: tuple[str, ...]
    tool: str
    visible: str | None
    library_path: str
    preload: str


def look(environment: Mapping[str, str]) -> Hardware:
    return Hardware(
        driver=driver_version(_read(Path("/proc/driver/nvidia/version"))),
        devices=tuple(sorted(str(path) for path in Path("/dev").glob("nvidia[0-9]*"))),
        tool=_ask_tool(),
        visible=environment.get("CUDA_VISIBLE_DEVICES"),
        library_path=environment.get("LD_LIBRARY_PATH", ""),
        preload=environment.get("LD_PRELOAD", ""),
    )


def driver_version(text: str) -> str:
    """Of /proc/driver/nvidia/version."""
    found = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", text)
    return found.group(1) if found else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _ask_tool() -> str:
    """It may hang, as a driver may that it asks."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ""
    try:
        child = Child([tool, "--query-gpu=name,driver_version", "--format=csv,noheader"])
        ended = child.finish(time.monotonic() + _TOOL_SECONDS)
    except OSError:
        return ""
    lines = ended.out.splitlines() if ended.code == 0 else []
    return "; ".join(line.strip() for line in lines if line.strip())


def judge_nccl(hardware: Hardware, told: Told) -> list[Finding]:
    torch, nccl = told.of("torch"), told.of("nccl")
    if torch is None or torch["error"]:
        return [note("libnccl", "not looked at: it comes with torch")]
    if nccl is None:
        return [note("libnccl", f"not known: {told.why_not('nccl')}")]
    loaded = nccl["loaded"]
    if len(loaded) > 1:
        return [
            problem(
                "libnccl",
                f"one process has loaded several: {', '.join(loaded)}; pycomms refuses GPU tensors then, for "
                "communicators of one cannot be used with another",
                "let only torch's be found: look at LD_PRELOAD and LD_LIBRARY_PATH, and at what else is imported",
            )
        ]
    if not loaded:
        if not torch["cuda"]:
            return [ok("libnccl", "none, and none is needed: this torch is built without CUDA")]
        return [
            note("libnccl", "none: this torch is built with CUDA and without NCCL", "for GPU tensors: another torch")
        ]
    return [_judge_loaded(loaded[0], nccl, told, origin(loaded[0], hardware, torch["path"]))]


def origin(path: str, hardware: Hardware, torch: str) -> str:
    """Where a library of this path comes from. torch: the folder of that package."""
    if path in re.split(r"[ :]", hardware.preload):
        return "by LD_PRELOAD"
    if any(Path(path).is_relative_to(folder) for folder in hardware.library_path.split(":") if folder):
        return "by LD_LIBRARY_PATH"
    if Path(path).is_relative_to(Path(torch).parent):
        return "installed with torch"
    return "of the system"


def _judge_loaded(path: str, nccl: Mapping[str, object], told: Told, whence: str) -> Finding:
    built = nccl["built_with"]
    of_torch = ".".join(map(str, built)) if isinstance(built, list) else ""
    version = nccl["version"]
    extension = told.of("extension")
    if not isinstance(version, int):
        if extension is None or extension["error"]:
            text = f"{path}, {whence}; its version is not known, for the extension cannot be used"
            return note("libnccl", text, value={"path": path})
        return problem(
            "libnccl",
            f"pycomms cannot use {path}, {whence}: it is older than {_OLDEST}, or lacks functions",
            f"a torch with NCCL {_OLDEST} or newer",
            {"path": path},
        )
    number = f"{version // 10000}.{version // 100 % 100}.{version % 100}"
    value = {"path": path, "version": number}
    if of_torch and of_torch.split(".")[:2] != number.split(".")[:2]:
        return note(
            "libnccl",
            f"{number}, {path}, {whence}, though this torch is made for {of_torch}",
            "another libnccl than torch's own is found first: look at LD_LIBRARY_PATH and LD_PRELOAD",
            value,
        )
    return ok("libnccl", f"{number}, {path}, {whence}", value)


def judge_gpus(hardware: Hardware, told: Told) -> list[Finding]:
    return [_driver(hardware), _devices(hardware, told)]


def _driver(hardware: Hardware) -> Finding:
    if hardware.driver:
        said = f"; nvidia-smi: {hardware.tool}" if hardware.tool else ""
        return ok("driver", f"NVIDIA {hardware.driver}{said}", hardware.driver)
    if hardware.tool:  # in some containers there is no /proc/driver
        return ok("driver", f"nvidia-smi: {hardware.tool}", hardware.tool)
    if hardware.devices:
        return problem(
            "driver", f"there is {hardware.devices[0]}, and no driver answers", "load or reinstall NVIDIA's driver"
        )
    return ok("driver", "none: there is no NVIDIA driver")


def _devices(hardware: Hardware, told: Told) -> Finding:
    torch, cuda = told.of("torch"), told.of("cuda")
    there = bool(hardware.driver or hardware.tool)
    if torch is None or torch["error"]:
        return note("gpus", "not looked at: torch is asked for them")
    if cuda is None and told.broke_in == "cuda":
        return problem(
            "gpus",
            f"torch did not come back with them: {told.why_not('cuda')}",
            "try nvidia-smi: the driver may be stuck",
        )
    if cuda is None:
        return note("gpus", f"not known: {told.why_not('cuda')}")
    models = cuda["models"]
    if models:
        return ok("gpus", f"{len(models)}: {', '.join(sorted(set(models)))}", models)
    why = f"; it says: {cuda['warnings'][0]}" if cuda["warnings"] else ""
    if there and not torch["cuda"]:
        return note(
            "gpus",
            f"none that torch can use, for it is built without CUDA; {_ON_CPUS}",
            "for GPU tensors: a torch for CUDA, then build pycomms again",
        )
    if there and hardware.visible is not None:
        return note(
            "gpus", f"none: CUDA_VISIBLE_DEVICES is {hardware.visible!r}; {_ON_CPUS}", "unset it for GPU tensors"
        )
    if there:
        return problem(
            "gpus",
            f"there is a driver, and torch finds no GPU{why}",
            "compare the driver with the CUDA that torch is built for",
        )
    return ok("gpus", f"none, so no GPU tensors; {_ON_CPUS}", [])
