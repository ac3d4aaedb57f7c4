"""Each sample once per epoch, however members come and go."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pycomms import ft

changes = st.lists(st.tuples(st.integers(1, 6), st.booleans()), min_size=1, max_size=60)


@settings(max_examples=100, deadline=None)
@given(changes=changes, size=st.integers(1, 40), batch=st.integers(1, 7), constant=st.none() | st.integers(1, 9))
def test_committed_steps_use_the_sequence_without_gap_or_repetition(
    changes: list[tuple[int, bool]], size: int, batch: int, constant: int | None
) -> None:
    sampler = ft.ElasticSampler(size, batch, seed=1)
    used: list[int] = []
    step = 0
    for world, is_committed in changes:
        micro = constant or world
        taken = [
            [sampler.index(place) for places in sampler.share(rank, world, micro).places for place in places]
            for rank in range(world)
        ]
        if is_committed:
            step += 1
            used += [index for one in taken for index in one]
            sampler.commit(step, world, micro)
    sampler.check()
    assert sampler.position == len(used)
    epochs = len(used) // size
    counts = Counter(used)
    assert all(epochs <= counts[index] <= epochs + 1 for index in range(size))
    assert sum(taken.steps for taken in sampler.ledger) == step


def test_each_epoch_is_a_permutation_of_its_own() -> None:
    sampler = ft.ElasticSampler(50, 5, seed=4)
    first = [sampler.index(place) for place in range(50)]
    second = [sampler.index(place) for place in range(50, 100)]
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    again = ft.ElasticSampler(50, 5, seed=4)
    assert [again.index(place) for place in range(50)] == first
    assert [ft.ElasticSampler(50, 5, seed=5).index(place) for place in range(50)] != first


def test_without_shuffling_the_order_is_the_data_s() -> None:
    sampler = ft.ElasticSampler(4, 3, shuffle=False)
    (batch,) = sampler.batches(sampler.share(1, 2, 2))
    assert batch.tolist() == [3, 0, 1]
    assert batch.dtype == torch.int64


def test_batches_of_a_dataset_are_collated() -> None:
    data = [(torch.tensor([float(one)]), one) for one in range(6)]
    sampler = ft.ElasticSampler(data, 2, shuffle=False)
    inputs, labels = next(sampler.batches(sampler.share(1, 3, 3)))
    assert inputs.tolist() == [[2.0], [3.0]]
    assert labels.tolist() == [2, 3]


def test_a_state_is_taken_over_with_its_ledger() -> None:
    one = ft.ElasticSampler(10, 2, seed=3)
    one.commit(1, 3, 3)
    one.commit(2, 3, 3)
    one.commit(3, 2, 2)
    other = ft.ElasticSampler(10, 2, seed=3)
    other.load_state_dict(one.state_dict())
    assert other.ledger == one.ledger == (ft.Taken(1, 2, 0, 6, 3), ft.Taken(3, 1, 12, 4, 2))
    assert (other.position, other.epoch) == (16, 1)
    with pytest.raises(ValueError, match=r"the state is of one with .* \[10, 2, True, 3\], this one has \[10, 4, True"):
        ft.ElasticSampler(10, 4, seed=3).load_state_dict(one.state_dict())


def test_a_gap_in_the_ledger_is_found() -> None:
    sampler = ft.ElasticSampler(10, 2)
    sampler.commit(1, 1, 1)
    sampler.commit(3, 1, 1)
    with pytest.raises(ValueError, match="step 3 begins at sample 2, expected step 2"):
        sampler.check()


@pytest.mark.parametrize(
    ("data", "batch", "message"),
    [(0, 2, "data has 0 samples"), ([], 2, "data has 0 samples"), (4, 0, "batch_size is 0, expected at least 1")],
)
def test_arguments_that_make_no_sense(data: Any, batch: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ft.ElasticSampler(data, batch)
