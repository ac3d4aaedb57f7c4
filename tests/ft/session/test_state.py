"""Taking a state apart, and putting it together from bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from pycomms import ft
from pycomms.ft._restore import CHUNK, divide
from pycomms.ft._state import Snapshot, load, read_manifest, take_apart


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.Linear(5, 1, dtype=torch.float32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).sum().backward()
        optimizer.step()
    return model, optimizer


def through_bytes(snapshot: Snapshot) -> dict[str, Any]:
    manifest = read_manifest(snapshot.manifest())
    data = torch.zeros(snapshot.nbytes, dtype=torch.uint8)
    for piece, tensor in zip(manifest.pieces, snapshot.tensors, strict=True):
        data[piece.offset : piece.offset + piece.nbytes] = tensor.contiguous().reshape(-1).view(torch.uint8)
    return manifest.put_together(data)


def test_a_state_arrives_as_it_was() -> None:
    model, optimizer = trained()
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    other, other_optimizer = trained()
    other_scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(other_optimizer, 10)
    state = through_bytes(take_apart({"model": model, "optimizer": optimizer, "scheduler": scheduler}))
    load({"model": other, "optimizer": other_optimizer, "scheduler": other_scheduler}, state)
    for mine, theirs in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
    ours, theirs_ = optimizer.state_dict(), other_optimizer.state_dict()
    assert ours["param_groups"] == theirs_["param_groups"]
    for index, entry in ours["state"].items():
        for name, value in entry.items():
            assert torch.equal(value, theirs_["state"][index][name])
    assert scheduler.state_dict() == other_scheduler.state_dict()


def test_buffers_lie_in_front() -> None:
    model, optimizer = trained()
    snapshot = take_apart({"optimizer": optimizer, "model": model})
    own = [piece for piece in snapshot.pieces if piece.offset < snapshot.own_nbytes]
    assert sorted(piece.shape for piece in own) == [(), (5,), (5,)]  # of the BatchNorm


def test_every_kind_of_tensor() -> None:
    class Part:
        def __init__(self) -> None:
            self.state: dict[str, Any] = {}

        def state_dict(self) -> dict[str, Any]:
            return self.state

        def load_state_dict(self, state_dict: dict[str, Any]) -> None:
            self.state = state_dict

    part = Part()
    part.state = {
        "empty": torch.empty(0, 3),
        "scalar": torch.tensor(3, dtype=torch.int64),
        "bits": torch.tensor([True, False, True]),
        "half": torch.arange(7, dtype=torch.bfloat16),
        "strided": torch.arange(12.0).view(3, 4).t(),
        "complex": torch.tensor([1 + 2j]),
        "nested": [{"deep": (torch.ones(2), "text", 4, None)}],
    }
    state = through_bytes(take_apart({"part": part}))["part"]
    assert state["nested"][0]["deep"][1:] == ("text", 4, None)
    for name in ("empty", "scalar", "bits", "half", "strided", "complex"):
        assert torch.equal(state[name], part.state[name]), name


def test_a_state_of_another_model_is_refused() -> None:
    model, _ = trained()
    with pytest.raises(ft.StateMismatch, match="has model, optimizer; this session has model"):
        load({"model": model}, {"model": {}, "optimizer": {}})
    with pytest.raises(ft.StateMismatch, match="the model that was fetched does not fit"):
        load({"model": model}, {"model": {"0.weight": torch.zeros(2, 2)}})


def test_a_manifest_that_would_run_code_is_refused() -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (print, ("ran",))

    import io

    stream = io.BytesIO()
    torch.save({"skeleton": Evil(), "pieces": []}, stream)
    with pytest.raises(ft.StateMismatch, match="cannot be read"):
        read_manifest(stream.getvalue())
    with pytest.raises(ft.StateMismatch, match="cannot be read"):
        read_manifest(b"nonsense")


@pytest.mark.parametrize("nbytes", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 7 * CHUNK + 5])
@pytest.mark.parametrize("sources", [[0], [0, 2, 3], [4, 1, 0, 2, 3]])
@pytest.mark.parametrize("own", [0, 1, CHUNK + 3])
def test_what_sources_serve_is_all_and_nothing_twice(nbytes: int, own: int, sources: list[int]) -> None:
    own = min(own, nbytes)
    parts = divide(nbytes, own, sources)
    assert parts[0].end >= own  # one source alone
    assert [part.rank for part in parts] == sources
    covered = [(begin, end) for part in parts for begin, end in part.chunks]
    place = 0
    for begin, end in covered:
        assert begin == place
        assert end - begin <= CHUNK
        place = end
    assert place == nbytes
