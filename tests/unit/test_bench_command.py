"""`pycomms bench`: what it is told, what it says, and when it says that something went wrong. No rank is started."""

from __future__ import annotations

import io
import time
from pathlib import Path

import pytest

from pycomms.__main__ import main
from pycomms.bench import _command, summary
from pycomms.bench._measure import measure, worlds
from pycomms.bench.blocks import Block
from pycomms.bench.placement import Placement
from pycomms.bench.plan import Case, Op
from pycomms.bench.progress import Progress
from pycomms.doctor.child import Told

ALL_THERE = {"pycomms": "", "gloo": "", "nccl": "", "builtin_nccl2": ""}


def block(backend: str, median: float, *, op: Op = Op.ALL_REDUCE, size: int = 65536, queued: float = 0.0) -> Block:
    return Block(
        case=Case(op=op, size=size, ranks=2),
        contestant=backend,
        series="",
        round=0,
        placement=Placement.UNKNOWN,
        probe_ns=(None, None),
        samples=3,
        median_us=median,
        min_us=median,
        queued=queued,
    )


def rendered(blocks: list[Block], *, cores: int = 2, gpus: int = 0) -> str:
    machine = {"cpu": "a CPU", "cores": cores, "quota": None, "kernel": "6", "python": "3"}
    document = {
        "machine": machine,
        "pycomms": "0",
        "torch": "2",
        "device": "cpu",
        "gpus": gpus,
        "started": "now",
        "seconds": 1.0,
        "backends": ["pycomms", "gloo"],
        "notes": [],
        "blocks": [one.to_json() for one in blocks],
    }
    return "\n".join(summary.render(document))


def test_what_is_asked_for_goes_before_what_is_usual() -> None:
    usual, quick = _command.parse([]), _command.parse(["--quick"])
    assert (usual.seconds, quick.seconds, quick.ops) == (60.0, 15.0, (Op.ALL_REDUCE,))
    asked = _command.parse(["--quick", "--ops", "barrier,init", "--sizes", "8,64K,8", "--seconds", "5"])
    assert (asked.ops, asked.sizes, asked.seconds) == ((Op.BARRIER, Op.INIT), (8, 65536), 5.0)


@pytest.mark.parametrize(
    "words, said",
    [
        (["--ops", "all_reduce,sum"], "--ops: no operation 'sum'; there are all_reduce, "),
        (["--ops", "memcpy"], "no operation 'memcpy'"),
        (["--sizes", "1.5M"], "--sizes: not a size: '1.5M'"),
        (["--sizes", ","], "--sizes: nothing is named in ','"),
        (["--ranks", "2,1"], "--ranks: '1' is not a number of ranks from 2 to 1024"),
        (["--backends", "nccl2"], "--backends: no backend 'nccl2'; there are pycomms, gloo, nccl, builtin_nccl2"),
        (["--backends", "pycomms,nccl"], "--backends: nccl is measured with --device cuda"),
        (["--seconds", "0"], "--seconds: '0' is not a number of seconds from 1 to 3600"),
        (["--plot", "figures.txt"], "--plot: 'figures.txt' does not end with .png, .svg, .pdf"),
        (["--json", "/no/where/figures.json"], "--json: there is no folder '/no/where'"),
    ],
)
def test_a_wrong_word_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *words]) == 4
    assert said in capsys.readouterr().err


