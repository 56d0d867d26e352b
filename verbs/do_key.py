"""`ledger key`: make a key, show keys, give a ledger a new one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from .options import verb, writing_options
from .output import Output, label

if TYPE_CHECKING:
    from fairtrial.custody.keys import KeyUse

__all__ = ("command",)


@verb(
    "key",
    example="""
    ledger key new lab
    ledger key new ada --use person
    ledger key new w1 --use witness --signs-as example.org/witness-1
    ledger key show
    ledger key show --ledger trial/ledger.db
    ledger key rotate --key lab --to lab-2027
    """,
)
@click.argument("action", type=click.Choice(["new", "show", "rotate"]))
@click.argument("name", required=False)
@click.option(
    "--use",
    type=click.Choice(["ledger", "witness", "person"]),
    default="ledger",
    show_default=True,
    help="What a new key may sign: heads of one's ledgers, heads of others, or entries.",
)
@click.option("--signs-as", metavar="NAME", help="The name in its signatures; default: NAME.")
@click.option("--key", "old", metavar="OLD", help="rotate: the key that the ledger has.")
@click.option("--to", "new", metavar="NEW", help="rotate: the key that it gets; both sign.")
@writing_options
def command(
    out: Output,
    action: str,
    name: str | None,
    use: str,
    signs_as: str | None,
    old: str | None,
    new: str | None,
    ledger: Path,
    actor: str,
) -> None:
    """Makes a key (new NAME), shows keys (show [NAME]), or gives a ledger a new key (rotate).

    Keys lie in ~/.config/fairtrial/keys (FAIRTRIAL_KEYS), readable by their owner alone; no verb
    prints a secret. `show --ledger LEDGER` prints the verifier key of a ledger: hand it to those
    who will check it, by a way that doesn't go through the ledger.
    """
    if action == "new":
        _new(out, name, use, signs_as, ledger)
    elif action == "rotate":
        _rotate(out, old, new, ledger, actor)
    else:
        _show(out, name, ledger)


def _new(out: Output, name: str | None, use: str, signs_as: str | None, ledger: Path) -> None:
    from fairtrial.custody.key_acts import new_key

    if name is None:
        raise click.UsageError("give the new key a name: ledger key new NAME")
    key = new_key(name, cast("KeyUse", use), signs_as=signs_as)
    out.text(label("key", f"{key.name}   for the use {key.use}"))
    if key.vkey is not None:
        out.text(label("vkey", key.vkey))
    out.end({"v": 1, **key._asdict()}, next_command=_next(key.name, use, ledger))


def _next(name: str, use: str, ledger: Path) -> str:
    if use == "witness":
        return f"ledger witness serve --key {name} --log VKEY"
    if use == "person":
        return f"ledger sign SEQ --meaning approved --role ROLE --name NAME --key {name}"
    if not ledger.exists():
        return f"ledger register PROTOCOL --key {name}"
    if _vkey_of(ledger) is None:
        return f"ledger checkpoint --key {name}"
    return f"ledger key rotate --key OLD --to {name}"


def _vkey_of(ledger: Path) -> str | None:
    """Returns the verifier key of a ledger; None where it has none, or can't be read now."""
    from fairtrial.custody.key_acts import ledger_vkey
    from fairtrial.ledger.errors import LedgerError

    try:
        return ledger_vkey(ledger)[1]
    except LedgerError:
        return None


def _rotate(out: Output, old: str | None, new: str | None, ledger: Path, actor: str) -> None:
    from fairtrial.custody.key_acts import rotate_ledger_key

    if old is None or new is None:
        raise click.UsageError("ledger key rotate --key OLD --to NEW")
    done = rotate_ledger_key(ledger, actor=actor, old=old, new=new)
    out.text(label("key", f"{done.event.vkey}\nsigned by it and by {done.event.previous}"))
    out.end(
        {"v": 1, "event": done.event},
        receipt=done.receipt,
        next_command=f"ledger checkpoint --key {new}",
    )


def _show(out: Output, name: str | None, ledger: Path) -> None:
    from fairtrial.custody.key_acts import ledger_vkey, show_keys

    keys = show_keys(name)
    value: dict[str, object] = {"v": 1, "keys": [key._asdict() for key in keys]}
    for key in keys:
        out.text(label(key.use, f"{key.name}   {key.vkey or 'signs as the origin of a ledger'}"))
    if name is None and (out.ledger is not None or ledger.exists()):
        origin, vkey = ledger_vkey(ledger)
        value |= {"origin": origin, "vkey": vkey}
        out.text(label("origin", origin))
        out.text(label("vkey", vkey or "none yet: ledger checkpoint --key NAME"))
    elif not keys:
        out.text("no key yet: ledger key new NAME")
    out.end(value)
