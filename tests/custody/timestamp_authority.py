"""A time stamp authority of the tests' own, made and run with the program openssl."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fairtrial.custody.timestamping import is_available

CONFIGURATION = """
[tsa]
default_tsa = one
[one]
dir = .
serial = ./serial
signer_cert = ./tsa.pem
signer_key = ./tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha512
accuracy = secs:1
tsa_name = yes
ess_cert_id_alg = sha256
[ca]
basicConstraints = critical,CA:TRUE
keyUsage = critical,keyCertSign,cRLSign
[stamps]
basicConstraints = CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
[plain]
basicConstraints = CA:FALSE
keyUsage = critical,digitalSignature
[req]
distinguished_name = dn
[dn]
"""


def require_timestamps() -> None:
    """Skips a test where openssl or the extra is missing."""
    missing = [] if shutil.which("openssl") else ["the program openssl"]
    missing += [] if is_available() else ["the package rfc3161-client"]
    if missing:
        pytest.skip(f"needs {' and '.join(missing)}")


class Authority:
    """A root certificate and a signer below it, in a folder of their own.

    Args:
        folder: An empty folder.
        extensions: The section of the configuration that the signer's certificate follows.
    """

    def __init__(self, folder: Path, *, extensions: str = "stamps") -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        (folder / "tsa.cnf").write_text(CONFIGURATION, encoding="utf-8")
        (folder / "serial").write_text("01\n", encoding="utf-8")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        made = ["req", "-config", "tsa.cnf", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem"]
        self.openssl(*made, "-days", "30", "-subj", "/CN=Test root", "-extensions", "ca")
        asked = ["req", "-config", "tsa.cnf", *curve, "-keyout", "tsa.key", "-out", "tsa.csr"]
        self.openssl(*asked, "-subj", "/CN=Test time stamps")
        given = ["x509", "-req", "-in", "tsa.csr", "-CA", "ca.pem", "-CAkey", "ca.key"]
        given += ["-CAcreateserial", "-out", "tsa.pem", "-days", "20", "-extfile", "tsa.cnf"]
        self.openssl(*given, "-extensions", extensions)

    @property
    def roots(self) -> bytes:
        """The root certificate in PEM."""
        return (self.folder / "ca.pem").read_bytes()

    def openssl(self, *words: str) -> None:
        """Runs openssl in the folder."""
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

    def stamp(self, query: bytes) -> bytes:
        """Returns the answer to a request."""
        (self.folder / "query.tsq").write_bytes(query)
        reply = ["ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query.tsq"]
        self.openssl(*reply, "-out", "reply.tsr")
        return (self.folder / "reply.tsr").read_bytes()
