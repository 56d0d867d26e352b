"""`ledger power`: what a plan can find, by formula and by simulating it."""

from __future__ import annotations

from pathlib import Path

import click

from .options import output_options, protocol_argument, verb
from .output import Output, shell_word

__all__ = ("command",)

_FAMILIES = ("obrien_fleming", "pocock", "wang_tsiatis", "haybittle_peto")


@verb(
    "power",
    example="""
    ledger power protocol.yaml --runs 2000
    ledger power --assume saving.yaml --json > power.json
    ledger power --boundary obrien_fleming
    """,
)
@protocol_argument
@click.option(
    "--runs",
    type=click.IntRange(0, 1_000_000),
    default=1000,
    show_default=True,
    help="Simulated runs, at the effect and where a claim is an error; 0: formula only.",
)
@click.option("--effect", type=float, help="True difference; default: the registered one.")
@click.option("--seed", type=click.IntRange(0, 2**53 - 1), help="Default: the design's seed.")
@click.option(
    "--pilot",
    type=click.Path(path_type=Path),
    metavar="LEDGER",
    help="Take spread, correlation and loss from the outcomes of this ledger.",
)
@click.option("--pilot-experiment", metavar="NAME", help="Which experiment of the pilot's ledger.")
@click.option(
    "--assume",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take what a saving, or one of several comparisons, assumes from this file.",
)
@click.option(
    "--boundary",
    type=click.Choice(_FAMILIES),
    help="Print the z list of this family for looks.boundary, and nothing else.",
)
@click.option("--delta", type=float, help="With wang_tsiatis: the exponent, 0 to 0.5.")
@output_options
def command(
    out: Output,
    protocol: Path,
    runs: int,
    effect: float | None,
    seed: int | None,
    pilot: Path | None,
    pilot_experiment: str | None,
    assume: Path | None,
    boundary: str | None,
    delta: float | None,
) -> None:
    """Says what a plan can find: by formula, then by running the very protocol on simulated data.

    The simulation goes through every look, guard and missing rule of the PROTOCOL, with all its
    comparisons and its saving, at the registered effect and at the border where a claim would be an
    error. What a saving assumes is stated in a file for --assume, or seen in a --pilot. Nothing is
    written; the JSON can go into a freeze: `ledger register --power-report power.json`.
    """
    from fairtrial.engine.powering import boundary_of, power_of

    from .text_power import boundary_text, power_text

    if boundary is not None:
        found = boundary_of(protocol, boundary, delta=delta)
        out.text(boundary_text(found))
        out.end(found)
        return
    if delta is not None:
        raise click.UsageError("--delta belongs to --boundary wang_tsiatis")
    answer = power_of(
        protocol,
        runs=runs,
        effect=effect,
        seed=seed,
        pilot=pilot,
        pilot_experiment=pilot_experiment,
        assume=assume,
    )
    out.text(power_text(answer))
    out.end(answer, next_command=f"ledger check {shell_word(protocol)}")
