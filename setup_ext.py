"""How `pip install` builds the native code: CMake for what has no torch in it, torch's machinery for the rest.

    pycomms/lib/libhostccl.so   csrc/base, csrc/hostccl      CMake, Release
    pycomms/_C.*.so             csrc/base, csrc/recorder, csrc/nccl2    torch.utils.cpp_extension
    pycomms/_C.*.torch          which torch that is built for           written here

And what the metadata of a wheel says of torch (docs/adr/0012). Runs at build time only. Must not import pycomms.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import torch
from setuptools import Extension
from setuptools.command.egg_info import egg_info
from torch.utils.cpp_extension import BuildExtension, CppExtension, include_paths

ROOT = Path(__file__).resolve().parent
CSRC = ROOT / "csrc"
WITH_TORCH = CSRC / "nccl2" / "c10d"
CUDA_NAMES = WITH_TORCH / "cuda_names"  # stands in for CUDA's headers, of which torch's own mention a few names

# Tools that pip put beside this interpreter win over those of the system, whether or not the environment is activated.
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def jobs() -> int:
    """Compilers to run at once: MAX_JOBS, or one per core. The one that reads torch's headers needs 1.3 GB."""
    return int(os.environ.get("MAX_JOBS", os.cpu_count() or 1))


def gpu_support() -> str:
    """What GPU tensors need of this torch. The code for them is always built: it finds CUDA and NCCL when it runs."""
    if torch.version.cuda is None:
        return "not with this torch, which is built without CUDA"
    return f"with the CUDA {torch.version.cuda} and the NCCL that this torch loads; no CUDA header is needed"


def sees_cuda_allocator() -> bool:
    """Whether torch's header of its CUDA allocator compiles with our few names of CUDA (docs/adr/0007)."""
    if torch.version.cuda is None:
        return False
    options = [
        f"-I{CUDA_NAMES}",
        *(f"-I{path}" for path in include_paths()),
        "-std=c++20",
        "-fsyntax-only",
        "-x",
        "c++",
        "-",
    ]
    source = "#include <c10/cuda/CUDACachingAllocator.h>\n"
    compiler = os.environ.get("CXX", "c++").split()
    return (
        subprocess.run([*compiler, *options], input=source, capture_output=True, text=True, check=False).returncode == 0
    )


