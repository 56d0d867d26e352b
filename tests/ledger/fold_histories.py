"""Random designs for random histories, and the way from any state to an end."""

from __future__ import annotations

import hypothesis.strategies as st
from msgspec import structs

from fairtrial.ledger.events import ArmCeiling
from fairtrial.ledger.state import Experiment, due_look, is_ended

from .fold_bench import Bench
from .fold_drafts import RESERVE, Design, make_arm, make_design

__all__ = ("designs", "drive_to_end")


@st.composite
def designs(draw: st.DrawFn) -> Design:
    """Draws a design: one to three arms of different kinds, looks, ceilings, tries."""
    kinds = draw(st.sampled_from(["a", "a", "ab", "ab", "ar", "an", "abr", "r"]))
    known = {
        "a": make_arm("a"),
        "b": make_arm("b", reserve_nanousd=2 * RESERVE),
        "n": make_arm("n", repeatable=False),
        "r": make_arm("r", "recorded"),
    }
    units = draw(st.sampled_from([14, 10, 7, 5, 1] if len(kinds) == 1 else [6, 5, 4, 2, 1]))
    slots = units * len(kinds)
    count = draw(st.sampled_from([0, 1, 2]))
    inner = draw(st.sets(st.integers(1, slots), max_size=count)) - {slots}
    ceilings = st.one_of(st.none(), st.none(), st.integers(2, 30))
    usd, calls, own = draw(ceilings), draw(ceilings), draw(ceilings)
    arms = {"a": ArmCeiling(usd_nanousd=own * RESERVE)} if own and "a" in kinds else {}
    design = make_design(
        units,
        arms=[known[kind] for kind in kinds],
        lasts=sorted(inner | {slots}),
        usd_nanousd=usd and usd * RESERVE,
        calls=calls,
        attempts_max=draw(st.integers(1, 3)),
        retry_on=draw(st.sampled_from([("error",), ("error", "timeout"), ("timeout",), ()])),
        on_crossing=draw(st.sampled_from(["stop", "continue"])),
        on_under_run=draw(st.sampled_from(["inconclusive", "analyse"])),
        anchor=draw(st.sampled_from(["none", "none", "none", "checkpoint"])),
    )
    return design._replace(rules=structs.replace(design.rules, arms=arms))


def drive_to_end(bench: Bench, *, withdrawing: bool) -> None:
    """Brings every experiment to an end and closes the ledger, by legal events alone."""
    for name, known in list(bench.log.state.experiments.items()):
        if not is_ended(known):
            _settle_down(bench, name, known)
            crossed = any(look.crossed for look in known.taken)
            stays = known.freeze_seq is not None and (crossed or not withdrawing)
            bench.do("result" if stays else "withdraw", name)
    if not bench.log.state.closed:
        bench.do("close")


def _settle_down(bench: Bench, name: str, known: Experiment) -> None:
    """Leaves no session live, no attempt open and no look due."""
    if known.live:
        bench.do("start", name)
        slots = known.slots
        assert slots is not None
        for position in [at for at, is_open in enumerate(slots.is_open) if is_open]:
            bench.do("attempt_end", name, position, status="lost")
        bench.idle(name)
    if due_look(known) is not None:
        bench.do("look", name)
