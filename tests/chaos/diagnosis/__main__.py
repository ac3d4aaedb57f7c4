"""Random faults, one for each run: how often is said who it was, and what it was.

python -m tests.chaos.diagnosis --runs 200
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from pycomms.chaos._trial import trial
from pycomms.chaos.core.kinds import KINDS as ALL
from pycomms.chaos.core.kinds import Effect
from pycomms.chaos.core.plan import MOMENTS, Expectation, Fault, Plan, Trigger
from tests.chaos.diagnosis.naming import KINDS, names_kind, names_rank, said_of
from tests.chaos.run._runs import elastic
from tests.warm import WarmPython

_RANKS = 4
_STEPS = 40


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.diagnosis", description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first run; the others have the next ones")
    parser.add_argument("--json", type=Path, help="all that was said, for programs")
    arguments = parser.parse_args()
    warm = WarmPython()
    told = []
    try:
        warm.await_ready()
        for seed in range(arguments.seed, arguments.seed + arguments.runs):
            told.append(one_run(seed, str(warm.executable)))
            print(f"{len(told):4}/{arguments.runs} {told[-1]['line']}", file=sys.stderr, flush=True)
    finally:
        warm.close()
    if arguments.json:
        arguments.json.write_text(json.dumps(told, indent=1) + "\n")
    return report(told)


def draw(seed: int) -> Plan:
    """One fault, somewhere: at a step, around an operation, at a point of the session."""
    pick = random.Random(f"diagnosis {seed}")
    kind = ALL[pick.choice(KINDS)]
    step = pick.randint(2, _STEPS - 5)
    sides = [moment for moment in MOMENTS if moment != "inside" or not kind.in_program]
    moments = [
        Trigger(step=step, op="all_reduce", moment=pick.choice(["before"] if kind.on_operation else sides)),
        Trigger(step=step),
        Trigger(step=step, point=pick.choice(["reduced", "voted", "decided", "committed"])),
    ]
    settings = {setting.name: setting.default for setting in kind.settings}
    if kind.name == "kill":
        settings["signal"] = pick.choice(["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
    if kind.name == "exit":
        settings["code"] = pick.randint(1, 255)
    if kind.effect is Effect.STALL:
        settings["for"] = 0.0
    fault = Fault(
        kind=kind.name,
        at=moments[0] if kind.on_operation else pick.choice(moments),
        ranks=(pick.randrange(_RANKS),),
        settings=settings,
    )
    return Plan(
        name=f"diagnosis-{seed}",
        seed=seed,
        ranks=_RANKS,
        duration=60,
        faults=(fault,),
        expect=Expectation(outcome="any"),
    )


def one_run(seed: int, python: str) -> dict[str, object]:
    plan = draw(seed)
    fault = plan.faults[0]
    if fault.kind == "freeze":  # a warm interpreter is a child of the worker that the agent watches
        python = sys.executable
    command = elastic(python, "--steps", str(_STEPS), ranks=_RANKS, deadline=5.0)
    if fault.of.effect is Effect.PROGRAM:  # nobody is to blame but the program: to begin anew would help nobody
        command = [*command[:4], "--max-restarts=0", *command[4:]]
    with TemporaryDirectory(prefix="pycomms-diagnosis-") as folder:
        log = trial(replace(plan), command, Path(folder) / "run", quiet=True).facts.log
        hit = log.hits[0] if log.hits else None
        rank = hit is not None and names_rank(log, hit)
        kind = hit is not None and names_kind(log, hit, fault)
        said = said_of(log, hit) if hit is not None else ["the fault has not happened"]
    state = "named" if rank and kind else f"NOT named: {'' if rank else 'rank '}{'' if kind else 'kind'}".strip()
    line = f"seed {seed}: {fault.kind} rank {fault.ranks[0]}: {state}"
    return {
        "seed": seed,
        "kind": fault.kind,
        "rank": rank,
        "what": kind,
        "happened": hit is not None,
        "said": said,
        "line": line,
    }


def report(told: list[dict[str, object]]) -> int:
    happened = [one for one in told if one["happened"]]
    both = Counter(str(one["kind"]) for one in happened if one["rank"] and one["what"])
    runs = Counter(str(one["kind"]) for one in happened)
    for kind in sorted(runs):
        print(f"  {kind:10} {both[kind]:3} of {runs[kind]}")
    named = sum(both.values())
    print(f"rank and kind named in {named} of {len(happened)} runs ({named / max(len(happened), 1):.1%})")
    for one in happened:
        if not (one["rank"] and one["what"]):
            print(f"  {one['line']}: {one['said']}")
    return 0 if happened and named >= 0.95 * len(happened) else 1


if __name__ == "__main__":
    sys.exit(main())
