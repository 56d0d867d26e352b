"""Rules between fields about analysis, looks and power.

Leaves single fields to `fields.py`, endpoints to `rules_endpoints.py`, the
verdict's fields to `rules_verdict.py`.

Rules:
- A rule names every field it reads; it says nothing when one of them is bad and said so already.
- One function a subject, in the order of the file; each reports all it finds.
"""

from __future__ import annotations

from itertools import pairwise

from fairtrial.ledger.protocol import Comparison, Protocol

from .fields_numbers import ALPHA_MIN
from .nodes import Reading

__all__ = ("check_numbers",)


def check_numbers(protocol: Protocol, reading: Reading) -> None:
    """Reports every broken rule between fields of analysis, looks and power."""
    for check in (
        _check_replicates,
        _check_comparisons,
        _check_planned_looks,
        _check_spending,
        _check_anytime,
        _check_power,
    ):
        check(protocol, reading)


def _check_replicates(p: Protocol, reading: Reading) -> None:
    count = p.missing.replicates
    least = min((arm.repeats for arm in p.arms.values()), default=1)
    if isinstance(count, str):
        return
    if count > least:
        what = "more replicates are needed than an arm has"
        expected, needs = f"all, or at most {least}", ["arms"]
        reading.refuse("missing.replicates", what, expected=expected, found=f"{count}", needs=needs)
    for endpoint in p.endpoints:
        if endpoint.k is not None and count < endpoint.k:
            what = f"endpoint {endpoint.name} needs {endpoint.k} replicates"
            expected, needs = f"all, or at least {endpoint.k}", [f"endpoints.{endpoint.name}.k"]
            reading.refuse(
                "missing.replicates", what, expected=expected, found=f"{count}", needs=needs
            )


def _check_comparisons(p: Protocol, reading: Reading) -> None:
    comparisons = p.analysis.comparisons
    if not reading.is_given("analysis.comparisons"):
        return
    names = [comparison.name for comparison in comparisons]
    for comparison in comparisons:
        path = f"analysis.comparisons.{comparison.name}"
        if names.count(comparison.name) > 1:
            what, todo = "two comparisons have one name", "rename one of them"
            reading.refuse(path, what, found=comparison.name, todo=todo)
        if comparison.treatment == comparison.control:
            others = [name for name in p.arms if name != comparison.treatment]
            what, expected = "an arm is compared with itself", f"one of {', '.join(others)}"
            reading.refuse(f"{path}.control", what, expected=expected, found=comparison.control)
        for side in ("treatment", "control"):
            _check_arm(p, reading, f"{path}.{side}", getattr(comparison, side))
        _check_share(p, comparison, reading, f"{path}.share")
    _check_shares(comparisons, len(p.looks.at), reading)


def _check_share(p: Protocol, comparison: Comparison, reading: Reading, path: str) -> None:
    share, alpha = comparison.share, p.analysis.alpha
    if not isinstance(share, str) and share * alpha < ALPHA_MIN:
        what, expected = "the share leaves too small an alpha", f"{ALPHA_MIN / alpha:g} or more"
        reading.refuse(path, what, expected=expected, found=f"{share:g}", needs=["analysis.alpha"])


def _check_arm(p: Protocol, reading: Reading, path: str, name: str) -> None:
    if name not in p.arms:
        expected = f"one of {', '.join(p.arms)}"
        reading.refuse(path, "there is no such arm", expected=expected, found=name, needs=["arms"])


def _check_shares(comparisons: tuple[Comparison, ...], looks: int, reading: Reading) -> None:
    path = "analysis.comparisons"
    shares = [item.share for item in comparisons if not isinstance(item.share, str)]
    holm = len(comparisons) - len(shares)
    total = sum(shares)
    # A third written three times in decimals may exceed 1 by rounding alone.
    if total > 1 + 1e-9:
        found = f"{total:g}"
        reading.refuse(path, "the shares of alpha exceed 1", expected="at most 1", found=found)
    if holm and shares:
        expected = "holm for all, or a number for each"
        reading.refuse(path, "holm is mixed with shares", expected=expected)
    if holm and looks != 1:
        what = "holm is for one look"
        todo = "declare shares, or one look"
        reading.refuse(path, what, found=f"{looks} looks", todo=todo, needs=["looks"])


