"""An extension that is built for another torch is told before it is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from pycomms import _built_for


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What the extension says it is built for."""
    path = tmp_path / "_C.torch"
    monkeypatch.setattr(_built_for, "_VERSION", path)
    return path


def test_another_torch_is_an_error_that_says_what_to_do(says: Path) -> None:
    says.write_text("2.13.0\n")
    with pytest.raises(ImportError, match=r"for torch 2\.13\.0, and torch 2\.14\.1\+cu130 is installed") as raised:
        _built_for.check("2.14.1+cu130")
    assert "ends in +torch2.14," in str(raised.value)
    assert "pip install --no-build-isolation" in str(raised.value)


def test_patch_versions_and_what_torch_is_built_with_do_not_matter(says: Path) -> None:
    says.write_text("2.14.1\n")
    _built_for.check("2.14.0+cpu")


def test_an_extension_that_does_not_say_is_left_to_its_import(says: Path) -> None:
    assert not says.exists()
    _built_for.check("2.14.1")
