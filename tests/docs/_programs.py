"""Programs made of the code of the pages: what a page leaves to its reader is said here, what it shows is not repeated.

A part that is a number is that block of the page, as it stands but for `instead`; one that is a text stands between
them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tests.docs._blocks import blocks


class By(Enum):
    TORCHRUN = "torchrun"
    RUN = "pycomms run"
    ITSELF = "python"


class Needs(Enum):
    NOTHING = ""
    TORCH_2_14 = "torch 2.14"
    HOSTS = "network namespaces"
    CUDA_13 = "a torch for CUDA 13, which the emulator stands in for"


@dataclass(frozen=True, kw_only=True)
class Program:
    """Attributes:
    instead: words of the page, and what stands for them here: shorter, or what "..." means.
    indented: blocks that stand inside of what comes before them.
    prints: what is somewhere in what it prints.
    """

    page: str
    parts: tuple[int | str, ...]
    prints: tuple[str, ...] = ()
    ranks: int = 1
    by: By = By.TORCHRUN
    needs: Needs = Needs.NOTHING
    instead: Mapping[str, str] = field(default_factory=dict)
    indented: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.page} {self.blocks}"

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(part for part in self.parts if isinstance(part, int))

    def text(self) -> str:
        shown = blocks(self.page, "python")
        return "\n".join(self._block(shown[part], part) if isinstance(part, int) else part for part in self.parts)

    def _block(self, text: str, number: int) -> str:
        for words, others in self.instead.items():
            text = text.replace(words, others)
        return textwrap.indent(text, "    ") if number in self.indented else text


def _begin(more: str = "") -> str:
    return f"""\
import os
from datetime import timedelta
from pathlib import Path
import torch
import torch.distributed as dist
import pycomms
from pycomms import rma
dist.init_process_group("nccl2", timeout=timedelta(seconds=30))
rank, ranks = dist.get_rank(), dist.get_world_size()
right, left = (rank + 1) % ranks, (rank - 1) % ranks
{more}"""


EXCHANGE = """\
import os
store = dist.FileStore("handles", int(os.environ["WORLD_SIZE"]))
def exchange(handle):
    store.set(os.environ["RANK"], handle)
    return [store.get(str(one)).decode() for one in range(int(os.environ["WORLD_SIZE"]))]
"""
DECIDED = {"uuid, handles = ...": "uuid, handles = 7, exchange(handle)"}

TRAINING = """\
import torch
from pycomms import ft
torch.manual_seed(1)
dataset = torch.utils.data.TensorDataset(torch.randn(512, 4), torch.randn(512, 1))
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer)
loss_function = torch.nn.functional.mse_loss
"""
SESSION = TRAINING + "sampler = ft.ElasticSampler(dataset, batch_size=4)\n"
LOOP = """\
for step in session.steps(until=4):
    with step:
        inputs, labels = next(step.batches)
        loss_function(model(inputs), labels).backward()
        step.optimizer_step()
"""
SIGNALLED = """\
if rank == 1:
    window = dist._new_window(tensor)
    window.wait_signal(peer_rank=0, async_op=False)
    print("signalled", tensor.tolist())