def _check_planned_looks(p: Protocol, reading: Reading) -> None:
    looks = p.looks
    if looks.kind != "planned":
        return
    for name in ("method", "min_clusters"):
        if reading.is_given(f"looks.{name}"):
            what = f"{name} belongs to looks at any time"
            todo = "leave it out, or write `kind: anytime`"
            reading.refuse(f"looks.{name}", what, todo=todo, needs=["looks.kind"])
    if any(before >= after for before, after in pairwise(looks.at)):
        found, expected = (
            ", ".join(map(str, looks.at)),
            "each share above the one before it, up to 1",
        )
        rising = ", ".join(map(str, sorted({*looks.at, 1.0})))
        todo = f"write them in order, each once: [{rising}]"
        reading.refuse(
            "looks.at", "the shares don't rise", expected=expected, found=found, todo=todo
        )
    if looks.at[-1] != 1.0:
        found = str(looks.at[-1])
        reading.refuse("looks.at", "the last look isn't at 1", expected="1", found=found)
    if len(looks.at) > 1 and p.units.cluster is not None and looks.icc is None:
        expected = "the design's intra-cluster correlation, 0 to 1"
        reading.missing("looks.icc", expected, "looks.at", "units.cluster")


def _check_spending(p: Protocol, reading: Reading) -> None:
    looks = p.looks
    needs = ["looks.spending", "looks.kind"]
    takes = looks.spending in ("hwang_shih_decani", "power")
    if takes and looks.parameter is None:
        reading.missing("looks.parameter", f"the parameter of {looks.spending}", *needs)
    if not takes and looks.parameter is not None:
        what = f"spending {looks.spending or 'by a boundary'} has no parameter"
        reading.refuse("looks.parameter", what, todo="leave it out", needs=needs)
    if looks.spending == "power" and looks.parameter is not None and looks.parameter <= 0:
        what, found = "the exponent is not above 0", str(looks.parameter)
        reading.refuse("looks.parameter", what, expected="above 0", found=found, needs=needs)
    if looks.boundary is None:
        return
    if reading.is_given("looks.spending"):
        what = "a boundary is given beside spending"
        reading.refuse("looks.boundary", what, todo="keep one of the two", needs=needs)
    if looks.kind == "planned" and len(looks.boundary) != len(looks.at):
        expected, found = f"{len(looks.at)} values of z", f"{len(looks.boundary)}"
        what = "the boundary doesn't fit the looks"
        reading.refuse("looks.boundary", what, expected=expected, found=found, needs=["looks.at"])


_PLANNED_ONLY = (
    "at", "icc", "spending", "parameter", "boundary", "futility", "on_crossing",
)  # fmt: skip


def _check_anytime(p: Protocol, reading: Reading) -> None:
    looks = p.looks
    if looks.kind != "anytime":
        return
    for name in _PLANNED_ONLY:
        if reading.is_given(f"looks.{name}"):
            what = f"{name} belongs to planned looks"
            reading.refuse(f"looks.{name}", what, todo="leave it out", needs=["looks.kind"])
    if looks.method is None:
        reading.missing(
            "looks.method", "betting, empirical_bernstein, beta or asymptotic", "looks.kind"
        )
    if looks.method == "beta" and p.units.cluster is not None:
        what = "beta needs units that are their own clusters"
        reading.refuse("looks.method", what, expected="`units.cluster: none`", needs=["units"])
    if looks.method == "asymptotic" and looks.min_clusters is not None and looks.min_clusters < 100:
        what, found = "an asymptotic sequence begins too early", str(looks.min_clusters)
        needs = ["looks.method"]
        reading.refuse("looks.min_clusters", what, expected="100 or more", found=found, needs=needs)
    for endpoint in p.endpoints:
        if endpoint.role != "secondary" and endpoint.type not in ("binary", "bounded"):
            what = f"endpoint {endpoint.name} has no bounds, which looks at any time need"
            needs = [f"endpoints.{endpoint.name}"]
            expected, found = "type binary or bounded, or planned looks", f"type {endpoint.type}"
            reading.refuse("looks.kind", what, expected=expected, found=found, needs=needs)


def _check_power(p: Protocol, reading: Reading) -> None:
    power, assume = p.power, p.power.assume
    if power.effect is None and power.accept.not_assessed is None:
        expected = "a reason, as `effect: none` leaves the power unassessed"
        reading.missing("power.accept.not_assessed", expected, "power.effect")
    if assume.discordance is not None and assume.sd is not None:
        what = "discordance and sd are two ways to say one thing"
        reading.refuse("power.assume.sd", what, todo="keep one of the two")
    least = abs(power.effect or 0.0)
    if assume.discordance is not None and assume.discordance < least:
        reading.refuse(
            "power.assume.discordance",
            "fewer units are discordant than the effect needs",
            expected=f"at least {least}",
            found=str(assume.discordance),
            needs=["power.effect"],
        )
