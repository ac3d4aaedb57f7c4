"""The flight recorder beside torch's own, in turns: what it costs to record, to dump and to analyze.

    python -m bench.recorder [--rounds 5] [--sections entry,cost,dump,...] [--entries N] [--ranks N] [--json FILE]

entry     CPU time of one entry alone: begun with the sizes of two tensors, and ended; without call site
cost      thread CPU time of an all_reduce of 8 bytes on one rank, recorded and not; least of all rounds
dump      the first dump of 2,000 entries of a process
start     `pycomms fr analyze` and torch's fr_trace, on a job of 2 ranks, from start to end
analyze   the same on as many entries as --entries says, in torch's pickles of 2,000 entries a rank
scale     time and memory of `pycomms fr analyze` on --ranks ranks of 2,000 entries each, one of which is missing
truncated complete entries that are found in torch's pickles that were cut off at 10, 50 and 90 %
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_BUILD_WITHIN_S = 1200
SECTIONS = ("entry", "cost", "dump", "start", "analyze", "scale", "truncated")

_RANK = """
import sys, time
import torch, torch.distributed as dist
mode, what = sys.argv[1:]
if mode == "gloo, ours":
    from pycomms import flight_recorder
    flight_recorder.attach()
elif mode.startswith("nccl2"):
    import pycomms
dist.init_process_group(mode.split(",")[0], rank=0, world_size=1, store=dist.HashStore())
if mode == "gloo, torch's hook":
    from torch._C._distributed_c10d import FlightRecorderHook
    hook = FlightRecorderHook.attach(dist.group.WORLD)
tensor = torch.ones(2)
for _ in range(2000):
    dist.all_reduce(tensor)
if what == "cost":
    least = 1e9
    for _ in range(20):
        start = time.thread_time_ns()
        for _ in range(500):
            dist.all_reduce(tensor)
        least = min(least, (time.thread_time_ns() - start) / 500)
    print(least / 1e3)
else:
    start = time.perf_counter()
    if mode == "gloo":
        from torch._C._distributed_c10d import _dump_fr_trace
        open(sys.argv[0] + ".dump", "wb").write(_dump_fr_trace())
    else:
        from pycomms import flight_recorder
        flight_recorder.dump("a benchmark")
    print((time.perf_counter() - start) * 1e3)
"""
_MODES = {
    "nccl2, not recorded": {"PYCOMMS_FR_ENTRIES": "0"},
    "nccl2, recorded": {},
    "nccl2, with stacks": {"PYCOMMS_FR_STACKS": "1"},
    "gloo": {},
    "gloo, ours": {},
    "gloo, torch's hook": {},
}


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.recorder", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sections", type=lambda text: text.split(","), default=SECTIONS)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--ranks", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    arguments = parse_arguments(argv)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="pycomms-bench-") as name:
        folder = Path(name)
        for section in arguments.sections:
            print(f"== {section}", file=sys.stderr)
            found[section] = _MEASURES[section](arguments, folder)
            for what, value in found[section].items():
                print(f"{section:10} {what:42} {value:12.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"schema": 1, "figures": found}, indent=1))
    return 0


def _environment(folder: Path, mode: str = "") -> dict[str, str]:
    return (
        os.environ | {"PYCOMMS_FR_DIR": str(folder / "records"), "TORCH_FR_BUFFER_SIZE": "2000"} | _MODES.get(mode, {})
    )


def _on_a_rank(folder: Path, mode: str, what: str) -> float:
    program = folder / "rank.py"
    program.write_text(_RANK)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(program), mode, what],
        env=_environment(folder, mode),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return float(done.stdout)


def measure_entry(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """ns."""
    build = ROOT / "build" / "plain"
    for command in (
        ["cmake", "--preset", "plain", "--log-level=WARNING"],
        ["cmake", "--build", str(build), "--target", "recorder_bench"],
    ):
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, timeout=_BUILD_WITHIN_S)
    done = subprocess.run(
        [build / "tests" / "cpp" / "recorder_bench", folder / "bench.ring"],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return {"begun and ended [ns]": float(done.stdout)}


def measure_cost(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """µs."""
    least = dict.fromkeys(_MODES, float("inf"))
    for _ in range(arguments.rounds):
        for mode in _MODES:
            least[mode] = min(least[mode], _on_a_rank(folder, mode, "cost"))
    return {f"{mode} [us]": value for mode, value in least.items()} | {
        "nccl2: recording adds [us]": least["nccl2, recorded"] - least["nccl2, not recorded"],
        "gloo: attach() adds [us]": least["gloo, ours"] - least["gloo"],
        "gloo: torch's hook adds [us]": least["gloo, torch's hook"] - least["gloo"],
    }


def measure_dump(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """ms, the median."""
    return {
        f"first dump, {name} [ms]": _median([_on_a_rank(folder, mode, "dump") for _ in range(arguments.rounds)])
        for name, mode in (("ours", "nccl2, recorded"), ("torch's", "gloo"))
    }


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _analyzers(dumps: Path) -> dict[str, list[str]]:
    return {
        "ours": [sys.executable, "-m", "pycomms", "fr", "analyze", str(dumps)],
        "torch's": [
            sys.executable,
            "-m",
            "torch.distributed.flight_recorder.fr_trace",
            str(dumps),
            "-p",
            "nccl_trace_rank_",
        ],
    }


def _timed(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=900, check=False)
    return time.perf_counter() - start


def _write_job(folder: Path, ranks: int, entries: int) -> Path:
    """A healthy job, as torch's NCCL backend writes it."""
    folder.mkdir()
    written = _pickled(_dump(ranks, entries))
    for rank in range(ranks):
        Path(folder, f"nccl_trace_rank_{rank}").write_bytes(written)
    return folder


