"""Runs on the hosts in these tests: small talkers over UDP and TCP. Standard library only, so that it starts at once.

talk.py echo                         answers on both protocols until it is killed; prints "ready"
talk.py ask udp|tcp ADDRESS          for each line "SECONDS" on stdin one question; prints its round trip in s, or null
talk.py collect                      prints "ready", then the numbers that came, as a list, when "end" comes
talk.py count-to N ADDRESS           sends the numbers to a collector, and "end" many times
talk.py pour BYTES ADDRESS           sends so many bytes by TCP; prints the seconds until the other side had them
talk.py drain                        the other side of it; prints "ready"
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time

PORT = 7007
LARGE = 16 << 20
ENDS = 200


def udp(bind: bool) -> socket.socket:
    sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    sock.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_RCVBUFFORCE", 33), LARGE)
    if bind:
        sock.bind(("::", PORT))
    return sock


def mapped(address: str) -> str:
    return address if ":" in address else f"::ffff:{address}"


def echo() -> None:
    datagrams = udp(bind=True)
    listener = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True)
    streams: list[socket.socket] = []
    print("ready", flush=True)
    while True:
        for ready in select.select([datagrams, listener, *streams], [], [])[0]:
            if ready is datagrams:
                data, sender = datagrams.recvfrom(65536)
                datagrams.sendto(data, sender)
            elif ready is listener:
                streams.append(listener.accept()[0])
            elif data := ready.recv(65536):
                ready.sendall(data)
            else:
                streams.remove(ready)


def ask(protocol: str, address: str) -> None:
    if protocol == "tcp":
        sock = socket.create_connection((address, PORT), timeout=20)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        sock = udp(bind=False)
        sock.connect((mapped(address), PORT))
    for number, line in enumerate(sys.stdin):
        print(json.dumps(question(sock, number, float(line))), flush=True)


def question(sock: socket.socket, number: int, patience_s: float) -> float | None:
    begun = time.monotonic()
    wanted = b"%08d" % number
    sock.send(wanted)
    heard = b""  # late answers to earlier questions may come first
    while not heard.endswith(wanted):
        left = begun + patience_s - time.monotonic()
        if left <= 0 or not select.select([sock], [], [], left)[0]:
            return None
        try:
            heard += sock.recv(65536)
        except ConnectionRefusedError:  # nobody listens there
            return None
    return time.monotonic() - begun


def collect() -> None:
    sock = udp(bind=True)
    print("ready", flush=True)
    came: list[int] = []
    while (data := sock.recv(64)) != b"end":
        came.append(int(data))
    print(json.dumps(came), flush=True)


def count_to(limit: int, address: str) -> None:
    sock = udp(bind=False)
    sock.connect((mapped(address), PORT))
    for number in range(limit):
        sock.send(b"%d" % number)
    for _ in range(ENDS):
        try:
            sock.send(b"end")
        except ConnectionRefusedError:  # the collector has heard one and left
            return


def pour(size: int, address: str) -> None:
    with socket.create_connection((address, PORT), timeout=60) as sock:
        begun = time.monotonic()
        sock.sendall(bytes(size))
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(1) == b"."
        print(time.monotonic() - begun, flush=True)


def drain() -> None:
    with socket.create_server(("0.0.0.0", PORT)) as listener:
        print("ready", flush=True)
        peer = listener.accept()[0]
        with peer:
            while peer.recv(1 << 20):
                pass
            peer.sendall(b".")


def main(action: str, *rest: str) -> None:
    if action == "echo":
        echo()
    elif action == "ask":
        ask(*rest)
    elif action == "collect":
        collect()
    elif action == "count-to":
        count_to(int(rest[0]), rest[1])
    elif action == "pour":
        pour(int(rest[0]), rest[1])
    else:
        drain()


if __name__ == "__main__":
    main(*sys.argv[1:])
