"""A run as it goes and as it ended, in words. Pure.

Leaves showing it to `progress.py`.

Rules:
- No score, rate or estimate of an outcome: who runs an experiment isn't told how it goes.
- A stop says what was lost (nothing), what is left, and the commands that go on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from .text_numbers import count, duration, quantity, usd

if TYPE_CHECKING:
    from fairtrial.engine.progress import Progress
    from fairtrial.engine.running import RunReport

__all__ = ("progress_line", "progress_lines", "run_text")

BAR_WIDTH = 12


def progress_lines(progress: Progress, *, width: int) -> list[str]:
    """Returns the live display: arms and attempts, then money and time."""
    # Without arms they are blinded, and one bar stands for all of them.
    arms = progress.arms or {"all arms": (progress.settled, progress.planned)}
    bars = [
        f"{name} [{_bar(settled, planned)}] {count(settled)}/{count(planned)}"
        for name, (settled, planned) in arms.items()
    ]
    first = [progress.experiment, *bars, *_attempts(progress)]
    second = [*_money(progress), *_times(progress)]
    return [line for parts in (first, second) for line in _packed(parts, width)]


def progress_line(progress: Progress) -> str:
    """Returns the same in one line, for a log."""
    settled = f"{count(progress.settled)} of {quantity(progress.planned, 'slot')}"
    parts = [progress.experiment, settled, *_attempts(progress), *_money(progress)]
    return "   ".join([*parts, *_times(progress)])


def _bar(done: int, planned: int) -> str:
    filled = BAR_WIDTH * done // planned if planned else 0
    return "#" * filled + "." * (BAR_WIDTH - filled)


def _attempts(progress: Progress) -> list[str]:
    parts = []
    if progress.errors:
        again = f" ({count(progress.retries)} retried)" if progress.retries else ""
        parts.append(f"errors {count(progress.errors)}{again}")
    parts.append(f"{count(progress.in_flight)} in flight")
    return parts


def _money(progress: Progress) -> list[str]:
    spent, reserved, ceiling = progress.spent_usd, progress.reserved_usd, progress.ceiling_usd
    if not (spent or reserved or ceiling):
        return []
    text = f"spent {usd(spent)} + {usd(reserved)} reserved"
    if ceiling is None:
        return [f"{text} usd"]
    parts = [f"{text} of {usd(ceiling)} usd"]
    expected = progress.expected_usd
    if expected > ceiling:
        near = int(progress.planned * ceiling / expected)
        parts.append(f"EXPECTED AT THE END {usd(expected)}: will stop near slot {count(near)}")
    return parts


def _times(progress: Progress) -> list[str]:
    left = progress.planned - progress.settled
    if progress.seconds_left is None or not left:
        return []
    each = progress.seconds_left / left
    rate = 60 / each if each else 0.0
    parts = [f"{rate:,.0f} a minute" if rate >= 10 else f"{rate:.2g} a minute"] if rate else []
    waiting = progress.waiting_for_look
    if waiting and progress.looks_taken + 1 < progress.looks_planned:
        parts.append(f"next look in {duration(each * waiting)}")
    if 0 < waiting <= progress.in_flight:
        parts.append(
            f"waiting for {quantity(waiting, 'slot')} before look {progress.looks_taken + 1}"
        )
    return [*parts, f"end in {duration(progress.seconds_left)}"]


def _packed(parts: list[str], width: int) -> Iterator[str]:
    """Yields lines of at most `width` characters, parts whole."""
    line = ""
    for part in parts:
        longer = f"{line}   {part}" if line else part
        if line and len(longer) > width:
            yield line
            line = f"  {part}"
        else:
            line = longer
    if line:
        yield line


def run_text(report: RunReport, command: Callable[[str], str]) -> str:
    """Returns how a run ended, and how to go on.

    Args:
        report: What the run returned.
        command: Completes a command with the ledger that was typed.
    """
    done = f"{count(report.settled)} of {quantity(report.planned, 'slot')}"
    left = report.planned - report.settled
    looks = f"look {report.looks_taken} of {report.looks_planned} taken"
    if report.reason == "complete":
        rest = f"; {count(left)} not run" if left else ""
        return f"{report.experiment}   {done}   {looks}{rest}"
    if report.reason == "boundary":
        return f"{report.experiment}   {done}   {looks}: boundary crossed, {count(left)} not run"
    if report.reason in ("interrupted", "terminated"):
        return f"{report.reason}: {done.removesuffix(' slots')} settled, nothing lost"
    if report.reason == "arm_failing":
        cause = report.note or "an arm is failing"
        return (
            f"STOPPED: {cause}. No slot was given up; {count(left)} to do.\n"
            f"Fix the cause, then: {command('ledger run')}\n"
            "A cause inside a registered file can't be mended under this plan, so begin another:\n"
            f"    {command(f'ledger withdraw {report.experiment} --reason TEXT')}\n"
            f"    {command(f'ledger register PROTOCOL --supersedes {report.experiment}')}"
        )
    return _ceiling_text(report, left, command)


def _ceiling_text(report: RunReport, left: int, command: Callable[[str], str]) -> str:
    what = "ceiling" if report.reason == "ceiling" else "time is up"
    why = f" ({report.note})" if report.note else ""
    return (
        f"STOPPED: {what}{why}. {count(report.settled)} of {count(report.planned)} settled,"
        f" {count(left)} pending.\n"
        f"go on     {command(report.next)} && {command('ledger run')}\n"
        f"or finish {command('ledger result --stop --reason TEXT')}"
        "      (pending units then count as not run, not as missing)"
    )
