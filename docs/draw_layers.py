"""Draws docs/images/layers.svg from the includes of csrc/ and the imports of pycomms/.

python docs/draw_layers.py [--check]

A box is a part of the tree, as high above the ground as the longest way down from it. An arrow says that it uses the
other part; those that a longer way implies are left out. What is imported for a type checker only does not count.
With --check nothing is written, and the exit status says whether the picture is up to date.
"""

from __future__ import annotations

import argparse
import ast
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from itertools import accumulate, pairwise
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "layers.svg"

ENTRY = "pycomms/__main__.py"
PARTS = {
    "csrc/base/": "status, clock, shared memory",
    "csrc/recorder/": "flight records: ring, reader",
    "csrc/hostccl/": "NCCL's C ABI on host memory",
    "csrc/hostccl/net/": "TCP between hosts",
    "csrc/nccl2/driver/": "tables of NCCL's functions",
    "csrc/nccl2/core/": "communicators, operations",
    "csrc/nccl2/python/": "which line has called",
    "csrc/nccl2/c10d/": "torch's Backend and Work",
    "pycomms/": "errors, settings, versions",
    ENTRY: "the commands",
    "pycomms/_command_line.py": "what commands share",
    "pycomms/_register.py": "into torch.distributed",
    "pycomms/process_group/": "groups, regroup",
    "pycomms/rma/": "windows",
    "pycomms/doctor/": "pycomms doctor",
    "pycomms/bench/": "pycomms bench",
    "pycomms/bench/ranks/": "what its ranks run",
    "pycomms/flight_recorder/": "readers, analyzer, reports",
    "pycomms/ft/": "sessions, replicas, rounds",
    "pycomms/ft/core/": "quorum, step, recovery: pure",
    "pycomms/ft/wire/": "messages of hosts",
    "pycomms/ft/coordinator/": "who is in",
    "pycomms/ft/run/": "the agent: pycomms run",
    "pycomms/chaos/": "pycomms chaos, standard job",
    "pycomms/chaos/core/": "plans, judging: pure",
    "pycomms/chaos/_controller/": "the job, its faults, the log",
    "pycomms/chaos/_inside/": "in the job's processes",
    "pycomms/chaos/_report/": "text, JSON, JUnit, HTML",
}
"""What each is, in a few words. A file is of the longest that its path begins with."""

EXTENSION = "csrc/nccl2/c10d/"
OPENED = {"csrc/nccl2/driver/": "csrc/hostccl/"}
"""By dlopen, so that no include tells."""

COLORS = (
    ("csrc/nccl2", "#dbe7f6"),
    ("csrc", "#e2efdf"),
    ("pycomms/ft", "#fbe8cc"),
    ("pycomms/chaos", "#f7dcdc"),
    ("", "#eae3f4"),
)
WIDTH, PASSAGE, HEIGHT, GAP, RISE, MARGIN = 200, 12, 48, 16, 44, 20
ORDERINGS = 24

Uses = Mapping[str, frozenset[str]]
"""Of each part, the others that it uses."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)
_MODULE = re.compile(r"pycomms(\.\w+)+")


def part_of(path: str) -> str:
    return max((part for part in PARTS if path.startswith(part)), key=len)


def uses_of(root: Path) -> Uses:
    found: dict[str, set[str]] = {part: {OPENED[part]} if part in OPENED else set() for part in PARTS}
    for path in sorted(root.glob("csrc/**/*")):
        if path.suffix in {".h", ".cpp"}:
            found[part_of(path.relative_to(root).as_posix())].update(map(part_of, _included(path, root)))
    for path in sorted(root.glob("pycomms/**/*.py")):
        if path.name != "__init__.py":  # it hands on what its own modules have
            found[part_of(path.relative_to(root).as_posix())].update(_imported(path, root))
    return {part: frozenset(used - {part}) for part, used in found.items()}


def _included(path: Path, root: Path) -> Iterator[str]:
    for name in _INCLUDE.findall(path.read_text()):
        for folder in (path.parent, root / "csrc"):
            file = Path(posixpath.normpath(folder / name))
            if file.is_file():
                yield file.relative_to(root).as_posix()
                break


def _imported(path: Path, root: Path) -> Iterator[str]:
    is_entry = path == root / ENTRY
    for node in _run(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, path.relative_to(root))
            names = [f"{base}.{alias.name}" for alias in node.names]
        elif is_entry and isinstance(node, ast.Constant) and _MODULE.fullmatch(str(node.value)):
            names = [str(node.value)]  # loaded when it is asked for
        else:
            continue
        for name in names:
            if name.startswith("pycomms._C"):
                yield EXTENSION
            elif name.split(".")[0] == "pycomms":
                yield part_of(_file_of(name, root))


def _run(tree: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those that only a type checker reads."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from _run(node)


def _absolute(node: ast.ImportFrom, file: Path) -> str:
    package = file.parts[: len(file.parts) - node.level] if node.level else ()
    return ".".join([*package, *([node.module] if node.module else [])])


def _file_of(name: str, root: Path) -> str:
    """Of a module, or of the module that has the name."""
    while True:
        path = name.replace(".", "/")
        if (root / f"{path}.py").is_file():
            return f"{path}.py"
        if (root / path).is_dir():
            return f"{path}/__init__.py"
        name = name.rpartition(".")[0]


# --- where boxes are


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Rows are from the ground up. What is in them is a part, or where an arrow passes that skips the row."""

    rows: Sequence[Sequence[str]]
    arrows: Sequence[Sequence[str]]  # from the part that uses to the one that is used, by way of all rows between


