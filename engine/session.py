"""The facade: one function for each act on a ledger, called by the command line and by programs.

Leaves each act to its own module and reading to `inspecting.py`; opens the ledger, does the act,
closes it and returns a value.

Rules:
- A function that writes returns the receipt of the head it left behind.
- Errors are those of `fairtrial.ledger.errors`; nothing is printed here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from fairtrial.custody.anchor_setup import anchor_setup
from fairtrial.custody.anchoring import Sealed, seal, setup_for
from fairtrial.custody.files import list_files
from fairtrial.custody.sealing import Seals, check_no_crossing
from fairtrial.custody.trial import Reader, Trial, open_trial
from fairtrial.custody.waiting import Waiting, check_run_allowed, waiting_for
from fairtrial.ledger.deviations import amended_sections, existed_before
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import (
    Blob,
    Freeze,
    Look,
    Register,
    Withdraw,
)
from fairtrial.ledger.protocol import Protocol
from fairtrial.ledger.state import Experiment, due_look, is_blinded, is_final
from fairtrial.verdicts.hypotheses import hypotheses_of
from fairtrial.verdicts.wording import measured_in

from .checking import Checked, check_before_record, check_plan, freeze_refusals
from .concluding import Conclusion, idle_accepts, look, result
from .correcting import Amended, Receipted, checked_reason, invalidate_outcome, settle_cost
from .freezing import Design, freeze
from .registering import (
    Loaded,
    amend,
    commit_note,
    git_state,
    git_warning,
    load_protocol,
    register,
)
from .running import ProgressSink, RunReport, end_dead_session, run_experiment
from .status import arm_origins, next_command, state_word
from .unfinished import check_standing
from .verifying import protocol_path

__all__ = (
    "Receipted",
    "Registered",
    "amend_protocol",
    "check_protocol",
    "freeze_experiment",
    "invalidate_outcome",
    "look_at",
    "register_protocol",
    "result_of",
    "run",
    "settle_cost",
    "withdraw_experiment",
)


class Registered(NamedTuple):
    """What `register` did; freeze and design are None when nothing was frozen yet.

    `waiting` says what has to come before a run, signatures and anchors; `warnings` what the
    record lacks, and `refusals` why a freeze would refuse the plan as it is. `amended` is the
    protocol in force where that isn't the registered one, `next` the command that goes on,
    `without_row` how many slots of a recorded arm its table has no row of.
    """

    ledger: str
    opened: bool
    register: Register
    freeze: Freeze | None
    design: Design | None
    receipt: str
    sealed: Sealed | None = None
    missing_units: str | None = None
    waiting: tuple[Waiting, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    amended: Blob | None = None
    next: str = ""
    without_row: Mapping[str, int] = MappingProxyType({})


def _check_first(supersedes: str | None, ledger: Path) -> None:
    """Refuses to begin a ledger with an experiment that takes the place of another.

    Raises:
        RefusedError: A new ledger holds nothing that could be superseded.
    """
    if supersedes is not None:
        raise RefusedError(
            "what is superseded must be withdrawn in the same ledger, and this one is new",
            where=str(ledger),
            expected=f"a ledger that holds the withdrawn experiment {supersedes}",
            found="no ledger",
            todo="name the ledger with --ledger, or leave out --supersedes",
        )


def _check_register(loaded: Loaded, override: str | None) -> None:
    """Refuses to begin a ledger for a plan that its first entry would be refused for."""
    git_state(loaded, override)
    list_files(loaded.protocol, loaded.path.parent, file=str(loaded.path), optional=("units",))


def check_protocol(path: Path) -> Checked:
    """Validates a protocol, its units, looks, files and drivers; writes nothing.

    Raises:
        ProtocolError: Something isn't acceptable; every problem found is in it.
    """
    return check_plan(path)


def register_protocol(
    ledger: Path,
    protocol: Path,
    *,
    actor: str,
    with_freeze: bool = True,
    override: str | None = None,
    supersedes: str | None = None,
    key: str | None = None,
    power_report: bytes | None = None,
) -> Registered:
    """Registers a protocol, and freezes it when its units file is there.

    Args:
        ledger: The ledger's file; begun when there is none.
        protocol: The protocol's file.
        actor: Who registers, as claimed.
        with_freeze: Whether the units are frozen when they are there.
        override: Reason for registering files that aren't committed.
        supersedes: The withdrawn experiment that this one replaces.
        key: The name of the key that signs; None: the one in FAIRTRIAL_KEY, if any.
        power_report: What `ledger power --json` printed; it leads over the formula at the freeze.

    Raises:
        ProtocolError: The protocol or a file isn't acceptable.
        RefusedError: The id is registered otherwise, files aren't committed, or the design is
        hopeless.
    """
    loaded = load_protocol(protocol)
    missing = not (loaded.path.parent / loaded.protocol.units.file).is_file()
    wanted, with_freeze = with_freeze, with_freeze and not missing
    fresh = not ledger.exists()
    if fresh:
        _check_first(supersedes, ledger)
        _check_register(loaded, override)
    checked = check_before_record(loaded, power_report) if with_freeze else None
    refusals = () if with_freeze or missing else freeze_refusals(loaded, power_report)
    setup = anchor_setup(key, os.environ)
    setup.check(loaded.protocol.require.anchor, loaded.protocol.id)
    with open_trial(ledger, actor=actor, create=True, vkey_of=setup.vkey) as trial:
        event = register(trial, loaded, override=override, supersedes=supersedes)
        known, frozen = trial.experiment(loaded.protocol.id), None
        check_standing(known)
        if with_freeze:
            frozen = freeze(trial, known, power_report=power_report)
        return Registered(
            ledger=trial.log.ledger,
            opened=fresh,
            register=event,
            freeze=frozen[0] if frozen else None,
            design=frozen[1] if frozen else None,
            sealed=seal(trial, setup, known),
            receipt=trial.keep_receipt("freeze" if frozen else "register"),
            missing_units=loaded.protocol.units.file if wanted and missing else None,
            waiting=_waiting(trial, known.name),
            warnings=_without_git(loaded.protocol, event),
            without_row=checked.without_row if checked is not None else {},
            refusals=refusals if known.freeze_seq is None else (),
            next=_go_on(known),
        )


def _go_on(known: Experiment) -> str:
    return next_command(known, state_word(known, running=False), "")


def _without_git(protocol: Protocol, event: Register) -> tuple[str, ...]:
    """Returns the warning of a plan that no commit holds, unless its override gave a reason."""
    warning = git_warning(protocol, has_git=event.git is not None)
    return () if warning is None or event.override is not None else (warning,)


def _waiting(trial: Trial, name: str) -> tuple[Waiting, ...]:
    """Returns what has to come before a run, now that the last entry is there."""
    return tuple(waiting_for(trial.log.state, trial.experiment(name)))


def _anchor_again(trial: Trial, known: Experiment, key: str | None) -> None:
    """Anchors a result whose required anchor was cut off by a crash, when a key is named."""
    if trial.protocol(known).require.anchor != "none":
        seal(trial, anchor_setup(key, os.environ), known)


def freeze_experiment(
    ledger: Path,
    name: str | None,
    *,
    actor: str,
    key: str | None = None,
    power_report: bytes | None = None,
) -> Registered:
    """Freezes a registered experiment.

    Args:
        ledger: The ledger's file.
        name: The experiment; None when there is only one.
        actor: Who freezes, as claimed.
        key: The name of the key that signs; None: the one in FAIRTRIAL_KEY, if any.
        power_report: What `ledger power --json` printed; it leads over the formula.

    Raises:
        RefusedError: A file changed, or the design is hopeless.
        ConflictError: It is frozen with other content.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        setup = setup_for(trial, known, key)
        event, design = freeze(trial, known, power_report=power_report)
        sealed = seal(trial, setup, known)
        registered = trial.log.find(known.name, "register")
        assert isinstance(registered, Register)
        return Registered(
            ledger=trial.log.ledger,
            opened=False,
            register=registered,
            freeze=event,
            design=design,
            receipt=trial.keep_receipt("freeze"),
            sealed=sealed,
            waiting=_waiting(trial, known.name),
            next=_go_on(known),
            amended=known.protocol if known.protocol != registered.protocol else None,
        )


