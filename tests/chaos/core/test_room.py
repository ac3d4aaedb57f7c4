"""Room and folders are taken from processes, and given back."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from pycomms.chaos._controller.room import Displaced, Limited

CHILD = "import subprocess, sys; input(); subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"


def limit_of(pid: int) -> int:
    return resource.prlimit(pid, resource.RLIMIT_FSIZE)[0]


def test_a_process_gets_its_room_back_and_so_does_what_it_has_started() -> None:
    before = limit_of(os.getpid())
    with subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        try:
            limited = Limited(parent.pid)
            assert limit_of(parent.pid) == 0
            parent.stdin.write(b"\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == b"1\n"
            child = int(Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text())
            assert limit_of(child) == 0
            limited.end()
            assert limit_of(parent.pid) == limit_of(child) == before
            parent.stdin.write(b"\n")
        finally:
            parent.stdin.close()
    limited.end()  # it has ended
    with pytest.raises(ProcessLookupError):
        Limited(parent.pid)


def test_nothing_can_be_made_in_a_folder_until_it_is_back(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with (folder / "open").open("w") as file:
        displaced = Displaced(folder)
        with pytest.raises(NotADirectoryError):
            (folder / "new").touch()
        file.write("still")
    displaced.end()
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("open", "still")]
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_its_owner_has_removed_stays_away(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    displaced = Displaced(folder)
    folder.unlink()
    displaced.end()
    assert not folder.exists()
    with pytest.raises(FileNotFoundError):
        Displaced(folder)
