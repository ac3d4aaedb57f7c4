"""Plans in files of TOML, and folders of them."""

from __future__ import annotations

import sys
from importlib.resources import as_file, files
from pathlib import Path

from pycomms.chaos.core.parse import PlanError, parse
from pycomms.chaos.core.plan import Plan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["PlanError", "plan_of", "plans_of", "standard_set"]


def plan_of(path: Path) -> Plan:
    """Raises ValueError, with the file's name in front, where it cannot be read or makes no sense."""
    try:
        return parse(tomllib.loads(path.read_text()), path.stem)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: given a file that is no text ({error.reason}), expected TOML") from error
    except (PlanError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error


def plans_of(folder: Path) -> list[Plan]:
    """Of all files ``*.toml`` in it, by their names. Raises ValueError."""
    if not folder.is_dir():
        what = "a file: pycomms chaos run takes one plan" if folder.exists() else "a path where nothing is"
        raise ValueError(f"{folder}: given {what}, expected a folder of plans")
    plans = [plan_of(path) for path in sorted(folder.glob("*.toml"))]
    if not plans:
        raise ValueError(f"{folder}: given a folder without plans, expected files *.toml")
    names = [plan.name for plan in plans]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"{folder}: given several plans of the name {', '.join(twice)}, expected each name once")
    return plans


def standard_set() -> list[Plan]:
    """That comes with pycomms: every kind of fault, at the moments that matter. For jobs of 4 ranks."""
    with as_file(files("pycomms.chaos").joinpath("plans")) as folder:
        return plans_of(folder)