def run(
    ledger: Path,
    name: str | None,
    *,
    actor: str,
    concurrency: int = 4,
    sink: ProgressSink | None = None,
    settings: dict[str, str] | None = None,
    key: str | None = None,
) -> RunReport:
    """Runs or resumes an experiment until it ends, stops or is interrupted.

    In the main thread it takes SIGINT and SIGTERM while it runs: they end the run and not the
    program around it, whose part it is to read `reason`.

    Args:
        ledger: The ledger's file.
        name: The experiment; None when there is only one.
        actor: Who runs it, as claimed.
        concurrency: Attempts in flight at most.
        sink: Is told about progress.
        settings: Further operational settings to record.
        key: The name of the key that signs looks and the end; None: the one in FAIRTRIAL_KEY.

    Raises:
        RefusedError: Something registered has changed, or the experiment has ended.
        BusyError: Another run holds the lock.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        setup = setup_for(trial, known, key)
        check_run_allowed(trial.log.state, known)
        report = run_experiment(
            trial, known, concurrency=concurrency, sink=sink, settings=settings or {}
        )
        if seal(trial, setup, None) is None:
            return report
        return msgspec.structs.replace(report, receipt=trial.keep_receipt("run"))


def look_at(
    ledger: Path,
    name: str | None,
    *,
    actor: str,
    number: int | None = None,
    key: str | None = None,
) -> tuple[Look, str]:
    """Returns a look (taking it when it is due) and the receipt.

    Of blinded arms the look holds no number; after `unblind` it has them all.

    Raises:
        RefusedError: The look isn't planned or isn't due.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        if due_look(known) is not None:
            setup_for(trial, known, key)
        event = look(trial, known, number)
        if not is_blinded(known):
            event = Seals(trial).look(event)
        return event, trial.keep_receipt("look")


