"""Certificates for 127.0.0.1, made by openssl for one test."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from pycomms.ft.coordinator.tls import Tls

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl, which makes the certificates")


def of_coordinator_and_host(folder: Path) -> tuple[Tls, Tls]:
    """Both signed by an authority of their own."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=authority", "-days", "2")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("coordinator", "host"):
        openssl("req", *new, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", f"{name}.pem", "-days", "2", "-extfile", "names")  # fmt: skip
    sides = [
        Tls(ca=folder / "ca.pem", cert=folder / f"{name}.pem", key=folder / f"{name}.key")
        for name in ("coordinator", "host")
    ]
    return sides[0], sides[1]
