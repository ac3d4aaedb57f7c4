"""The agent's folder for files: what is removed, and what is not."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from pycomms.ft.run.scratch import Scratch


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_what_a_killed_agent_has_left_is_removed_by_the_next(base: Path) -> None:
    living, killed = Scratch(), Scratch()
    fcntl.flock(killed._lock, fcntl.LOCK_UN)
    new = Scratch()
    assert set(base.iterdir()) == {living.folder, new.folder}
    for one in (living, killed, new):
        one.remove()
    assert not list(base.iterdir())


def test_agents_that_start_at_once_have_a_folder_each(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes between the first one's making its folder and locking it."""
    others: list[Scratch] = []
    lock = fcntl.flock

    def flock(file: int, how: int) -> None:
        if not others and how & fcntl.LOCK_EX:
            monkeypatch.setattr(fcntl, "flock", lock)
            others.append(Scratch())
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    both = [Scratch(), *others]
    assert set(base.iterdir()) == {one.folder for one in both}
    assert all(one.token().exists() for one in both)
    for one in both:
        one.remove()
