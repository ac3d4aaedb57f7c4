"""ATen's CUDA ops on the emulator, against the same on the CPU; and that they obey streams, capture and generators."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.cuda_emulator import Delays, Emulator

from .conftest import Hold

pytestmark = pytest.mark.usefixtures("kernels")

Program = Callable[[str], list[Tensor]]


def randn(device: str, *shape: int) -> Tensor:
    return torch.randn(*shape).to(device)


PROGRAMS: dict[str, Program] = {
    "arithmetic": lambda d: [
        (randn(d, 5) + 1) * randn(d, 5) / 3,
        -randn(d, 3),
        randn(d, 4) > 0,
        randn(d, 2, 3).t() * 2,
    ],
    "matmul": lambda d: [randn(d, 8, 8) @ randn(d, 8, 8), torch.bmm(randn(d, 2, 3, 4), randn(d, 2, 4, 5))],
    "reductions": lambda d: [
        randn(d, 8, 8).sum(),
        randn(d, 8, 8).mean(0),
        randn(d, 8, 8).max(1)[0],
        randn(d, 8).argmax(),
    ],
    "sorting": lambda d: [randn(d, 8).sort()[0], randn(d, 9).topk(3)[1], randn(d, 9).argsort(), randn(d, 9).median()],
    "indexing": lambda d: [
        randn(d, 8)[torch.tensor([1, 3]).to(d)],
        randn(d, 8)[torch.tensor([1, 3])],
        randn(d, 4, 4)[:, 1],
        torch.zeros(5, device=d).scatter_(0, torch.tensor([1, 2]).to(d), 1.0),
        torch.zeros(5, device=d).index_add_(0, torch.tensor([1, 1]).to(d), randn(d, 2)),
    ],
    "shapes of the data": lambda d: [
        (x := randn(d, 10))[x > 0],
        (randn(d, 10) > 0).nonzero(),
        torch.unique(randn(d, 9).round()),
    ],
    "joining": lambda d: [
        torch.cat([randn(d, 2), randn(d, 3)]),
        torch.stack([randn(d, 2), randn(d, 2)]),
        *randn(d, 6).split(2),
    ],
    "factories": lambda d: [
        torch.arange(10, device=d),
        torch.eye(3, device=d),
        torch.full((2,), 7, device=d),
        torch.linspace(0, 1, 5, device=d),
    ],
    "out variants": lambda d: [
        torch.add(randn(d, 3), randn(d, 3), out=torch.empty(3, device=d)),
        torch.mm(randn(d, 2, 3), randn(d, 3, 4), out=torch.empty(2, 4, device=d)),
        torch.cumsum(randn(d, 6), 0, out=torch.empty(6, device=d)),
    ],
    "foreach": lambda d: [*torch._foreach_add([randn(d, 2), randn(d, 3)], 1.0), *torch._foreach_norm([randn(d, 4)])],
    "conversions": lambda d: [
        randn(d, 4).to(torch.float64),
        randn(d, 4, 4).t().contiguous(),
        randn(d, 4, 4)[::2, ::2].clone(),
        randn(d, 4).bfloat16(),
        randn(d, 4).to(torch.complex64).conj().resolve_conj().real,
    ],
    "losses and norms": lambda d: [
        functional.softmax(randn(d, 4, 5), -1),
        functional.cross_entropy(randn(d, 4, 5), torch.tensor([0, 1, 2, 3]).to(d)),
        functional.gelu(randn(d, 5)),
        functional.layer_norm(randn(d, 3, 4), (4,)),
        functional.embedding(torch.tensor([0, 2]).to(d), randn(d, 3, 4)),
    ],
}


def same(program: Program) -> None:
    torch.manual_seed(0)
    expected = program("cpu")
    torch.manual_seed(0)
    for want, got in zip(expected, program("cuda"), strict=True):
        torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.emulator_only("compares the kernels of the CPU with themselves")
@pytest.mark.parametrize("name", PROGRAMS)
def test_ops_give_what_the_cpu_gives(name: str) -> None:
    same(PROGRAMS[name])


def train(device: str, model: nn.Module, optimizer: Callable[..., torch.optim.Optimizer]) -> list[Tensor]:
    model = model.to(device)
    steps = optimizer(model.parameters())
    x, y = randn(device, 16, 10), torch.randint(0, 3, (16,)).to(device)
    losses = []
    for _ in range(5):
        steps.zero_grad()
        loss = functional.cross_entropy(model(x), y)
        loss.backward()
        steps.step()
        losses.append(loss.detach())
    return losses + [parameter.detach() for parameter in model.parameters()]


@pytest.mark.emulator_only("compares the kernels of the CPU with themselves")
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_training(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    def program(device: str) -> list[Tensor]:
        model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.LayerNorm(32), nn.Linear(32, 3))
        return train(device, model, lambda parameters: optimizer(parameters, lr=0.01))

    same(program)


@pytest.mark.emulator_only("compares the kernels of the CPU with themselves")
def test_convolution_and_batch_norm() -> None:
    def program(device: str) -> list[Tensor]:
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)).to(device)
        model(randn(device, 2, 3, 8, 8)).sum().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    same(program)


@pytest.mark.emulator_only("compares the kernels of the CPU with themselves")
def test_a_transformer_layer() -> None:
    def program(device: str) -> list[Tensor]:
        model = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).to(device)
        model(randn(device, 2, 5, 16)).pow(2).sum().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    same(program)


def test_devices_may_not_be_mixed() -> None:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="cuda:0") + torch.ones(3, device="cuda:1")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(3, device="cuda:0") + torch.ones(3)


def test_an_op_waits_for_its_turn(hold: Hold) -> None:
    stream = torch.cuda.Stream()
    x = torch.zeros(4, device="cuda")
    torch.cuda.synchronize()
    with hold(stream.cuda_stream):
        with torch.cuda.stream(stream):
            y = torch.add(x, 1)
            x.mul_(5)
        assert not stream.query()
    stream.synchronize()
    assert y.tolist() == [1.0] * 4


def test_computation_is_captured() -> None:
    model = nn.Linear(8, 8).cuda()
    x = torch.randn(4, 8, device="cuda")
    model(x)  # makes what a capture may not
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        y = torch.relu(model(x)) * 2
    for _ in range(3):
        x.copy_(torch.randn(4, 8))
        graph.replay()
        torch.testing.assert_close(y, torch.relu(model(x)) * 2)


def draw_on_four_streams() -> list[Tensor]:
    torch.cuda.manual_seed(7)
    drawn = []
    for stream in [torch.cuda.Stream() for _ in range(4)]:
        with torch.cuda.stream(stream):
            drawn += [torch.rand(100, device="cuda"), functional.dropout(torch.ones(100, device="cuda"))]
    torch.cuda.synchronize()
    return [values.cpu() for values in drawn]


def test_a_seed_decides_what_is_drawn_whatever_the_streams_do(aten: Emulator) -> None:
    cpu = torch.get_rng_state()
    with aten.delays(Delays(random=timedelta(milliseconds=1), seed=1)):
        first = draw_on_four_streams()
    second = draw_on_four_streams()
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(first[0], first[2])
    assert torch.equal(torch.get_rng_state(), cpu)  # the CPU's generator is nobody's business here


def test_each_replay_draws_anew() -> None:
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x = torch.rand(100, device="cuda")
    graph.replay()
    first = x.cpu()
    graph.replay()
    assert not torch.equal(x.cpu(), first)


def test_dropout_keeps_its_share() -> None:
    kept = (functional.dropout(torch.ones(100_000, device="cuda"), 0.3) > 0).float().mean().item()
    assert 0.68 < kept < 0.72


def test_captured_work_is_released(aten: Emulator) -> None:
    before = aten.live()
    x = torch.ones(1000, device="cuda")
    for _ in range(20):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            x.add_(1)
        graph.replay()
        del graph
    torch.cuda.synchronize()
    after = aten.live()
    assert (after.graphs, after.graph_execs, after.user_objects) == (
        before.graphs, before.graph_execs, before.user_objects,
    )  # fmt: skip
