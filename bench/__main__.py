"""Command line.

    python -m bench setup                     makes the peers' environments: MPIs, oneCCL, torchft
    python -m bench run [--quick] [...]       measures, prints the tables, writes --json and --plot
    python -m bench rma [--quick] [...]       the same of windows: put, get, atomics from one rank into another's memory
    python -m bench report FILE [--plot P]    prints the tables of an earlier run

docs/performance.md explains the figures.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench.contestants import CONTESTANTS, Contestant, Setting
from bench.contestants.mpi import FLAVOURS
from bench.contestants.oneccl import ENVIRONMENT as ONECCL
from bench.environments import SetupError, default_cache
from bench.ft.jobs import TORCHFT
from bench.native_build import build_program
from launch._compiled import CompileError
from launch.netns import Cluster, Host, NetnsError
from pycomms._command_line import list_of, one_of
from pycomms.bench import machine, plot, report
from pycomms.bench.driver import Driver
from pycomms.bench.placement import NEAR_BELOW_NS, Probe
from pycomms.bench.plan import (
    DEFAULT_SIZES,
    FULL,
    ONE_SIDED,
    ONE_SIDED_SIZES,
    QUICK,
    QUICK_SIZES,
    TWO_SIDED,
    Effort,
    Op,
    cases,
    parse_size,
)
from pycomms.bench.protocol import Hub


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="pycomms beside its peers and the limits.")
    commands = parser.add_subparsers(dest="command", required=True)
    cache = argparse.ArgumentParser(add_help=False)
    cache.add_argument("--env-dir", type=Path, default=default_cache(), help="cache folder (default: %(default)s)")

    setup = commands.add_parser("setup", parents=[cache], help="make the peers' environments")
    setup.add_argument("--again", action="store_true", help="also those that are ready")

    run = commands.add_parser("run", parents=[cache], help="measure")
    run.add_argument("--sizes", type=list_of(parse_size), help="bytes, or 64K, 1M (default: 8 B to 256 MiB)")
    run.add_argument("--ranks", type=list_of(int), default=(2, 4))
    _add_measuring_options(run, TWO_SIDED)

    rma = commands.add_parser("rma", parents=[cache], help="measure windows, on 2 ranks")
    rma.add_argument("--sizes", type=list_of(parse_size), default=ONE_SIDED_SIZES, help="(default: 8, 64K, 16M)")
    _add_measuring_options(rma, ONE_SIDED)
    rma.set_defaults(ranks=(2,))

    show = commands.add_parser("report", help="print the tables of a file")
    show.add_argument("file", type=Path)
    _add_report_options(show)
    return parser.parse_args(argv)


def _add_measuring_options(parser: argparse.ArgumentParser, ops: Sequence[Op]) -> None:
    names = [contestant.name for contestant in CONTESTANTS]
    known = list_of(one_of("contestant", names))
    parser.add_argument("--ops", type=list_of(Op), default=tuple(ops), help=f"of {', '.join(op.value for op in ops)}")
    parser.add_argument(
        "--hosts", type=int, default=1, help="spread the ranks over as many network namespaces; needs root (default: 1)"
    )
    parser.add_argument("--contestants", type=known, default=tuple(names), help=", ".join(names))
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--rounds", type=int, help="turns of each contestant per case, at least")
    parser.add_argument("--block-ms", type=float, help="length of a turn")
    parser.add_argument("--no-pin", action="store_true", help="do not pin rank i to core i where there are enough")
    parser.add_argument("--near-below", type=float, default=NEAR_BELOW_NS, help="ns of the probe (%(default)s)")
    parser.add_argument("--json", type=Path, help="write everything measured to this file")
    _add_report_options(parser)


def _add_report_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", help="contestant that the others are compared with (default: nccl2)")
    parser.add_argument("--details", action="store_true", help="also the best ways of the limits, and the load")
    parser.add_argument("--plot", type=Path, help="draw the results to this file (needs matplotlib)")


def make_environments(args: argparse.Namespace) -> int:
    for environment in [*(flavour.environment for flavour in FLAVOURS), ONECCL, TORCHFT]:
        if environment.ready(args.env_dir) and not args.again:
            print(f"{environment.name}: ready")
            continue
        print(f"{environment.name}: installing {', '.join(environment.packages)} ...", flush=True)
        try:
            environment.make(args.env_dir)
        except SetupError as err:
            print(f"not available: {err}")
    return 0  # a peer that cannot be had is left out of the runs


def chosen_effort(args: argparse.Namespace) -> Effort:
    effort = QUICK if args.quick else FULL
    if args.rounds:
        effort = replace(effort, rounds=args.rounds, max_rounds=3 * args.rounds, wanted_blocks=max(1, args.rounds // 2))
    return replace(effort, block_ms=args.block_ms) if args.block_ms else effort


def measure(args: argparse.Namespace) -> int:
    uneven = [world for world in args.ranks if world % args.hosts]
    if args.hosts < 1 or uneven:
        raise SystemExit(f"bench: {uneven or 'the'} ranks cannot be spread evenly over {args.hosts} hosts")
    if args.hosts == 1:
        return measure_on((), args)
    try:
        with Cluster(hosts=args.hosts) as cluster, tempfile.TemporaryDirectory(prefix="bench-agent-") as folder:
            agent = Path(folder) / "agent"
            cluster.write_agent(agent)
            return measure_on(cluster.hosts, args, agent)
    except NetnsError as err:
        print(f"bench: no hosts can be made here: {err}", file=sys.stderr)
        return 1


def measure_on(hosts: tuple[Host, ...], args: argparse.Namespace, agent: Path = Path()) -> int:
    cores = machine.usable_cores()
    sizes = args.sizes or (QUICK_SIZES if args.quick else DEFAULT_SIZES)
    contestants: list[Contestant] = [c for c in CONTESTANTS if c.name in args.contestants]
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    began = time.monotonic()
    probe = start_probe(args.env_dir, cores)
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        hub = Hub(folder / "hub")
        driver = Driver(
            contestants=contestants,
            effort=chosen_effort(args),
            probe=probe,
            near_below=args.near_below,
            hub=hub,
            folder=folder,
            say=lambda text: print(text, file=sys.stderr, flush=True),
        )
        try:
            for world in args.ranks:
                pinned = not args.no_pin and world <= len(cores)
                setting = Setting(
                    cache=args.env_dir,
                    socket=hub.path,
                    world=world,
                    cores=",".join(str(core) for core in cores[:world]) if pinned else "",
                    hosts=hosts,
                    agent=agent,
                )
                driver.run(setting, cases(args.ops, sizes, world, args.hosts))
        except KeyboardInterrupt:
            print("interrupted: what follows is what was measured so far", file=sys.stderr)
        finally:
            hub.close()
            if probe is not None:
                probe.close()
    results = driver.results
    document = {
        "format": 1,
        "started": started,
        "seconds": round(time.monotonic() - began, 1),
        "machine": machine.describe(cores),
        "pinning": "none" if args.no_pin else "rank i on core i where there is a core for every rank, else none",
        "near_below_ns": args.near_below,
        **results.to_json(),
    }
    if args.json is not None:
        args.json.write_text(json.dumps(document) + "\n")
    show(document, args)
    return 0 if results.blocks else 1


def start_probe(cache: Path, cores: Sequence[int]) -> Probe | None:
    """The placement probe on the first two cores; None, with a line that says why, where it cannot run."""
    if len(cores) < 2:
        print("one core: placement is not probed", file=sys.stderr)
        return None
    try:
        return Probe(build_program("placement_probe", cache), (cores[0], cores[1]))
    except CompileError as err:
        print(f"placement is not probed: {err}", file=sys.stderr)
        return None


def show(document: dict[str, Any], args: argparse.Namespace) -> None:
    print("\n".join(report.render(document, args.base, details=args.details)))
    if args.plot is not None:
        try:
            plot.draw(document, args.plot)
        except plot.PlotError as err:
            print(f"no plot: {err}", file=sys.stderr)
        else:
            print(f"\nplot: {args.plot}")


def main(argv: Sequence[str]) -> int:
    args = parse_arguments(argv)
    if args.command == "setup":
        return make_environments(args)
    if args.command in ("run", "rma"):
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends in order: no rank stays behind
        return measure(args)
    show(json.loads(args.file.read_text()), args)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
