"""docs/protocol.md has a row for every field that the code knows, and examples that are taken."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from fairtrial.drivers.answer import parse_mapping
from fairtrial.drivers.answer_fields import ANSWER_KEYS
from fairtrial.drivers.port import Job, job_mapping
from fairtrial.engine.assumptions_file import FILE, parse_assumptions
from fairtrial.engine.checking import check_plan
from fairtrial.ledger.protocol import encode_resolved
from fairtrial.protocols.fields import PROTOCOL
from fairtrial.protocols.file import parse_supported
from fairtrial.protocols.records import MapOf, Record

from .protocol_fields import Known, known_fields

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "protocol.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("` "): [cell.strip() for cell in cells[1:]]
    for line in re.findall(r"^\| (`.*) \|$", TEXT, flags=re.MULTILINE)
    if (cells := line.split(" | "))
}
FIELDS = known_fields()
DRIVERS = TEXT.partition("## What a driver is asked and answers")[2].partition("\n## ")[0]
SMALL, *LATER = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
ASSUMED = [text for text in LATER if text.startswith("assumptions:")]
EXAMPLES = [text for text in LATER if text not in ASSUMED]


def test_the_table_has_the_fields_of_the_code_and_no_other() -> None:
    """A field without a row, or a row without a field, is refused here."""
    assert {field.path for field in FIELDS} == set(ROWS)


@pytest.mark.parametrize("field", FIELDS, ids=lambda field: field.path)
def test_a_row_has_default_words_and_class(field: Known) -> None:
    """`-` is for required fields alone, a default is that of the code, no choice is left out."""
    kind, default, meaning, _refused, classed = ROWS[field.path]
    if field.default is None:
        assert "-" == default
    elif field.default:
        assert default.partition(";")[0] == field.default
    else:
        assert default not in ("", "-", "none")
    assert set(field.words) <= set(re.findall(r"\w+", kind))
    assert meaning
    assert classed in ("F", "M", "C", "T")


def test_every_field_can_be_described_where_it_is_missing() -> None:
    """A message about a field has something to say for `expected`."""
    assert [] == [field.path for field in FIELDS if field.expected in ("", "a value")]


def test_required_sections_are_named() -> None:
    """The sentence about what has to be there is that of the code."""
    sentence = re.findall(r"A file has to have (.*?)\.\n", TEXT, flags=re.DOTALL)[0]
    required = {name for name, entry in PROTOCOL.fields.items() if entry.is_required}
    assert required == set(re.findall(r"`(\w+)`", sentence))


def _merged(example: str) -> bytes:
    """Returns the small protocol with the sections of an example in place of its own."""
    import io

    yaml: Any = YAML(typ="safe", pure=True)
    out = io.BytesIO()
    yaml.dump({**yaml.load(SMALL), **yaml.load(example)}, out)
    return out.getvalue()


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_is_taken_and_changes_the_plan(example: str) -> None:
    """What a reader copies is accepted and carried out by this version."""
    small = parse_supported(SMALL.encode(), name="small", media="yaml")
    merged = parse_supported(_merged(example), name="example", media="yaml")
    assert encode_resolved(small) != encode_resolved(merged)


@pytest.mark.parametrize(("fewer", "is_refused"), [(0, False), (10, True)])
def test_smallest_plan_takes_as_many_units_as_are_said(
    tmp_path: Path, fewer: int, is_refused: bool
) -> None:
    """With the tickets and customers of the text it has its power, with a tenth fewer it hasn't."""
    said = re.search(r"takes about (\d+) tickets of (\d+) customers", TEXT)
    assert said is not None
    tickets, customers = map(int, said.groups())
    each = tickets // customers
    rows = [f"t{c}-{i},c{c}" for c in range(customers - fewer) for i in range(each)]
    (tmp_path / "units.csv").write_text("\n".join(["ticket,customer", *rows]) + "\n")
    outcomes = [f"{row.partition(',')[0]},1" for row in rows]
    for name in ("old.csv", "new.csv"):
        (tmp_path / name).write_text("\n".join(["ticket,solved", *outcomes]) + "\n")
    (tmp_path / "protocol.yaml").write_text(SMALL)
    found = check_plan(tmp_path / "protocol.yaml").design.power
    assert is_refused == bool(found.refused)


def test_what_a_driver_is_asked_and_answers_is_said() -> None:
    """The job and the answer that are shown are those of the code, and every key has a word."""
    job, answer = (
        json.loads(text) for text in re.findall(r"```json\n(.*?)```", DRIVERS, re.DOTALL)
    )
    asked = Job(experiment="small", arm="B", unit="T-17", replicate=1, attempt=1, seed="1")
    assert list(job_mapping(asked)) == list(job)
    said = parse_mapping(answer)
    assert ("ok", 2_100_000, "m-2") == (said.status, said.cost_nanousd, said.served_model)
    assert {"input_uncached": 300, "input_cached": 512, "output": 40} == said.tokens
    words = set(re.findall(r"`(\w+)`", DRIVERS)) | {"v"}
    assert set(ANSWER_KEYS) | {"input_total", "input_cached", "input_uncached"} <= words
    assert {"kind", "message", "retry"} <= words


def _paths(record: Record, before: str = "") -> set[str]:
    """Returns the dotted names of a record's fields, of parts too."""
    found: set[str] = set()
    for name, entry in record.fields.items():
        shape = entry.shape.value if isinstance(entry.shape, MapOf) else entry.shape
        found |= {f"{before}{name}"}
        if isinstance(shape, Record):
            found |= _paths(shape, f"{name}." if name == "level" else "")
    return found


def test_the_file_of_assumptions_is_taken_and_each_field_is_said() -> None:
    """The example goes with the example of a saving; every field has a word of its own."""
    saving = next(text for text in EXAMPLES if "saving: {endpoint" in text)
    protocol = parse_supported(_merged(saving), name="saving", media="yaml")
    (example,) = ASSUMED
    found = parse_assumptions(example.encode(), protocol, name="assume.yaml", media="yaml")
    assert found.saving is not None
    section = TEXT.partition("## Assumptions of a simulation")[2]
    assert _paths(FILE) - {"level"} <= set(re.findall(r"`([a-z.]+)`", section))
