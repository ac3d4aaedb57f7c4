"""A launcher for torch's own reconfigure, which has none: starts the members, starts again who has died, and names the
members of each group.

    pycomms chaos set -- python -m bench.chaos.reconfigure --workers 4
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from torch._C._distributed_c10d import TCPStore

from bench.protocol import Hub, Link, LinkError

LOOK_EVERY_S = 0.005
PATIENCE_S = 5.0
"""Who does not stand still for so long while others do is killed: it hangs."""
GRACE_S = 5.0


@dataclass(kw_only=True, eq=False)
class Place:
    slot: int
    process: subprocess.Popen[bytes]
    starts: int = 1
    link: Link | None = None  # None: it has not reported yet
    handle: str = ""  # known while it stands still
    is_in: bool = False
    is_done: bool = False


class Launcher:
    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self._python: str = arguments.python
        self._max_restarts: int = arguments.max_restarts
        self._hub = Hub(folder / "hub")
        self._store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
        self._world: int = arguments.workers
        self._count = 0
        self._groups = 0
        self._has_begun = self._asked = False
        self._standing_since: float | None = None
        self._places = [Place(slot=slot, process=self._spawn(slot, 0)) for slot in range(self._world)]

    def run(self) -> int:
        """Returns the exit code when no member is left."""
        while True:
            self._listen()
            left = [place for place in self._places if not self._has_left(place)]
            if not left:
                return 0 if any(place.is_done for place in self._places) else 1
            is_over = any(place.is_done for place in self._places)
            if is_over and not any(place.is_in and not place.is_done for place in left):
                return 0  # who comes now would begin the training anew, alone
            if any(place.starts > self._max_restarts + 1 for place in left):
                return 1
            self._decide(left)
            time.sleep(LOOK_EVERY_S)

    def close(self) -> None:
        for place in self._places:
            place.process.terminate()
        for place in self._places:
            try:
                place.process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                place.process.kill()
                place.process.wait(GRACE_S)
            if place.link is not None:
                place.link.close()
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

    def _listen(self) -> None:
        while (reported := self._hub.accept(time.monotonic())) is not None:
            place = next((one for one in self._places if one.slot == reported[0].rank and one.link is None), None)
            if place is not None:
                place.link = reported[1]
        for place in self._places:
            while place.link is not None and not place.link.quiet():
                try:
                    told = json.loads(place.link.receive(time.monotonic() + 1.0))
                except LinkError:
                    place.link.close()
                    place.link = None
                    break  # it has died: `_has_left` will find it
                place.handle = told.get("handle", "")
                place.is_done = place.is_done or "done" in told

    def _has_left(self, place: Place) -> bool:
        """Another is started in the place of one that has died, unless the training is over."""
        code = place.process.poll()
        if code is None:
            return False
        if code == 0 or any(one.is_done for one in self._places):
            return True
        print(f"rank {place.slot} has ended with {code}: started again", file=sys.stderr, flush=True)
        if place.link is not None:
            place.link.close()
        place.link, place.handle, place.is_in = None, "", False
        place.starts += 1
        place.process = self._spawn(place.slot, place.starts - 1)
        return False

    def _decide(self, left: Sequence[Place]) -> None:
        members = [place for place in left if place.link is not None and not place.is_done]
        standing = [place for place in members if place.handle]
        if not standing or (not self._has_begun and len(members) < self._world):
            self._standing_since = None
            return
        running = [place for place in members if not place.handle]
        if running:
            self._await(standing, running)
            return
        self._has_begun, self._asked, self._standing_since = True, False, None
        self._groups += 1
        handles = [place.handle for place in members]
        for place in members:
            place.is_in, place.handle = True, ""
            _say(place, uuid=self._groups, handles=handles)

    def _await(self, standing: Sequence[Place], running: Sequence[Place]) -> None:
        if not any(place.is_in for place in standing):  # newcomers alone wait: the others are asked to stop, once
            if not self._asked:
                for place in running:
                    _say(place, stop=1)
            self._asked = True
            return
        now = time.monotonic()
        self._standing_since = self._standing_since or now
        if now - self._standing_since > PATIENCE_S:
            for place in running:
                print(f"rank {place.slot} does not stand still: killed", file=sys.stderr, flush=True)
                place.process.kill()
            self._standing_since = None


def _say(place: Place, **message: object) -> None:
    assert place.link is not None
    with suppress(LinkError):  # it has died: `_has_left` will find it
        place.link.send(json.dumps(message))


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