def lay_out(uses: Uses) -> Layout:
    """Raises ValueError where parts use each other in a circle."""

    @cache
    def below(part: str) -> frozenset[str]:
        return frozenset().union(uses[part], *(below(one) for one in uses[part]))

    @cache
    def height(part: str) -> int:
        return max((1 + height(one) for one in uses[part]), default=0)

    try:
        rows = [[part for part in uses if height(part) == level] for level in range(1 + max(map(height, uses)))]
    except RecursionError:
        raise ValueError("parts use each other in a circle") from None
    arrows = []
    for part in uses:
        for one in sorted(uses[part]):
            if any(one in below(other) for other in uses[part]):
                continue
            arrows.append([part])
            for level in range(height(part) - 1, height(one), -1):
                arrows[-1].append(f"{part}>{one}@{level}")
                rows[level].append(arrows[-1][-1])
            arrows[-1].append(one)
    _order(rows, arrows)
    return Layout(rows=rows, arrows=arrows)


def _order(rows: list[list[str]], arrows: Sequence[Sequence[str]]) -> None:
    """Each to the middle of what it is joined to, by turns from below and from above."""
    joined: dict[str, list[str]] = {one: [] for row in rows for one in row}
    for arrow in arrows:
        for above, under in pairwise(arrow):
            joined[above].append(under)
            joined[under].append(above)
    for number in range(ORDERINGS):
        for row in rows[:: -1 if number % 2 else 1]:
            at = {one: x for each in rows for one, x in _spread(each).items()}
            row.sort(key=lambda one: fmean(at[other] for other in joined[one]) if joined[one] else at[one])


def _spread(row: Sequence[str]) -> dict[str, float]:
    """The middle of each, from the middle of the row."""
    widths = [WIDTH if one in PARTS else PASSAGE for one in row]
    ends = list(accumulate(width + GAP for width in widths))
    begin = -(ends[-1] - GAP) / 2
    return {one: begin + end - GAP - width / 2 for one, end, width in zip(row, ends, widths, strict=True)}


# --- the picture


_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"
 width="{width:g}" height="{height:g}" font-family="DejaVu Sans, Verdana, sans-serif" text-anchor="middle">
<!-- made by docs/draw_layers.py -->
<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>
<rect width="{width:g}" height="{height:g}" fill="white"/>"""


def picture(layout: Layout) -> str:
    xs = {one: x for row in layout.rows for one, x in _spread(row).items()}
    width = 2 * (MARGIN + max(abs(x) for x in xs.values())) + WIDTH
    height = 2 * MARGIN + len(layout.rows) * (HEIGHT + RISE) - RISE
    tops = {one: height - MARGIN - HEIGHT - n * (HEIGHT + RISE) for n, row in enumerate(layout.rows) for one in row}
    at = {one: (width / 2 + x, tops[one]) for one, x in xs.items()}
    lines = [
        _HEAD.format(width=width, height=height),
        *(_arrow([at[one] for one in arrow]) for arrow in layout.arrows),
        *(line for part in PARTS for line in _box(part, *at[part])),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _arrow(way: Sequence[tuple[float, float]]) -> str:
    x, y = _leaning(way[0], way[1]), way[0][1] + HEIGHT
    path = f"M{x:.0f},{y:.0f}"
    for number, (to_x, to_y) in enumerate(way[1:], start=1):
        is_last = number == len(way) - 1
        if is_last:
            to_x = _leaning(way[-1], way[-2])
        end = to_y - 1 if is_last else to_y
        path += f" C{x:.0f},{(y + to_y) / 2:.0f} {to_x:.0f},{(y + to_y) / 2:.0f} {to_x:.0f},{end:.0f}"
        x, y = to_x, to_y + HEIGHT
        if not is_last:
            path += f" L{x:.0f},{y:.0f}"
    return f'<path d="{path}" fill="none" stroke="#889" stroke-width="1.2" marker-end="url(#head)"/>'


def _leaning(own: tuple[float, float], other: tuple[float, float]) -> float:
    """Where an arrow meets a box: towards the other end, so that those of a box do not meet."""
    return own[0] + max(-1.0, min(1.0, (other[0] - own[0]) / 400)) * WIDTH / 3


def _box(part: str, x: float, y: float) -> Iterator[str]:
    """x: its middle."""
    color = next(color for begin, color in COLORS if part.startswith(begin))
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    yield f'<rect x="{x - WIDTH / 2:g}" y="{y:g}" {size} rx="6" fill="{color}" stroke="#556"/>'
    yield f'<text x="{x:g}" y="{y + 20:g}" font-size="12.5" font-weight="bold">{escape(part.rstrip("/"))}</text>'
    yield f'<text x="{x:g}" y="{y + 37:g}" font-size="10.5" fill="#334">{escape(PARTS[part])}</text>'


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    drawn = picture(lay_out(uses_of(ROOT)))
    if not check:
        PICTURE.write_text(drawn)
    elif PICTURE.read_text() != drawn:
        print("docs/images/layers.svg is not what the tree says: run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
