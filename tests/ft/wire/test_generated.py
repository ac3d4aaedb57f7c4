"""messages_pb2.py says what messages.proto says."""

from __future__ import annotations

import pytest

from .generate import generated

pytest.importorskip("grpc_tools", reason="grpcio-tools is not installed: it makes these files")


def test_the_generated_files_are_current() -> None:
    for path, text in generated().items():
        assert path.read_text() == text, f"{path.name}: make proto"
