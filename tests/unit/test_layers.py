"""Dependencies point down only: see the picture in docs/architecture.md."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ._layers import LAYERS, Violation, environment_readers, import_violations, imports_of, include_violations, layer_of

ROOT = Path(__file__).parents[2]
TOML = {"tomllib", "tomli"}  # Python 3.10 has only the second one, and does not know of the first


def read(folder: Path, *, relative_to: Path, suffixes: set[str]) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.suffix in suffixes)
    return {path.relative_to(relative_to).as_posix(): path.read_text() for path in files}


def show(violations: list[Violation]) -> str:
    return "\n".join(map(str, violations))


def test_csrc_includes_point_down() -> None:
    sources = read(ROOT / "csrc", relative_to=ROOT / "csrc", suffixes={".h", ".cpp"})
    assert len(sources) > 20
    violations = include_violations(sources)
    assert not violations, show(violations)


def test_pycomms_imports_only_what_it_declares() -> None:
    sources = read(ROOT / "pycomms", relative_to=ROOT, suffixes={".py", ".pyi"})
    assert sources
    # typing_extensions: for a type checker only
    allowed = {"pycomms", "torch", "numpy", "typing_extensions", *sys.stdlib_module_names}
    extra = {
        "pycomms/flight_recorder/_live.py": {"rich"},  # an extra: without it the table is plain text
        "pycomms/chaos/_plans.py": TOML,
        "pycomms/process_group/_mpi.py": {"mpi4py"},  # an extra, so it is imported where it is asked for
        "pycomms/bench/plot.py": {"matplotlib"},  # likewise
    }
    for file, text in sources.items():
        coordinated = {"google", "grpc"} if file.startswith("pycomms/ft/") else set()
        violations = import_violations({file: text}, allowed | coordinated | extra.get(file, set()))
        assert not violations, show(violations)


def test_decisions_of_fault_tolerance_know_nothing_but_each_other() -> None:
    sources = read(ROOT / "pycomms" / "ft" / "core", relative_to=ROOT, suffixes={".py"})
    assert sources
    io = {"os", "socket", "time", "threading", "asyncio", "subprocess", "select", "signal", "secrets"}
    own = {name for text in sources.values() for name in imports_of(text) if name.startswith("pycomms")}
    assert all(name.startswith("pycomms.ft.core") for name in own), own
    pure = {file: text for file, text in sources.items() if "simulat" not in file}
    violations = import_violations(pure, {"pycomms", "typing_extensions", *sys.stdlib_module_names} - io)
    assert not violations, show(violations)


@pytest.mark.parametrize("part", ["core", "wire", "coordinator", "run"])
def test_agent_and_coordinator_need_no_torch(part: str) -> None:
    """An import of torch takes seconds, and both must start in a tenth of one."""
    sources = read(ROOT / "pycomms" / "ft" / part, relative_to=ROOT, suffixes={".py"})
    sources.pop("pycomms/ft/run/_spare.py", None)  # a worker, whose part it is to have imported torch
    allowed = {"pycomms", "google", "grpc", "typing_extensions", *sys.stdlib_module_names}
    violations = import_violations(sources, allowed)
    assert not violations, show(violations)


def test_chaos_decides_without_the_world() -> None:
    """Plans and judgements are functions of what was given; what runs inside of a job needs only what is there."""
    chaos = ROOT / "pycomms" / "chaos"
    core = read(chaos / "core", relative_to=ROOT, suffixes={".py"})
    assert core
    io = {"os", "socket", "time", "threading", "asyncio", "subprocess", "select", "signal", "secrets", "pathlib"}
    own = {name for text in core.values() for name in imports_of(text) if name.startswith("pycomms")}
    assert all(name.startswith("pycomms.chaos.core") for name in own), own
    violations = import_violations(core, {"pycomms", *sys.stdlib_module_names} - io)
    assert not violations, show(violations)
    inside = read(chaos / "_inside", relative_to=ROOT, suffixes={".py"})
    assert inside
    of_pycomms = [(file, name) for file, text in inside.items() for name in imports_of(text) if "pycomms" in name]
    assert of_pycomms == [("pycomms/chaos/_inside/_pycomms_chaos/_hooks.py", "pycomms")]  # to attach the recorder
    violations = import_violations(inside, {"pycomms", *sys.stdlib_module_names})
    assert not violations, show(violations)


def test_controller_of_chaos_needs_no_torch() -> None:
    sources = read(ROOT / "pycomms" / "chaos", relative_to=ROOT, suffixes={".py"})
    sources.pop("pycomms/chaos/workload.py")  # a program of a job
    violations = import_violations(sources, {"pycomms", *TOML, *sys.stdlib_module_names})
    assert not violations, show(violations)


def test_doctor_needs_no_torch() -> None:
    """A torch that is broken is what it has to tell of."""
    sources = read(ROOT / "pycomms" / "doctor", relative_to=ROOT, suffixes={".py"})
    sources.pop("pycomms/doctor/_rank.py")  # a child
    violations = import_violations(sources, {"pycomms", *sys.stdlib_module_names})
    assert not violations, show(violations)


def test_bench_needs_no_torch_but_in_its_ranks() -> None:
    """Nor do its parts that run in ranks of an MPI, in environments that have no torch."""
    sources = read(ROOT / "pycomms" / "bench", relative_to=ROOT, suffixes={".py"})
    assert imports_of(sources.pop("pycomms/bench/ranks/torch_rank.py"))
    violations = import_violations(sources, {"pycomms", "matplotlib", *sys.stdlib_module_names})
    assert not violations, show(violations)
    own = {name for file, text in sources.items() for name in imports_of(text) if name.startswith("pycomms")}
    assert all(name.startswith(("pycomms.bench", "pycomms.doctor", "pycomms._")) for name in own), own


def test_launch_needs_nothing() -> None:
    sources = read(ROOT / "launch", relative_to=ROOT, suffixes={".py"})
    assert sources
    # typing_extensions: for a type checker only
    violations = import_violations(sources, {"launch", "typing_extensions", *sys.stdlib_module_names})
    assert not violations, show(violations)


def test_one_file_reads_the_environment() -> None:
    sources = read(ROOT / "pycomms", relative_to=ROOT, suffixes={".py"})
    # Not of pycomms' process: it runs inside of jobs that may not have pycomms.
    inside = "pycomms/chaos/_inside/"
    assert [file for file in environment_readers(sources) if file.startswith(inside)] == [
        f"{inside}_pycomms_chaos/_environment.py"
    ]
    assert len([file for file in environment_readers(sources) if not file.startswith(inside)]) <= 1


def test_table_is_written_from_the_ground_up() -> None:
    seen: set[str] = set()
    for layer in LAYERS:
        for name in layer.below:
            folder = name if not name.endswith(".h") else name.rpartition("/")[0]
            assert folder in seen, f"{layer.folder} leans on {name}, which is not below it"
        seen.add(layer.folder)


# The checker itself, with planted files.

GOOD = {
    "base/clock.h": "#include <chrono>\n",
    "hostccl/nccl_abi.h": "",
    "hostccl/hostccl.h": '#include "nccl_abi.h"\n',
    "hostccl/kernels/kernels.h": '#include "../nccl_abi.h"\n',
    "hostccl/net/link.h": '#include "base/clock.h"\n',
    "hostccl/ring.h": '#include "base/clock.h"\n#include "hostccl/net/link.h"\n',
    "nccl2/driver/nccl_api.h": '#include "hostccl/nccl_abi.h"\n',
    "nccl2/core/launch.h": '#include "nccl2/driver/nccl_api.h"\n  #  include "base/clock.h"\n',
    "nccl2/c10d/backend.h": '#include <torch/csrc/distributed/c10d/Backend.hpp>\n#include "nccl2/core/launch.h"\n',
}


def test_good_tree_has_no_violation() -> None:
    assert include_violations(GOOD) == []


@pytest.mark.parametrize(
    "file, line",
    [
        ("base/clock.h", '#include "hostccl/ring.h"'),
        ("hostccl/ring.h", '#include "nccl2/core/launch.h"'),
        ("hostccl/net/link.h", '#include "hostccl/ring.h"'),
        ("hostccl/net/link.h", '#include "hostccl/hostccl.h"'),
        ("hostccl/ring.h", "#include <torch/types.h>"),
        ("hostccl/kernels/kernels.h", '#include "../../nccl2/core/launch.h"'),
        ("nccl2/driver/nccl_api.h", '#include "hostccl/ring.h"'),
        ("nccl2/driver/nccl_api.h", '#include "nccl2/core/launch.h"'),
        ("nccl2/core/launch.h", '#include "hostccl/nccl_abi.h"'),
        ("nccl2/core/launch.h", '#include "nccl2/c10d/backend.h"'),
        ("nccl2/core/launch.h", "#include <nccl2/c10d/backend.h>"),
        ("nccl2/core/launch.h", "#include <c10/util/Exception.h>"),
        ("nccl2/core/launch.h", "#include <ATen/core/Tensor.h>"),
        ("nccl2/c10d/backend.h", '#include "hostccl/hostccl.h"'),
        ("nccl2/c10d/backend.h", '#include "nccl2/core/missing.h"'),
    ],
)
def test_planted_arrow_is_found(file: str, line: str) -> None:
    planted = {**GOOD, file: f"{GOOD[file]}\n{line}\n"}
    (violation,) = include_violations(planted)
    assert violation.file == file
    assert violation.names in line


def test_file_of_no_layer_is_found() -> None:
    assert layer_of("elsewhere/x.h") is None
    (violation,) = include_violations({"elsewhere/x.h": ""})
    assert violation.file == "elsewhere/x.h"


def test_planted_import_is_found() -> None:
    sources = {"pycomms/a.py": "import os\nfrom . import b\ndef f():\n    from bench.plan import Case\n"}
    assert [v.names for v in import_violations(sources, {"os", "pycomms"})] == ["bench.plan"]


def test_planted_environment_reader_is_found() -> None:
    sources = {"a.py": "import os\nx = os.environ['A']", "b.py": "import os\nos.getpid()", "c.py": "os.getenv('A')"}
    assert environment_readers(sources) == ["a.py", "c.py"]
