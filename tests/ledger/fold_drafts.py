"""Events that are legal until a test changes a field, and the values they are made of."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from fairtrial.ledger.blinding import commitment
from fairtrial.ledger.canonical import blob_of, sha256_hex
from fairtrial.ledger.events import (
    EVENT_KINDS,
    Blob,
    Event,
    FrozenArm,
    LookComparison,
    LookEndpoint,
    LookPlan,
    LookTest,
    Reference,
    Rules,
)
from fairtrial.ledger.log import Log
from fairtrial.ledger.state import LEDGER_WIDE, Experiment, PlanColumns, is_final, next_number

LEDGER = "0123456789abcdef" * 2
RESERVE = 100
SECTIONS = ("identity", "about", "units", "arms.a", "attempts", "looks", "budget", "scoring")
Fields = Mapping[str, object]


def digest(text: str) -> str:
    """Returns a digest that stands for a text."""
    return sha256_hex(text.encode())


def blob(text: str) -> Blob:
    """Returns the reference of a text's bytes."""
    return blob_of(text.encode())


class Columns(NamedTuple):
    """A plan as the fold reads it."""

    units: Sequence[str]
    arms: Sequence[str]
    replicates: Sequence[int]


class Design(NamedTuple):
    """What a freeze fixes."""

    plan: Columns
    arms: tuple[FrozenArm, ...]
    looks: tuple[LookPlan, ...]
    rules: Rules

    @property
    def blob(self) -> Blob:
        """The plan's blob."""
        return blob(json.dumps(self.plan))


def make_rules(**fields: Any) -> Rules:
    """Returns rules without a ceiling and with one attempt, but for the given fields."""
    base: dict[str, object] = {
        "arms": {},
        "attempts_max": 1,
        "retry_on": ("error",),
        "on_crossing": "stop",
        "on_under_run": "inconclusive",
        "anchor": "none",
        "signatures": (),
        "primaries": ("main",),
    }
    return cast("Callable[..., Rules]", Rules)(**(base | fields))


def make_looks(lasts: Sequence[int], *, eligible: bool = True) -> tuple[LookPlan, ...]:
    """Returns planned looks that end at these positions."""
    test = LookTest(
        comparison="b-a",
        endpoint="main",
        fraction=0.5,
        df=9.0,
        nominal_p=0.01,
        z=2.5,
        eligible=eligible,
    )
    return tuple(LookPlan(last=last, clusters=last, units=last, tests=(test,)) for last in lasts)


def make_arm(name: str, origin: str = "live", **fields: Any) -> FrozenArm:
    """Returns a frozen arm that reserves RESERVE for an attempt when it is live."""
    base: dict[str, object] = {
        "name": name,
        "origin": origin,
        "identity": blob(name),
        "metered": True,
        "reserve_nanousd": RESERVE if origin == "live" else 0,
        "repeatable": True,
    }
    return cast("Callable[..., FrozenArm]", FrozenArm)(**(base | fields))


def make_blinded(label: str, real: str, **fields: Any) -> FrozenArm:
    """Returns an arm under a commitment whose salt is the digest of its label."""
    made = commitment("e", label, real, digest(label))
    return make_arm(label, commitment=made, **fields)


def make_design(
    units: int = 4,
    *,
    arms: Sequence[FrozenArm] = (),
    lasts: Sequence[int] = (),
    **rules: Any,
) -> Design:
    """Returns a design in which each unit meets each arm once; default: arms a and b, both live."""
    frozen = tuple(arms) or (make_arm("a"), make_arm("b"))
    slots = [(f"u{unit}", arm.name) for unit in range(1, units + 1) for arm in frozen]
    plan = Columns([u for u, _ in slots], [a for _, a in slots], [1] * len(slots))
    return Design(plan, frozen, make_looks(lasts or [len(slots)]), make_rules(**rules))


def comparisons(crossed: str, *, eligible: bool = True) -> tuple[LookComparison, ...]:
    """Returns what a look says of its one comparison."""
    base: dict[str, object] = {
        "name": "main",
        "information_fraction": 0.5,
        "eligible": eligible,
        "why_not": () if eligible else ("few_clusters",),
        "n": 1,
        "clusters": 1,
        "tests": {},
        "crossed": crossed,
    }
    numbers = (
        "discordant_clusters estimate standard_error df p_value nominal_p t_critical z lower upper"
    )
    endpoint = cast("Callable[..., LookEndpoint]", LookEndpoint)(
        **(dict.fromkeys(numbers.split()) | base)
    )
    return (LookComparison(name="b-a", treatment="b", control="a", endpoints=(endpoint,)),)