def result_of(
    ledger: Path,
    name: str | None,
    *,
    actor: str,
    stop: bool = False,
    reason: str | None = None,
    key: str | None = None,
) -> tuple[Conclusion, str]:
    """Returns the result (ending the experiment when it is due) and the receipt.

    Raises:
        TransitionError: The experiment isn't finished.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        if known.result is not None:
            _anchor_again(trial, known, key)
            return _measured(trial, known, result(trial, known)), trial.keep_receipt("result")
        setup = setup_for(trial, known, key)
        if stop or is_final(known):
            end_dead_session(trial, known)
        concluded = result(trial, known, stop=stop, reason=reason)
        seal(trial, setup, known)
        return _measured(trial, known, concluded), trial.keep_receipt("result")


def _measured(trial: Reader, known: Experiment, concluded: Conclusion) -> Conclusion:
    protocol = trial.protocol(known)
    # An earlier look was held against what was registered then.
    against = {} if amended_sections(known.amends) else hypotheses_of(protocol)
    return concluded._replace(
        measured_in=measured_in(protocol),
        against=against,
        idle_accepts=idle_accepts(trial, known),
    )


def amend_protocol(
    ledger: Path,
    name: str | None,
    *,
    actor: str,
    reason: str,
    protocol: Path | None = None,
    key: str | None = None,
) -> Amended:
    """Puts a changed protocol file on record.

    Args:
        ledger: The ledger's file.
        name: The experiment.
        actor: Who amends, as claimed.
        reason: Why.
        protocol: The changed file; None: the one at the recorded place.
        key: The name of the key that signs; None: the one in FAIRTRIAL_KEY, if any.

    Raises:
        RefusedError: Nothing changed, or what changed is fixed.
    """
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        loaded = load_protocol(protocol or protocol_path(trial, known))
        setup = setup_for(trial, known, key)
        event = amend(trial, known, loaded, reason=reason)
        seal(trial, setup, known)
        existed = bool(existed_before(arm_origins(trial, known)))
        return Amended(event, trial.keep_receipt("amend"), commit_note(loaded), existed)


def withdraw_experiment(ledger: Path, name: str | None, *, actor: str, reason: str) -> Receipted:
    """Ends an experiment without a result."""
    with open_trial(ledger, actor=actor) as trial:
        known = trial.open_experiment(name)
        event = Withdraw(experiment=known.name, reason=checked_reason(reason))
        check_no_crossing(trial, known)
        end_dead_session(trial, known)
        trial.append(event)
        return Receipted(event, trial.keep_receipt("withdraw"))
