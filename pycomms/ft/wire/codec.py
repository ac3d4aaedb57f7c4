"""Messages to bytes and back. Pure functions; reading is strict, writing shortens texts that are for people only."""

from __future__ import annotations

from google.protobuf.message import DecodeError

from pycomms.ft.wire import messages_pb2 as pb
from pycomms.ft.wire._reading import READERS
from pycomms.ft.wire._writing import FIELDS, WRITERS
from pycomms.ft.wire.checks import NONCE, text
from pycomms.ft.wire.envelope import Envelope, Message
from pycomms.ft.wire.errors import WireError
from pycomms.ft.wire.framing import LIMIT


def encode(message: Message, to: tuple[str, ...] = ()) -> bytes:
    """The envelope of a message, for these members of the host; none: for the host.

    Envelopes add up: ``encode_to(nonces) + encode(form)`` is the envelope of the Form for these.

    Raises:
        WireError: a value that no field holds, or more than 4 MiB.
    """
    kind = type(message)
    try:
        data: bytes = pb.Envelope(to=to, **{FIELDS[kind]: WRITERS[kind](message)}).SerializeToString()
    except (ValueError, TypeError) as error:  # out of range, or a text that is no UTF-8
        raise WireError(FIELDS[kind], str(error), "values that its fields hold") from error
    if len(data) > LIMIT:
        raise WireError(FIELDS[kind], f"{len(data)} bytes", f"up to {LIMIT}")
    return data


def encode_to(to: tuple[str, ...]) -> bytes:
    """The part of an envelope that says whom it is for."""
    data: bytes = pb.Envelope(to=to).SerializeToString()
    return data


def decode(data: bytes) -> Envelope:
    """The message in an envelope.

    Raises:
        WireError: with the field, what it held and what was expected.
    """
    if len(data) > LIMIT:
        raise WireError("envelope", f"{len(data)} bytes", f"up to {LIMIT}")
    try:
        envelope = pb.Envelope.FromString(data)
    except DecodeError as error:
        raise WireError("envelope", data[:32].hex(), f"bytes of an Envelope ({error})") from error
    kind = envelope.WhichOneof("message")
    if kind is None:
        raise WireError("envelope.message", "none, or one of a newer version", f"one of {', '.join(READERS)}")
    to = tuple(text(nonce, "to", NONCE) for nonce in envelope.to)
    return Envelope(message=READERS[kind](getattr(envelope, kind), kind), to=to)
