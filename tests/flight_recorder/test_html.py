"""The report without a browser: what is in it, what is left out, and that nothing in it is markup of strangers."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pycomms.flight_recorder import _html, _timeline, _wait_graph
from pycomms.flight_recorder._clocks import align
from pycomms.flight_recorder._model import Group, Record, Site, State
from pycomms.flight_recorder._verdict_card import headline
from pycomms.flight_recorder._words import group_label
from pycomms.flight_recorder.analysis import Analysis, Edge, Finding, GroupRef, OpRef, Replaced, Verdict, analyze

from ._jobs import MS, Rank, healthy, missing_rank, signature, world_group

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\"'><svg onload=alert(1)>",
    "$data ${style} $$",
    "\u202eevil\u2066\x00\x1b[2J\ud800",
]


class Elements(HTMLParser):
    """Which elements with which attributes a page has, and whether they are closed in order."""

    VOID = frozenset({"meta", "input", "br", "img"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: set[str] = set()
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    data: dict[str, Any] = json.loads(found.group(1))
    return data


def hostile_job(text: str) -> list[Record]:
    records = []
    for rank in range(2):
        writer = Rank(rank=rank, world_size=2, host=text)
        group = Group(name=text, description=text, ranks=(0, 1))
        site = Site(file=text, line=1, function=text)
        for sequence in range(1, 3 - rank):
            state = State.FAILED if sequence == 2 else State.COMPLETED
            writer.op(group, signature(text), sequence, at=sequence * MS, site=site, error=text, state=state)
        records.append(replace(writer.record(taken=9 * MS), job=text, source=text))
    return records


@pytest.mark.parametrize("text", HOSTILE, ids=["script", "comment", "attribute", "template", "control"])
def test_names_of_strangers_are_only_text(text: str) -> None:
    harmless = Elements(_html.page(hostile_job("x"), analyze(hostile_job("x"))))
    records = hostile_job(text)
    site = Site(file=text, line=1, function=text)
    killed = Replaced(rank=0, pid=1, host=text, op=OpRef(kind=text, sequence=1), site=site)
    analysis = replace(analyze(records), warnings=(text,), replaced=(killed,))
    page = _html.page(records, replace(analysis, findings=analysis.findings * 2))
    found = Elements(page)
    assert found.names.count("script") == 2
    assert set(found.names) <= {*harmless.names, "h3", "ul", "li", "code"}
    assert not [name for name in found.attributes if name.startswith("on")]
    assert not re.search("[\u202e\u2066\x00\x1b]", page)
    page.encode("utf-8", "strict")


def test_only_its_own_script_may_run_and_nothing_is_fetched() -> None:
    page = _html.page(missing_rank(), analyze(missing_rank()))
    script = page.rsplit("<script>", 1)[1].split("</script>", 1)[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in page
    assert not re.search(r"""(src|href)\s*=|url\(['"]?(?!#)|@import|https?://""", page)


def test_the_verdict_comes_first_and_in_words() -> None:
    page = _html.page(missing_rank(), analyze(missing_rank()))
    first = page.index("Rank 5 did not join all_reduce number 6 of tp2")
    assert first < page.index("<canvas")
    assert "reduce_scatter_single dp1[5]" in page


def test_a_healthy_job_says_so() -> None:
    page = _html.page(healthy(), analyze(healthy()))
    assert "Nothing is wrong in these records" in page
    assert 'class="verdict good"' in page
    assert "Who waits for whom" not in page


@pytest.mark.parametrize("verdict", Verdict, ids=lambda verdict: verdict.value)
def test_every_verdict_has_a_headline(verdict: Verdict) -> None:
    bare = Analysis(findings=(Finding(verdict=verdict),))
    op = OpRef(kind="all_reduce", sequence=7)
    full = Analysis(findings=(Finding(verdict=verdict, root_ranks=(1, 2, 3), group=GroupRef(name="dp"), op=op),))
    for analysis in (bare, full):
        line = headline(analysis)
        assert line[0].isupper()
        assert "{" not in line


def long_job(ranks: int, operations: int) -> list[Record]:
    records = []
    for rank in range(ranks):
        writer = Rank(rank=rank, world_size=ranks)
        for sequence in range(1, operations + (rank != 1)):
            stuck = State.RUNNING if sequence == operations else State.COMPLETED
            writer.op(world_group(ranks), signature("all_reduce"), sequence, at=sequence * 10 * MS, state=stuck)
        records.append(writer.record(taken=(operations + 1000) * 10 * MS))
    return records


def test_a_long_job_is_cut_to_the_fault_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_timeline, "MOST_OPERATIONS", 400)
    monkeypatch.setattr(_timeline, "MOST_RANKS", 5)
    records = long_job(8, 300)
    drawn = _timeline.timeline(records, analyze(records), align(records))
    rows = drawn.data["rows"]
    assert [row["rank"] for row in rows] == [1, 0, 2, 3, 4]
    assert {len(row["begin"]) for row in rows} == {80}
    assert rows[1]["sequence"][-1] == 300
    assert "400 of 2,399 operations" in drawn.left_out
    assert "5 of 8 ranks" in drawn.left_out


def test_the_cut_is_around_the_operation_in_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_timeline, "MOST_OPERATIONS", 80)
    records = healthy(size=2, ops=400)
    finding = Finding(
        verdict=Verdict.SIZE_MISMATCH,
        group=GroupRef(name="0", description="default_pg", ranks=(0, 1)),
        op=OpRef(kind="all_reduce", sequence=101),
    )
    drawn = _timeline.timeline(records, Analysis(findings=(finding,)), align(records))
    kept = drawn.data["rows"][0]["sequence"]
    assert kept == [*range(72, 112)]


