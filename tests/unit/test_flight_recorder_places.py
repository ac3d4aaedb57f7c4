"""Where the flight recorder's files lie, and which old ones go."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from pycomms.flight_recorder import _places

_NOBODY = 2**22 - 7  # a pid beyond the kernel's default limit: no such process


def _file(folder: Path, name: str, age: float, now: float) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"")
    os.utime(path, (now - age, now - age))
    return path


def test_a_job_is_named_by_what_is_known() -> None:
    assert _places.job_name("mine", "launcher's") == "mine"
    assert _places.job_name("", "host:29500/x") == "host_29500_x"
    assert _places.job_name("", "") == f"parent{os.getppid()}"
    assert _places.job_name("../..", "") == "_.."
    assert len(_places.job_name("x" * 1000, "")) == 128


def test_old_files_of_dead_processes_go(tmp_path: Path) -> None:
    now = 1e9
    old = _file(tmp_path / "a", f"rank0.{_NOBODY}.ring", _places.KEEP_SECONDS + 1, now)
    dump = _file(tmp_path / "a", f"rank0.{_NOBODY}.2.dump", _places.KEEP_SECONDS + 1, now)
    young = _file(tmp_path / "b", f"rank0.{_NOBODY}.ring", 10, now)
    alive = _file(tmp_path / "b", f"rank1.{os.getpid()}.ring", _places.KEEP_SECONDS + 1, now)
    stranger = _file(tmp_path / "b", "notes.txt", _places.KEEP_SECONDS + 1, now)
    _places.clean_up(tmp_path, now)
    assert not old.exists()
    assert not dump.exists()
    assert not old.parent.exists()
    assert young.exists()
    assert alive.exists()
    assert stranger.exists()


def test_folders_that_another_rank_removes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    old = _file(tmp_path / "a", f"rank0.{_NOBODY}.ring", _places.KEEP_SECONDS + 1, now)
    (tmp_path / "gone").mkdir()
    (tmp_path / "zero").write_text("a file among the folders")
    iterdir = Path.iterdir

    def when_it_is_gone(folder: Path) -> Iterator[Path]:
        if folder == tmp_path / "gone":
            folder.rmdir()
        return iterdir(folder)

    monkeypatch.setattr(Path, "iterdir", when_it_is_gone)
    _places.clean_up(tmp_path, now)
    assert not old.exists()
    assert not (tmp_path / "gone").exists()


def test_what_a_link_leads_to_is_left_alone(tmp_path: Path) -> None:
    now = 1e9
    elsewhere = _file(tmp_path / "elsewhere" / "a", f"rank0.{_NOBODY}.ring", _places.KEEP_SECONDS + 1, now)
    base = tmp_path / "base"
    base.mkdir()
    (base / "link").symlink_to(elsewhere.parent)
    (base / "circle").symlink_to(base)
    (base / "job").mkdir()
    (base / "job" / f"rank1.{_NOBODY}.ring").symlink_to(tmp_path / "nowhere")
    (base / "job" / f"rank2.{_NOBODY}.ring").mkdir()
    _places.clean_up(base, now)
    assert elsewhere.exists()


def test_the_oldest_go_when_there_are_too_many(tmp_path: Path) -> None:
    now = 1e9
    files = [_file(tmp_path / "a", f"rank{i}.{_NOBODY}.ring", i, now) for i in range(_places.KEEP_FILES + 5)]
    _places.clean_up(tmp_path, now)
    assert [path.exists() for path in files] == [True] * _places.KEEP_FILES + [False] * 5


def test_the_oldest_go_when_they_take_too_much_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1e9
    files = [_file(tmp_path / "a", f"rank{i}.{_NOBODY}.ring", i, now) for i in range(4)]
    for i, path in enumerate(files):
        path.write_bytes(bytes(1000))
        os.utime(path, (now - i, now - i))
    space = os.statvfs(tmp_path)
    monkeypatch.setattr(_places, "KEEP_SHARE", 2500 / (space.f_blocks * space.f_frsize))
    _places.clean_up(tmp_path, now)
    assert [path.exists() for path in files] == [True, True, False, False]


def test_a_folder_is_private_and_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "x/y"
    _places.make_private(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="another user"):
        _places.make_private(folder)
