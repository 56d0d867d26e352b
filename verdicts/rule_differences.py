"""How the flags of two arms differ on each endpoint, shown beside the verdict. Pure.

Leaves what decides to `rule_verdict.py`.

Rules:
- All endpoints are computed on the primary population, restricted by their own `where`.
- A precision differs by the jackknife over clusters with t(G-1); a rate of flags by CR2-t and
  Tango, as in a comparison. Neither decides.
- The difference is treatment minus control.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fairtrial.analysis.deciding import Deciding, deciding_interval
from fairtrial.analysis.grouping import FloatArray, IntArray
from fairtrial.analysis.labelled import deciding_precision, precision_of
from fairtrial.analysis.values import Interval, Undetermined
from fairtrial.ledger.protocol import Endpoint

from .boundaries import gate_of
from .rule_scores import members_of
from .rule_verdict import Judgement, primary_population

__all__ = ("Difference", "differences")


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """One endpoint in both arms of the comparison; None: there is no number.

    Attributes:
        endpoint: which.
        arms: its value in each arm of the file.
        difference: treatment minus control; `lower`, `upper`, `standard_error`, `df` of it.
        parts: the interval of each method.
        planned: frozen units of its population; `counted` of them have a score, in `clusters`.
        only_control: units that control alone flags; `only_treatment` likewise.
        undetermined: why there is no difference.
    """

    endpoint: Endpoint
    arms: Mapping[str, float | None]
    difference: float | None
    lower: float | None
    upper: float | None
    standard_error: float | None
    df: float | None
    parts: tuple[Interval, ...]
    planned: int
    counted: int
    clusters: int
    only_control: int
    only_treatment: int
    undetermined: str | None


def differences(found: Judgement) -> Iterator[Difference]:
    """Yields the numbers of each endpoint, in the order of the file."""
    for endpoint in found.scores.protocol.endpoints:
        yield _difference(found, endpoint)


def _difference(found: Judgement, endpoint: Endpoint) -> Difference:
    scores, protocol = found.scores, found.scores.protocol
    gate = gate_of(protocol)
    planned = members_of(scores.plan, scores.units, endpoint, primary_population(protocol))
    kept = planned[scores.places]
    flags = {name: one.flagged[kept].astype(float) for name, one in found.flags.items()}
    labels, clusters = scores.scored.labels[kept], scores.scored.clusters[kept]
    control, treatment = flags[gate.control], flags[gate.treatment]
    shown: Deciding | Undetermined
    if endpoint.type == "precision":
        shown = deciding_precision(
            control, treatment, labels, clusters, nominal_p=protocol.analysis.alpha
        )
    else:
        shown = deciding_interval(
            treatment - control,
            clusters,
            family="binary",
            estimand="unit_weighted",
            nominal_p=protocol.analysis.alpha,
            singletons=protocol.units.cluster is None,
        )
    values = {name: _value(endpoint, own, labels) for name, own in flags.items()}
    known = shown if isinstance(shown, Deciding) else None
    first, second = values[gate.control], values[gate.treatment]
    return Difference(
        endpoint=endpoint,
        arms=values,
        difference=None if first is None or second is None else second - first,
        lower=None if known is None else known.lower,
        upper=None if known is None else known.upper,
        standard_error=None if known is None else known.standard_error,
        df=None if known is None else known.df,
        parts=() if known is None else known.parts,
        planned=int(planned.sum()),
        counted=int(kept.sum()),
        clusters=len(set(clusters.tolist())),
        only_control=int(((control == 1.0) & (treatment == 0.0)).sum()),
        only_treatment=int(((control == 0.0) & (treatment == 1.0)).sum()),
        undetermined=shown.reason if isinstance(shown, Undetermined) else None,
    )


def _value(endpoint: Endpoint, flags: FloatArray, labels: IntArray) -> float | None:
    if endpoint.type == "precision":
        found = precision_of(flags, labels)
        return None if isinstance(found, Undetermined) else found
    return float(flags.mean()) if flags.size else None
