"""Spend of arms that were blinded: what of it is reservations, once they are open."""

from __future__ import annotations

from pathlib import Path

import pytest

from fairtrial.custody.trial import open_trial
from fairtrial.engine.inspecting import status
from fairtrial.engine.session import register_protocol, run, settle_cost
from fairtrial.engine.spending import KeptReservations
from fairtrial.engine.unblinding import unblind_experiment
from fairtrial.ledger.events import Attempt, Start

from ..custody.blinded_trial import (  # noqa: TID252 - tests are no package, and the plan is shared
    ACTOR,
    write_plan,
)


@pytest.mark.slow
def test_lost_attempts_cost_each_arm_its_own_reservation_once_open(tmp_path: Path) -> None:
    """What can be settled is told by the arms' own terms, as the spend that it is a part of."""
    ledger = tmp_path / "ledger.db"
    register_protocol(ledger, write_plan(tmp_path, units=40), actor=ACTOR)
    with open_trial(ledger, actor=ACTOR) as trial:
        known, plan = trial.experiment(None), trial.plan(trial.experiment(None))
        name, environment = known.name, trial.put_json({})
        trial.append(
            Start(
                experiment=name, number=1, nonce="n", tool="t", host="h", environment=environment,
                settings={},
            )
        )  # fmt: skip
        for position in (1, 2):
            arm, reserve = plan.slot(position).arm, known.arms[0].reserve_nanousd
            trial.append(
                Attempt(
                    experiment=name, position=position, number=1, session=1, arm=arm,
                    reserved_nanousd=reserve,
                )
            )  # fmt: skip
    run(ledger, None, actor=ACTOR)
    assert status(ledger)[0].unsettled is None
    unblind_experiment(ledger, None, actor=ACTOR, reason="done")
    assert KeptReservations(attempts=2, usd=0.07) == status(ledger)[0].unsettled
    with open_trial(ledger, read_only=True) as trial:
        lost = [one.seq for attempts in trial.experiment(None).lost.values() for one in attempts]
    before = status(ledger)[0].spent_usd
    for seq in lost:
        settle_cost(ledger, None, actor=ACTOR, seq=seq, usd="0", reason="never sent")
    after = status(ledger)[0]
    assert KeptReservations(attempts=0, usd=0.0) == after.unsettled
    assert before - after.spent_usd == pytest.approx(0.07)
