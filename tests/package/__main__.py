"""python -m tests.package SDIST WHEEL: what is handed out holds what it should, and runs where no compiler is.

Part of `make wheel`. The wheel is installed as by a user, with torch and the extra `demo`, into an environment that is
removed afterwards; examples/demo.py and `pycomms doctor` are run there, outside of the tree. Needs git, binutils and
auditwheel.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch

from . import _contents
from ._clean import Clean

_ROOT = Path(__file__).resolve().parents[2]
_EXAMPLES = ("demo.py", "lose_a_worker.py", "elastic.py", "compare_backends.py", "train_ddp.py")
_WHICH = "import pycomms; print(pycomms.__version__); print(pycomms.__file__)"
_OTHER_TORCH = """
import torch
torch.__version__ = "1.13.1"
try:
    import pycomms
except ImportError as error:
    print(error)
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sdist", type=Path)
    parser.add_argument("wheel", type=Path)
    arguments = parser.parse_args()
    complaints = [*look(arguments.sdist, arguments.wheel), *use(arguments.wheel)]
    for complaint in complaints:
        print(f"tests.package: {complaint}", file=sys.stderr)
    return 1 if complaints else 0


def look(sdist: Path, wheel: Path) -> list[str]:
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(git, cwd=_ROOT, check=True, capture_output=True, text=True, timeout=60).stdout.splitlines()
    tracked = [name for name in listed if (_ROOT / name).is_file()]
    minor = ".".join(torch.__version__.split(".")[:2])
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(wheel).extractall(folder)
        libraries = _contents.libraries_of(Path(folder))
    show = ["auditwheel", "show", "--json", str(wheel)]
    audit = json.loads(subprocess.run(show, check=True, stdout=subprocess.PIPE, text=True, timeout=120).stdout)
    return [
        *_contents.sdist_complaints(_contents.of_sdist(sdist), tracked),
        *_contents.wheel_complaints(_contents.of_wheel(wheel), tracked),
        *_contents.metadata_complaints(_contents.metadata_of(wheel), minor),
        *_contents.audit_complaints(audit),
        *(complaint for library in libraries for complaint in _contents.library_complaints(library)),
    ]


def use(wheel: Path) -> list[str]:
    """What does not work of it where it is installed."""
    with tempfile.TemporaryDirectory(dir=wheel.parent) as folder:
        clean = Clean(folder=Path(folder).resolve())
        print("an environment of its own, with torch: a minute or a few", flush=True)
        clean.make()
        clean.install(f"{wheel.resolve()}[demo]", f"torch=={torch.__version__.split('+')[0]}")
        clean.copy([_ROOT / "examples" / name for name in _EXAMPLES])
        found = [f"there is a compiler: {name}" for name in clean.compilers()]

        version, place = clean.run("python", "-c", _WHICH).stdout.split()
        print(f"pycomms {version}", flush=True)
        if version not in wheel.name or not Path(place).is_relative_to(clean.folder):
            found.append(f"pycomms {version} of {place} was imported, not what {wheel.name} has")
        demo = clean.run("python", "demo.py")
        print(demo.stdout, flush=True)
        if demo.returncode != 0:
            found.append(f"examples/demo.py ended with {demo.returncode}")
        return [*found, *_doctor(clean), *_other_torch(clean)]


def _doctor(clean: Clean) -> list[str]:
    """What it says of the package; the machine is not the wheel's business."""
    sections = json.loads(clean.run("pycomms", "doctor", "--json").stdout)["sections"]
    findings = [*sections["versions"], *sections["self-check"]]
    return [f"pycomms doctor: {f['name']}: {f['text']}" for f in findings if f["level"] == "problem"]


def _other_torch(clean: Clean) -> list[str]:
    said = clean.run("python", "-c", _OTHER_TORCH).stdout
    return [] if "torch 1.13.1 is installed" in said else [f"with another torch import pycomms says {said!r}"]


if __name__ == "__main__":
    sys.exit(main())
