"""What the benchmark plans, says to its ranks and prints."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from bench.ranks.one_sided import TABLE
from pycomms.bench.blocks import Figure
from pycomms.bench.plan import ASYNC_DEPTH, Case, Op, Timing, cases, format_size, memory_needed, parse_size, shape_block
from pycomms.bench.protocol import RELEASE, Command, Hello, Link, LinkError, Reply
from pycomms.bench.ranks.loop import Rank, measure, serve
from pycomms.bench.report import against_limits, cell_text, grid, microseconds, ratio, render


@pytest.mark.parametrize(
    "text, size", [("8", 8), ("64K", 65536), ("64KiB", 65536), ("1m", 1 << 20), ("2 GiB", 2 << 30), ("8 B", 8)]
)
def test_sizes_are_read_as_people_write_them(text: str, size: int) -> None:
    assert parse_size(text) == size
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize("text", ["", "K", "-8", "1.5M", "8 bits"])
def test_what_is_not_a_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_size(text)


def test_operations_without_a_size_are_planned_once_and_large_asynchronous_ones_not_at_all() -> None:
    planned = cases((Op.BARRIER, Op.ALL_REDUCE_ASYNC, Op.BROADCAST), (8, 1 << 20), 2)
    assert [(case.op, case.size) for case in planned] == [
        (Op.BARRIER, 0),
        (Op.ALL_REDUCE_ASYNC, 8),
        (Op.BROADCAST, 8),
        (Op.BROADCAST, 1 << 20),
    ]


def test_memory_counts_what_is_in_flight() -> None:
    case = Case(op=Op.ALL_REDUCE_ASYNC, size=1024, ranks=2)
    assert memory_needed(case) == 2 * ASYNC_DEPTH * 1024


@pytest.mark.parametrize("call_us", [0.0, 0.1, 4.0, 50.0, 900.0, 30_000.0, 2e6])
@pytest.mark.parametrize("series", [1, 6])
def test_blocks_keep_their_budget_and_samples_outlast_the_clock(call_us: float, series: int) -> None:
    timing = shape_block(call_us, series, block_ms=10.0)
    spent_us = series * timing.samples * timing.inner * call_us
    assert timing.samples >= (3 if call_us < 5000.0 else 1)
    assert spent_us <= 10_000.0 or timing.samples <= 3
    assert timing.inner * call_us >= 10.0 or timing.inner >= 40
    assert timing.warmup >= 1


@pytest.mark.parametrize(
    "command",
    [Command.prepare(Case(op=Op.GATHER, size=64, ranks=4)), Command.run(Timing(warmup=1, samples=2, inner=3)), RELEASE],
)
def test_a_command_is_understood_as_it_was_meant(command: Command) -> None:
    understood = Command.parse(command.encode())
    assert (understood.verb, understood.op, understood.size) == (command.verb, command.op, command.size)
    assert understood.timing == command.timing


@pytest.mark.parametrize("line", ["", "prepare all_reduce", "run 1 2", "dance"])
def test_a_line_that_is_no_command_is_refused(line: str) -> None:
    with pytest.raises(LinkError):
        Command.parse(line)


def test_a_silent_rank_is_given_up_at_the_deadline() -> None:
    driver, rank = socket.socketpair()
    with rank:
        link = Link(driver)
        with pytest.raises(LinkError, match="in time"):
            link.receive(time.monotonic())
        link.close()


def test_a_rank_that_is_gone_is_noticed_at_once() -> None:
    driver, rank = socket.socketpair()
    rank.close()
    link = Link(driver)
    with pytest.raises(LinkError, match="gone"):
        link.receive(time.monotonic() + 30)
    with pytest.raises(LinkError, match="gone"):
        link.send("release")
    link.close()


def test_a_rank_that_ended_with_something_unread_is_gone_as_well() -> None:
    driver, rank = socket.socketpair()
    link = Link(driver)
    link.send("release")
    rank.close()
    with pytest.raises(LinkError, match="gone"):
        link.receive(time.monotonic() + 30)
    link.close()


class OneRank:
    """An endpoint of a world of one, on a list-like buffer: enough for operations that move nothing."""

    rank = 0
    world = 1

    def __init__(self) -> None:
        self.calls = 0

    def barrier(self) -> object:
        return self.call

    def call(self) -> None:
        self.calls += 1

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"{name} is not expected here")


def test_a_rank_prepares_runs_and_reports() -> None:
    endpoint = OneRank()
    driver_end, rank_end = socket.socketpair()
    server = threading.Thread(target=serve, args=(Link(rank_end), Rank(endpoint)))
    server.start()
    link = Link(driver_end)
    deadline = time.monotonic() + 30

    def ask(line: str) -> Reply:
        link.send(line)
        return Reply.parse(link.receive(deadline))

    assert ask("run 0 1 1").error == "nothing is prepared"
    assert ask("prepare barrier 0") == Reply()
    ran = ask("run 2 5 3")
    assert len(ran.series[""]) == 5
    assert ran.wall_ns > 0
    assert endpoint.calls == 1 + 2 + 5 * 3  # verified, warmed up, measured
    assert "limits" in ask("prepare memcpy 64").unsupported
    link.send("quit")
    server.join(timeout=30)
    assert not server.is_alive()
    link.close()
    rank_end.close()


def test_untimed_preparation_is_not_measured() -> None:
    order: list[str] = []
    timing = Timing(warmup=1, samples=2, inner=2)
    samples = measure(lambda: order.append("call"), lambda: order.append("before"), timing, per_call=1)
    assert len(samples) == 2
    assert order == ["before", "call"] * 5


def test_every_operation_is_in_the_table() -> None:
    assert set(TABLE) == set(Op)


def test_hello_survives_the_wire() -> None:
    hello = Hello(contestant="gloo", rank=1, pid=2, version="3")
    assert Hello.parse(json.dumps(vars(hello))) == hello


@pytest.mark.parametrize(
    "us, text", [(0.123, "0.12"), (9.876, "9.88"), (10.04, "10.0"), (99.96, "100.0"), (12345.6, "12,346")]
)
def test_microseconds_show_three_digits(us: float, text: str) -> None:
    assert microseconds(us) == text


@pytest.mark.parametrize(
    "peer, text", [(500.0, "50x"), (45.0, "4.5x"), (12.5, "1.25x"), (2.0, "0.20x"), (0.03, "0.003x")]
)
def test_a_ratio_says_how_much_longer_the_peer_takes(peer: float, text: str) -> None:
    assert ratio(peer, 10.0) == text


def test_a_grid_is_aligned() -> None:
    assert grid(["", "a"], [["8 B", "1"], ["1 KiB", "22"]]) == ["        a", "  8 B   1", "1 KiB  22"]


def test_missing_cells_are_dashes() -> None:
    assert cell_text("gloo", {}, "nccl2") == "-"


def test_a_backend_is_held_against_floor_and_limits() -> None:
    def of(median_us: float) -> Figure:
        return Figure(median_us=median_us, min_us=1, low_us=1, high_us=1, blocks=1, queued=0, variant="")

    row = {"nccl2": of(64.0), "empty": of(4.0), "limits: staged": of(48.0), "mpich": of(300.0)}
    assert against_limits(row, "nccl2") == {"over floor": "+60.0", "/ staged": "1.25x"}
    assert against_limits(row, "mpich") == {}
    assert against_limits({"nccl2": of(64.0)}, "nccl2") == {}


def test_a_report_of_a_file_names_what_was_left_out() -> None:
    raw = {
        "op": "all_reduce",
        "size": 8,
        "ranks": 2,
        "series": "",
        "placement": "near",
        "probe_ns": [55.0, 56.0],
        "samples": 3,
        "min_us": 1.0,
        "queued": 0.0,
    }
    document = {
        "machine": {"cpu": "x", "cores": 2, "kernel": "6"},
        "started": "today",
        "pinning": "none",
        "versions": {"nccl2": "1", "gloo": "2"},
        "notes": [{"contestant": "mpich", "case": "2 ranks", "text": "left out: not installed"}],
        "blocks": [
            {**raw, "contestant": "nccl2", "round": 0, "median_us": 5.0},
            {**raw, "contestant": "gloo", "round": 0, "median_us": 250.0},
            {**raw, "contestant": "gloo", "round": 1, "median_us": 9e9, "placement": "mixed"},
        ],
    }
    text = "\n".join(render(document, None, details=True))
    assert "2 near, 0 far; 1 dropped" in text
    assert "mpich 2 ranks: left out: not installed" in text
    assert "5.00 [1.00]" in text
    assert "250 [1.00] 50x" in text
