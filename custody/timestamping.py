"""RFC 3161 time stamps over checkpoints: ask for one, verify one. Needs the extra `timestamp`.

Leaves embedding to `anchoring.py`.

Rules:
- The stamp is over the SHA-256 of a signed note, byte for byte.
- A stamp counts only against root certificates that the caller brings; certificates inside it are
  a way to them and no more. They are judged at the time that the stamp names.
- Without the extra nothing is verified, and that is said.

Source:
    RFC 3161; RFC 5816.
"""

from __future__ import annotations

from datetime import UTC
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.given import read_given

from .posting import post

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from rfc3161_client import TimeStampRequest, TimeStampResponse

__all__ = (
    "Stamp",
    "check_stamp",
    "fetch_stamp",
    "is_available",
    "make_request",
    "read_certificates",
    "stamp_request",
)

QUERY_MEDIA = "application/timestamp-query"
REPLY_MEDIA = "application/timestamp-reply"


class Stamp(NamedTuple):
    """A time stamp that verified: when, by whom, and under which policy."""

    time: str
    authority: str
    policy: str


def is_available() -> bool:
    """Returns whether the extra is installed."""
    return find_spec("rfc3161_client") is not None


def _require_extra() -> None:
    if not is_available():
        raise RefusedError(
            "time stamps need the extra `timestamp`",
            expected="the package rfc3161-client",
            found="it isn't installed",
            todo="pip install 'fairtrial[timestamp]'",
        )


def read_certificates(path: Path) -> bytes:
    """Returns certificates in PEM from a file, checked to be some before any stamp needs them.

    Raises:
        RefusedError: The file can't be read, or holds none.
    """
    data = read_given(path, what="the file of certificates")
    try:
        _certificates(data)
    except RefusedError as error:
        error.where = str(path)
        raise
    return data


def make_request(note: bytes) -> TimeStampRequest:
    """Returns a request for a stamp over a note, with a random nonce."""
    _require_extra()
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    builder = TimestampRequestBuilder().data(note).hash_algorithm(HashAlgorithm.SHA256)
    return builder.nonce(nonce=True).cert_request(cert_request=True).build()


def stamp_request(note: bytes) -> bytes:
    """Returns the bytes of a request (`.tsq`), to be handed to an authority."""
    return make_request(note).as_bytes()


def fetch_stamp(url: str, note: bytes, roots: bytes) -> bytes:
    """Returns the answer (`.tsr`) of an authority, verified.

    Args:
        url: The authority's address.
        note: The signed note.
        roots: Certificates in PEM that are trusted.

    Raises:
        RefusedError: It doesn't answer, or its stamp doesn't verify.
    """
    request = make_request(note)
    reply = post(url, request.as_bytes(), media=QUERY_MEDIA)
    if reply.status != 200 or reply.media != REPLY_MEDIA:
        raise RefusedError(
            "the authority gave no time stamp",
            where=url[:200],
            expected=f"status 200, {REPLY_MEDIA}",
            found=f"status {reply.status}, {reply.media}",
        )
    check_stamp(reply.body, note, roots, nonce=request.nonce)
    return reply.body


def check_stamp(token: bytes, note: bytes, roots: bytes, *, nonce: int | None = None) -> Stamp:
    """Returns what a time stamp over a note says, verified.

    Args:
        token: The authority's answer, as it came.
        note: The signed note.
        roots: Certificates in PEM that are trusted.
        nonce: The nonce of the request, where it is known.

    Raises:
        RefusedError: The stamp is over something else, or no trusted authority made it.
    """
    _require_extra()
    if not roots.strip():
        raise RefusedError(
            "a time stamp is judged by certificates that you trust, and none are named",
            expected="the root certificates of the authority, in a file (PEM)",
            found="none",
            todo="--authority FILE.pem, or FAIRTRIAL_TSA_ROOTS=FILE.pem",
        )
    from rfc3161_client import VerificationError, Verifier, VerifierBuilder

    response = _decode(token)
    builder = VerifierBuilder(roots=_certificates(roots), nonce=nonce)
    verifier: Verifier = builder.build()
    try:
        # The library takes SHA-384 and SHA-512 too; here a stamp has one form.
        if not verifier.verify(response, sha256(note).digest()):
            raise VerificationError("the library refuses it")
    except (VerificationError, ValueError) as error:
        raise RefusedError(
            "the time stamp doesn't hold",
            expected="a stamp over this checkpoint by an authority of the given certificates",
            found=str(error)[:200],
        ) from error
    info = response.tst_info
    moment = info.gen_time.astimezone(UTC)
    signer = next(iter(response.signed_data.signer_infos))
    return Stamp(
        time=moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        authority=_signer_name(response) or signer.issuer.rfc4514_string(),
        policy=info.policy.dotted_string,
    )


def _signer_name(response: TimeStampResponse) -> str:
    """Returns the subject of the certificate that signed, "" when the stamp doesn't hold it."""
    from cryptography.x509 import load_der_x509_certificate

    (signer,) = response.signed_data.signer_infos
    for data in response.signed_data.certificates:
        found = load_der_x509_certificate(data)
        if (found.issuer, found.serial_number) == (signer.issuer, signer.serial_number):
            return found.subject.rfc4514_string()
    return ""


def _decode(token: bytes) -> TimeStampResponse:
    from rfc3161_client import decode_timestamp_response

    try:
        response = decode_timestamp_response(token)
        if response.status not in (0, 1):
            raise ValueError(f"the authority refused: status {response.status}")
        # Reading them here keeps what isn't a stamp from failing later in other words.
        _ = response.tst_info, response.signed_data
    except ValueError as error:
        raise RefusedError(
            "the bytes aren't a time stamp",
            expected="an answer of a time stamp authority, DER",
            found=str(error)[:200],
        ) from error
    return response


def _certificates(pem: bytes) -> list[Certificate]:
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(pem)
    except ValueError as error:
        raise RefusedError(
            "the file holds no certificates",
            expected="certificates in PEM, each from -----BEGIN CERTIFICATE----- on",
            found="none that can be read",
            todo="give the root certificates of the time stamp authority",
        ) from error
