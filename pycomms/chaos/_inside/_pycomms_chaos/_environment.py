"""What the environment says. The only module in here that reads it."""

from __future__ import annotations

import os
from pathlib import Path

DOOR = "PYCOMMS_CHAOS"
HOSTS = "PYCOMMS_CHAOS_HOSTS"
CLOCKS = "PYCOMMS_CHAOS_CLOCKS"


def door() -> Path | None:
    """The folder with the controller's socket."""
    value = os.environ.get(DOOR, "")
    return Path(value) if value else None


def rank() -> int | None:
    """As launchers tell it, at this moment: a spare process is told late."""
    value = os.environ.get("RANK", "")
    return int(value) if value.isdecimal() else None


def world() -> int:
    value = os.environ.get("WORLD_SIZE", "")
    return int(value) if value.isdecimal() else 0


def attempt() -> int:
    """How many processes had the place before."""
    value = os.environ.get("TORCHELASTIC_RESTART_COUNT", "")
    return int(value) if value.isdecimal() else 0


def clocks_may_jump() -> bool:
    return os.environ.get(CLOCKS, "") == "1"


def store_port() -> int:
    """Of the store by which ranks find each other; 0: nobody has said."""
    value = os.environ.get("MASTER_PORT", "")
    return int(value) if value.isdecimal() else 0


def dump_folder() -> Path | None:
    """Of the flight recorder."""
    value = os.environ.get("PYCOMMS_FR_DUMP_DIR", "")
    return Path(value) if value else None


def pretend_host() -> None:
    """The ranks of a host act as if they were on several, where the plan wants connections between them."""
    hosts, own = os.environ.get(HOSTS, ""), rank()
    if hosts.isdecimal() and int(hosts) > 0 and own is not None:
        os.environ["PYCOMMS_HOST_ID"] = f"chaos-{own % int(hosts)}"
