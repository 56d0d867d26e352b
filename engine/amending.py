"""Amends single fields of a registered protocol: in the file, and on record.

Leaves the edit of bytes to `protocols/edit.py`, the rules of an amendment to `registering.py`.

Rules:
- The record comes first: a refused amendment leaves the file as it was.
- The file gets its new bytes in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from fairtrial.custody.anchoring import seal, setup_for
from fairtrial.custody.trial import open_trial
from fairtrial.ledger.deviations import existed_before
from fairtrial.ledger.durable import write_file
from fairtrial.ledger.errors import ProtocolError, RefusedError
from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.edit import set_fields
from fairtrial.protocols.file import parse_supported

from .correcting import Amended
from .registering import Loaded, amend, commit_note
from .status import arm_origins
from .verifying import protocol_path

__all__ = ("amend_fields",)


def amend_fields(
    ledger: Path,
    name: str | None,
    *,
    actor: str,
    reason: str,
    changes: Sequence[tuple[str, str]],
    key: str | None = None,
) -> Amended:
    """Sets fields of the protocol file and puts the change on record.

    Args:
        ledger: The ledger's file.
        name: The experiment; None when there is only one.
        actor: Who amends, as claimed.
        reason: Why.
        changes: Field paths with their new values.
        key: The name of the key that signs; None: the one in FAIRTRIAL_KEY, if any.

    Raises:
        ProtocolError: A path leads nowhere, or the changed protocol isn't acceptable.
        RefusedError: Nothing changed, what changed is fixed, or the file is TOML.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.experiment(name)
        path = protocol_path(trial, known)
        if path.suffix == ".toml":
            raise RefusedError(
                "single fields are set in YAML files only",
                where=str(path),
                todo="edit the file, then: ledger amend --reason TEXT",
            )
        old = path.read_bytes() if path.exists() else trial.blobs.get(known.protocol)
        new = set_fields(old, changes, name=path.name)
        protocol = _parsed(new, [field for field, _ in changes])
        setup = setup_for(trial, known, key)
        loaded = Loaded(path, new, "yaml", protocol)
        event = amend(trial, known, loaded, reason=reason)
        _replace(path, new)
        seal(trial, setup, known)
        existed = bool(existed_before(arm_origins(trial, known)))
        return Amended(event, trial.keep_receipt("amend"), commit_note(loaded), existed)


def _parsed(data: bytes, fields: Sequence[str]) -> Protocol:
    """Returns the changed protocol; its problems name the option, since no file holds its lines.

    Raises:
        ProtocolError: It isn't acceptable.
    """
    name = f"--set {', '.join(fields)}"
    try:
        protocol = parse_supported(data, name=name, media="yaml")
    except ProtocolError as error:
        problems = tuple(msgspec.structs.replace(one, line=None) for one in error.problems)
        raise ProtocolError(problems, file=name) from None
    return protocol


def _replace(path: Path, data: bytes) -> None:
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    write_file(path, data, mode=mode)