def _write_stuck_job(folder: Path, ranks: int, entries: int, missing: int) -> Path:
    """One rank has not issued the last operation. The others' files are one, under many names."""
    folder.mkdir()
    dump = _dump(ranks, entries)
    last = dump["entries"].pop()
    for status in dump["pg_status"].values():
        status.update(dict.fromkeys(status, entries - 1))
    Path(folder, f"nccl_trace_rank_{missing}").write_bytes(_pickled(dump))
    dump["entries"].append({**last, "state": "started", "time_discovered_completed_ns": None, "retired": False})
    waiting = folder.with_suffix(".waiting")
    waiting.write_bytes(_pickled(dump))
    for rank in set(range(ranks)) - {missing}:
        Path(folder, f"nccl_trace_rank_{rank}").hardlink_to(waiting)
    return folder


def _pickled(dump: dict[str, Any]) -> bytes:
    """Strings and frames are written once, and everything else each time: as torch does, and Python does not."""
    return pickletools.optimize(pickle.dumps(dump, protocol=2))


def _dump(ranks: int, entries: int) -> dict[str, Any]:
    frames = [{"name": f"f{i}", "filename": f"/home/user/train/module_{i}.py", "line": 10 + i} for i in range(10)]
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str([*range(ranks)])}},
        "pg_status": {
            "0": dict.fromkeys(
                ("last_enqueued_collective", "last_started_collective", "last_completed_collective"), entries
            )
        },
        "entries": [
            {
                "record_id": i,
                "pg_id": 0,
                "process_group": ("0", "default_pg"),
                "collective_seq_id": i + 1,
                "p2p_seq_id": 0,
                "op_id": i + 1,
                "profiling_name": ("nccl:all_reduce", "nccl:broadcast", "nccl:reduce")[i % 3],
                "time_created_ns": 1_700_000_000_000_000_000 + i * 1_000_000,
                "duration_ms": 0.5,
                "frames": frames[: 10 - i % 4],
                "input_sizes": [[1024 * (1 + i % 5), 16]],
                "input_dtypes": ["Float"],
                "output_sizes": [[1024 * (1 + i % 5), 16]],
                "output_dtypes": ["Float"],
                "state": "completed",
                "time_discovered_started_ns": 1_700_000_000_000_000_000 + i * 1_000_000,
                "time_discovered_completed_ns": 1_700_000_000_000_500_000 + i * 1_000_000,
                "retired": True,
                "timeout_ms": 600_000,
                "is_p2p": False,
            }
            for i in range(entries)
        ],
    }


def measure_start(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """s, the least."""
    commands = _analyzers(_write_job(folder / "small", 2, 10))
    least = dict.fromkeys(commands, float("inf"))
    for _ in range(arguments.rounds):
        for name, command in commands.items():
            least[name] = min(least[name], _timed(command))
    return {f"{name} [s]": value for name, value in least.items()}


def measure_analyze(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """s, the least of two."""
    commands = _analyzers(_write_job(folder / "large", max(1, arguments.entries // 2000), 2000))
    return {
        f"{name}, {arguments.entries} entries [s]": min(_timed(command) for _ in range(2))
        for name, command in commands.items()
    }


def measure_scale(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """s and GB, of a fresh process."""
    missing = arguments.ranks // 3
    dumps = _write_stuck_job(folder / "scale", arguments.ranks, 2000, missing)
    start = time.perf_counter()
    process = subprocess.Popen([*_analyzers(dumps)["ours"], "--json"], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    found = json.loads(process.stdout.read())
    _, _, used = os.wait4(process.pid, 0)
    took = time.perf_counter() - start
    assert (found["verdict"], found["root_ranks"]) == ("MISSING_RANK", [missing]), found["verdict"]
    return {
        f"{arguments.ranks} ranks of 2000 [s]": took,
        f"{arguments.ranks} ranks of 2000, most memory [GB]": used.ru_maxrss * 1024 / 1e9,
    }


def measure_truncated(arguments: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Per cent of the entries that are whole in the file."""
    from pycomms.flight_recorder._load import read

    whole = Path(_write_job(folder / "cut", 1, 2000), "nccl_trace_rank_0").read_bytes()
    found = {}
    for part in (10, 50, 90):
        cut = folder / "cut" / f"cut{part}_rank_0"
        cut.write_bytes(whole[: len(whole) * part // 100])
        found[f"ours, cut at {part} % [%]"] = 100 * len(read(cut).entries) / (2000 * part / 100)
    return found


_MEASURES: dict[str, Callable[[argparse.Namespace, Path], dict[str, float]]] = {
    "entry": measure_entry,
    "cost": measure_cost,
    "dump": measure_dump,
    "start": measure_start,
    "analyze": measure_analyze,
    "scale": measure_scale,
    "truncated": measure_truncated,
}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
