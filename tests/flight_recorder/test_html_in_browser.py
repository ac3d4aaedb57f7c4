"""The report in a real browser: it shows the verdict, draws, answers to mouse and keyboard, complains about nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from pycomms.flight_recorder import _html
from pycomms.flight_recorder._model import Record, Site, State
from pycomms.flight_recorder.analysis import analyze

from ._browser import Page, browser, find
from ._jobs import MS, Rank, missing_rank, signature, world_group

PROGRAM = find()
pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="no chromium or chrome on this machine (Debian: apt install chromium)"
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with browser(str(PROGRAM), tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def show(page: Page, records: list[Record], folder: Path, *, dark: bool = False) -> None:
    page.problems.clear()
    _html.write(folder / "report.html", records, analyze(records))
    page.open(folder / "report.html", width=1280, height=900, dark=dark)


def text(page: Page, selector: str) -> str:
    return str(page.evaluate(f"document.querySelector({json.dumps(selector)}).textContent"))


def place_in_timeline(page: Page, across: float, row: int) -> tuple[float, float]:
    """A point of the canvas: a share of its width, in the middle of a row of 24 pixels below the axis of 24."""
    box = page.evaluate(
        "(({x, y, width}) => ({x, y, width}))(document.getElementById('timeline').getBoundingClientRect())"
    )
    return box["x"] + box["width"] * across, box["y"] + 24 + 24 * row + 12


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_a_faulty_job_is_shown(dark: bool, page: Page, tmp_path: Path) -> None:
    show(page, missing_rank(), tmp_path, dark=dark)
    assert text(page, "h1") == "Rank 5 did not join all_reduce number 6 of tp2"
    assert "node1, pid 4005" in text(page, ".verdict")
    assert page.evaluate("document.getElementById('timeline').dataset.rows") == "8"
    assert int(page.evaluate("document.getElementById('timeline').dataset.operations")) >= 32
    assert page.evaluate("document.querySelectorAll('.graph .box').length") == 4
    assert "rank 5" in text(page, ".graph .root")
    assert page.problems == []


def test_the_canvas_is_painted(page: Page, tmp_path: Path) -> None:
    show(page, missing_rank(), tmp_path)
    page.evaluate("window.canvas = document.getElementById('timeline')")
    page.evaluate("window.bytes = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer")
    colours = page.evaluate("new Set(new Uint32Array(window.bytes)).size")
    assert colours > 20


def test_pointing_at_an_operation_tells_what_it_is(page: Page, tmp_path: Path) -> None:
    show(page, missing_rank(), tmp_path)
    page.hover(*place_in_timeline(page, 0.95, row=5))
    shown = text(page, "#tip")
    for expected in ("all_reduce sum float32[4194304] in tp2, number 6", "rank4 on node1", "running for 10 min",
                     "16 MiB", "layers/mlp.py:88 forward"):  # fmt: skip
        assert expected in shown
    page.hover(*place_in_timeline(page, 0.95, row=0))  # rank 5 is in nothing
    assert page.evaluate("document.getElementById('tip').hidden") is True
    assert page.problems == []


def test_the_keyboard_reaches_every_operation(page: Page, tmp_path: Path) -> None:
    show(page, missing_rank(), tmp_path)
    page.evaluate("document.getElementById('timeline').focus()")
    page.press("ArrowDown")
    assert "number 6" in text(page, "#tip")
    page.press("ArrowLeft")
    assert "all_reduce sum float32[4194304] in tp0, number 6" in text(page, "#tip")


def test_zoom_shows_the_whole_record(page: Page, tmp_path: Path) -> None:
    show(page, missing_rank(), tmp_path)
    page.evaluate("document.getElementById('view-all').click()")
    # Everything but the waiting is a fraction of a pixel now.
    assert int(page.evaluate("document.getElementById('timeline').dataset.operations")) <= 24
    for button in ("zoom-in", "zoom-out", "view-fault"):
        page.evaluate(f"document.getElementById('{button}').click()")
    assert int(page.evaluate("document.getElementById('timeline').dataset.operations")) >= 32
    assert page.problems == []


def test_the_table_sorts_and_filters(page: Page, tmp_path: Path) -> None:
    show(page, missing_rank(), tmp_path)
    ranks = "[...document.querySelectorAll('#ranks tbody tr:not([hidden])')].map((row) => +row.cells[0].textContent)"
    assert page.evaluate(ranks) == [5, 0, 1, 2, 3, 4, 6, 7]
    click = "document.querySelector('#ranks th button').click()"
    page.evaluate(click)
    assert page.evaluate(ranks) == [*range(8)]
    page.evaluate(click)
    assert page.evaluate(ranks) == [*range(8)][::-1]
    assert page.evaluate("document.querySelector('#ranks th').getAttribute('aria-sort')") == "descending"
    page.evaluate("document.getElementById('filter').value = 'MLP.py'")
    page.evaluate("document.getElementById('filter').dispatchEvent(new Event('input'))")
    assert page.evaluate(ranks) == [4]
    assert text(page, "#shown") == "1 of 8 rows match."


def test_hostile_names_stay_text(page: Page, tmp_path: Path) -> None:
    evil = "</script><script>window.owned = 1</script><img src=x onerror='window.owned = 1'>\"'\u202e${x}$$"
    records = []
    for rank in range(2):
        writer = Rank(rank=rank, world_size=2, host=evil)
        group = world_group(2)
        group = type(group)(name=evil, description=evil, ranks=(0, 1))
        state = State.RUNNING if rank else State.FAILED
        site = Site(file=evil, line=1, function=evil)
        writer.op(group, signature(evil), 1, at=0, site=site, error=evil, state=state)
        records.append(writer.record(taken=1000 * MS))
    show(page, records, tmp_path)
    page.hover(*place_in_timeline(page, 0.5, row=0))
    assert "</script>" in text(page, "#tip")
    assert page.evaluate("typeof window.owned") == "undefined"
    assert page.evaluate("document.images.length") == 0
    assert page.problems == []


@pytest.mark.parametrize(
    "records", [[], [Rank(rank=0, world_size=1).record(taken=0)]], ids=["no record", "empty record"]
)
def test_nothing_to_draw_is_no_error(records: list[Record], page: Page, tmp_path: Path) -> None:
    show(page, records, tmp_path)
    assert page.problems == []
