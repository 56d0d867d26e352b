"""The demo in words. Pure: every number comes from what was run.

Rules:
- Both results say that they are retrospective.
- What a forged copy shows by itself, and what only a receipt shows, stand below each other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fairtrial.ledger.findings import Finding, ReplayReport

from .demo import Proof, Shown
from .output import label
from .text_numbers import count, difference, interval, p_value, quantity, value
from .text_replay import anchor_words
from .text_result import missing_text
from .text_why import why_text

__all__ = ("closing_text", "experiment_text", "opening_text", "proof_text")


def opening_text(folder: Path) -> str:
    """Returns the first lines."""
    return (
        f"Two published comparisons, put on record in {folder} and concluded by their protocols.\n"
    )


def experiment_text(shown: Shown) -> str:
    """Returns one experiment, its verdict last."""
    detail, design = shown.detail, shown.design
    (comparison,) = detail["comparisons"]
    endpoint = comparison["endpoints"][0]
    labels = detail["labels"]
    control, treatment = comparison["control"], comparison["treatment"]
    planned = " and ".join(f"{look.planned:g}" for look in design.power.looks)
    falls = " and ".join(f"{look.fraction:.2f}" for look in design.power.looks)
    lines = [
        f"{shown.experiment.title}: {labels[control]} ({control}, the incumbent) against"
        f" {labels[treatment]} ({treatment})",
        label(
            "register",
            f"{detail['experiment']}   {count(len(design.units.ids))} units,"
            f" {design.plan.cluster_count} repositories, {count(design.plan.slot_count)} slots,"
            f" entries {shown.first_seq}-{shown.first_seq + 1}\n"
            f"looks planned at {planned} of the repositories, with {falls} of the information",
        ),
        label("outcomes", _outcomes_text(shown)),
        *(_look_line(look, index, comparison) for index, look in enumerate(comparison["looks"])),
        label("", _arms_text(endpoint, control, treatment)),
        label("", _discordant_text(endpoint, control, treatment)),
        label("VERDICT", f"{detail['verdict']}: {_in_repositories(detail['reason'])}"),
        label("missing", f"{missing_text(detail['units'])}; spend not recorded"),
    ]
    return "\n".join(lines)


def _outcomes_text(shown: Shown) -> str:
    missing = sum(sum(one.values()) for one in shown.detail["units"]["missing"].values())
    return (
        f"{count(shown.settled - missing)} of {count(shown.design.plan.slot_count)},"
        f" {shown.experiment.source}: this result is retrospective"
    )


def _look_line(look: dict[str, Any], index: int, comparison: dict[str, Any]) -> str:
    end = index + 1 == len(comparison["looks"])
    head = f"{count(look['n'])} units  {difference(look['estimate'], points=True)}"
    if not look["eligible"]:
        why = _in_repositories(why_text(look["why_not"]))
        goes = "end" if end else "go on"
        return label(f"look {look['look']}", f"{head}  cannot decide ({why})   {goes}")
    crossed = "boundary crossed" if look["crossed"] != "no" else "end" if end else "go on"
    needed = f"p {p_value(look['p_value'])}, needed {p_value(look['nominal_p'])}"
    return label(f"look {look['look']}", f"{head}  {needed}   {crossed}")


def _arms_text(endpoint: dict[str, Any], control: str, treatment: str) -> str:
    arms, limits = endpoint["arms"], endpoint["interval"]
    return (
        f"{control} {value(arms[control], points=True)}   {treatment}"
        f" {value(arms[treatment], points=True)}   difference"
        f" {difference(endpoint['difference'], points=True)}"
        f"   {100 * limits['level']:.1f} % interval"
        f" {interval(limits['lower'], limits['upper'], points=True)}"
    )


def _discordant_text(endpoint: dict[str, Any], control: str, treatment: str) -> str:
    discordant, mcnemar = endpoint["discordant"], endpoint["tests"]["mcnemar"]
    return (
        f"only {treatment} solved {discordant['only_treatment']}, only {control}"
        f" {discordant['only_control']} (McNemar p {p_value(mcnemar['p_value'])}, which ignores"
        " repositories)"
    )


def _in_repositories(reason: str) -> str:
    """Returns a reason with the data's own word for its clusters."""
    return reason.replace("clusters", "repositories").replace("cluster", "repository")


def proof_text(proof: Proof) -> str:
    """Returns the replay and what became of the two forgeries."""
    outcome, unit = proof.outcome, proof.outcome.unit
    found = _finding(proof.changed, "wrong_id")
    lines = [
        label("replay", _replay_text(proof.replay)),
        label("RECORD", f"{proof.replay.record}, {_vouched(proof.replay)}"),
        label("receipt", f"{proof.receipt}\nkeep it elsewhere, then: ledger replay --against LINE"),
        label(
            "change",
            f"a copy with one score changed in entry {count(proof.seq)}"
            f" ({unit}, {outcome.arm}, 1 -> 0)\n"
            f"{proof.changed.record.upper()} at {count(proof.seq)}: id {_short(found.expected)}"
            f" expected, {_short(found.found)} found     caught",
        ),
        label(
            "rewrite",
            "the same change with every hash after it made again\n"
            f"alone: {proof.rewritten.record}, {anchor_words(proof.rewritten)}; its result says"
            f" {difference(proof.forged, points=True)}\n"
            f"with the receipt: {proof.rewritten_against.record.upper()} at or before"
            f" {count(proof.replay.size)}     caught only by the receipt",
        ),
    ]
    return "\n".join(lines)


def _replay_text(report: ReplayReport) -> str:
    results = sum(word not in ("open", "withdrawn") for word in report.verdicts.values())
    looks = report.recomputed - results
    found = len(report.findings) + report.more_findings
    outcome = "equal" if report.levels["numbers"] == "ok" else report.levels["numbers"]
    return (
        f"{quantity(report.size, 'entry', 'entries')}, {quantity(found, 'finding')};"
        f" {quantity(looks, 'look')} and {quantity(results, 'result')} recomputed: {outcome}"
    )


def _vouched(report: ReplayReport) -> str:
    words = anchor_words(report)
    if report.anchored == "no":
        return f"{words}: nothing outside this ledger vouches for it yet"
    return words


def _finding(report: ReplayReport, code: str) -> Finding:
    return next(one for one in report.findings if one.code == code)


def _short(digest: str) -> str:
    return f"{digest[:11]}…"


def closing_text(folder: Path, proof: Proof) -> str:
    """Returns where to go on from here."""
    ledger = folder / "ledger.db"
    sql = "select experiment, arm, status, count(*) from outcomes group by 1, 2, 3"
    return "\n".join(
        [
            f"All of it is in {folder}. Look around:",
            f"  ledger log {ledger} | less        ledger show {ledger} {proof.seq}",
            f'  sqlite3 {ledger} "{sql}"',
            "Your own table:  ledger compare results.csv"
            "         Your own run:  ledger init my-trial",
        ]
    )
