"""Envelopes come out of a stream as they went in, however it is cut; a wrong length ends it."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pycomms.ft.wire import LIMIT, Unframer, WireError, frame, read_frame


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.integers(1, 30))
def test_pieces_of_any_size(envelopes: list[bytes], size: int) -> None:
    stream = b"".join(map(frame, envelopes))
    unframer = Unframer()
    found = [one for at in range(0, len(stream), size) for one in unframer.feed(stream[at : at + size])]
    assert found == envelopes


@pytest.mark.parametrize("length", [0, LIMIT + 1, 2**32 - 1])
def test_a_wrong_length_is_refused_before_anything_is_kept(length: int) -> None:
    with pytest.raises(WireError, match=f"frame.length is '{length}', expected 1 to {LIMIT}"):
        Unframer().feed(length.to_bytes(4, "little"))


def test_what_was_said_before_a_wrong_length_still_counts() -> None:
    unframer = Unframer()
    assert unframer.feed(frame(b"one") + bytes(4)) == [b"one"]
    with pytest.raises(WireError, match=r"frame\.length is '0'"):
        unframer.feed(b"")


def test_nothing_too_long_or_empty_is_framed() -> None:
    for envelope in (b"", bytes(LIMIT + 1)):
        with pytest.raises(WireError, match=r"frame\.length"):
            frame(envelope)


def read_all(stream: bytes) -> list[bytes | None]:
    async def run() -> list[bytes | None]:
        reader = asyncio.StreamReader()
        reader.feed_data(stream)
        reader.feed_eof()
        found: list[bytes | None] = []
        while not found or found[-1] is not None:
            found.append(await read_frame(reader))
        return found

    return asyncio.run(run())


def test_asyncio_reads_the_same() -> None:
    assert read_all(frame(b"one") + frame(b"two")) == [b"one", b"two", None]


@pytest.mark.parametrize("stream", [frame(b"one")[:-1], frame(b"one")[:2], frame(b"one")[:4], bytes(4)])
def test_asyncio_names_what_is_wrong(stream: bytes) -> None:
    with pytest.raises(WireError, match="frame"):
        read_all(stream)
