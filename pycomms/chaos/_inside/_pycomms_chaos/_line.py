"""The connection to the controller: lines of JSON over a Unix socket. `tell` and `ask` are for any thread."""

from __future__ import annotations

import itertools
import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PATIENCE_S = 10.0
"""For an answer, or to be rid of a line. A controller that takes longer is gone or stuck: the program goes on."""


class Line:
    """Silent for good after its first failure: the program under test must not fail because its observer has."""

    def __init__(self, door: Path, hello: dict[str, Any], order: Callable[[dict[str, Any]], None]) -> None:
        """Raises OSError where the controller is gone."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(_PATIENCE_S)
        self._socket.connect(str(door / "door"))
        self._send = threading.Lock()
        self._news = threading.Condition()
        self._answers: dict[int, dict[str, Any]] = {}
        self._numbers = itertools.count(1)
        self._order = order
        self._is_open = True
        self.tell({"kind": "worker", "token": (door / "token").read_text(), **hello})
        self._reader = threading.Thread(target=self._read, name="pycomms-chaos", daemon=True)
        self._reader.start()

    def tell(self, event: dict[str, Any]) -> None:
        data = json.dumps({"t": time.monotonic(), **event}).encode() + b"\n"
        with self._send:
            if not self._is_open:
                return
            try:
                self._socket.sendall(data)
            except OSError:
                self._is_open = False

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Empty: there was no answer."""
        number = next(self._numbers)
        self.tell({**question, "ask": number})
        with self._news:
            self._news.wait_for(lambda: number in self._answers or not self._is_open, _PATIENCE_S)
            return self._answers.pop(number, {})

    def close(self) -> None:
        self._is_open = False
        self._socket.close()

    def _read(self) -> None:
        rest = b""
        while self._is_open:
            try:
                data = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            except OSError:
                data = b""
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(json.loads(line))
        with self._news:
            self._is_open = False
            self._news.notify_all()

    def _take(self, said: dict[str, Any]) -> None:
        if "answer" in said:
            with self._news:
                self._answers[said["answer"]] = said
                self._news.notify_all()
        else:
            self._order(said)
