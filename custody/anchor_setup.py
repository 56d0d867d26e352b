"""What this machine can anchor with, and the refusal when that isn't enough.

Leaves anchoring itself to `anchoring.py`.

Rules:
- A key is named by `--key` or FAIRTRIAL_KEY, a quorum policy by `--policy` or FAIRTRIAL_POLICY, the
  certificates of time stamp authorities by `--authority` or FAIRTRIAL_TSA_ROOTS, and the address of
  one by FAIRTRIAL_TSA.
- What a protocol requires and this machine can't do is refused before anything is on record.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.given import read_given
from fairtrial.ledger.note import format_vkey
from fairtrial.ledger.policy import Policy, parse_policy

from .keys import Key, load_key
from .places import state_folder

__all__ = ("AnchorSetup", "anchor_setup")


class AnchorSetup(NamedTuple):
    """What this machine can anchor with: a key, a quorum policy, a time stamp authority."""

    key: Key | None
    policy: Policy | None
    stamp_url: str
    stamp_roots: bytes
    folder: Path

    def vkey(self, origin: str) -> str | None:
        """Returns the key's public half for an origin, None without a key."""
        return None if self.key is None else format_vkey(self.key.signer.verifier(origin))

    def check(self, level: str, where: str) -> None:
        """Refuses what a protocol requires and this setup can't do.

        Args:
            level: `require.anchor` of the protocol.
            where: The experiment, for the message.

        Raises:
            RefusedError: A key, a policy or certificates are missing.
        """
        missing = ""
        if level != "none" and self.key is None:
            missing = "a key: ledger key new NAME, then --key NAME or FAIRTRIAL_KEY=NAME"
        elif level == "witness" and (self.policy is None or not self.policy.has_quorum()):
            missing = "a policy with a quorum of witnesses: FAIRTRIAL_POLICY=FILE"
        elif level == "timestamp" and not self.stamp_roots:
            missing = "certificates of a time stamp authority: FAIRTRIAL_TSA_ROOTS=FILE.pem"
        if missing:
            raise RefusedError(
                f"the protocol wants a {level} after this act, and none can be made here",
                where=f"{where}: require.anchor",
                expected=missing,
                found="nothing",
                todo="give it, or register a protocol without that requirement",
            )


def anchor_setup(
    key: str | None,
    environment: Mapping[str, str],
    *,
    policy: Path | None = None,
    authority: Path | None = None,
) -> AnchorSetup:
    """Returns what can be anchored with.

    Args:
        key: The name of a key; None: the one in FAIRTRIAL_KEY, if any.
        environment: The environment's variables.
        policy: A quorum policy; None: the one in FAIRTRIAL_POLICY, if any.
        authority: Certificates; None: those in FAIRTRIAL_TSA_ROOTS, if any.

    Raises:
        RefusedError: Something named isn't there or isn't acceptable.
    """
    name = key or environment.get("FAIRTRIAL_KEY") or None
    text = _file(environment, "FAIRTRIAL_POLICY", policy)
    roots = _file(environment, "FAIRTRIAL_TSA_ROOTS", authority)
    return AnchorSetup(
        key=load_key(name, "ledger", environment=environment) if name else None,
        policy=parse_policy(text) if text else None,
        stamp_url=environment.get("FAIRTRIAL_TSA", ""),
        stamp_roots=roots,
        folder=state_folder(environment),
    )


def _file(environment: Mapping[str, str], variable: str, given: Path | None) -> bytes:
    if given is not None:
        return read_given(given)
    name = environment.get(variable, "")
    what = f"the file that the environment names by {variable}"
    return read_given(Path(name), what=what) if name else b""
