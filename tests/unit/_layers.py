"""The layers of docs/architecture.md as a table, and the functions that find an arrow that points up.

Pure: sources come in as text, violations go out. Reads neither files nor pycomms itself.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

Sources: TypeAlias = Mapping[str, str]  # path with slashes, relative to csrc/ or to the repository -> text


@dataclass(frozen=True, kw_only=True)
class Layer:
    """A folder under csrc/, what it may include of ours besides itself, and whether it may know torch."""

    folder: str
    below: tuple[str, ...] = ()  # folders, or single headers
    torch: bool = False


# From the ground up: `below` can only name what stands above it in this table.
HOSTCCL_ABI = ("hostccl/nccl_abi.h", "hostccl/nccl_abi_newer.h", "hostccl/hostccl.h", "hostccl/hostccl_windows.h")
LAYERS = (
    Layer(folder="base"),
    Layer(folder="recorder", below=("base",)),
    Layer(folder="hostccl/net", below=("base",)),
    Layer(folder="hostccl", below=("base",)),
    Layer(folder="nccl2/driver", below=("base", "recorder", *HOSTCCL_ABI)),
    Layer(folder="nccl2/core", below=("base", "recorder", "nccl2/driver")),
    Layer(folder="nccl2/python", below=("base", "recorder"), torch=True),
    Layer(folder="nccl2/c10d", below=("base", "recorder", "nccl2/driver", "nccl2/core", "nccl2/python"), torch=True),
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
_TORCH = re.compile(r"^(torch|ATen|c10|caffe2|pybind11|Python\.h)(/|$)")


@dataclass(frozen=True, kw_only=True)
class Violation:
    file: str
    names: str  # what it includes or imports
    reason: str

    def __str__(self) -> str:
        return f"{self.file}: {self.names}: {self.reason}"


def layer_of(path: str) -> Layer | None:
    return next((layer for layer in LAYERS if path.startswith(layer.folder + "/")), None)


def include_violations(sources: Sources) -> list[Violation]:
    """Every include in these files of csrc/ that its layer does not allow."""
    found = []
    for file, text in sources.items():
        layer = layer_of(file)
        if layer is None:
            found.append(Violation(file=file, names="", reason="belongs to no layer of tests/unit/_layers.py"))
            continue
        for quote, name in _INCLUDE.findall(text):
            reason = _forbidden(file, layer, name, is_ours=quote == '"', sources=sources)
            if reason:
                found.append(Violation(file=file, names=name, reason=reason))
    return found


def _forbidden(file: str, layer: Layer, name: str, *, is_ours: bool, sources: Sources) -> str | None:
    if _TORCH.match(name):
        return None if layer.torch else f"{layer.folder} must not know torch or Python"
    beside = posixpath.normpath(posixpath.join(posixpath.dirname(file), name))
    target = next((path for path in (beside, name) if path in sources), None)
    if target is None:
        return "no such file under csrc/" if is_ours else None
    if target.startswith(layer.folder + "/"):
        return None
    if any(target == allowed or target.startswith(allowed + "/") for allowed in layer.below):
        return None
    return f"{layer.folder} may include only {', '.join(layer.below) or 'itself'}"


def import_violations(sources: Sources, allowed: Iterable[str]) -> list[Violation]:
    """Every absolute import in these Python files whose top-level package is not allowed."""
    permitted = set(allowed)
    return [
        Violation(
            file=file, names=name, reason=f"may import only {', '.join(sorted(permitted))} and the standard library"
        )
        for file, text in sources.items()
        for name in imports_of(text)
        if name.partition(".")[0] not in permitted
    ]


def environment_readers(sources: Sources) -> list[str]:
    """The Python files that touch the environment's variables."""
    return [file for file, text in sources.items() if any(map(_reads_environment, ast.walk(ast.parse(text))))]


def imports_of(text: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.append(node.module)
    return names


def _reads_environment(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
        and node.attr in {"environ", "environb", "getenv", "putenv"}
    )