else:
"""
EMULATED = """\
from tests import cuda_emulator
from tests.cuda_emulator import nccl
emulator = cuda_emulator.load()
nccl.load()
emulator.install_aten()
"""
CONTROLS = """\
from datetime import timedelta
from tests.cuda_emulator import Delays, Error
stream = torch.cuda.current_stream()
"""
WINDOWS = (
    *(f"rank {rank} has {[float(left)] * 4} from rank {left}" for rank, left in enumerate((2, 0, 1))),
    *(f"rank {rank} sees that 3 ranks have counted" for rank in range(3)),
)
SAMPLES = SESSION + "used = []\n"
COUNTED = "print('slot', session.slot, 'is behind step', step.number)\n"

PROGRAMS = (
    Program(
        page="README.md",
        parts=(0, "if dist.get_rank() == 1:\n    import os\n    os._exit(0)", 1),
        ranks=3,
        prints=("(1,) all_reduce 2",),
    ),
    Program(page="docs/five_minutes.md", parts=(0,), ranks=3, prints=("rank 0 of 3: [3.0, 3.0, 3.0]",)),
    Program(page="docs/five_minutes.md", parts=(1,), ranks=3, prints=("rank 0 misses (1,)", "rank 2 misses (1,)")),
    Program(
        page="docs/groups.md",
        parts=(
            *(0, 1, 2, "if dist.get_rank() == 2:\n    import os\n    os._exit(0)", 4),
            "t = torch.ones(1)\ndist.all_reduce(t)\nprint(f'left: {int(t)}')",
        ),
        ranks=4,
        prints=("row [0, 1]: [2.0, 2.0, 2.0]", "all 4 are connected", "left: 3"),
    ),
    Program(
        page="docs/groups.md",
        parts=(_begin(), 3),
        ranks=3,
        needs=Needs.TORCH_2_14,
        prints=("rank 0 misses (2,)", "rank 1 misses (2,)"),
    ),
    Program(
        page="docs/chaos.md",
        parts=(SAMPLES, 0, LOOP, COUNTED),
        ranks=2,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        prints=("is behind step 4",),
    ),
    Program(
        page="docs/regroup.md",
        parts=(
            "from datetime import timedelta\nimport torch\nimport torch.distributed as dist\nimport pycomms\n",
            *(1, EXCHANGE, 0),
            "t = torch.ones(1)\ndist.all_reduce(t)\nprint(f'together: {int(t)}')",
        ),
        ranks=3,
        needs=Needs.TORCH_2_14,
        instead=DECIDED,
        prints=("together: 3",),
    ),
    Program(page="docs/rma.md", parts=(0,), ranks=3, prints=WINDOWS),
    Program(
        page="docs/rma.md",
        parts=(
            _begin(
                "win = rma.Window(torch.zeros(16, 16))\n"
                "grid, block, peer = torch.full((16, 16), float(rank)), torch.ones(8, 8), right\n"
                "rows, columns = torch.empty(16), torch.empty(16)\n"
            ),
            1,
            "win.fence()\nassert win.local[0, 0] == left and bool((win.local[8:, 8:] == 1).all())\nprint('tiles')",
        ),
        ranks=2,
        prints=("tiles",),
    ),
    Program(
        page="docs/rma.md",
        parts=(
            _begin(
                "win, steps, seen = rma.Window(torch.zeros(8)), 5, []\n"
                "mine = torch.full((8,), float(rank))\nuse = lambda memory: seen.append(memory[0].item())\n"
            ),
            2,
            "win.fence()\nassert seen == 5 * [float(left)]\nprint('streamed')",
        ),
        ranks=3,
        prints=("streamed",),
    ),
    Program(
        page="docs/rma.md",
        parts=(
            _begin("owner, weights, win = 0, torch.empty(8), rma.Window(torch.arange(8.0))\n"),
            3,
            "win.fence()\nassert weights.tolist() == list(range(8))\nprint('locked')",
        ),
        ranks=2,
        prints=("locked",),
    ),
    Program(
        page="docs/rma.md",
        parts=(
            _begin(),
            4,
            EXCHANGE + "uuid, handles = 7, exchange(pycomms.regroup_handle())",
            5,
            "array[0] = 3\nwin.fence()\nassert memory[0] == 3\nprint('reopened')",
        ),
        ranks=2,
        needs=Needs.TORCH_2_14,
        prints=("reopened",),
    ),
    Program(
        page="docs/rma.md",
        parts=(
            _begin("source = torch.ones(4)\ntensor = torch.zeros(4)\n"),
            SIGNALLED,
            6,
        ),
        ranks=2,
        needs=Needs.TORCH_2_14,
        indented=(6,),
        instead={"window.wait_signal(peer_rank=1, async_op=False)\n": ""},
        prints=("signalled [1.0, 1.0, 1.0, 1.0]",),
    ),
    Program(
        page="docs/flight_recorder.md",
        parts=(_begin("dist.barrier()"), 1, "assert path.exists()\nprint('dumped')"),
        prints=("dumped",),
    ),
    Program(
        page="docs/flight_recorder.md",
        parts=(
            "import torch\nimport torch.distributed as dist",
            2,
            "dist.all_reduce(torch.ones(1))\nassert flight_recorder.ring_path().exists()\nprint('attached')",
        ),
        ranks=2,
        needs=Needs.TORCH_2_14,
        instead={'"nccl"': '"gloo"'},
        prints=("attached",),
    ),
    Program(
        page="docs/ft.md",
        parts=(TRAINING, 0, COUNTED),
        ranks=2,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        instead={"until=10_000": "until=4"},
        prints=("slot 0 is behind step 4", "slot 1 is behind step 4"),
    ),
    Program(
        page="docs/ft.md",
        parts=(
            SESSION,
            "from torch.distributed.fsdp import fully_shard\nmodel.layers = list(model)",
            1,
            LOOP + COUNTED,
        ),
        ranks=4,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        prints=("slot 3 is behind step 4",),
    ),
    Program(
        page="docs/ft.md",
        parts=(SESSION, 2, COUNTED),
        ranks=2,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        instead={"every=100": "every=3", "until=200": "until=4"},
        prints=("slot 1 is behind step 4",),
    ),
    Program(
        page="docs/ft.md",
        parts=(
            SESSION,
            "session = ft.Session(model, optimizer, sampler=sampler)",
            "checkpoint_is_written, delete_the_one_before = True, lambda: print('deleted')",
            "for step in session.steps(until=2):",
            3,
        ),
        ranks=2,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        indented=(3,),
        prints=("deleted",),
    ),
    Program(
        page="docs/ft.md",
        parts=(SESSION, 4, LOOP + "from pathlib import Path\nprint('there:', Path('checkpoints/step-4').exists())"),
        ranks=1,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        instead={"every=500": "every=4"},
        prints=("there: True",),
    ),
    Program(
        page="docs/moving.md",
        parts=(TRAINING, 0, COUNTED),
        ranks=2,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        instead={"until=1_000": "until=4"},
        prints=("slot 1 is behind step 4",),
    ),
    Program(page="docs/howto/one_host.md", parts=(0,), ranks=3, prints=("epoch 4: loss 0.0",)),
    Program(
        page="docs/howto/survive_failures.md",
        parts=(0, "print('slot', session.slot, 'has', scheduler.get_last_lr())"),
        ranks=3,
        by=By.RUN,
        needs=Needs.TORCH_2_14,
        instead={"40_000": "4_000"},
        prints=("epoch 1: accuracy ", "epoch 5: accuracy ", "slot 2 has [0.0]"),
    ),
    Program(
        page="docs/howto/windows.md",
        parts=(0,),
        ranks=3,
        instead={"100_000": "1_000"},
        prints=("pi is 3.1416", "rank 2 has done"),
    ),
    Program(
        page="docs/launch.md",
        parts=("from pathlib import Path\nPath('server.py').write_text('print(\"served\", flush=True)')", 0),
        by=By.ITSELF,
        needs=Needs.HOSTS,
        instead={'["python"': "[__import__('sys').executable"},
        prints=("served",),
    ),
    Program(
        page="docs/gpu.md",
        parts=(
            EMULATED,
            _begin('torch.cuda.set_device(0)\nbackend = dist.group.WORLD._get_backend(torch.device("cuda"))\n'),
            0,
            "torch.cuda.synchronize()\nprint('registered')",
        ),
        needs=Needs.CUDA_13,
        instead={"1 << 28": "1 << 12"},
        prints=("registered",),
    ),
    Program(
        page="docs/cuda_emulator.md",
        parts=(
            0,
            CONTROLS,
            1,
            "print('healed')",
        ),
        by=By.ITSELF,
        needs=Needs.CUDA_13,
        instead={"emulator.live()": "print(emulator.live())"},
        prints=("tensor([2., 2., 2., 2.]", "healed"),
    ),
    Program(
        page="docs/emulated_libnccl.md",
        parts=(0, "from tests.cuda_emulator.nccl import Point, Result", 1, "print('set')"),
        by=By.ITSELF,
        needs=Needs.CUDA_13,
        prints=("set",),
    ),
)

ELSEWHERE = {
    ("docs/flight_recorder.md", 0): "a job that hangs: test_jobs_that_hang",
    ("docs/howto/find_a_hang.md", 0): "a job that hangs: test_jobs_that_hang",
    ("docs/howto/find_a_hang.md", 1): "a job as it is: test_jobs_that_hang",
    ("docs/howto/mpirun.md", 0): "under mpirun: tests/multirank/test_mpi.py, with examples/all_reduce_mpi.py",
}
