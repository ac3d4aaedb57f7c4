"""Distributed data-parallel training on real data: scikit-learn's 1,797 handwritten digits, which ship in its package.

    torchrun --standalone --nproc-per-node 4 examples/train_ddp.py --backend nccl2

Every rank holds the whole model and a part of the data; DDP averages the gradients with all_reduce. The program is
deterministic, and the weights are float64: backends add the gradients of the ranks in different orders, which changes
only the last bits of a float64, so two backends give the same losses step by step (examples/demo.py checks that).
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

TEST_IMAGES = 360
TARGET_ACCURACY = 0.97
BATCH = 16  # images per rank and step
PEAK_RATE = 0.1


@dataclass(kw_only=True)
class InCollectives:
    """What one rank's gradient all_reduces took, waiting for slower ranks included."""

    seconds: float = 0.0
    bytes: int = 0
    calls: int = 0


@dataclass(kw_only=True)
class Summary:
    backend: str
    world_size: int
    epochs: int
    steps: int
    test_accuracy: float
    target_accuracy: float
    seconds: float
    in_collectives: InCollectives | None  # mean over the ranks
    losses: list[float] = field(repr=False)  # per step, mean over the ranks


def load_data() -> tuple[TensorDataset, TensorDataset]:
    """Train and test set: images of 64 pixels in [0, 1], labels 0 to 9."""
    digits = load_digits()
    images = torch.tensor(digits.data / 16.0, dtype=torch.float64)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    train, test = order[TEST_IMAGES:], order[:TEST_IMAGES]
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def make_model() -> nn.Module:
    torch.manual_seed(2)
    width = 256
    layers = [
        nn.Linear(64, width),
        nn.LayerNorm(width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.LayerNorm(width),
        nn.ReLU(),
    ]
    return nn.Sequential(*layers, nn.Linear(width, 10)).double()


class Training:
    """One model in training over one process group. All ranks of the group construct it and call epoch() alike."""

    def __init__(self, group: dist.ProcessGroup, *, epochs: int, measure: bool = False) -> None:
        self.group = group
        self.losses: list[Tensor] = []
        self.seconds = 0.0
        self.in_collectives = InCollectives() if measure else None
        train, self._test = load_data()
        self._sampler: DistributedSampler[tuple[Tensor, ...]] = DistributedSampler(
            train, num_replicas=group.size(), rank=group.rank(), shuffle=True, seed=3
        )
        self._loader = DataLoader(train, batch_size=BATCH, sampler=self._sampler)
        self._model = DistributedDataParallel(make_model(), process_group=group)
        if self.in_collectives is not None:
            self._model.register_comm_hook((self.group, self.in_collectives), _timed_all_reduce)
        self._optimizer = torch.optim.SGD(self._model.parameters(), lr=PEAK_RATE, momentum=0.9, weight_decay=1e-4)
        self._schedule = torch.optim.lr_scheduler.OneCycleLR(
            self._optimizer, PEAK_RATE, total_steps=epochs * len(self._loader)
        )

    def epoch(self, number: int) -> float:
        """One pass over the data; returns the mean loss over steps and ranks."""
        begin = time.perf_counter()
        self._sampler.set_epoch(number)
        first = len(self.losses)
        for images, labels in self._loader:
            self._optimizer.zero_grad()
            loss = cross_entropy(self._model(images), labels)
            loss.backward()
            self._optimizer.step()
            self._schedule.step()
            self.losses.append(loss.detach())
        mean = torch.stack(self.losses[first:]).mean()
        dist.all_reduce(mean, group=self.group)
        self.seconds += time.perf_counter() - begin
        return float(mean) / self.group.size()

    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self._model.parameters())

    def test_accuracy(self) -> float:
        """Share of the test images named rightly. The weights are the same on every rank, and so is the answer."""
        images, labels = self._test.tensors
        with torch.no_grad():
            named = self._model.module(images).argmax(dim=1)
        return float((named == labels).double().mean())

    def summary(self, backend: str, epochs: int) -> Summary:
        """Collective: every rank calls it and gets the same figures."""
        losses = torch.stack(self.losses)
        dist.all_reduce(losses, group=self.group)
        inside = self.in_collectives
        if inside is not None:
            seconds = torch.tensor(inside.seconds, dtype=torch.float64)
            dist.all_reduce(seconds, group=self.group)
            inside = InCollectives(seconds=seconds.item() / self.group.size(), bytes=inside.bytes, calls=inside.calls)
        return Summary(
            backend=backend,
            world_size=self.group.size(),
            epochs=epochs,
            steps=len(self.losses),
            test_accuracy=self.test_accuracy(),
            target_accuracy=TARGET_ACCURACY,
            seconds=self.seconds,
            in_collectives=inside,
            losses=(losses / self.group.size()).tolist(),
        )


# No `from __future__ import annotations` in this file: DDP reads the annotations of its hook.
def _timed_all_reduce(
    state: tuple[dist.ProcessGroup, InCollectives],
    bucket: dist.GradBucket,  # type: ignore[name-defined]  # missing in torch's stubs
) -> torch.futures.Future[Tensor]:
    """DDP's own averaging with a clock around the all_reduce. The model is one bucket: nothing could overlap."""
    group, inside = state
    gradients = bucket.buffer().div_(group.size())
    begin = time.perf_counter()
    dist.all_reduce(gradients, group=group)
    inside.seconds += time.perf_counter() - begin
    inside.bytes += gradients.nbytes
    inside.calls += 1
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(gradients)
    return done


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["nccl2", "gloo"], default="nccl2")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--measure", action="store_true", help="time the gradient all_reduces")
    parser.add_argument("--json", action="store_true", help="print the summary, losses included, as one line of JSON")
    args = parser.parse_args(argv)

    if args.backend == "nccl2":
        import pycomms  # noqa: F401  # the import registers the backend
    torch.set_num_threads(1)
    dist.init_process_group(args.backend, timeout=timedelta(seconds=60))
    try:
        group = dist.group.WORLD
        assert group is not None
        training = Training(group, epochs=args.epochs, measure=args.measure)
        shows = dist.get_rank() == 0 and not args.json
        for number in range(args.epochs):
            loss = training.epoch(number)
            if shows:
                print(f"epoch {number + 1:3d}/{args.epochs}  loss {loss:.4f}", flush=True)
        summary = training.summary(args.backend, args.epochs)
        if dist.get_rank() == 0:
            print(json.dumps(asdict(summary)) if args.json else _describe(summary), flush=True)
    finally:
        dist.destroy_process_group()
    if summary.test_accuracy < summary.target_accuracy:
        print(f"test accuracy {summary.test_accuracy:.1%} is below {summary.target_accuracy:.0%}", file=sys.stderr)
        return 1
    return 0


def _describe(s: Summary) -> str:
    accuracy = f"test accuracy {s.test_accuracy:.1%} after {s.steps} steps in {s.seconds:.1f} s"
    lines = [f"{s.backend}, {s.world_size} ranks: {accuracy}"]
    if s.in_collectives is not None:
        inside = s.in_collectives
        lines.append(f"in {inside.calls} all_reduces of {inside.bytes / 2**20:.0f} MiB in all: {inside.seconds:.2f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
