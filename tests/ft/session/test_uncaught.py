"""An exception that nobody catches, outside of a step."""

from __future__ import annotations

import gc
import sys
from typing import Any, cast

import pytest

from pycomms import ft
from pycomms.ft import _uncaught
from pycomms.ft._member import Membership


class Job:
    """What a session says to it at its end."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def leave(self, reason: str) -> None:
        self.said.append(reason)


def session_in(job: Job) -> ft.Session:
    return ft.Session(membership=lambda timeouts, min_ranks: cast("Membership", job))


@pytest.fixture
def printed(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the hook that was there before gets."""
    got: list[Any] = []
    monkeypatch.setattr(_uncaught, "_before", None)
    monkeypatch.setattr(sys, "excepthook", lambda *error: got.append(error))
    return got


def test_the_others_are_told_before_it_is_printed(printed: list[Any]) -> None:
    job = Job()
    session = session_in(job)
    error = KeyError("lr")
    sys.excepthook(KeyError, error, None)
    assert job.said == ["left by KeyError: 'lr'"]
    assert printed == [(KeyError, error, None)]
    del session


def test_who_cannot_be_told_hides_nothing(
    printed: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(reason: str) -> None:
        raise OSError("no line")

    job = Job()
    session = session_in(job)
    monkeypatch.setattr(job, "leave", fail)
    sys.excepthook(ValueError, ValueError(3), None)
    assert len(printed) == 1
    assert "nobody could be told: no line" in capsys.readouterr().err
    del session


def test_sessions_that_are_gone_are_forgotten(printed: list[Any]) -> None:
    job = Job()
    session_in(job)
    gc.collect()
    sys.excepthook(ValueError, ValueError(3), None)
    assert (job.said, len(printed)) == ([], 1)
