"""Writes messages_pb2.py and its types from messages.proto: python -m tests.ft.wire.generate [--check]

protoc's own Python output demands a protobuf as new as itself, and puts its names into a registry that all libraries of
a process share. Ours holds the same descriptor, asks for no version, and has a registry of its own. Needs grpcio-tools.
With --check nothing is written, and the exit status says whether the files are up to date.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from pathlib import Path

HOME = Path(__file__).parents[3] / "pycomms" / "ft" / "wire"
PROTO = HOME / "messages.proto"

_MODULE = '''"""The messages of messages.proto. Made by `make proto`: do not edit."""

import base64

from google.protobuf import descriptor_pool, message_factory

DESCRIPTOR = descriptor_pool.DescriptorPool().AddSerializedFile(
    base64.b64decode(
        b"""
{text}
"""
    )
)
for _name, _descriptor in DESCRIPTOR.message_types_by_name.items():
    globals()[_name] = message_factory.GetMessageClass(_descriptor)
for _enum in DESCRIPTOR.enum_types_by_name.values():
    globals().update({{_value.name: _value.number for _value in _enum.values}})
'''


def generated() -> dict[Path, str]:
    """What the files have to say."""
    from google.protobuf import descriptor_pb2
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        arguments = ["protoc", f"-I{HOME}", f"--descriptor_set_out={out / 'set'}", f"--pyi_out={out}", PROTO.name]
        if protoc.main(arguments) != 0:
            raise SystemExit(f"protoc refuses {PROTO}")
        descriptors = descriptor_pb2.FileDescriptorSet.FromString((out / "set").read_bytes())
        types = (out / "messages_pb2.pyi").read_text()
    raw = base64.b64encode(descriptors.file[0].SerializeToString(deterministic=True)).decode()
    lines = "\n".join(raw[at : at + 100] for at in range(0, len(raw), 100))
    return {HOME / "messages_pb2.py": _MODULE.format(text=lines), HOME / "messages_pb2.pyi": types}


def main(arguments: list[str]) -> int:
    stale = [path for path, text in generated().items() if not path.exists() or path.read_text() != text]
    if arguments == ["--check"]:
        for path in stale:
            print(f"{path} is not what messages.proto says: make proto", file=sys.stderr)
        return len(stale)
    for path, text in generated().items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
