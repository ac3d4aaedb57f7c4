"""The libraries export what the real ones do, so that whatever links to those loads on the emulator."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cuda_emulator._build import library_folder, torch_folder


def exports(library: Path) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}


def imports(library: Path, prefix: str) -> set[str]:
    listed = subprocess.run(["nm", "-D", "--undefined-only", str(library)], capture_output=True, text=True, check=True)
    names = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
    return {name for name in names if name.startswith(prefix)}


def test_the_runtime_exports_all_of_the_real_one() -> None:
    real = torch_folder().parent / "nvidia" / "cu13" / "lib" / "libcudart.so.13"
    if not real.is_file():
        pytest.skip("no wheel of the CUDA 13 runtime is installed")
    wanted = {name for name in exports(real) if name.startswith(("cuda", "__cuda"))}
    assert wanted - exports(library_folder() / "libcudart.so.13") == set()


@pytest.mark.parametrize("library", ["libc10_cuda.so", "libtorch_cuda.so", "libtorch_python.so", "libcaffe2_nvrtc.so"])
def test_torch_finds_all_that_it_links_to(library: str) -> None:
    provided = exports(library_folder() / "libcudart.so.13") | exports(library_folder() / "libcuda.so.1")
    path = torch_folder() / "lib" / library
    driver = {name for name in imports(path, "cu") if name[2].isupper() and not name.startswith("cuFile")}
    wanted = imports(path, "cuda") | imports(path, "__cuda") | driver
    assert wanted - provided == set()