class Drafter:
    """Drafts the next event of each kind from the state of a log.

    Args:
        log: The log.
        designs: What each experiment freezes, by its name; shared between processes.
        plans: The plans by the digest of their blob; shared like a folder of blobs.
    """

    def __init__(self, log: Log, designs: dict[str, Design], plans: dict[str, PlanColumns]) -> None:
        self.log, self.designs, self.plans = log, designs, plans

    def known(self, name: str = "e") -> Experiment:
        """Returns an experiment's state."""
        return self.log.state.experiments[name]

    def reference(self, seq: int) -> Reference:
        """Returns the reference of an entry."""
        leaf = self.log.leaf_at(seq)
        return Reference(seq=seq, leaf=leaf.hex() if leaf else digest("no entry"))

    def draft(
        self, kind: str, experiment: str | None = None, position: int = 0, **fields: Any
    ) -> Event:
        """Returns the next event of a kind, legal wherever one can be, with some fields changed."""
        name = ("" if kind in LEDGER_WIDE else "e") if experiment is None else experiment
        base: dict[str, object] = {
            "experiment": name,
            "position": position,
            "number": next_number(self.log.state, kind, name, position),
        }
        base |= getattr(self, f"_{kind}", lambda *_: {})(name, position)
        return cast("Callable[..., Event]", EVENT_KINDS[f"{kind}/1"])(**(base | fields))

    def _open(self, name: str, position: int) -> Fields:
        return {"format": "fairtrial/1", "tool": "t 1", "schemas": digest("1"), "origin": "here"}

    def _adopt(self, name: str, position: int) -> Fields:
        return {"tool": "t 2", "schemas": digest("2")}

    def _register(self, name: str, position: int) -> Fields:
        return {
            "protocol": blob(f"protocol {name}"),
            "resolved": blob(f"resolved {name}"),
            "media": "yaml",
            "sections": {section: digest(section) for section in SECTIONS},
            "files": blob("files"),
        }

    def _freeze(self, name: str, position: int) -> Fields:
        design = self.designs.setdefault(name, make_design())
        self.plans[design.blob.sha256] = design.plan
        units = len(set(design.plan.units))
        return {
            "units": blob("units"),
            "plan": design.blob,
            "files": blob("files"),
            "unit_count": units,
            "cluster_count": units,
            "slot_count": len(design.plan.units),
            "arms": design.arms,
            "rules": design.rules,
            "looks": design.looks,
        }

    def _amend(self, name: str, position: int) -> Fields:
        known = self.log.state.experiments.get(name)
        return {
            "subject": self.reference(known.plan_seq if known else 0),
            "protocol": blob("amended protocol"),
            "resolved": blob("amended resolved"),
            "sections": dict(known.sections) if known else {},
            "fields": (),
            "rules": None,
            "looks": None,
            "outcomes": known.settled if known else 0,
            "looks_taken": len(known.taken) if known else 0,
            "class_": "text",
            "reason": "because",
        }

    def _start(self, name: str, position: int) -> Fields:
        nonce = f"nonce {self.log.state.size}"
        base = {"tool": "t 1", "host": "h", "environment": blob("env"), "settings": {}}
        return {"nonce": nonce, **base}

    def _stop(self, name: str, position: int) -> Fields:
        return {"reason": "interrupted"}

    def _slot(self, name: str, position: int) -> tuple[int, str, str, int]:
        """Returns session, unit, arm and replicate of a slot; whatever fits where there is none."""
        known = self.log.state.experiments.get(name)
        session = known.sessions if known else 1
        if name not in self.designs or not 0 < position <= len(self.designs[name].plan.units):
            return session, "u1", "a", 1
        plan, index = self.designs[name].plan, position - 1
        return session, plan.units[index], plan.arms[index], plan.replicates[index]

    def _attempt(self, name: str, position: int) -> Fields:
        session, _, arm, _ = self._slot(name, position)
        known = self.log.state.experiments.get(name)
        reserve = {one.name: one.reserve_nanousd for one in known.arms} if known else {}
        return {"session": session, "arm": arm, "reserved_nanousd": reserve.get(arm, RESERVE)}

    def _attempt_end(self, name: str, position: int) -> Fields:
        return {"session": self._slot(name, position)[0], "status": "error"}

    def _decision(self, name: str, position: int) -> Fields:
        session, unit, arm, replicate = self._slot(name, position)
        known = self.log.state.experiments.get(name)
        slots = known.slots if known else None
        origin = {one.name: one.origin for one in known.arms}.get(arm, "live") if known else "live"
        within = slots is not None and 0 < position <= len(slots)
        attempts = slots.attempts[position] if slots is not None and within else 0
        return {
            "session": session,
            "attempt": attempts,
            "arm": arm,
            "unit": unit,
            "replicate": replicate,
            "status": "ok",
            "scores": {"passed": 1.0},
            "origin": origin,
        }

    def _look(self, name: str, position: int) -> Fields:
        known = self.log.state.experiments.get(name)
        taken, looks = (len(known.taken), known.looks) if known else (0, ())
        return {
            "basis": self.log.head(),
            "data": digest("data"),
            "last": looks[taken].last if taken < len(looks) else 1,
            "continues": taken + 1 < len(looks),
            "method": "m",
            "units": 1,
            "clusters": 1,
            "comparisons": comparisons("no"),
        }

    def _result(self, name: str, position: int) -> Fields:
        known = self.log.state.experiments.get(name)
        final = known is not None and is_final(known)
        crossed = final and known is not None and len(known.taken) < len(known.looks)
        return {
            "basis": self.log.head(),
            "data": digest("data"),
            "method": "m",
            "verdict": "inconclusive",
            "reason": "because",
            "reason_code": "interval_spans",
            "stopped_by": "boundary" if crossed else "last_look" if final else "person",
            "look": len(known.taken) if known else 0,
            "as_registered": None,
            "evidence": "recorded",
            "existed_before": (),
            "amended": (),
            "missing": {},
            "cost_nanousd": {},
            "comparisons": (),
            "detail": blob("detail"),
        }

    def _invalidate(self, name: str, position: int) -> Fields:
        known = self.log.state.experiments.get(name)
        slots = known.slots if known else None
        within = slots is not None and 0 < position <= len(slots)
        seq = slots.decision_seq[position] if slots is not None and within else 0
        return {"subject": self.reference(seq), "reason": "because"}

    def _settle(self, name: str, position: int) -> Fields:
        known = self.log.state.experiments.get(name)
        lost = known.lost.get(position, []) if known else []
        seqs = [one.seq for one in lost if not one.settled] or [one.seq for one in lost] or [0]
        return {"subject": self.reference(seqs[0]), "cost_nanousd": 1, "reason": "because"}

    def _withdraw(self, name: str, position: int) -> Fields:
        return {"reason": "because"}

    def _reanalysis(self, name: str, position: int) -> Fields:
        return {"basis": self.log.head(), "reason": "because", "detail": blob("detail")}

    def _sign(self, name: str, position: int) -> Fields:
        return {
            "subject": self.reference(self.log.state.size - 1),
            "signer": "someone",
            "role": "reviewer",
            "meaning": "approved",
            "time": "2026-01-01",
            "vkey": "key",
            "signature": "signature",
        }

    def _import(self, name: str, position: int) -> Fields:
        return {"source": blob("source"), "format": "csv", "tool": "t", "rows": 1}

    def _refuse(self, name: str, position: int) -> Fields:
        field = f"field {self.log.state.size}"
        return {"act": "run", "field": field, "expected": digest("1"), "found": digest("2")}

    def _anchor(self, name: str, position: int) -> Fields:
        return {"basis": self.log.head(), "level": "checkpoint", "note": blob("note")}

    def _recover(self, name: str, position: int) -> Fields:
        return {"offset": 1, "length": 1, "sha256": digest("torn")}

    def _key(self, name: str, position: int) -> Fields:
        old = self.log.state.vkey
        return {
            "vkey": f"key {self.log.state.size}",
            "previous": old,
            "signature": "signature",
            "previous_signature": None if old is None else "signature",
        }

    def _unblind(self, name: str, position: int) -> Fields:
        return {"arms": (), "reason": "because"}

    def _redact(self, name: str, position: int) -> Fields:
        return {"blob": blob("artifact"), "reason": "because"}

    def _close(self, name: str, position: int) -> Fields:
        return {"basis": self.log.head(), "reason": "because"}
