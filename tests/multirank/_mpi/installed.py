"""The MPI libraries that the tests run under: the environments of bench/, made here when they are missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.contestants.mpi import Flavour
from bench.environments import SetupError, default_cache


def packages_of(flavour: Flavour) -> tuple[Path, Path]:
    """The environment's folder, and that of its packages. It takes ten seconds once; skips where it cannot be had."""
    environment, cache = flavour.environment, default_cache()
    if not environment.ready(cache):
        try:
            environment.make(cache)
        except SetupError as error:
            pytest.skip(f"{flavour.name} cannot be installed here: {error}")
    folder = environment.folder(cache)
    (packages,) = folder.glob("lib/python*/site-packages")
    return folder, packages
