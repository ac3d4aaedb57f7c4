"""The results as a picture: a panel per operation, world size and placement; bytes across, microseconds up, both
logarithmic. Needs matplotlib (the extra `bench`), which is imported only when something is drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pycomms.bench.blocks import Block, Cell, Figure, summarize
from pycomms.bench.placement import Placement
from pycomms.bench.plan import UNSIZED, Op, format_size
from pycomms.bench.report import ordered

PANELS_PER_ROW = 3
#: Fixed, so that a contestant looks alike in every picture.
STYLES: Mapping[str, Mapping[str, Any]] = {
    "nccl2": {"color": "tab:red", "linewidth": 2.5},
    "pycomms": {"color": "tab:red", "linewidth": 2.5},
    "nccl": {"color": "tab:orange"},
    "builtin_nccl2": {"color": "tab:cyan"},
    "gloo": {"color": "tab:blue"},
    "mpich": {"color": "tab:green"},
    "openmpi": {"color": "tab:olive"},
    "impi": {"color": "tab:purple"},
    "oneccl": {"color": "tab:brown"},
    "empty": {"color": "tab:gray", "linestyle": ":"},
    "limits: staged": {"color": "black", "linestyle": "--"},
    "limits: direct": {"color": "black", "linestyle": ":"},
}


class PlotError(Exception):
    """There is nothing to draw with, or nothing to draw."""


Panel = tuple[Op, str, Placement]  # with the ranks, and the hosts, in words


def panels(summary: Mapping[Cell, Mapping[str, Figure]]) -> dict[Panel, dict[str, list[tuple[int, Figure]]]]:
    """Figures by panel and column, in order of size. Operations without a size are not drawn."""
    found: dict[Panel, dict[str, list[tuple[int, Figure]]]] = {}
    for (case, placement), row in sorted(summary.items(), key=lambda item: (item[0][0].hosts, item[0][0].size)):
        if case.op in UNSIZED:
            continue
        panel = found.setdefault((case.op, case.where, placement), {})
        for name, figure in row.items():
            panel.setdefault(name, []).append((case.size, figure))
    return found


def draw(document: Mapping[str, Any], path: Path) -> None:
    """Writes the picture of a run; the format follows the file's suffix (png, svg, pdf)."""
    try:
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt
    except ImportError as err:
        raise PlotError("matplotlib is not installed (pip install 'pycomms[bench]')") from err

    found = panels(summarize(Block.from_json(raw) for raw in document["blocks"]))
    if not found:
        raise PlotError("no operation with sizes was measured: nothing to draw")
    columns = min(PANELS_PER_ROW, len(found))
    rows = math.ceil(len(found) / columns)
    picture, axes = plt.subplots(rows, columns, figsize=(6.5 * columns, 4.5 * rows), squeeze=False)
    for ax in axes.flat[len(found) :]:
        ax.axis("off")
    order = list(Op)
    for ax, panel in zip(axes.flat, sorted(found, key=lambda p: (p[1], order.index(p[0]), p[2].value)), strict=False):
        op, where, placement = panel
        for name in ordered(set(found[panel])):
            points = found[panel][name]
            sizes = [size for size, _ in points]
            style = STYLES.get(name, {})
            ax.plot(sizes, [f.median_us for _, f in points], marker="o", markersize=3, label=name, **style)
            ax.fill_between(
                sizes, [f.low_us for _, f in points], [f.high_us for _, f in points], alpha=0.15, **_fill(style)
            )
        shown = sorted({size for points in found[panel].values() for size, _ in points})
        ax.set_xscale("log", base=2)
        ax.set_yscale("log")
        ax.set_xticks(shown, [format_size(size) for size in shown], rotation=45, fontsize=7)
        seen = "" if placement is Placement.UNKNOWN else f", {placement.value}"
        ax.set_title(f"{op.value}, {where}{seen}")
        ax.set_ylabel("us, median and quartiles of the blocks", fontsize=8)
        ax.grid(visible=True, which="major", alpha=0.3)
        ax.legend(fontsize=7)
    machine = document["machine"]
    picture.suptitle(f"{machine['cpu']}, {machine['cores']} cores; {document['started']}")
    picture.tight_layout()
    picture.savefig(path, dpi=110)
    plt.close(picture)


def _fill(style: Mapping[str, Any]) -> dict[str, Any]:
    return {"color": style["color"], "linewidth": 0} if "color" in style else {"linewidth": 0}
