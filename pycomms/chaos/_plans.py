"""Plans in files of TOML."""

from __future__ import annotations

import sys
from pathlib import Path

from pycomms.chaos.core.parse import PlanError, parse
from pycomms.chaos.core.plan import Plan

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["PlanError", "plan_of"]


def plan_of(path: Path) -> Plan:
    """Raises ValueError, with the file's name in front, where it cannot be read or makes no sense."""
    try:
        return parse(tomllib.loads(path.read_text()), path.stem)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}") from error
    except (PlanError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
