"""Decisions whose bytes are published in data/canonical.json, and a program that prints their ids.

Run alone it prints one line `CASE ID` for each, with the members of free-key objects put in by an
order that differs from process to process.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

from fairtrial.ledger.canonical import decode_event, encode_event, event_id
from fairtrial.ledger.events import Decision

CASES: Mapping[str, Mapping[str, object]] = {
    "plain": {},
    "keys sort by code point, not by UTF-16 unit": {"scores": {"\uffff": 1.0, "\U0001f600": 2.0}},
    "keys sort by code point": {"tokens": {"b": 1, "a": 2, "B": 3, "ä": 4, "_": 5, "a b": 6}},
    "float 1.0": {"scores": {"s": 1.0}},
    "float -0.0": {"scores": {"s": -0.0}},
    "float 0.0": {"scores": {"s": 0.0}},
    "float 1e21": {"scores": {"s": 1e21}},
    "float 1e16": {"scores": {"s": 1e16}},
    "float 1e15": {"scores": {"s": 1e15}},
    "float 1e-5": {"scores": {"s": 1e-5}},
    "float 1e-7": {"scores": {"s": 1e-7}},
    "float 0.1+0.2": {"scores": {"s": 0.1 + 0.2}},
    "float 5e-324": {"scores": {"s": 5e-324}},
    "float 2^53": {"scores": {"s": float(2**53)}},
    "float maximum": {"scores": {"s": 1.7976931348623157e308}},
    "integer 2^53-1": {"cost_nanousd": 2**53 - 1},
    "U+2028 unescaped": {"answer": "a\u2028b"},
    "composed e-acute": {"answer": "\u00e9"},
    "beyond the basic plane": {"unit": "\U0001f600"},
    "escaped quotation, backslash, LF, TAB": {"answer": 'a"b\\c\nd\te'},
    "slash and DEL's neighbours unescaped": {"answer": "</a>~\u00a0\u2030"},
    "null and false": {"flag": False, "scores": {"s": None}},
}


def build(values: Mapping[str, object]) -> Decision:
    """Returns the decision of a case."""
    given: dict[str, object] = {
        "experiment": "exp-1",
        "position": 1,
        "session": 1,
        "attempt": 1,
        "arm": "control",
        "unit": "unit-1",
        "replicate": 1,
        "status": "ok",
        "origin": "live",
    }
    for name, value in values.items():
        if isinstance(value, dict):
            # A set of texts has another order in each process.
            value = {key: value[key] for key in set(value)}
        given[name] = value
    return Decision(**given)  # type: ignore[arg-type]  # some cases are wrong on purpose


def main() -> None:
    """Prints the ids."""
    for name, values in CASES.items():
        data = encode_event(build(values))
        again = encode_event(decode_event(data))
        sys.stdout.write(f"{event_id(data)} {event_id(again)} {name}\n")


if __name__ == "__main__":
    main()
