"""What `pycomms.regroup` refuses before it looks at the group."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import pycomms

_HANDLES = ["nccl2:1:0123456789abcdef0123456789abcdef:0:-1:x"]


@pytest.mark.parametrize("uuid", [-1, -(2**63), 2**63])
def test_a_uuid_of_no_meaning(uuid: int) -> None:
    with pytest.raises(ValueError, match="uuid must be from 0"):
        pycomms.regroup(uuid=uuid, handles=_HANDLES)


@pytest.mark.parametrize("uuid", [7.0, "7", None])
def test_a_uuid_that_is_no_integer(uuid: Any) -> None:
    with pytest.raises(TypeError, match="integer"):
        pycomms.regroup(uuid=uuid, handles=_HANDLES)


@pytest.mark.parametrize("handles", ["one handle", [b"bytes"], {b"bytes"}, [1], [_HANDLES[0], None]])
def test_handles_that_are_no_texts(handles: Any) -> None:
    with pytest.raises(TypeError, match="handles must be"):
        pycomms.regroup(uuid=1, handles=handles)


@pytest.mark.parametrize("timeout", [timedelta(0), timedelta(seconds=-1), timedelta(microseconds=999)])
def test_a_timeout_that_is_none(timeout: timedelta) -> None:
    """Below a millisecond it would be taken for that of the group."""
    with pytest.raises(ValueError, match="at least a millisecond"):
        pycomms.regroup(uuid=1, handles=_HANDLES, timeout=timeout)
