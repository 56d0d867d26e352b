"""The file of `ledger power --assume`: what a protocol has no field for becomes values. Pure.

Leaves syntax and shapes to `protocols/`, and what is made of the values to `assumptions.py`.

Rules:
- The file is YAML or TOML by the rules of the protocol file; all that is wrong is said at once.
- A field is asked for where a claim depends on it, and refused where nothing would read it: a value
  that is taken and not used would be believed.
- What is stated for one comparison comes before `saving` of the whole file.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Literal

import msgspec

from fairtrial.ledger.protocol import Protocol
from fairtrial.protocols.assigning import is_assigned
from fairtrial.protocols.fields_numbers import POSITIVE, REASON, SHARE
from fairtrial.protocols.file import parse_record
from fairtrial.protocols.nodes import Reading, nearest
from fairtrial.protocols.records import MapOf, Record, optional, required
from fairtrial.protocols.shapes import Choice, Integer, Number

from .assumed_savings import has_declared_value, saving_endpoint

__all__ = ("FILE", "Stated", "StatedComparison", "StatedLevel", "StatedSaving", "parse_assumptions")

_BELOW_ONE = Number(low=0, below=1, expected="a number from 0 to below 1")
_LEVEL = Record(
    fields={
        "mean": optional(POSITIVE),
        "sd": optional(Number(low=0, expected="a number, 0 or more")),
        "icc": optional(_BELOW_ONE),
    }
)
_SAVING = Record(
    fields={
        "scale": required(Choice(words=("log", "raw"))),
        "ratio": required(POSITIVE),
        "sd": required(POSITIVE),
        "icc": optional(_BELOW_ONE),
        "level": optional(_LEVEL),
    }
)
_COMPARISON = Record(
    fields={
        "effect": optional(Number()),
        "discordance": optional(Number(above=0, high=1, expected="a number above 0, at most 1")),
        "sd": optional(POSITIVE),
        "icc": optional(SHARE),
        "missing": optional(_BELOW_ONE),
        "saving": optional(_SAVING),
    }
)
FILE = Record(
    fields={
        "assumptions": required(Integer(low=1, high=1)),
        "source": required(REASON),
        "comparisons": optional(MapOf(value=_COMPARISON)),
        "saving": optional(_SAVING),
    }
)


class StatedLevel(msgspec.Struct, frozen=True, kw_only=True):
    """Of control's mean and of what both arms of a pair have in common; None: not given."""

    mean: float | None = None
    sd: float | None = None
    icc: float | None = None


class StatedSaving(msgspec.Struct, frozen=True, kw_only=True):
    """A saving as a file states it; see `AssumedSaving`."""

    scale: Literal["log", "raw"]
    ratio: float
    sd: float
    icc: float | None = None
    level: StatedLevel = StatedLevel()


class StatedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What a file states of one comparison; None: not given."""

    effect: float | None = None
    discordance: float | None = None
    sd: float | None = None
    icc: float | None = None
    missing: float | None = None
    saving: StatedSaving | None = None


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """A whole file of assumptions.

    Attributes:
        assumptions: version of the file.
        source: where the numbers come from.
        comparisons: by name.
        saving: of every comparison that states none.
    """

    assumptions: Literal[1]
    source: str
    comparisons: dict[str, StatedComparison] = {}
    saving: StatedSaving | None = None


def parse_assumptions(
    data: bytes,
    protocol: Protocol,
    *,
    name: str,
    media: Literal["yaml", "toml"],
    implied: Collection[str] = (),
) -> Stated:
    """Returns what a file assumes.

    Args:
        data: the bytes of the file.
        protocol: that is simulated.
        name: the file's name, for messages.
        media: the file's syntax.
        implied: comparisons that follow from others.

    Raises:
        ProtocolError: The file isn't acceptable; holds every problem with path and line.
    """
    reading = Reading(name)
    stated = msgspec.convert(parse_record(data, FILE, reading, media), Stated)
    for comparison in stated.comparisons:
        _check_comparison(protocol, stated, comparison, reading, implied)
    if stated.saving is not None:
        _check_saving(protocol, stated.saving, "saving", reading)
    reading.raise_problems()
    return stated


def _check_comparison(
    protocol: Protocol, stated: Stated, name: str, reading: Reading, implied: Collection[str]
) -> None:
    path, known = f"comparisons.{name}", [each.name for each in protocol.analysis.comparisons]
    if name not in known:
        near = nearest(name, known)
        todo = f"did you mean {near}?" if near else "leave it out"
        expected = f"one of {', '.join(known)}"
        reading.refuse(path, "there is no such comparison", expected=expected, todo=todo)
        return
    if name in implied:
        what = "both arms are assumed by other comparisons, from which this one follows"
        reading.refuse(path, what, todo="leave it out")
        return
    _check_pairs(protocol, stated.comparisons[name], path, reading)
    saving = stated.comparisons[name].saving
    if saving is not None:
        _check_saving(protocol, saving, f"{path}.saving", reading)


def _check_pairs(protocol: Protocol, stated: StatedComparison, path: str, reading: Reading) -> None:
    if stated.discordance is not None and stated.sd is not None:
        what = "discordance and sd are two ways to say one thing"
        reading.refuse(f"{path}.sd", what, todo="keep one of the two")
    spread = "discordance" if stated.discordance is not None else "sd"
    has_spread = stated.discordance is not None or stated.sd is not None
    if stated.discordance is not None and is_assigned(protocol):
        what = "no unit meets both arms, so none is discordant"
        reading.refuse(f"{path}.discordance", what, todo="state sd, within an arm")
    if has_spread and stated.icc is None and protocol.units.cluster is not None:
        reading.missing(f"{path}.icc", "a number from 0 to 1", f"{path}.{spread}")
    for field in ("icc", "missing"):
        if not has_spread and reading.is_given(f"{path}.{field}"):
            what, todo = f"{field} is given without a spread", "add discordance or sd"
            reading.refuse(f"{path}.{field}", what, todo=todo)
    if protocol.units.cluster is None and reading.is_given(f"{path}.icc"):
        what = "units are single, so nothing resembles itself in clusters"
        reading.refuse(f"{path}.icc", what, todo="leave it out")


def _check_saving(protocol: Protocol, saving: StatedSaving, path: str, reading: Reading) -> None:
    endpoint = saving_endpoint(protocol)
    if endpoint is None:
        what = "the protocol asks for no saving"
        reading.refuse(path, what, todo="leave it out, or add decision.saving")
        return
    if endpoint.scale != "raw" and saving.scale == "raw":
        what = f"a claim on {endpoint.name} holds on the log scale, where no value is negative"
        reading.refuse(f"{path}.scale", what, expected="log", found="raw")
    clusters = protocol.units.cluster is not None
    asked = {
        f"{path}.icc": (clusters, clusters),
        f"{path}.level.mean": (
            saving.scale == "raw" or has_declared_value(protocol, endpoint),
            True,
        ),
        **_level_fields(protocol, path, raw=endpoint.scale != "log"),
    }
    for where, (is_needed, is_read) in asked.items():
        if is_needed and not reading.is_given(where):
            reading.missing(where, "a number: the claim depends on it", path)
        if not is_read and reading.is_given(where):
            reading.refuse(where, "nothing depends on it here", todo="leave it out")
    if not math.isfinite(saving.ratio * (saving.level.mean or 1.0)):
        what, expected = "the treatment's mean is beyond any number", "ratio times mean as a number"
        reading.refuse(f"{path}.ratio", what, expected=expected)


def _level_fields(protocol: Protocol, path: str, *, raw: bool) -> dict[str, tuple[bool, bool]]:
    """Returns whether the spread of the level is needed, and whether anything reads it."""
    paired, clusters = not is_assigned(protocol), protocol.units.cluster is not None
    return {
        f"{path}.level.sd": (raw and paired, raw and paired),
        f"{path}.level.icc": (raw and paired and clusters, raw and paired and clusters),
    }
