"""TLS between hosts and the coordinator: which files, and what is wrong where it does not come about.

Must not import grpc: it says of a failed handshake no more than that there was one.
"""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Files in PEM.

    Attributes:
        ca: whom to believe. For a coordinator: hosts have to show a certificate that this one has signed.
        cert: the certificate of this side; None: it has none.
        key: its key.
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError(f"TLS: the certificate is {self.cert} and its key {self.key}, expected both or none")


class Names(NamedTuple):
    """What the files are called where the user has given them."""

    ca: str
    cert: str
    key: str


OBJECT_AFTER = 0.5
"""Seconds without an answer from which on it is worth asking for an objection."""

_WANTS_ONE = "speaks TLS, and wants a certificate that its authority has signed"

OPTIONS = Names("--tls-ca", "--tls-cert", "--tls-key")
VARIABLES = Names("PYCOMMS_TLS_CA", "PYCOMMS_TLS_CERT", "PYCOMMS_TLS_KEY")


def tls_of(ca: str, cert: str, key: str, names: Names) -> Tls | None:
    """Empty texts are files that were not given; None: no TLS.

    Raises:
        ValueError: one is missing, or cannot be read.
    """
    if not (ca or cert or key):
        return None
    if bool(cert) != bool(key):
        missing, given = (names.key, names.cert) if cert else (names.cert, names.key)
        raise ValueError(f"{given} is {cert or key!r} and {missing} is missing, expected both or none")
    for name, file in zip(names, (ca, cert, key), strict=True):
        if file:
            try:
                Path(file).read_bytes()
            except OSError as error:
                raise ValueError(f"{name} is {file!r}: {error.strerror}") from error
    return Tls(ca=_path(ca), cert=_path(cert), key=_path(key))


def _path(text: str) -> Path | None:
    return Path(text).absolute() if text else None


def objection(target: str, tls: Tls | None, within: float) -> str:
    """Why nobody with these files can connect to whoever listens at target; empty: that is not the reason.

    Connects, for up to `within` seconds, and says nothing but what belongs to the handshake.
    """
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    try:
        context = _context(tls)
    except (OSError, ssl.SSLError) as error:
        return f"certificate, key or authority cannot be used: {error}"
    try:
        with (
            socket.create_connection((host, int(port)), timeout=within) as connection,
            context.wrap_socket(connection, server_hostname=host) as secured,
        ):
            is_content = tls is not None and _hears_more(secured)
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of {target} does not prove who it is: {error.verify_message}"
    except ssl.SSLError as error:
        return _meaning(target, tls, error)
    except OSError:
        return ""  # nobody listens there, or does not answer
    if tls is None:
        return f"{target} speaks TLS, and no authority to believe it was given"
    return "" if is_content else f"{target} {_WANTS_ONE}"


def _hears_more(secured: ssl.SSLSocket) -> bool:
    """Who wants a certificate that he has not got finds that out when the handshake is over for us, and goes."""
    try:
        return bool(secured.recv(1))
    except TimeoutError:  # he waits for us
        return True
    except (ConnectionError, ssl.SSLEOFError):
        return False


def _context(tls: Tls | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=tls.ca if tls else None)
    if tls is None:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # only to see whether there is a handshake
    elif tls.cert is not None:
        context.load_cert_chain(tls.cert, tls.key)
    context.set_alpn_protocols(["h2"])
    return context


def _meaning(target: str, tls: Tls | None, error: ssl.SSLError) -> str:
    reason = error.reason or str(error)
    if "CERTIFICATE_REQUIRED" in reason or "HANDSHAKE_FAILURE" in reason:
        return f"{target} {_WANTS_ONE}"
    if tls is None:
        return ""
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"{target} does not speak TLS"
    return f"the TLS handshake with {target} has failed: {reason}"
