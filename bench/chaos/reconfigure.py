"""A launcher for torch's own reconfigure, which has none: starts the members, starts again who has died, and names the
members of each group.

    pycomms chaos set -- python -m bench.chaos.reconfigure --workers 4
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path

from torch._C._distributed_c10d import TCPStore

from bench.gathering import Gathering, Participant
from pycomms.bench.protocol import Hub

PATIENCE_S = 5.0
"""Who does not stand still for so long while others do is killed: it hangs."""
GRACE_S = 5.0


@dataclass(kw_only=True, eq=False)
class Place:
    slot: int
    process: subprocess.Popen[bytes]
    starts: int = 1
    participant: Participant | None = None  # None: it has not reported yet

    @property
    def is_done(self) -> bool:
        return self.participant is not None and self.participant.is_done


class Launcher:
    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self._python: str = arguments.python
        self._max_restarts: int = arguments.max_restarts
        self._hub = Hub(folder / "hub")
        self._store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        self._world: int = arguments.workers
        self._count = 0
        self._gathering = Gathering(self._world)
        self._awaited_since: float | None = None
        self._places = [Place(slot=slot, process=self._spawn(slot, 0)) for slot in range(self._world)]

    def run(self) -> int:
        """Returns the exit code when no member is left."""
        while True:
            self._listen()
            left = [place for place in self._places if not self._has_left(place)]
            if not left:
                return 0 if any(place.is_done for place in self._places) else 1
            is_over = any(place.is_done for place in self._places)
            if is_over and not any(_trains(place) for place in left):
                return 0  # who comes now would begin the training anew, alone
            if any(place.starts > self._max_restarts + 1 for place in left):
                return 1
            self._gather(left)
            self._wait()

    def close(self) -> None:
        for place in self._places:
            place.process.terminate()
        for place in self._places:
            try:
                place.process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                place.process.kill()
                place.process.wait(GRACE_S)
            if place.participant is not None:
                place.participant.link.close()
        self._hub.close()

    def _spawn(self, slot: int, starts: int) -> subprocess.Popen[bytes]:
        self._count += 1
        return subprocess.Popen(
            [
                *(self._python, "-m", "bench.chaos.member", "--number", str(self._count - 1)),
                *("--store-port", str(self._store.port), "--socket", str(self._hub.path)),
            ],
            env={
                **os.environ,
                "RANK": str(slot),
                "WORLD_SIZE": str(self._world),
                "TORCHELASTIC_RESTART_COUNT": str(starts),
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
                "TORCH_CPP_LOG_LEVEL": "ERROR",
            },
            stdin=subprocess.DEVNULL,
        )

    def _wait(self) -> None:
        """Until somebody reports, says something or ends, or has been waited for for too long."""
        ends = [os.pidfd_open(place.process.pid) for place in self._places if place.process.poll() is None]
        links = [
            place.participant.link.fileno()
            for place in self._places
            if place.participant is not None and not place.is_done
        ]
        left = None if self._awaited_since is None else self._awaited_since + PATIENCE_S - time.monotonic()
        try:
            connection.wait([self._hub.fileno(), *links, *ends], PATIENCE_S if left is None else max(left, 0.0))
        finally:
            for end in ends:
                os.close(end)

    def _listen(self) -> None:
        while (reported := self._hub.accept(time.monotonic())) is not None:
            hello, link = reported
            place = next((one for one in self._places if one.slot == hello.rank and one.participant is None), None)
            if place is not None:
                place.participant = Participant(slot=place.slot, link=link)
        for place in self._places:
            if place.participant is not None and not place.participant.hear() and not place.is_done:
                place.participant.link.close()
                place.participant = None  # it has died: `_has_left` will find it

    def _has_left(self, place: Place) -> bool:
        """Another is started in the place of one that has died, unless the training is over."""
        code = place.process.poll()
        if code is None:
            return False
        if code == 0 or any(one.is_done for one in self._places):
            return True
        print(f"rank {place.slot} has ended with {code}: started again", file=sys.stderr, flush=True)
        if place.participant is not None:
            place.participant.link.close()
        place.participant = None
        place.starts += 1
        place.process = self._spawn(place.slot, place.starts - 1)
        return False

    def _gather(self, left: Sequence[Place]) -> None:
        """Kills whoever does not stand still though others wait for it."""
        awaited = self._gathering.look(
            [place.participant for place in left if place.participant is not None and not place.is_done]
        )
        now = time.monotonic()
        self._awaited_since = (self._awaited_since or now) if awaited else None
        if self._awaited_since is None or now - self._awaited_since < PATIENCE_S:
            return
        for place in left:
            if place.participant in awaited:
                print(f"rank {place.slot} does not stand still: killed", file=sys.stderr, flush=True)
                place.process.kill()
        self._awaited_since = None


def _trains(place: Place) -> bool:
    return place.participant is not None and place.participant.is_in and not place.is_done


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos.reconfigure", description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--max-restarts", type=int, default=3, help="of each place")
    parser.add_argument("--python", default=sys.executable, help="that the members run on")
    arguments = parser.parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="bench-chaos-") as folder:
        launcher = Launcher(arguments, Path(folder))
        try:
            return launcher.run()
        except KeyboardInterrupt:
            return 130
        finally:
            launcher.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
