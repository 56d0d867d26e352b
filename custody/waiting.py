"""What an experiment waits for before it may run, or before its verdict counts. Pure.

Leaves making signatures to `approving.py`, anchors to `anchoring.py`; the fold enforces what stands
before a run, attempt by attempt.

Rules:
- Before a run: an anchor of the required level over the newest freeze or amendment, and the
  signatures that the protocol wants over that entry.
- A verdict counts once the signatures that the protocol wants over the result are there.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from fairtrial.ledger.errors import TransitionError
from fairtrial.ledger.run_rules import is_signed_by
from fairtrial.ledger.state import Experiment, State, is_final

__all__ = ("Waiting", "check_run_allowed", "waiting_for")

_NOTE = "LEDGER.d/checkpoints/SIZE.note"
_ANCHOR_ACTS = {
    "checkpoint": "ledger checkpoint --embed --key NAME",
    "witness": "ledger witness ask --key NAME --policy FILE; or have"
    f" {_NOTE} cosigned, then: ledger checkpoint --note FILE --policy FILE",
    "timestamp": f"have {_NOTE} stamped, then: ledger checkpoint --note FILE --token FILE.tsr"
    " --authority ROOTS.pem",
}


class Waiting(NamedTuple):
    """One thing that isn't there yet: what, and the command that brings it."""

    what: str
    todo: str


def waiting_for(state: State, known: Experiment) -> list[Waiting]:
    """Returns what an experiment waits for now.

    Args:
        state: The fold of the ledger.
        known: The experiment.
    """
    rules = known.rules
    if rules is None or known.freeze_seq is None or known.withdrawn_seq is not None:
        return []
    if known.result is not None:
        return _unsigned(state, known, "result_counts", known.result.seq)
    if is_final(known):
        return []
    newest = max(known.freeze_seq, known.plan_seq)
    waiting = _unsigned(state, known, "run", newest)
    if rules.anchor != "none" and state.anchored.get(rules.anchor, 0) <= newest:
        what = f"a {rules.anchor} over the newest freeze or amendment (entry {newest})"
        waiting.append(Waiting(what, _ANCHOR_ACTS[rules.anchor]))
    return waiting


def _unsigned(state: State, known: Experiment, before: str, subject: int) -> list[Waiting]:
    assert known.rules is not None
    return [
        Waiting(
            f"`{rule.meaning}` by {rule.role} over entry {subject}",
            f"ledger sign {subject} --meaning {rule.meaning} --role {shlex.quote(rule.role)}"
            " --name NAME --key KEY",
        )
        for rule in known.rules.signatures
        if rule.before == before and not is_signed_by(state, subject, rule.role, rule.meaning)
    ]


def check_run_allowed(state: State, known: Experiment) -> None:
    """Refuses a run that its first attempt would be refused for.

    Raises:
        TransitionError: An anchor or a signature isn't there yet; names the first of them.
    """
    if known.result is not None:
        return
    for one in waiting_for(state, known):
        raise TransitionError(
            f"the protocol wants {one.what} first", where=known.name, todo=one.todo
        )
