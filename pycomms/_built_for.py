"""Which torch the extension is built for, known without loading it: built for another one it may end the process.

Needs no torch.
"""

from __future__ import annotations

import re
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

EXTENSION = Path(__file__).with_name(f"_C{EXTENSION_SUFFIXES[0]}")
_VERSION = EXTENSION.with_suffix(".torch")  # written by setup_ext.py, when it has built the extension


def check(there: str) -> None:
    """Raises ImportError where the extension is built for another torch than this. there: as torch.__version__."""
    if why := why_not(there):
        minor = _minor(there)
        raise ImportError(
            f"pycomms cannot be used: {why}. Install the wheel for torch {minor}, whose version ends in +torch{minor}, "
            "or build pycomms for the torch that is there: "
            "pip install --no-build-isolation --force-reinstall --no-deps . in its sources (docs/building.md)",
            name="pycomms._C",
            path=str(EXTENSION),
        )


def why_not(there: str) -> str:
    """Why the extension cannot be used with this torch; empty: it can, or it is missing, or does not say."""
    try:
        return mismatch(_VERSION.read_text().strip(), there)
    except FileNotFoundError:
        return ""


def mismatch(built: str, there: str) -> str:
    """Why a build for one version of torch cannot be used with another; empty: it can. Patch versions do not matter."""
    if _minor(built) == _minor(there):
        return ""
    return f"it was built for torch {built}, and torch {there} is installed"


def _minor(version: str) -> str:
    """As 2.14, of 2.14.1+cu130."""
    return ".".join(re.findall(r"\d+", version)[:2])
