"""What a freeze says of its arms, its units and its power, held against protocol and files.

Leaves plan, looks and rules to `recomputing.py`; compares no file beside the ledger.

Rules:
- The units are the file that the frozen list names; a part of an arm that the list names too has
  the digest that stands there.
- What an arm is made of repeats its driver as registered; the program and the version of Python are
  the machine's. Arms under commitments are left to whoever opens them.
- Power is computed again by formula; a simulation that leads over it is taken as it was reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from fairtrial.custody.files import FileEntry, parse_file_list
from fairtrial.custody.trial import Reader
from fairtrial.ledger.events import Freeze
from fairtrial.ledger.protocol import Protocol, asked_arms
from fairtrial.protocols.plan import Plan
from fairtrial.protocols.terms import nominal_plan
from fairtrial.protocols.units import Units
from fairtrial.verdicts.look_table import power_findings
from fairtrial.verdicts.power_values import SimulatedPower

__all__ = ("Part", "frozen_parts", "recorded_power")

# What an identity says that a protocol can't: the machine's, and digests of files.
_OWN = ("program", "python", "files")


class Part(NamedTuple):
    """One thing that a freeze says twice, with its place."""

    path: str
    expected: object
    found: object


class _Kept(msgspec.Struct, frozen=True):
    simulated: SimulatedPower | None = None


def frozen_parts(reader: Reader, event: Freeze, protocol: Protocol) -> Iterator[Part]:
    """Yields what a freeze says of units and arms beside what follows from protocol and list."""
    listed = parse_file_list(reader.blobs.get(event.files))
    units = [one.sha256 for one in listed if one.role == "units"]
    yield Part("units", [event.units.sha256], units)
    asked = asked_arms(protocol)
    for arm in event.arms:
        if arm.commitment is not None or arm.name not in asked:
            continue
        identity = reader.get_json(arm.identity)
        driver: Any = msgspec.json.decode(msgspec.json.encode(asked[arm.name].driver))
        said = identity if isinstance(identity, dict) else {}
        yield from _arm_parts(f"arms.{arm.name}.identity", said, driver, listed)


def _arm_parts(
    path: str, said: Mapping[str, Any], driver: Mapping[str, Any], listed: list[FileEntry]
) -> Iterator[Part]:
    for name in sorted(said.keys() - set(_OWN)):
        yield Part(f"{path}.{name}", driver.get(name), said[name])
    yield Part(f"{path}.kind", driver.get("kind"), said.get("kind"))
    files = said.get("files")
    digests = {name: _digest(one) for name, one in files.items()} if isinstance(files, dict) else {}
    named = {*driver.get("files", ()), *([driver["file"]] if "file" in driver else [])}
    for one in listed:
        is_own = one.path in named or one.path in digests
        if is_own and one.role in ("driver", "outcomes"):
            yield Part(f"{path}.files.{one.path}", one.sha256, digests.get(one.path))


def _digest(value: object) -> object:
    return value.get("sha256") if isinstance(value, dict) else value


def recorded_power(
    reader: Reader, event: Freeze, protocol: Protocol, plan: Plan, units: Units
) -> tuple[object, object] | None:
    """Returns power as it is computed again and as it is recorded; None where none is."""
    if event.power is None:
        return None
    found = reader.get_json(event.power)
    kept = msgspec.convert(found, _Kept)
    again = power_findings(protocol, nominal_plan(protocol, plan), units, simulated=kept.simulated)
    return msgspec.json.decode(msgspec.json.encode(again)), found
