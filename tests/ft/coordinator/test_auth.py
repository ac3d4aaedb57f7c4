"""The job's token: its file, and proofs that grow old."""

from __future__ import annotations

from pathlib import Path

import pytest

from pycomms.ft.coordinator import auth

TOKEN = bytes(range(32))


def test_a_new_token_is_random_and_private(tmp_path: Path) -> None:
    made = auth.make_token(tmp_path / "one")
    assert made != auth.make_token(tmp_path / "other")
    assert auth.read_token(tmp_path / "one") == made
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        auth.make_token(tmp_path / "one")


def test_a_token_that_others_can_read_is_none(tmp_path: Path) -> None:
    auth.make_token(tmp_path / "token")
    (tmp_path / "token").chmod(0o640)
    with pytest.raises(ValueError, match="has mode 0640, expected 0600"):
        auth.read_token(tmp_path / "token")


@pytest.mark.parametrize("text", ["", "ab", "zz" * 32, "ab" * 33, "\u00e9"])
def test_what_is_no_token(tmp_path: Path, text: str) -> None:
    (tmp_path / "token").write_text(text)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ValueError, match="something else than 64 hexadecimal digits"):
        auth.read_token(tmp_path / "token")


def test_proofs_are_forgotten_when_they_are_old() -> None:
    guard = auth.Guard(TOKEN)
    first = auth.proof(TOKEN, "m", "h", 1000.0)
    assert guard.check("m", first, 1000.0) == "h"
    with pytest.raises(auth.AuthError, match="was used before"):
        guard.check("m", first, 1059.0)
    with pytest.raises(auth.AuthError, match=r"is 61\.0 s old"):
        guard.check("m", first, 1061.0)
    guard.check("m", auth.proof(TOKEN, "m", "h", 2000.0), 2000.0)
    assert len(guard._seen) == 1


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "REMEMBERED", 10)
    guard = auth.Guard(TOKEN)
    for _ in range(50):
        guard.check("m", auth.proof(TOKEN, "m", "h", 1000.0), 1000.0)
    assert len(guard._seen) <= 10