class BuildExt(BuildExtension):
    """Builds libhostccl.so and then pycomms._C, each only as far as its sources have changed."""

    def finalize_options(self) -> None:
        self.distribution.ext_modules = [_extension()]
        super().finalize_options()
        # An editable install hands us a temporary folder. A fixed one, per Python and torch, keeps the objects.
        parts = (sysconfig.get_platform(), str(sys.implementation.cache_tag), f"torch-{torch.__version__}")
        self.build_temp = str(ROOT / "build" / "-".join(parts))

    def run(self) -> None:
        os.environ["MAX_JOBS"] = str(jobs())
        print(f"pycomms: GPU tensors: {gpu_support()}", file=sys.stderr, flush=True)
        self._build_hostccl()
        super().run()
        self._torch_version().write_text(torch.__version__.split("+")[0] + "\n")

    def build_extension(self, ext: Extension) -> None:
        ext.sources = self._united(ext.sources)
        if sees_cuda_allocator():
            ext.define_macros.append(("PYCOMMS_CUDA_ALLOCATOR_EVENTS", "1"))
        elif torch.version.cuda is not None:
            print(
                "pycomms: this torch's CUDA allocator is not known: no registered memory", file=sys.stderr, flush=True
            )
        super().build_extension(ext)

    def get_outputs(self) -> list[str]:
        return [*super().get_outputs(), str(self._library()), str(self._torch_version())]

    def _united(self, sources: list[str]) -> list[str]:
        """One generated file for each folder: what its files include, which is most of the work, is then read once.

        Two for the folder with torch, which takes longer than all others. The files of a folder share their anonymous
        namespaces then: a name may be defined in only one of them.
        """
        folders = sorted({(ROOT / s).parent for s in sources}, key=_comes_first)
        united = []
        for folder in folders:
            parts = sorted(ROOT / s for s in sources if (ROOT / s).parent == folder)
            if folder == WITH_TORCH:
                first, second = _halves(parts)
                united += [self._together(f"{folder.name}_1", first), self._together(f"{folder.name}_2", second)]
            else:
                united.append(self._together(folder.name, parts))
        return united

    def _together(self, name: str, parts: list[Path]) -> str:
        united = Path(self.build_temp) / f"{name}.cpp"
        text = "".join(f'#include "{part.relative_to(CSRC).as_posix()}"\n' for part in parts)
        if not united.is_file() or united.read_text() != text:
            united.parent.mkdir(parents=True, exist_ok=True)
            united.write_text(text)
        return str(united.relative_to(ROOT))

    def _library(self) -> Path:
        return (ROOT if self.inplace else Path(self.build_lib)) / "pycomms" / "lib" / "libhostccl.so"

    def _torch_version(self) -> Path:
        """The file of pycomms/_built_for.py."""
        return Path(self.get_ext_fullpath("pycomms._C")).with_suffix(".torch")

    def _build_hostccl(self) -> None:
        # No Python and no torch in it. Configured as for the C++ tests and the emulator, which find it compiled there.
        build = ROOT / "build" / "plain"
        _run("cmake", "-S", ROOT, "-B", build, "-G", "Ninja")
        _run("cmake", "--build", build, "--target", "hostccl", "--parallel", jobs())
        library = self._library()
        library.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: a process that has the old library mapped keeps it.
        fresh = library.with_suffix(".new")
        shutil.copyfile(build / "libhostccl.so", fresh)
        fresh.replace(library)


class EggInfo(egg_info):  # type: ignore[misc]  # setuptools has no types
    """What is built needs the torch that it was built for. A source distribution fits any."""

    def finalize_options(self) -> None:
        requires = [str(requirement) for requirement in self.distribution.install_requires]  # those of pyproject.toml
        if "sdist" not in self.distribution.commands:
            minor = ".".join(torch.__version__.split(".")[:2])
            requires = [f"torch=={minor}.*" if r.startswith("torch>=") else r for r in requires]
            if os.environ.get("PYCOMMS_TORCH_LABEL") == "1":
                self.tag_build = f"+torch{minor}"
        # A plain list: setuptools then says in the metadata that this field is dynamic.
        self.distribution.install_requires = self.distribution.metadata.install_requires = requires
        super().finalize_options()


def _comes_first(folder: Path) -> tuple[bool, Path]:
    """The one that includes torch."""
    return folder != WITH_TORCH, folder


def _halves(parts: list[Path]) -> tuple[list[Path], list[Path]]:
    """By size."""
    sizes = list(itertools.accumulate(part.stat().st_size for part in parts))
    middle = sum(size <= sizes[-1] / 2 for size in sizes)
    return parts[:middle], parts[middle:]


def _extension() -> Extension:
    sources = sorted([*CSRC.glob("base/**/*.cpp"), *CSRC.glob("recorder/*.cpp"), *CSRC.glob("nccl2/**/*.cpp")])
    # Named as system folders too, so that warnings are about our code and not about torch's headers.
    paths = [str(CUDA_NAMES), *include_paths()]
    system = [option for path in paths for option in ("-isystem", path)]
    extension: Extension = CppExtension(
        "pycomms._C",
        [str(s.relative_to(ROOT)) for s in sources],
        include_dirs=[str(CSRC)],
        extra_compile_args=["-std=c++20", "-O2", "-g0", "-fvisibility=hidden", "-Wall", "-Wextra", *system],
        # torch has loaded its libraries by then. This is for who looks at the file by itself: ldd, auditwheel.
        extra_link_args=["-Wl,--strip-debug", "-Wl,-rpath,$ORIGIN/../torch/lib"],
    )
    return extension


def _run(*command: object) -> None:
    subprocess.run([str(c) for c in command], check=True)
