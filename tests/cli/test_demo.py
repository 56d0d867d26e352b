"""`ledger demo`: its figures, its forgeries, and a second call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .conftest import Shell

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Shell, str]:
    """Runs the demo once as its users do."""
    shell = Shell(tmp_path_factory.mktemp("demo"))
    said = shell.process("demo")
    assert 0 == said.code, said.err
    return shell, said.out


@pytest.mark.parametrize(
    "line",
    [
        # Figures computed by other code before this existed.
        "549 units  +6.4 points  p 0.087, needed 0.015   go on",
        "729 units  +7.4 points  p 0.018, needed 0.045   boundary crossed",
        "A 36.4 %   B 43.8 %   difference +7.4 points   95.5 % interval +1.5 to +13.5",
        "only B solved 113, only A 59 (McNemar p 0.000047, which ignores repositories)",
        "VERDICT   adopt: ",
        "missing   A: 1 replay_miss",
        "96 units  -3.1 points  cannot decide",
        "A 64.6 %   B 66.6 %   difference +2.0 points   95.0 % interval -14.2 to +18.4",
        "only B solved 50, only A 40 (McNemar p 0.34, which ignores repositories)",
        "VERDICT   inconclusive: 231 of 500 units are one repository (django/django)",
        "0 findings; 4 looks and 2 results recomputed: equal",
        "RECORD    intact, unanchored: nothing outside this ledger vouches for it yet",
    ],
)
def test_demo_shows_the_published_figures(shown: tuple[Shell, str], line: str) -> None:
    """What both experiments must show stands in the output."""
    assert line in shown[1]


def test_both_results_say_retrospective(shown: tuple[Shell, str]) -> None:
    """Outcomes that were public before are never dressed up as a trial."""
    assert 2 == shown[1].count("this result is retrospective")


def test_changed_score_is_caught_and_a_rewrite_only_by_the_receipt(
    shown: tuple[Shell, str],
) -> None:
    """What the demo says of its forged copies is what `replay` says of them."""
    shell, out = shown
    receipt = re.search(r"fairtrial:[0-9a-f]{32}@\d+#\S{43}=", out)
    assert receipt is not None
    changed = "fairtrial-demo/changed/ledger.db"
    rewritten = "fairtrial-demo/rewritten/ledger.db"
    assert re.search(r"CORRUPT at [\d,]+: id b3:\S+ expected, b3:\S+ found     caught", out)
    assert 12 == shell.ledger("replay", changed).code
    assert 0 == shell.ledger("replay", rewritten).code
    assert 13 == shell.ledger("replay", rewritten, "--against", receipt[0]).code
    assert 0 == shell.ledger("replay", "fairtrial-demo/ledger.db", "--against", receipt[0]).code
    assert re.search(r"with the receipt: FORKED at or before [\d,]+     caught only by", out)


def test_commands_that_the_demo_names_work(shown: tuple[Shell, str]) -> None:
    """The lines to look around with can be typed."""
    shell, out = shown
    seq = re.search(r"ledger show fairtrial-demo/ledger\.db (\d+)", out)
    assert seq is not None
    assert "outcome" in shell.ok("show", "fairtrial-demo/ledger.db", seq[1]).out
    assert shell.ok("log", "fairtrial-demo/ledger.db").out


def test_second_call_starts_afresh_and_spares_other_files(shown: tuple[Shell, str]) -> None:
    """Only what a demo made is removed; a folder of anyone else's is refused."""
    shell, _ = shown
    note = shell.folder / "fairtrial-demo" / "note.txt"
    note.write_text("mine")
    before = shell.ok("status", "--ledger", "fairtrial-demo/ledger.db", "--json").json
    said = shell.ok("demo", "--json")
    assert ["adopt", "inconclusive"] == [one["verdict"] for one in said.json["results"]]
    after = shell.ok("status", "--ledger", "fairtrial-demo/ledger.db", "--json").json
    assert before["experiments"][0]["head"] != after["experiments"][0]["head"]
    assert "mine" == note.read_text()


def test_folder_of_others_is_refused(shell: Shell, tmp_path: Path) -> None:
    """The demo writes into no folder that holds something else."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "thesis.txt").write_text("years")
    assert 3 == shell.ledger("demo", "work").code
    assert ["thesis.txt"] == [path.name for path in (tmp_path / "work").iterdir()]
