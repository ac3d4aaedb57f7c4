"""The flight recorder: what every rank of a job did, also after it was killed, and what went wrong.

Groups of our own backend are recorded without a word; :func:`attach` records those of any other. The command
``pycomms fr`` reads the records: docs/flight_recorder.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pycomms.flight_recorder._attach import Attachment, attach
    from pycomms.flight_recorder._process import dump, ring_path

__all__ = ["Attachment", "attach", "dump", "ring_path"]

_HOME_OF = {"Attachment": "_attach", "attach": "_attach", "dump": "_process", "ring_path": "_process"}


def __getattr__(name: str) -> object:  # the command reads records without torch
    from importlib import import_module

    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    return value
