"""Who is behind the labels of a blinded experiment: drawn at the freeze, kept sealed, opened once.

Leaves labels and commitments to `ledger.blinding`, sealed outcomes and looks to `sealing.py`.

Rules:
- The opening of an arm (label, name, salt, identity) is a blob beside the ledger, mode 0600, which
  the freeze names as the arm's identity: it travels with every copy and is checked by replay. All
  openings of a freeze have one size.
- What is opened must be what the freeze committed to; a lost opening is a refusal that says so.
- To do something an arm's name is looked up here; people are shown labels until `unblind`.
- Freezing again gives the same labels: salts are drawn once.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from fairtrial.ledger.blinding import arm_labels, commitment, drawn_labels, new_salt
from fairtrial.ledger.errors import IntegrityError, StoreError
from fairtrial.ledger.events import FrozenArm, Unblind, UnblindArm
from fairtrial.ledger.log import find_event
from fairtrial.ledger.protocol import Protocol
from fairtrial.ledger.state import Experiment, is_blinded
from fairtrial.protocols.terms import terms_of

from .trial import Reader, Trial

__all__ = (
    "DISCIPLINE",
    "Opening",
    "blinded_arms",
    "has_labels",
    "names_of",
    "openings_of",
    "padded",
    "registered_identity",
    "shown_names",
    "unblind_event",
)

DISCIPLINE = (
    "a discipline, not secrecy: whoever has the ledger's files and the drivers can work out"
    " which arm is which"
)
PAD_BYTES = 256


class Opening(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is behind one label."""

    v: int = 1
    label: str
    arm: str
    salt: str
    identity: object


def padded(data: bytes, size: int = 0) -> bytes:
    """Returns JSON filled up with blanks, so that its size tells next to nothing."""
    step = PAD_BYTES
    return data.ljust(-(-max(size, len(data)) // step) * step)


def has_labels(known: Experiment) -> bool:
    """Returns whether events call the arms by labels, opened or not."""
    return any(arm.commitment is not None for arm in known.arms)


def blinded_arms(
    trial: Trial, known: Experiment, protocol: Protocol, identities: Mapping[str, object]
) -> tuple[FrozenArm, ...]:
    """Returns the arms of a freeze under labels; keeps their openings.

    Args:
        trial: The ledger, opened for writing.
        known: The experiment; frozen before, it keeps its salts.
        protocol: The plan.
        identities: What each arm is made of, by its name.
    """
    if has_labels(known):
        salts = {opening.arm: opening.salt for opening in openings_of(trial, known)}
    else:
        salts = {name: new_salt() for name in protocol.arms}
    arms = {label: arm for arm, label in drawn_labels(known.name, salts).items()}
    contents = {
        label: msgspec.json.encode(
            Opening(label=label, arm=arm, salt=salts[arm], identity=identities[arm]),
            order="deterministic",
        )
        for label, arm in arms.items()
    }
    size, terms = max(map(len, contents.values())), terms_of(protocol)
    return tuple(
        FrozenArm(
            name=label,
            identity=trial.blobs.put(padded(contents[label], size)),
            commitment=commitment(known.name, label, arms[label], salts[arms[label]]),
            **terms[label]._asdict(),
        )
        for label in arm_labels(len(arms))
    )


def openings_of(reader: Reader, known: Experiment) -> tuple[Opening, ...]:
    """Returns what is behind the labels, as the freeze kept it.

    Raises:
        StoreError: An opening is lost.
        IntegrityError: It isn't what the freeze committed to.
    """
    return tuple(_opening(reader, known, arm) for arm in known.arms)


def _opening(reader: Reader, known: Experiment, arm: FrozenArm) -> Opening:
    try:
        opening = msgspec.json.decode(reader.blobs.get(arm.identity), type=Opening)
    except StoreError as error:
        if isinstance(error, IntegrityError):
            raise
        raise StoreError(
            "the opening of a blinded arm is lost: this ledger can't tell the arms apart any more",
            where=error.where,
            expected=f"name and salt of arm {arm.name} of {known.name}",
            found=error.what,
            todo="put the ledger's .d folder back from a copy; without it the experiment can only"
            " be withdrawn and registered anew: ledger withdraw",
        ) from error
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise _not_committed(known, arm, "bytes that are no opening") from error
    made = commitment(known.name, arm.name, opening.arm, opening.salt)
    if opening.label != arm.name or made != arm.commitment:
        raise _not_committed(known, arm, f"commitment {made}")
    return opening


def _not_committed(known: Experiment, arm: FrozenArm, found: str) -> IntegrityError:
    return IntegrityError(
        "the opening of a blinded arm isn't what the freeze committed to",
        where=f"{known.name} arm {arm.name}",
        expected=f"commitment {arm.commitment}",
        found=found,
        todo="put the ledger back from a copy; ledger replay tells more",
    )


def names_of(reader: Reader, known: Experiment) -> dict[str, str]:
    """Returns the arm behind each name that events use; for the program, not for people.

    Raises:
        StoreError: An opening is lost and the arms aren't unblinded.
    """
    if not has_labels(known):
        return {arm.name: arm.name for arm in known.arms}
    opened = find_event(reader.store, known.name, "unblind", number=1)
    if isinstance(opened, Unblind):
        return {arm.name: arm.arm for arm in opened.arms}
    return {opening.label: opening.arm for opening in openings_of(reader, known)}


def shown_names(reader: Reader, known: Experiment) -> dict[str, str]:
    """Returns what people are shown for each name that events use: labels until `unblind`."""
    if is_blinded(known):
        return {arm.name: arm.name for arm in known.arms}
    return names_of(reader, known)


def registered_identity(reader: Reader, known: Experiment, arm: FrozenArm) -> object:
    """Returns what an arm was made of at the freeze."""
    if arm.commitment is None:
        return reader.get_json(arm.identity)
    return _opening(reader, known, arm).identity


def unblind_event(reader: Reader, known: Experiment, *, number: int, reason: str) -> Unblind:
    """Returns the event that opens every arm."""
    opened = (
        UnblindArm(name=one.label, arm=one.arm, salt=one.salt) for one in openings_of(reader, known)
    )
    return Unblind(experiment=known.name, number=number, arms=tuple(opened), reason=reason)
