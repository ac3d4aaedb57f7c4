"""python -I -S _client.py DOOR ARGUMENT...: stands for `python ARGUMENT...`; see __init__.py. Imports little."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys

NAMESPACES = ("net", "uts", "mnt")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


# No pathlib here: it takes as long to import as all the rest.
def main(door: str, arguments: list[str]) -> None:
    request = json.dumps({"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}).encode()  # noqa: PTH109
    files = [0, 1, 2, *(os.open(f"/proc/self/ns/{name}", os.O_RDONLY | os.O_CLOEXEC) for name in NAMESPACES)]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.connect(door)
    socket.send_fds(server, [len(request).to_bytes(8, "little")], files)
    server.sendall(request)
    answers = server.makefile("r")
    pid = int(answers.readline())
    for forwarded in _FORWARDED:
        signal.signal(forwarded, lambda number, _frame: os.kill(pid, number))
    status = answers.readline()
    if not status:
        sys.exit("the server of warm interpreters is gone")
    if int(status) >= 0:
        os._exit(int(status))
    number = -int(status)
    if number in _FORWARDED:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