def test_a_plot_without_matplotlib_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(_command, "find_spec", lambda _: None)
    assert main(["bench", "--plot", "figures.png"]) == 1
    assert "pip install 'pycomms[bench]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "stages, words, said",
    [
        ({}, [], "torch cannot be used: the process that looked ended with exit code 1"),
        (
            {"torch": {"version": "2"}, "gpus": {"count": 1}, "backends": ALL_THERE},
            ["--device", "cuda"],
            "a GPU for each rank: here torch sees 1",
        ),
    ],
)
def test_what_cannot_be_measured_at_all_is_said(
    stages: dict[str, dict[str, object]],
    words: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    told = Told(stages=stages, broke_in="torch", ended="ended with exit code 1", last_words="")
    monkeypatch.setattr(_command, "look", lambda: told)
    assert main(["bench", *words]) == 1
    assert said in capsys.readouterr().err


def test_a_backend_that_is_asked_for_and_missing_is_a_failure() -> None:
    arguments = _command.parse(["--backends", "gloo", "--ops", "barrier", "--ranks", "2"])
    progress = Progress(io.StringIO(), time.monotonic, 1.0)
    document, is_interrupted = measure(
        arguments, {**ALL_THERE, "gloo": "this torch is built without gloo"}, 0, time.monotonic(), progress
    )
    (note,) = document["notes"]
    assert (note["contestant"], note["text"]) == ("gloo", "left out: this torch is built without gloo")
    assert note["is_failure"]
    assert not is_interrupted
    assert document["blocks"] == document["figures"] == []


@pytest.mark.parametrize(
    "words, cores, gpus, expected",
    [
        ([], 1, 0, (2,)),
        ([], 2, 0, (2,)),
        ([], 4, 0, (2, 4)),
        ([], 64, 0, (2, 8)),
        (["--quick"], 64, 0, (2,)),
        (["--device", "cuda"], 64, 4, (4,)),
    ],
)
def test_ranks_have_cores_unless_more_are_asked_for(
    words: list[str], cores: int, gpus: int, expected: tuple[int, ...]
) -> None:
    assert worlds(_command.parse(words), cores, gpus) == expected


def test_a_table_has_times_ratios_and_bandwidths() -> None:
    blocks = [block("pycomms", 10.0), block("gloo", 400.0), block("pycomms", 3.0, size=8), block("gloo", 3.3, size=8)]
    assert rendered(blocks).splitlines()[3:] == [
        "",
        "all_reduce, 2 ranks",
        "        pycomms us  GB/s  gloo us  ratio  GB/s",
        "   8 B        3.00     -     3.30  1.10x     -",
        "64 KiB        10.0   6.6      400    40x  0.16",
    ]


def test_what_has_no_size_has_no_bandwidth_and_what_failed_has_no_time() -> None:
    blocks = [block("pycomms", 3.0, op=Op.BARRIER, size=0), block("gloo", 9.0)]
    lines = rendered(blocks).splitlines()[3:]
    assert [line.split() for line in lines if line.startswith(("64", "  "))][:2] == [
        ["gloo", "us", "GB/s"],
        ["64", "KiB", "9.00", "7.3"],
    ]
    assert lines[-2:] == ["  pycomms us", "        3.00"]


def test_a_reader_is_told_what_to_believe() -> None:
    uneven = [block("pycomms", 10.0), block("gloo", 100.0), block("gloo", 900.0)]
    assert "~500" in rendered(uneven)
    assert "not steady" in rendered(uneven)
    assert "2 ranks share 1 core: their times are the scheduler's as well" in rendered([block("gloo", 1.0)], cores=1)
    busy = [block("pycomms", 10.0, queued=0.3), block("gloo", 10.0, queued=0.7)]
    assert "2 ranks waited for a core 30% of the time" in rendered(busy)
    own_threads = [block("pycomms", 10.0), block("gloo", 10.0, queued=0.7)]
    assert "waited for a core" not in rendered(own_threads)
    assert "--device cuda" in rendered(busy, gpus=2)


def test_figures_are_for_programs() -> None:
    first, second = summary.figures([block("pycomms", 10.0), block("gloo", 40.0)], ["pycomms", "gloo"])
    assert (first["backend"], first["median_us"], first["ratio"]) == ("pycomms", 10.0, 1.0)
    assert (second["backend"], second["ratio"], second["turns"]) == ("gloo", 4.0, 1)
    assert second["gb_per_s"] == pytest.approx(1.6384)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_lines_or_one_line_that_changes() -> None:
    now = iter([0.0, 7.0])
    lines = io.StringIO()
    progress = Progress(lines, lambda: next(now), 60.0)
    progress.say("one\n    | more")
    progress.end()
    assert lines.getvalue() == "  7 of 60 s  one\n    | more\n"
    terminal = Terminal()
    progress = Progress(terminal, lambda: 0.0, 60.0)
    progress.say("one\n    | more")
    progress.end()
    assert terminal.getvalue() == "\r\x1b[K  0 of 60 s  one\r\x1b[K"


def test_a_file_is_as_good_for_the_developers_report(tmp_path: Path) -> None:
    from bench.__main__ import main as developers

    arguments = _command.parse(["--backends", "gloo", "--ops", "barrier"])
    progress = Progress(io.StringIO(), time.monotonic, 1.0)
    document, _ = measure(arguments, {**ALL_THERE, "gloo": "no"}, 0, time.monotonic(), progress)
    document["torch"] = "2"
    file = tmp_path / "figures.json"
    namespace = _command.parse(["--json", str(file)])
    assert _command.show(document, namespace, is_interrupted=False)
    assert developers(["report", str(file)]) == 0
