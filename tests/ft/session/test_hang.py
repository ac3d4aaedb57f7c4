"""A worker that hangs in its own code while its native threads go on: only its silence in the group gives it away."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.ft.run._running import Running

pytestmark = pytest.mark.needs_torch("2.14", "elastic sessions")

DEADLINE_S = 4
PROGRAM = """
    import ctypes, os, time
    import torch
    from torch import nn
    from pycomms import ft

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = nn.Linear(4, 2)
    session = ft.Session(model, torch.optim.SGD(model.parameters(), lr=0.1), min_ranks=2)
    libc = {library}(None)
    for step in session.steps(until=12):
        with step:
            began = time.monotonic()
            if step.number == 5 and session.slot == 1 and os.environ["PYCOMMS_INCARNATION"] == "0":
                print("hangs", flush=True)
                libc.sleep(1000)
            model(torch.ones(3, 4)).square().mean().backward()
            step.optimizer_step()
        if step.reason:
            print("slot", session.slot, "reason", step.reason, flush=True)
    for one in session.recoveries:
        print("slot", session.slot, "recovery in", one.seconds, one.reason, flush=True)
    print("slot", session.slot, "done", flush=True)
"""


@pytest.mark.parametrize("library", ["ctypes.PyDLL", "ctypes.CDLL"], ids=["holds_the_gil", "main_thread"])
def test_whoever_hangs_is_ended_and_the_others_go_on(tmp_path: Path, warm_python: str, library: str) -> None:
    options = ("--nproc-per-node=3", f"--recovery-deadline={DEADLINE_S}", "--json", "--no-python", warm_python)
    with Running(tmp_path, PROGRAM.format(library=library), *options) as job:
        job.line("hangs")
        ended = job.line(r"rank 1 is ended: (.*)")
        assert re.search(r"[12] suspect it and it does not stand still", ended[1])
        for slot in (0, 2):
            told = job.line(rf"slot {slot} reason (.*)")[1]
            assert re.search(r"timeout.*ranks? 1 did not|rank 1 .*ended|died", told), told
        job.line("slot 0 done")
        job.line("slot 2 done")
        assert job.end() == 0
        assert job.summary()["deaths"], job.summary()
