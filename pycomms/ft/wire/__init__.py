"""How the messages of a job travel: as envelopes, in the stream between a host and the coordinator, and framed on the
socket between a worker and its agent.

The names below are all that others need; messages.proto says what the bytes mean. Must not know: who sends what when.
"""

from pycomms.ft.wire.codec import decode, encode
from pycomms.ft.wire.deltas import delta, digest, whole
from pycomms.ft.wire.envelope import (
    AnnounceAgain,
    Envelope,
    FormDelta,
    Hello,
    Message,
    SendWhole,
    Welcome,
)
from pycomms.ft.wire.errors import WireError
from pycomms.ft.wire.framing import LIMIT, Unframer, frame, read_frame

__all__ = [
    "LIMIT",
    "AnnounceAgain",
    "Envelope",
    "FormDelta",
    "Hello",
    "Message",
    "SendWhole",
    "Unframer",
    "Welcome",
    "WireError",
    "decode",
    "delta",
    "digest",
    "encode",
    "frame",
    "read_frame",
    "whole",
]
