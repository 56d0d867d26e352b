"""A writer that lies while it writes: every hash holds, and the record contradicts itself."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fairtrial.engine import concluding, freezing, registering
from fairtrial.engine.inspecting import replay_ledger
from fairtrial.engine.session import register_protocol, result_of, run
from fairtrial.ledger.errors import IntegrityError
from fairtrial.ledger.findings import ReplayReport
from fairtrial.verdicts import conclude, evaluate


def _trial(folder: Path, store: str) -> Path:
    """Copies the recorded comparison that ends in a verdict."""
    for name in ("pro.yaml", "pro-units.csv", "pro-outcomes.csv"):
        source = files("fairtrial.examples.demo") / name
        (folder / name).write_bytes(source.read_bytes())
    return folder / store


def _finish(ledger: Path) -> ReplayReport:
    """Goes the honest way from protocol to replay."""
    register_protocol(ledger, ledger.parent / "pro.yaml", actor="a")
    run(ledger, None, actor="a")
    result_of(ledger, None, actor="a")
    return replay_ledger(ledger)


def _lie(
    monkeypatch: pytest.MonkeyPatch, module: Any, name: str, change: Callable[[Any], Any]
) -> None:
    """Makes the writer's use of a function return something else."""
    honest = getattr(module, name)
    monkeypatch.setattr(module, name, lambda *args, **options: change(honest(*args, **options)))


def _other_detail(data: bytes) -> bytes:
    return data.replace(b'"verdict":"adopt"', b'"verdict":"reject"', 1)


def _other_looks(looks: Any) -> Any:
    first = looks[0]
    (test,) = first.tests
    eager = msgspec.structs.replace(test, fraction=0.98, nominal_p=0.047, z=1.99)
    return (msgspec.structs.replace(first, tests=(eager,)), *looks[1:])


def _other_order(data: bytes) -> bytes:
    first, second, *rest = data.splitlines(keepends=True)
    return b"".join([second, first, *rest])


def _other_rules(rules: Any) -> Any:
    return msgspec.structs.replace(rules, on_crossing="continue")


def _other_meaning(data: bytes) -> bytes:
    return data.replace(b'"alpha":0.05', b'"alpha":0.15')


LIES = (
    ("shown verdict", concluding, "detail", _other_detail, "numbers_differ"),
    ("look table", freezing, "look_table", _other_looks, "corrupt"),
    ("run order", freezing, "plan_lines", _other_order, "corrupt"),
    ("rules", freezing, "rules_of", _other_rules, "corrupt"),
    ("meaning", registering, "encode_resolved", _other_meaning, "corrupt"),
)


@pytest.mark.slow
@pytest.mark.parametrize(("what", "module", "name", "change", "record"), LIES)
def test_record_that_contradicts_itself_is_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
    module: Any,
    name: str,
    change: Callable[[Any], Any],
    record: str,
) -> None:
    """Whatever a writer puts beside what follows from protocol, units and outcomes is named."""
    ledger = _trial(tmp_path, "ledger.jsonl")
    with monkeypatch.context() as lying:
        _lie(lying, module, name, change)
        register_protocol(ledger, tmp_path / "pro.yaml", actor="a")
        run(ledger, None, actor="a")
        result_of(ledger, None, actor="a")
    report = replay_ledger(ledger)
    assert record == report.record, (what, report.findings[:3])
    assert any(f.code in ("number_differs", "contradiction") for f in report.findings)


@pytest.mark.slow
def test_honest_writer_is_intact(tmp_path: Path) -> None:
    """The same way without a lie has no finding, so the lies above are what is found."""
    report = _finish(_trial(tmp_path, "ledger.db"))
    assert ("intact", ()) == (report.record, report.findings)


@pytest.mark.slow
def test_long_form_that_contradicts_its_event_is_not_shown(tmp_path: Path) -> None:
    """No gate opens on a text: a result whose long form says something else is refused."""
    ledger = _trial(tmp_path, "ledger.db")
    with pytest.MonkeyPatch.context() as lying:
        _lie(lying, concluding, "detail", lambda data: data.replace(b'"adopt"', b'"reject"'))
        _finish(ledger)
    assert "numbers_differ" == replay_ledger(ledger).record
    with pytest.raises(IntegrityError, match="contradicts"):
        result_of(ledger, None, actor="a")


@pytest.mark.slow
def test_numbers_of_another_method_are_one_finding_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look and the result say both names; their numbers aren't compared, nor relied on."""
    ledger = _trial(tmp_path, "ledger.db")
    register_protocol(ledger, ledger.parent / "pro.yaml", actor="a")
    with monkeypatch.context() as older:
        for module in (evaluate, conclude):
            _lie(older, module, "method_of", lambda name: name.replace("/1", "/0"))
        run(ledger, None, actor="a")
        result_of(ledger, None, actor="a")
    report = replay_ledger(ledger)
    assert "numbers_differ" == report.record
    assert 1 < len(report.findings)
    for finding in report.findings:
        assert finding.where.endswith(" method")
        assert finding.expected.startswith("fairtrial-numbers/1, by which this version")
        assert finding.found.startswith("fairtrial-numbers/0: ")
