"""Puts a protocol on record: register and amend.

Leaves the freeze to `freezing.py` and the comparison of files with their digests to `verifying.py`.

Rules:
- What is registered are the file's bytes and their resolved form; a digest per section says what
  changed.
- Where the protocol asks for a commit and a git work tree is there, protocol, units and files must
  be committed as they are; an override needs a reason, which is recorded. Where there is none it
  is no refusal but a warning: who has no git can register too.
- The same bytes again are a no-op; other bytes for a registered id are refused.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, cast

from fairtrial.custody.files import FileEntry, list_files, named_files
from fairtrial.custody.git import git_file, uncommitted
from fairtrial.custody.trial import Reader, Trial
from fairtrial.ledger.blinding import arm_labels
from fairtrial.ledger.canonical import blob_of
from fairtrial.ledger.errors import LedgerError, Problem, ProtocolError, RefusedError
from fairtrial.ledger.events import (
    Amend,
    ArmCeiling,
    LookPlan,
    Reference,
    Register,
    RegisterGit,
    Rules,
    SignatureRule,
)
from fairtrial.ledger.given import TABLE_BYTES_MAX, read_given
from fairtrial.ledger.plan_rules import amend_class
from fairtrial.ledger.protocol import (
    Protocol,
    changed_fields,
    coded_field,
    encode_resolved,
    nano_usd,
    primaries,
    section_digests,
)
from fairtrial.ledger.sections import ArmBudget
from fairtrial.ledger.state import Experiment, State, next_number
from fairtrial.protocols.file import parse_supported
from fairtrial.protocols.terms import coded_looks, nominal_plan
from fairtrial.verdicts.look_table import look_table

__all__ = (
    "Loaded",
    "amend",
    "amended_looks",
    "commit_note",
    "git_state",
    "git_warning",
    "load_protocol",
    "media_of",
    "register",
    "rules_of",
)

Media: TypeAlias = Literal["yaml", "toml"]


class Loaded(NamedTuple):
    """A protocol file as read: where, its bytes, and what they say."""

    path: Path
    data: bytes
    media: Media
    protocol: Protocol


def media_of(path: Path) -> Media:
    """Returns the syntax of a protocol file by its suffix.

    Raises:
        ProtocolError: The suffix is unknown.
    """
    media = {".yaml": "yaml", ".yml": "yaml", ".toml": "toml"}.get(path.suffix)
    if media is None:
        raise ProtocolError(
            (
                Problem(
                    what="the syntax of a protocol follows from its suffix",
                    where="file name",
                    expected=".yaml, .yml or .toml",
                    found=path.suffix or "none",
                    todo="rename the file",
                ),
            ),
            file=str(path),
        )
    return cast("Media", media)


def load_protocol(path: Path) -> Loaded:
    """Reads and parses a protocol file.

    Raises:
        RefusedError: The file can't be read.
        ProtocolError: It isn't acceptable, or not supported by this version.
    """
    media = media_of(path)
    data = read_given(
        path, what="the protocol", todo="ledger init writes an example", bytes_max=TABLE_BYTES_MAX
    )
    protocol = parse_supported(data, name=str(path), media=media)
    return Loaded(path.absolute(), data, media, protocol)


def register(
    trial: Trial, loaded: Loaded, *, override: str | None = None, supersedes: str | None = None
) -> Register:
    """Registers a protocol; the same bytes again change nothing.

    Args:
        trial: The ledger, opened for writing.
        loaded: The protocol file.
        override: Reason for registering files that aren't committed.
        supersedes: A withdrawn experiment that this one takes the place of.

    Raises:
        RefusedError: The id is registered with other bytes, or files aren't committed.
        ProtocolError: A named file is missing.
    """
    protocol = loaded.protocol
    known = trial.log.state.experiments.get(protocol.id)
    if known is not None and known.protocol != blob_of(loaded.data):
        raise RefusedError(
            "this id is registered with another protocol",
            where=protocol.id,
            expected=f"SHA-256 {known.protocol.sha256}",
            found=f"SHA-256 {blob_of(loaded.data).sha256}",
            todo="ledger amend to change it on record, or give the file another id",
        )
    if known is not None:
        found = trial.log.find(protocol.id, "register")
        assert isinstance(found, Register)
        return found
    git = git_state(loaded, override)
    files = _registered_files(trial, loaded)
    event = Register(
        experiment=protocol.id,
        protocol=trial.blobs.put(loaded.data),
        resolved=trial.blobs.put(encode_resolved(protocol)),
        media=loaded.media,
        sections=section_digests(protocol),
        files=trial.put_json(files),
        git=git,
        supersedes=supersedes,
        override=override,
    )
    trial.append(event)
    return event


def _registered_files(trial: Trial, loaded: Loaded) -> list[FileEntry]:
    """Returns the protocol and the files it names; the units file may come later."""
    blob = blob_of(loaded.data)
    own = FileEntry(
        path=Path(os.path.relpath(loaded.path, trial.folder)).as_posix(),
        role="protocol",
        field="protocol",
        size=blob.size,
        blake3=blob.blake3,
        sha256=blob.sha256,
    )
    named = list_files(
        loaded.protocol, loaded.path.parent, file=str(loaded.path), optional=("units",)
    )
    return [own, *named]


def git_state(loaded: Loaded, override: str | None) -> RegisterGit | None:
    """Returns where git knows the protocol, after the check that `require.commit` asks for.

    Raises:
        RefusedError: Files aren't committed and no override was given.
    """
    where = git_file(loaded.path)
    if where is None:
        return None
    folder = loaded.path.parent
    files = [loaded.path]
    files += [folder / path for path, _, _ in named_files(loaded.protocol)]
    changed = uncommitted([path for path in files if path.exists()])
    if changed and loaded.protocol.require.commit and override is None:
        names = ", ".join(path.relative_to(folder).as_posix() for path in changed[:5])
        raise RefusedError(
            "the protocol asks for committed files, and some aren't committed as they are",
            where="require.commit",
            expected="every file as it is at HEAD",
            found=f"not committed: {names}",
            todo="git add and commit them; or --override REASON; or require: {commit: false}",
        )
    return RegisterGit(commit=where.commit, path=where.path, clean=not changed)


def git_warning(protocol: Protocol, *, has_git: bool) -> str | None:
    """Returns what a protocol that asks for a commit lacks where git knows nothing of it.

    Args:
        protocol: The plan.
        has_git: Whether the protocol file is in a work tree, and not ignored there.
    """
    if has_git or not protocol.require.commit:
        return None
    return (
        "require.commit asks for committed files, and git knows none of these: nothing but the"
        " ledger\nholds the plan's date (git init and a commit before `ledger register`; or keep"
        " its receipt elsewhere)"
    )


def commit_note(loaded: Loaded) -> str:
    """Returns what to say of an amended file that isn't committed; "" where it is or needn't be."""
    asked = loaded.protocol.require.commit
    if not asked or git_file(loaded.path) is None or not uncommitted([loaded.path]):
        return ""
    return f"{loaded.path.name} isn't committed as it is on record now: git add and commit it"


def rules_of(protocol: Protocol) -> Rules:
    """Returns what the fold needs of a protocol."""
    total = _ceiling(protocol.budget)
    return Rules(
        usd_nanousd=total.usd_nanousd,
        calls=total.calls,
        tokens=total.tokens,
        wall_seconds=total.wall_seconds,
        arms=_arm_ceilings(protocol),
        attempts_max=protocol.attempts.max,
        retry_on=protocol.attempts.retry_on,
        on_crossing=protocol.looks.on_crossing,
        on_under_run=protocol.decision.on_under_run,
        anchor=protocol.require.anchor,
        signatures=tuple(
            SignatureRule(meaning=one.meaning, role=one.role, before=one.before)
            for one in protocol.require.signatures
        ),
        primaries=tuple(endpoint.name for endpoint in primaries(protocol)),
    )


def _arm_ceilings(protocol: Protocol) -> dict[str, ArmCeiling]:
    own = {name: _ceiling(part) for name, part in protocol.budget.arms.items()}
    if not own or not protocol.blinding.arms:
        return own
    # They are the same for all arms: `protocols/support.py` refuses others while arms are blinded.
    return dict.fromkeys(arm_labels(len(protocol.arms)), next(iter(own.values())))


def _ceiling(part: ArmBudget) -> ArmCeiling:
    return ArmCeiling(
        usd_nanousd=None if part.usd is None else nano_usd(part.usd),
        calls=part.calls,
        tokens=part.tokens,
        wall_seconds=None if part.wall_seconds is None else int(part.wall_seconds),
    )


def amend(trial: Trial, known: Experiment, loaded: Loaded, *, reason: str) -> Amend:
    """Changes a registered protocol on record; the earlier one stays.

    Args:
        trial: The ledger, opened for writing.
        known: The experiment.
        loaded: The whole new protocol.
        reason: Why, in a sentence.

    Raises:
        RefusedError: Nothing changed, no reason, another id, or a part that is fixed after the
        freeze.
    """
    if not reason.strip():
        raise RefusedError("an amendment needs a reason", todo="--reason TEXT")
    old = trial.protocol(known)
    changes = changed_fields(old, loaded.protocol)
    if known.freeze_seq is not None and old.blinding.arms != loaded.protocol.blinding.arms:
        raise RefusedError(
            "whether arms are blinded is fixed by the freeze",
            where="blinding.arms",
            expected=str(old.blinding.arms).lower(),
            found=str(loaded.protocol.blinding.arms).lower(),
            todo="ledger unblind --reason TEXT opens them on record" if old.blinding.arms else "",
        )
    if not changes:
        raise RefusedError(
            "the meaning is unchanged, so there is nothing to amend",
            where=str(loaded.path),
            todo="write the registered bytes back: ledger show --protocol",
        )
    protocol = trial.blobs.put(loaded.data)
    resolved = trial.blobs.put(encode_resolved(loaded.protocol))

    def make(state: State) -> Amend:
        # Under the lock: what a run appends in the meantime is counted.
        now = state.experiments[known.name]
        return Amend(
            experiment=known.name,
            number=next_number(state, "amend", known.name),
            subject=_newest(trial, now),
            protocol=protocol,
            resolved=resolved,
            sections=section_digests(loaded.protocol),
            fields=tuple(coded_field(loaded.protocol, change.field) for change in changes),
            rules=rules_of(loaded.protocol) if now.freeze_seq is not None else None,
            looks=amended_looks(trial, now, loaded.protocol, [c.section for c in changes]),
            outcomes=now.settled,
            looks_taken=len(now.taken),
            class_=amend_class([change.section for change in changes]),
            reason=reason,
        )

    try:
        event = trial.append(make).event
    except LedgerError as error:
        error.todo = error.todo or "ledger status"
        raise
    assert isinstance(event, Amend)
    return event


def _newest(trial: Trial, known: Experiment) -> Reference:
    leaf = trial.log.leaf_at(known.plan_seq)
    assert leaf is not None, "the fold keeps the place of an entry that exists"
    return Reference(seq=known.plan_seq, leaf=leaf.hex())


def amended_looks(
    trial: Reader, known: Experiment, protocol: Protocol, sections: Sequence[str]
) -> tuple[LookPlan, ...] | None:
    """Returns the amended look table, looks taken unchanged; None when it can't differ."""
    if known.freeze_seq is None or set(sections) <= {"about", "budget"}:
        return None
    plan = nominal_plan(protocol, trial.plan(known))
    table = look_table(protocol, plan, trial.units(known))
    table = coded_looks(protocol, table)
    taken = len(known.taken)
    return known.looks[:taken] + table[taken:]
