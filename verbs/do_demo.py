"""`ledger demo`: two real comparisons from protocol to verdict, then tampered copies are caught."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from .options import output_options, verb
from .output import Output, shell_word

__all__ = ("command",)


@verb(
    "demo",
    example="""
    ledger demo
    ledger log fairtrial-demo/ledger.db | less
    """,
)
@click.argument(
    "folder", type=click.Path(path_type=Path), required=False, default=Path("fairtrial-demo")
)
@output_options
def command(out: Output, folder: Path) -> None:
    """Runs two published comparisons in FOLDER (default fairtrial-demo), then tampers with copies.

    SWE-bench Pro reaches a verdict; SWE-bench Verified doesn't, for a reason in words of its data.
    A copy with one changed score is caught at once; the same change with every hash made again is
    caught only by a receipt that was kept. A second call starts afresh.
    """
    from .demo import EXPERIMENTS, Demo, prepare
    from .text_demo import closing_text, experiment_text, opening_text, proof_text

    prepare(folder)
    demo = Demo(folder)
    out.text(opening_text(folder))
    details = []
    for each in EXPERIMENTS:
        shown = demo.run(each)
        out.text(experiment_text(shown) + "\n")
        details.append(shown.detail)
    proof = demo.prove()
    out.text(proof_text(proof) + "\n")
    out.text(closing_text(folder, proof))
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("ledger") is None and activate.is_file():
        out.note(f"`ledger` isn't on the path of your shell yet: . {shell_word(activate)}")
    out.end(
        {
            "v": 1,
            "folder": str(folder),
            "ledger": str(folder / "ledger.db"),
            "results": details,
            "replay": proof.replay,
            "changed": {"seq": proof.seq, "record": proof.changed.record},
            "rewritten": {
                "record": proof.rewritten.record,
                "anchored": proof.rewritten.anchored,
                "with_receipt": proof.rewritten_against.record,
            },
        },
        receipt=proof.receipt if out.as_json or out.quiet else None,
        next_command="ledger init my-trial",
    )
