"""What the environment says becomes the configuration: every field has its variable."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path

import pytest

from pycomms._config import PREFIX, Config

VALUES = {"ENGINE": "/elsewhere/libhostccl.so", "VECTOR_WIDTH": "avx2", "CONNECT": "lazy", "NAN_CHECK": "nan"}


def test_nothing_said_is_the_default() -> None:
    assert Config.from_environment({}) == Config()


def test_every_field_is_read() -> None:
    assert {f.name.upper() for f in fields(Config)} == set(VALUES)
    config = Config.from_environment({PREFIX + name: value for name, value in VALUES.items()})
    assert {name.upper(): str(value) for name, value in asdict(config).items()} == VALUES
    assert isinstance(config.engine, Path)


def test_the_nan_check_of_torch_counts_while_ours_is_not_set() -> None:
    assert Config.from_environment({"TORCH_NCCL_NAN_CHECK": "1"}).nan_check == "nan"
    assert Config.from_environment({"TORCH_NCCL_NAN_CHECK": "0"}).nan_check == "off"
    both = {"TORCH_NCCL_NAN_CHECK": "1", PREFIX + "NAN_CHECK": "off"}
    assert Config.from_environment(both).nan_check == "off"


def test_a_value_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="PYCOMMS_CONNECT"):
        Config.from_environment({PREFIX + "CONNECT": "sometimes"})