def test_an_operation_that_has_not_ended_is_kept_however_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_timeline, "MOST_OPERATIONS", 60)
    writer = Rank(rank=0, world_size=1)
    for sequence in range(1, 500):
        state = State.RUNNING if sequence == 3 else State.COMPLETED
        writer.op(world_group(1), signature("all_reduce"), sequence, at=sequence * MS, state=state)
    record = writer.record(taken=10**9)
    drawn = _timeline.timeline([record], Analysis(), align([record]))
    assert drawn.data["rows"][0]["sequence"][0] == 3


def test_times_survive_packing() -> None:
    record = missing_rank()[4]
    (row,) = _timeline.timeline([record], Analysis(), align([record])).data["rows"]
    begin = [sum(row["begin"][: n + 1]) for n in range(len(row["begin"]))]
    first = int(record.entries["issued_ns"][0])
    assert begin == [(int(at) - first) // 1000 for at in record.entries["issued_ns"]]
    assert row["lasted"][-1] == -1
    assert row["lasted"][0] == 9000


def test_the_first_view_ends_where_progress_ended_also_when_operations_timed_out() -> None:
    writer = Rank(rank=0, world_size=1)
    for sequence in range(1, 10):
        writer.op(world_group(1), signature("all_reduce"), sequence, at=sequence * 10 * MS)
    writer.op(world_group(1), signature("all_reduce"), 10, at=100 * MS, took=25_000 * MS, state=State.TIMED_OUT)
    record = writer.record(taken=26_000 * MS)
    begin, end = _timeline.timeline([record], Analysis(), align([record])).data["view"]
    assert 30_000 < begin < 50_000  # µs since the first operation, at 10 ms
    assert 90_000 < end < 130_000


def test_a_process_that_ended_is_idle_until_the_last_look_at_the_others() -> None:
    records = healthy(size=2)
    records[1] = replace(records[1], alive=True, taken_ns=records[1].taken_ns + 90_000 * MS)
    page = _html.page(records, analyze(records))
    assert page.count("idle 1 min 30 s") == 2


@pytest.mark.parametrize(
    "name, description, label",
    [("0", "", "group 0"), ("0", "undefined", "group 0"), ("0", "dp", "dp"), ("a8f", "", "a8f"), ("", "", "world")],
)
def test_groups_are_called_what_people_call_them(name: str, description: str, label: str) -> None:
    assert group_label(Group(name=name, description=description)) == label
    assert group_label(GroupRef(name=name, description=description)) == label


def test_a_ring_and_a_dump_of_one_process_are_one_row() -> None:
    records = [replace(record, started_ns=1) for record in missing_rank()]
    dumps = [replace(record, source="dump", entries=record.entries[:-1]) for record in records]
    assert len(data_of(_html.page([*dumps, *records], analyze(records)))["rows"]) == 8


def edge(waiter: int, group: str, waits_for: tuple[int, ...]) -> Edge:
    return Edge(waiter=waiter, group=GroupRef(name=group), op=OpRef(kind="all_reduce", sequence=1), waits_for=waits_for)


def test_ranks_in_one_situation_are_one_box() -> None:
    finding = Finding(verdict=Verdict.MISSING_RANK, root_ranks=(0,))
    analysis = Analysis(findings=(finding,), edges=tuple(edge(rank, "0", (0,)) for rank in range(1, 1000)))
    waiting, root = _wait_graph.boxes(analysis)
    assert (len(waiting.ranks), root.ranks, root.is_root) == (999, (0,), True)
    svg, words, left_out = _wait_graph.draw(analysis)
    assert svg.count('class="box') == 2
    assert words[0] == "Root cause: rank 0 waits for nobody."
    assert left_out == ""


def test_a_deadlock_is_drawn_as_a_circle() -> None:
    analysis = Analysis(
        findings=(Finding(verdict=Verdict.ORDER_DEADLOCK, root_ranks=(0, 1, 2)),),
        edges=(edge(0, "a", (1,)), edge(1, "b", (2,)), edge(2, "c", (0,))),
    )
    found = _wait_graph.boxes(analysis)
    assert [box.is_root for box in found] == [True] * 3
    assert sorted(_wait_graph.columns(found)) == [0, 1, 2]
    svg, _, _ = _wait_graph.draw(analysis)
    assert svg.count('class="arrow"') == 3


def test_a_large_graph_says_what_it_leaves_out() -> None:
    edges = tuple(edge(rank, f"g{rank}", (0,)) for rank in range(1, 101))
    _, words, left_out = _wait_graph.draw(Analysis(edges=edges))
    assert left_out == "53 more groups of waiting ranks are not drawn."
    assert len(words) == 101


def test_the_file_appears_whole(tmp_path: Path) -> None:
    _html.write(tmp_path / "report.html", missing_rank(), analyze(missing_rank()))
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    assert len(data_of((tmp_path / "report.html").read_text())["rows"]) == 8


def test_what_may_become_a_fault_is_told() -> None:
    records = missing_rank()
    analysis = analyze(records, patience_ns=10**15)
    assert analysis.verdict is Verdict.HEALTHY
    drawn = _html.page(records, analysis)
    assert "Nothing is wrong in these records" in drawn
    assert "Rank 5 never issued all_reduce 6 of tp2; rank 4 waits there." in drawn
    assert "is called a fault after" in drawn


def test_who_was_killed_and_replaced_is_told() -> None:
    op = OpRef(kind="all_reduce", sequence=6)
    site = Site(file="train.py", line=40, function="main")
    killed = Replaced(rank=3, pid=4711, host="a", op=op, site=site)
    page = _html.page(healthy(), replace(analyze(healthy()), replaced=(killed,)))
    assert "Killed before, and replaced (1)" in page
    said = "Process 4711 of rank 3 was killed, behind all_reduce 6 at train.py:40 in main; another has taken its place."
    assert f"<li>{said}</li>" in page
    assert "Killed before" not in _html.page(healthy(), analyze(healthy()))
