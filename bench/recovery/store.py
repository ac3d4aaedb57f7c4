"""A TCPStore for contestants that need one that all ranks share, in a process that no trial kills.

python -m bench.recovery.store --socket S --job J
"""

from __future__ import annotations

import argparse
import json
import os

from torch._C._distributed_c10d import TCPStore

from pycomms.bench.protocol import Hello, connect


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--socket", required=True)
    parser.add_argument("--job", required=True)
    args = parser.parse_args()
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    link = connect(args.socket, Hello(contestant=args.job, rank=-1, pid=os.getpid(), version=""))
    link.send(json.dumps({"port": store.port}))
    link.receive(None)  # until the parent goes away


if __name__ == "__main__":
    main()
