"""python -m tests.matrix torch==2.13.0: all that a newcomer with that torch runs, in a fresh clone of the last commit.

make setup, make demo and make test (every step of it, also after one that fails), each timed; then what
`pycomms doctor` finds there. --targets names other targets of make, such as those steps of make test that a version of
Python can matter to. All of it goes to FOLDER/output.txt as it comes, and as numbers to FOLDER/result.json,
which `docs/generate_versions.py --take` puts into the tables of docs/versions.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TypedDict

from .counts import as_json, counts

_ROOT = Path(__file__).parents[2]


class Took(TypedDict):
    seconds: int
    status: int


def main() -> int:
    options = _parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder: Path = options.folder or _ROOT / "out" / "matrix" / f"{options.torch}-{Path(options.python).name}"
    folder.mkdir(parents=True)
    clone = folder / "clone"
    subprocess.run(["git", "clone", "--quiet", str(_ROOT), str(clone)], timeout=300, check=True)
    settings = [f"TORCH={options.torch}", f"PYTHON={options.python}"]
    took: dict[str, Took] = {}
    with (folder / "output.txt").open("w") as output:
        for target in ("setup", *options.targets):
            command = ["make", "--keep-going", target, *settings]
            took[target] = _run(command, clone, output, timeout=60.0 * options.minutes)
            print(f"make {target}: {took[target]['seconds']} s, exit status {took[target]['status']}", flush=True)
            if target == "setup" and took[target]["status"] != 0:
                return 1
    found = counts((folder / "output.txt").read_text(errors="replace").splitlines())
    doctor = json.loads(_ask(clone, "-m", "pycomms", "doctor", "--json"))
    python = _ask(clone, "-c", "import platform; print(platform.python_version())").strip()
    cores = len(os.sched_getaffinity(0))
    result = {"python": python, "cores": cores, "doctor": doctor, "took": took, "steps": as_json(found)}
    (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    for step, count in found.items():
        print(f"{step}: {count.passed} passed, {count.failed} failed, {count.skipped} skipped")
    print(f"in {folder / 'result.json'}")
    return 1 if any(one["status"] for one in took.values()) else 0


def _run(command: list[str], clone: Path, output: IO[str], timeout: float) -> Took:
    """Shows which step it is at; `output` gets every line."""
    start = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
    with (
        subprocess.Popen(
            command,
            cwd=clone,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process,
        _ended_by(process, timeout),
    ):
        assert process.stdout is not None
        for line in process.stdout:
            output.write(line)
            output.flush()
            if line.startswith("== "):
                print(f"{time.monotonic() - start:6.0f} s  {line.rstrip()}", flush=True)
        status = process.wait(timeout)
    return {"seconds": round(time.monotonic() - start), "status": status}


@contextmanager
def _ended_by(process: subprocess.Popen[str], timeout: float) -> Iterator[None]:
    """Whatever it has started ends with it, when the time is over and when this program is interrupted too."""

    def end(*_: object) -> None:
        os.killpg(process.pid, signal.SIGKILL)

    previous = signal.signal(signal.SIGALRM, end)
    signal.alarm(int(timeout))
    try:
        yield
    except BaseException:
        end()
        raise
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def _ask(clone: Path, *arguments: str) -> str:
    """What the clone's interpreter prints. The doctor's exit status is that of its verdict; it prints in any case."""
    command = [str(clone / ".venv/bin/python"), *arguments]
    return subprocess.run(command, cwd=clone, stdout=subprocess.PIPE, text=True, timeout=300, check=False).stdout


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.matrix", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("torch", help="a requirement, such as torch==2.13.0")
    parser.add_argument("--python", default="python3", help="the interpreter to make .venv from")
    parser.add_argument("--folder", type=Path, help="new; default: out/matrix/TORCH-PYTHON")
    parser.add_argument("--minutes", type=float, default=90.0, help="at most, for each target")
    parser.add_argument(
        "--targets", nargs="+", default=["demo", "test"], help="of make, behind setup (default: %(default)s)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
