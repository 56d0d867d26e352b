"""Claims of pairs, room beside them, and the spend to expect."""

from __future__ import annotations

from fairtrial.engine.budget import Claims, claim, expected_nanousd, release, shortage, use
from fairtrial.ledger.events import ArmCeiling, Blob, FrozenArm, Rules
from fairtrial.ledger.state import ArmTally, Experiment

BLOB = Blob(size=0, blake3="0" * 64, sha256="0" * 64)


def _known(*, usd: int | None = None, b_usd: int | None = None) -> Experiment:
    """Returns an experiment with two arms whose attempts reserve 10."""
    frozen = tuple(
        FrozenArm(
            name=name, origin="live", identity=BLOB, metered=True, reserve_nanousd=10,
            repeatable=True,
        )
        for name in "AB"
    )  # fmt: skip
    rules = Rules(
        usd_nanousd=usd, calls=None, tokens=None, wall_seconds=None,
        arms={"B": ArmCeiling(usd_nanousd=b_usd)}, attempts_max=2, retry_on=("error",),
        on_crossing="stop", on_under_run="inconclusive", anchor="none", signatures=(),
        primaries=("y",),
    )  # fmt: skip
    return Experiment(
        name="e", register_seq=0, protocol=BLOB, resolved=BLOB, sections={}, plan_seq=0,
        media="yaml", arms=frozen, rules=rules, tallies=[ArmTally() for _ in frozen],
    )  # fmt: skip


def test_claims_are_used_up_arm_by_arm() -> None:
    """A pair holds room for the arms that haven't begun; values, not books, change."""
    empty = Claims()
    both = claim(empty, (0, 1), [0, 1])
    assert ([], [0, 1]) == (empty.arms(), both.arms())
    one = use(both, (0, 1), 0)
    assert ([1], [1], []) == (
        one.arms(), use(one, (0, 1), 0).arms(), use(one, (0, 1), 1).arms(),
    )  # fmt: skip
    assert [] == release(both, (0, 1)).arms()
    assert both == use(both, (9, 9), 0)


def test_shortage_counts_claims_of_others() -> None:
    """What is claimed but not begun takes room, in all and per arm."""
    known = _known(usd=30, b_usd=10)
    claims = claim(Claims(), (0, 1), [0])
    assert "" == shortage(known, claims, [0, 1])
    assert "usd" in shortage(known, claims, [0, 0, 1])
    assert "arm B" in shortage(known, claims, [1, 1])


def test_expected_spend_goes_by_what_slots_have_cost() -> None:
    """A pending slot costs what settled ones did, retries included; without one its reservation."""
    known = _known()
    known.tallies[0].spent_nanousd = 21
    assert 21 + 8 * 11 + 10 * 10 == expected_nanousd(known, [2, 0], [10, 10])
    assert 0 == expected_nanousd(known, [0, 0], [0, 0]) - 21
