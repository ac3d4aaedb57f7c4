"""A worker of `pycomms run`."""

from __future__ import annotations

import time

from bench.ft.workers.work import Log, Training, parser
from pycomms import ft


def main() -> None:
    arguments = parser().parse_args()
    training = Training(arguments)
    joining = time.monotonic_ns()
    session = ft.Session(training.model, training.optimizer)
    log = Log(arguments.log, session.slot)
    log.say("joining", at=joining)
    seen = 0
    for step in session.steps(until=1 << 40):
        with step:
            training.loss().backward()
            step.optimizer_step()
        log.step(step.number, step.committed, step.world)
        for one in session.recoveries[seen:]:
            if one.restored:
                log.say("restored")
        seen = len(session.recoveries)


if __name__ == "__main__":
    main()
