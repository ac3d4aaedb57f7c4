"""Plays trials on one backend, whatever they do to it: a batch of them in one set of processes; the one that ends it is
noted, and the rest go on in new processes. Used by the parent only.
"""

from __future__ import annotations

from tests.multirank._harness import Died, Ranks, RanksError

from ._cases import Trial
from ._outcome import Outcome
from ._rank import play_batch

_BATCH = 150
_SHARED = ("operations", "capture", "coalesced")  # areas whose operations may share a group
_START_S = 15.0
_EACH_S = 0.15
_MOST_BREAKS = 40  # of one player; then what is left is not run


class Player:
    def __init__(self, ranks: Ranks, backend: str, world: int, delays: str) -> None:
        self._ranks = ranks
        self._backend = backend
        self._world = world
        self._delays = delays
        self._breaks = 0

    def play(self, trials: list[Trial]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        while len(outcomes) < len(trials):
            batch = self._next_batch(trials[len(outcomes) :])
            if self._breaks >= _MOST_BREAKS and len(batch) > 1:
                outcomes += [Outcome(kind="not run", text="too many failures before it")] * len(batch)
            else:
                outcomes += self._play_batch(batch)
        return outcomes

    def _next_batch(self, left: list[Trial]) -> list[Trial]:
        def may_share(trial: Trial) -> bool:
            return trial.area in _SHARED and trial.play.__name__.endswith("_operation")

        length = 1
        if may_share(left[0]):
            while length < min(_BATCH, len(left)) and may_share(left[length]):
                length += 1
        return left[:length]

    def _play_batch(self, batch: list[Trial]) -> list[Outcome]:
        """As many outcomes as were had: of all, or up to the one that broke the group."""
        deadline = _START_S + (_EACH_S * len(batch) if len(batch) > 1 else 15.0)
        ended: RanksError | None = None
        run = self._ranks.start(
            play_batch,
            batch,
            self._delays,
            world=self._world,
            timeout=deadline,
            group_timeout=10.0,
            init=False,
            fresh=True,
            backend=self._backend,
        )
        try:
            with run:
                run.finish()
        except RanksError as error:
            ended = error
        told = [run.heard(rank) for rank in range(self._world)]
        complete = min(map(len, told))
        outcomes = [Outcome.of_ranks([messages[index] for messages in told]) for index in range(complete)]
        if complete < len(batch):
            self._breaks += 1
            # All ranks may have stopped after the same trial: then it has its outcome.
            if ended is not None or complete == 0:
                outcomes.append(self._unfinished(ended, told, complete))
        return outcomes

    def _unfinished(self, ended: RanksError | None, told: list[list[Outcome]], index: int) -> Outcome:
        """Of the trial that some rank never told of."""
        known = [messages[index] for messages in told if len(messages) > index]
        if ended is not None:
            for end in ended.outcomes.values():
                if isinstance(end, Died):
                    return Outcome(kind="died", text=_last_words(end.describe()))
            if not known:
                return Outcome(kind="hung", text=_last_words(str(ended)))
        return Outcome.of_ranks([*known, Outcome(kind="hung", text="a rank does not return")])


def _last_words(text: str) -> str:
    """What an error report says in a line: its last exception, or else how it begins."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "error" in line or "terminate" in line or "what()" in line]
    return (errors or lines or [""])[-1 if errors else 0][:300]
