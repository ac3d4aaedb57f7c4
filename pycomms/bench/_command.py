"""The command ``pycomms bench``. Imports neither torch nor the extension: its ranks do."""

from __future__ import annotations

import argparse
import io
import json
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import Any

from pycomms._command_line import Parser, leave_closed_pipe, list_of, number, one_of, whole
from pycomms.bench import plot, summary
from pycomms.bench._inside import BACKENDS, possible
from pycomms.bench._measure import MOST_RANKS, look, measure
from pycomms.bench.plan import BANDWIDTH, TWO_SIDED, Op, parse_size
from pycomms.bench.progress import Progress

WELL, FAILED = 0, 1
_INTERRUPTED = 130
_EXIT_CODES = """\
exit codes:
  0    everything was measured, and every result was right
  1    something could not be measured, a rank died, or a result was wrong; the notes say what
  4    wrong usage
  130  interrupted, or asked to end (SIGTERM); what was measured so far is shown
"""
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OPS = tuple(op.value for op in TWO_SIDED if op not in BANDWIDTH)
_USUAL_OPS = (Op.ALL_REDUCE, Op.ALL_GATHER, Op.REDUCE_SCATTER, Op.BROADCAST, Op.ALL_TO_ALL, Op.BARRIER)
_USUAL_SIZES = (8, 64 << 10, 1 << 20, 16 << 20)
_SECONDS, _QUICK_SECONDS = 60.0, 15.0
_PICTURES = (".png", ".svg", ".pdf")


def main(argv: list[str]) -> int:
    """Runs ``pycomms bench …`` and returns its exit code."""
    try:
        arguments = parse(argv)
    except SystemExit as end:
        return int(end.code or 0)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that is not of UTF-8
    before = {one: signal.signal(one, _interrupt_once) for one in _ENDINGS}
    try:
        return _run(arguments)
    except BrokenPipeError:
        return leave_closed_pipe()
    except KeyboardInterrupt:
        return _INTERRUPTED
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _interrupt_once(_number: int, _frame: FrameType | None) -> None:
    """A second one would leave processes behind that the first one is ending."""
    for one in _ENDINGS:
        signal.signal(one, signal.SIG_IGN)
    raise KeyboardInterrupt


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Raises SystemExit for --help and for wrong usage."""
    parser = Parser(
        prog="pycomms bench",
        description="pycomms beside the other backends of torch.distributed on this machine, in turns",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EXIT_CODES,
    )
    usual = ",".join(op.value for op in _USUAL_OPS)
    add = parser.add_argument
    add("--ops", type=list_of(_op), metavar="A,B", help=f"of {', '.join(_OPS)} (default: {usual})")
    add("--sizes", type=list_of(parse_size), metavar="N,M", help="bytes, 64K, 1M (default: 8,64K,1M,16M)")
    add(
        "--ranks",
        type=list_of(whole(2, 1024, "ranks")),
        metavar="N,M",
        help=f"on CPUs: default 2, and as many as there are cores, up to {MOST_RANKS}; on GPUs: as many as there are",
    )
    add(
        "--backends",
        type=list_of(one_of("backend", BACKENDS)),
        metavar="A,B",
        help=f"of {', '.join(BACKENDS)}; the first is what the others are compared with (default: all that are there)",
    )
    add("--device", choices=("cpu", "cuda"), default="cpu", help="of the tensors; cuda: rank i has GPU i")
    add(
        "--seconds",
        type=number(1, 3600, "seconds"),
        metavar="S",
        help=f"that all of it should take at most, about; every case gets three turns (default: {_SECONDS:g})",
    )
    add("--quick", action="store_true", help=f"all_reduce, 2 ranks, {_QUICK_SECONDS:g} s, where nothing else is said")
    add("--json", metavar="FILE", help="write all figures to this file; -: to standard output, instead of the tables")
    add("--plot", type=_picture, metavar="FILE", help="draw them to this file, .png, .svg or .pdf (needs matplotlib)")
    arguments = parser.parse_args(argv)
    for option, name in (("--json", arguments.json), ("--plot", arguments.plot)):
        if name is not None and name != "-" and not Path(name).parent.is_dir():
            parser.error(f"argument {option}: there is no folder {str(Path(name).parent)!r}")
    elsewhere = [name for name in arguments.backends or () if name not in possible(arguments.device)]
    if elsewhere:
        other = "cuda" if arguments.device == "cpu" else "cpu"
        parser.error(f"argument --backends: {', '.join(elsewhere)} is measured with --device {other}")
    arguments.ops = arguments.ops or ((Op.ALL_REDUCE,) if arguments.quick else _USUAL_OPS)
    arguments.sizes = arguments.sizes or _USUAL_SIZES
    arguments.seconds = arguments.seconds or (_QUICK_SECONDS if arguments.quick else _SECONDS)
    return arguments


def _op(text: str) -> Op:
    return Op(one_of("operation", _OPS)(text))


def _picture(text: str) -> str:
    if Path(text).suffix not in _PICTURES:
        raise argparse.ArgumentTypeError(f"{text!r} does not end with {', '.join(_PICTURES)}")
    return text


def _run(arguments: argparse.Namespace) -> int:
    if arguments.plot is not None and find_spec("matplotlib") is None:
        return _complain("--plot needs matplotlib: pip install 'pycomms[bench]'")
    progress = Progress(sys.stderr, time.monotonic, arguments.seconds)
    progress.say("looking which backends are there")
    until = time.monotonic() + arguments.seconds
    try:
        told = look()
    finally:
        progress.end()
    torch, gpus, backends = told.of("torch"), told.of("gpus"), told.of("backends")
    if torch is None or gpus is None or backends is None:
        return _complain(f"torch cannot be used: {told.why_not('torch')}; `pycomms doctor` says more")
    if arguments.device == "cuda" and gpus["count"] < 2:
        return _complain(f"--device cuda needs a GPU for each rank: here torch sees {gpus['count']}")
    document, is_interrupted = measure(arguments, backends, gpus["count"], until, progress)
    document["torch"] = torch["version"]
    is_written = show(document, arguments, is_interrupted=is_interrupted)
    if is_interrupted:
        return _INTERRUPTED
    is_well = document["blocks"] and not any(note["is_failure"] for note in document["notes"])
    return WELL if is_well and is_written else FAILED


def _complain(text: str) -> int:
    print(f"pycomms bench: {text}", file=sys.stderr)
    return FAILED


def show(document: Mapping[str, Any], arguments: argparse.Namespace, *, is_interrupted: bool) -> bool:
    """Whether all that is asked for is written."""
    if arguments.json == "-":
        print(json.dumps(document), flush=True)
    else:
        print("\n".join(summary.render(document)), flush=True)
    try:
        if arguments.json not in (None, "-"):
            Path(arguments.json).write_text(json.dumps(document) + "\n")
        if arguments.plot is not None and not is_interrupted:
            plot.draw(document, Path(arguments.plot))
    except (OSError, plot.PlotError) as error:
        _complain(str(error))
        return False
    return True
