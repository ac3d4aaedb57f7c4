"""The log of epochs survives crashes at any byte, and one coordinator alone has it."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomms.ft.coordinator.epoch_log import EpochLog, LogInUseError
from pycomms.ft.core.messages import EpochId

DATA = b"".join(b"100 %d %08x\n" % (counter, zlib.crc32(b"100 %d" % counter)) for counter in range(4))


def test_what_was_written_is_known_again(tmp_path: Path) -> None:
    with EpochLog(tmp_path / "state") as log:
        assert (log.newest, log.has_formed, log.next_boot(100.7)) == (None, False, 100)
        log.append(EpochId(100, 0))
        assert not log.has_formed
        log.append(EpochId(100, 1))
    with EpochLog(tmp_path / "state") as log:
        assert (log.newest, log.has_formed) == (EpochId(100, 1), True)
        assert log.next_boot(100.9) == 101  # within the same second
        assert log.next_boot(50.0) == 101  # the clock was set back
        assert log.next_boot(500.0) == 500
        log.append(EpochId(500, 0))
    with EpochLog(tmp_path / "state") as log:
        assert (log.newest, log.has_formed) == (EpochId(500, 0), True)


def test_a_folder_has_one_coordinator(tmp_path: Path) -> None:
    with EpochLog(tmp_path), pytest.raises(LogInUseError, match="another coordinator uses"):
        EpochLog(tmp_path)
    EpochLog(tmp_path).close()


def written(folder: Path, epochs: list[EpochId]) -> bytes:
    with EpochLog(folder) as log:
        for epoch in epochs:
            log.append(epoch)
        return log.path.read_bytes()


def test_a_torn_end_counts_as_never_written(tmp_path: Path) -> None:
    epochs = [EpochId(100, counter) for counter in range(3)]
    data = written(tmp_path, epochs)
    for cut in range(len(data)):
        (tmp_path / "epochs.log").write_bytes(data[:cut])
        whole = data[:cut].count(b"\n")
        with EpochLog(tmp_path) as log:
            assert log.newest == (epochs[whole - 1] if whole else None)
    with EpochLog(tmp_path) as log:  # behind the torn end
        log.append(EpochId(200, 1))
    with EpochLog(tmp_path) as log:
        assert log.newest == EpochId(200, 1)


@given(at=st.integers(0, 1000), bit=st.integers(0, 7))
@settings(max_examples=50, deadline=None)
def test_a_flipped_bit_costs_at_most_two_lines(at: int, bit: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("log")
    data = bytearray(DATA)
    data[at % len(data)] ^= 1 << bit
    (folder / "epochs.log").write_bytes(data)
    with EpochLog(folder) as log:
        assert log.newest in (EpochId(100, 3), EpochId(100, 2), EpochId(100, 1))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="file"):
        EpochLog(tmp_path / "file" / "state")
