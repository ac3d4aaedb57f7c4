"""What functions about groups refuse before they look at the group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import pycomms
from pycomms.process_group import from_mpi

_HANDLES = ["nccl2:1:0123456789abcdef0123456789abcdef:0:-1:x"]


@pytest.mark.parametrize("uuid", [-1, -(2**63), 2**63])
def test_a_uuid_of_no_meaning(uuid: int) -> None:
    with pytest.raises(ValueError, match="uuid must be from 0"):
        pycomms.regroup(uuid=uuid, handles=_HANDLES)


@pytest.mark.parametrize("uuid", [7.0, "7", None])
def test_a_uuid_that_is_no_integer(uuid: Any) -> None:
    with pytest.raises(TypeError, match="regroup: uuid must be an integer, got"):
        pycomms.regroup(uuid=uuid, handles=_HANDLES)


@pytest.mark.parametrize("handles", ["one handle", 5, None, [b"bytes"], {b"bytes"}, [1], [_HANDLES[0], None]])
def test_handles_that_are_no_texts(handles: Any) -> None:
    with pytest.raises(TypeError, match="handles must be"):
        pycomms.regroup(uuid=1, handles=handles)


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(seconds=-1), timedelta(microseconds=999)])
def test_a_timeout_that_is_none(timeout: timedelta) -> None:
    """Below a millisecond it would be taken for that of the group."""
    with pytest.raises(ValueError, match="at least a millisecond"):
        pycomms.regroup(uuid=1, handles=_HANDLES, timeout=timeout)


@pytest.mark.parametrize("timeout", [5, 1.5, "5"])
def test_a_timeout_of_another_type(timeout: Any) -> None:
    with pytest.raises(TypeError, match=f"regroup: timeout must be a timedelta or None, got {timeout!r}"):
        pycomms.regroup(uuid=1, handles=_HANDLES, timeout=timeout)


def test_a_callback_that_cannot_be_called() -> None:
    callback: Any = 3
    with pytest.raises(TypeError, match="on_regroup: callback must be a function, got 3"):
        pycomms.on_regroup(callback)


@pytest.mark.parametrize("ranks", [3, ["1"], [0.5]])
def test_ranks_to_exclude_that_are_none(ranks: Any) -> None:
    with pytest.raises(TypeError, match="shrink_group: ranks_to_exclude must be ranks of the group, got"):
        pycomms.shrink_group(ranks)


def test_a_connect_timeout_of_another_type() -> None:
    timeout: Any = 5
    with pytest.raises(TypeError, match=r"from_mpi\(\): connect_timeout is 5, expected a timedelta"):
        from_mpi(connect_timeout=timeout)
