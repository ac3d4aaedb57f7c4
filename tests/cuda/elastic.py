"""A model on the emulated GPU, trained in a session; whose slot is told to kills itself once. See test_elastic.py.

pycomms run --nproc-per-node 3 -m tests.cuda.elastic --steps 40 [--ddp] [--kill SLOT@STEP MARK]
"""

from __future__ import annotations

import argparse
import json
import os
import signal
from pathlib import Path

from . import _preload  # noqa: F401  # the emulator, which comes before torch

# isort: split
import torch

from pycomms import ft

_SAMPLES = 4096


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--ddp", action="store_true")
    parser.add_argument("--kill", nargs=2, metavar=("SLOT@STEP", "MARK"), help="MARK: the file that says it was done")
    arguments = parser.parse_args()
    slot, _, at = (arguments.kill[0] if arguments.kill else "-1@0").partition("@")
    mark = Path(arguments.kill[1]) if arguments.kill else None

    torch.manual_seed(1)
    inputs = torch.randn(_SAMPLES, 8, generator=torch.Generator().manual_seed(5))
    labels = inputs.sum(1, keepdim=True)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).cuda()
    model = ft.DistributedDataParallel(module) if arguments.ddp else module
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = ft.Session(
        model, optimizer, sampler=ft.ElasticSampler(_SAMPLES, batch_size=8), min_ranks=int(os.environ["WORLD_SIZE"])
    )
    for step in session.steps(until=arguments.steps):
        with step:
            batch = next(step.batches)
            loss = (model(inputs[batch].cuda()) - labels[batch].cuda()).square().mean()
            if (session.slot, step.number) == (int(slot), int(at)) and mark is not None and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            optimizer.zero_grad()
            loss.backward()
            step.optimizer_step()
    weights = [value.tolist() for value in module.state_dict().values()]
    restored = any(one.restored and one.step > 0 for one in session.recoveries)
    print(json.dumps({"restored": restored, "weights": weights}), flush=True)


if __name__ == "__main__":
    main()
