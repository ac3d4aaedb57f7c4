"""Who may speak to a coordinator: whoever can prove that he knows the job's token, without sending it.

A call carries its host, the time, a nonce and an HMAC over them. Pure, but for the two that touch the token's file.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

FRESH_FOR = 60.0
"""Seconds that a proof is good for, and that clocks of hosts may differ by."""

REMEMBERED = 200_000
"""Proofs that are remembered, at most. Only who knows the token can make one, so strangers cannot fill it."""

_HOST, _TIME, _NONCE, _MAC = "pycomms-host-bin", "pycomms-time", "pycomms-nonce", "pycomms-mac"
_TOKEN_BYTES = 32


class AuthError(Exception):
    """A call proves nothing.

    Attributes:
        kind: ``"absent"``, ``"malformed"``, ``"wrong"``, ``"old"`` or ``"replayed"``.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def proof(token: bytes, method: str, host: str, now: float) -> list[tuple[str, str | bytes]]:
    """Metadata of one call. now: seconds since 1970."""
    when, nonce = f"{now:.3f}", secrets.token_hex(16)
    mac = _mac(token, method, host, when, nonce)
    return [(_HOST, host.encode()), (_TIME, when), (_NONCE, nonce), (_MAC, mac)]


class Guard:
    """Checks proofs, and remembers them for as long as they are fresh. One thread."""

    def __init__(self, token: bytes) -> None:
        self._token = token
        self._seen: OrderedDict[str, float] = OrderedDict()  # nonces, and until when they are remembered

    def check(self, method: str, metadata: Iterable[tuple[str, str | bytes]], now: float) -> str:
        """The host that has made this call.

        Raises:
            AuthError: it is not made by somebody with the token, or not now, or not for the first time.
        """
        told = dict(metadata)
        host, when, nonce, mac = (_text(told, name) for name in (_HOST, _TIME, _NONCE, _MAC))
        if not hmac.compare_digest(mac.encode(), _mac(self._token, method, host, when, nonce).encode()):
            raise AuthError("wrong", f"host {host!r} has another token")
        age = now - float(when)  # a number: who knows the token has written it
        if abs(age) > FRESH_FOR:
            raise AuthError("old", f"the proof of host {host!r} is {age:.1f} s old, expected up to {FRESH_FOR:g} s")
        self._forget(now)
        if nonce in self._seen:
            raise AuthError("replayed", f"the proof of host {host!r} was used before")
        self._seen[nonce] = now + 2 * FRESH_FOR
        return host

    def _forget(self, now: float) -> None:
        while self._seen:
            nonce, until = next(iter(self._seen.items()))
            if until > now and len(self._seen) < REMEMBERED:
                return
            del self._seen[nonce]


def _mac(token: bytes, method: str, host: str, when: str, nonce: str) -> str:
    # Time and nonce hold no "|", so no two calls have the same text.
    return hmac.new(token, f"{method}|{host}|{when}|{nonce}".encode(), sha256).hexdigest()


def _text(told: dict[str, str | bytes], name: str) -> str:
    if name not in told:
        raise AuthError("absent", f"the call has no {name}")
    value = told[name]
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise AuthError("malformed", f"{name} is {value!r}, expected UTF-8") from None


def read_token(path: Path) -> bytes:
    """The token in a file.

    Raises:
        ValueError: others may read the file, or it does not hold 64 hexadecimal digits.
        OSError: there is none.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ValueError(f"token file {path} has mode {mode:04o}, expected 0600: others could join the job")
    try:
        token = bytes.fromhex(path.read_text())
    except ValueError:  # of fromhex, and of what is no text
        token = b""
    if len(token) != _TOKEN_BYTES:
        raise ValueError(f"token file {path} holds something else than {2 * _TOKEN_BYTES} hexadecimal digits")
    return token


def make_token(path: Path) -> bytes:
    """A new token, in a new file that only this user may read. Raises FileExistsError."""
    token = secrets.token_bytes(_TOKEN_BYTES)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token.hex())
    return token
