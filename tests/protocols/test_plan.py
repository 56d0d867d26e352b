"""The frozen plan: order, looks, and its blob."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from pathlib import Path

import pytest

import fairtrial.protocols.plan as module
from fairtrial.ledger.errors import ProtocolError
from fairtrial.protocols.file import parse_protocol
from fairtrial.protocols.plan import (
    LookCut,
    Plan,
    Slot,
    build_plan,
    look_cuts,
    parse_plan,
    plan_lines,
    unit_order,
)
from fairtrial.protocols.units import parse_units

DEMO = Path(__file__).parents[2] / "examples" / "demo"


def demo_plan(name: str) -> tuple[Plan, tuple[float, ...]]:
    """The plan and looks of one of the two demonstrations."""
    data = (DEMO / f"{name}.yaml").read_bytes()
    protocol = parse_protocol(data, name=f"{name}.yaml", media="yaml")
    file = protocol.units.file
    units = parse_units(
        (DEMO / file).read_bytes(), protocol.units, name=file, seed=protocol.design.seed
    )
    repeats = {arm: item.repeats for arm, item in protocol.arms.items()}
    plan = build_plan(units.ids, units.clusters, repeats, seed=protocol.design.seed)
    return plan, protocol.looks.at


def small_plan(*, clusters: int = 11, size: int = 3, arms: tuple[str, ...] = ("A", "B")) -> Plan:
    """Equal clusters, one replicate."""
    ids = [f"u{cluster}.{unit}" for cluster in range(clusters) for unit in range(size)]
    names = [f"c{cluster}" for cluster in range(clusters) for _ in range(size)]
    return build_plan(ids, names, dict.fromkeys(arms, 1), seed=7)


def key(*parts: str) -> bytes:
    """The key of the run order, written out a second time."""
    return hashlib.sha256("\0".join(parts).encode("utf-8")).digest()


@pytest.mark.parametrize(
    ("name", "units", "clusters", "first"),
    [
        ("verified", 500, 12, LookCut(last=192, clusters=6, units=96)),
        ("pro", 730, 11, LookCut(last=1098, clusters=9, units=549)),
    ],
)
def test_demo_looks_fall_where_the_specification_says(
    name: str, units: int, clusters: int, first: LookCut
) -> None:
    """With seed 20261129 look 1 falls at 96 units (Verified) and at 549 pairs (Pro)."""
    plan, at = demo_plan(name)
    cuts = look_cuts(plan, at)
    assert cuts == [first, LookCut(last=2 * units, clusters=clusters, units=units)]


def test_order_is_that_of_the_specification() -> None:
    """Clusters, units in a cluster, and arms in a replicate are ranked by their keys."""
    ids = ["u1", "u2", "u3", "ü4", "u5"]
    clusters = ["x", "y", "x", "y", "z"]
    plan = build_plan(ids, clusters, {"A": 2, "B": 2}, seed=41507)
    seed = "41507"
    expected: list[tuple[str, str, str, int]] = []
    pairs = list(zip(ids, clusters, strict=True))
    for cluster in sorted(set(clusters), key=lambda c: key("fairtrial/1/cluster", seed, c)):
        members = [unit for unit, own in pairs if own == cluster]
        for unit in sorted(members, key=lambda u: key("fairtrial/1/unit", seed, cluster, u)):
            for replicate in (1, 2):
                expected.extend(
                    (unit, cluster, arm, replicate)
                    for arm in sorted(
                        "AB", key=lambda a: key("fairtrial/1/arm", seed, unit, str(replicate), a)
                    )
                )
    assert [tuple(slot)[1:] for slot in plan.slots()] == expected


def test_order_does_not_depend_on_the_order_of_the_file() -> None:
    """Rows may stand in any order: the same units have the same plan."""
    ids = [f"u{index}" for index in range(200)]
    clusters = [f"c{index % 17}" for index in range(200)]
    plan = build_plan(ids, clusters, {"A": 1, "B": 1}, seed=3)
    rows = list(zip(ids, clusters, strict=True))
    random.Random(20261129).shuffle(rows)
    names, groups = [row[0] for row in rows], [row[1] for row in rows]
    assert plan == build_plan(names, groups, {"B": 1, "A": 1}, seed=3)


def test_another_seed_gives_another_order() -> None:
    """The seed decides the order of clusters, of units and of arms."""
    ids = [f"u{index}" for index in range(40)]
    assert unit_order(ids, ids, seed=1) != unit_order(ids, ids, seed=2)
    assert unit_order(ids, ["c"] * 40, seed=1) != unit_order(ids, ["c"] * 40, seed=2)
    arms = [
        [
            slot.arm
            for slot in build_plan(["u"], ["u"], dict.fromkeys("ABCDEFGH", 1), seed=s).slots()
        ]
        for s in (1, 2)
    ]
    assert arms[0] != arms[1]


def test_arms_come_first_equally_often() -> None:
    """No arm is favoured by going first: 2,000 units, within five standard deviations."""
    ids = [f"u{index}" for index in range(2000)]
    plan = build_plan(ids, ids, {"A": 1, "B": 1}, seed=20261129)
    first = Counter(slot.arm for slot in plan.slots() if slot.position % 2 == 1)
    assert abs(first["A"] - 1000) < 112


def test_every_slot_stands_once() -> None:
    """Each unit meets each arm once in each planned replicate, also with unequal repeats."""
    plan = build_plan(["u1", "u2"], ["c", "c"], {"A": 3, "B": 1}, seed=1)
    found = Counter((slot.unit, slot.arm, slot.replicate) for slot in plan.slots())
    expected = [(unit, "A", n) for unit in ("u1", "u2") for n in (1, 2, 3)]
    expected += [(unit, "B", 1) for unit in ("u1", "u2")]
    assert found == Counter(expected)


def test_positions_count_from_one() -> None:
    """Position 1 is the first slot; 0 and one past the end are no positions."""
    plan = small_plan()
    slots = list(plan.slots())
    assert [slot.position for slot in slots] == list(range(1, plan.slot_count + 1))
    assert slots == [plan.slot(position) for position in range(1, plan.slot_count + 1)]
    for position in (0, -1, plan.slot_count + 1):
        with pytest.raises(IndexError, match="not within 1 to 66"):
            plan.slot(position)


@pytest.mark.parametrize(
    ("clusters", "share", "expected"),
    [
        (30, 0.1, 3),  # 0.1 * 30 is 3.0000000000000004 in floats
        (11, 0.75, 9),
        (12, 0.5, 6),
        (10, 0.3, 3),
        (100, 0.07, 7),  # 0.07 * 100 is 7.000000000000001
        (100, 0.29, 29),  # 0.29 * 100 is 28.999999999999996
        (3, 0.01, 1),
        (7, 1.0, 7),
    ],
)
def test_a_look_takes_the_ceiling_of_the_decimal_share(
    clusters: int, share: float, expected: int
) -> None:
    """Rounding of floats never adds a cluster to a look or takes one away."""
    plan = small_plan(clusters=clusters, size=2)
    cut = look_cuts(plan, [share])[0]
    assert cut == LookCut(last=4 * expected, clusters=expected, units=2 * expected)


def test_looks_end_with_whole_clusters() -> None:
    """All slots of a look's clusters lie up to its last position, and no other."""
    plan, _ = demo_plan("verified")
    for cut in look_cuts(plan, [0.2, 0.4, 0.9, 1.0]):
        inside = {slot.cluster for slot in plan.slots() if slot.position <= cut.last}
        beyond = {slot.cluster for slot in plan.slots() if slot.position > cut.last}
        assert len(inside) == cut.clusters
        assert not inside & beyond


def test_two_looks_on_one_cluster_are_refused() -> None:
    """Two looks that end with the same cluster are no two looks."""
    with pytest.raises(ProtocolError, match="same cluster") as caught:
        look_cuts(small_plan(clusters=3), [0.4, 0.5, 1.0], file="p.yaml")
    assert caught.value.problems[0].where == "looks.at"
    assert caught.value.file == "p.yaml"


def test_plan_blob_is_one_json_line_a_slot() -> None:
    """The blob holds unit, cluster, arm and replicate of each slot in run order."""
    plan = build_plan(["ü 1"], ["c"], {"A": 1}, seed=1)
    assert plan_lines(plan) == '{"unit":"ü 1","cluster":"c","arm":"A","replicate":1}\n'.encode()
    assert plan.slot(1) == Slot(1, "ü 1", "c", "A", 1)


def test_plan_blob_round_trips() -> None:
    """Reading a blob gives the plan that wrote it."""
    plan, _ = demo_plan("pro")
    assert plan == parse_plan(plan_lines(plan))
    ids = ["u\u2028x", 'a"b', "c\\d"]
    odd = build_plan(ids, ids, {"B": 1, "A": 3}, seed=9)
    assert odd == parse_plan(plan_lines(odd))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "no slot"),
        (["{}"], "line 1"),
        (['{"unit":"a","cluster":"c","arm":"A","replicate":1,"x":1}'], "line 1"),
        (['{"unit":"a","cluster":"c","arm":"A","replicate":1}', "["], "line 2"),
        (
            [
                '{"unit":"a","cluster":"c","arm":"A","replicate":1}',
                '{"unit":"b","cluster":"c","arm":"A","replicate":1}',
                '{"unit":"a","cluster":"c","arm":"B","replicate":1}',
            ],
            "unit 'a' comes twice",
        ),
        (
            [
                '{"unit":"a","cluster":"c","arm":"A","replicate":1}',
                '{"unit":"a","cluster":"d","arm":"B","replicate":1}',
            ],
            "unit 'a' comes twice",
        ),
        (
            [
                '{"unit":"a","cluster":"c","arm":"A","replicate":1}',
                '{"unit":"b","cluster":"d","arm":"A","replicate":1}',
                '{"unit":"e","cluster":"c","arm":"A","replicate":1}',
            ],
            "cluster 'c' comes twice",
        ),
    ],
)
def test_what_is_no_plan_blob_is_refused(lines: list[str], message: str) -> None:
    """A blob that isn't a plan, or whose units or clusters are torn apart, is a ValueError."""
    with pytest.raises(ValueError, match=message):
        parse_plan("".join(f"{line}\n" for line in lines).encode())


@pytest.mark.slow
def test_a_large_plan_is_quick_and_small() -> None:
    """200,000 slots: made in seconds at most, and under 10 bytes a slot beside the names."""
    ids = [f"unit-{index:06d}" for index in range(100_000)]
    clusters = [f"cluster-{index // 100}" for index in range(100_000)]
    start = time.perf_counter()
    plan = build_plan(ids, clusters, {"A": 1, "B": 1}, seed=7)
    again = parse_plan(plan_lines(plan))
    look_cuts(plan, [0.1, 0.5, 1.0])
    assert plan == again
    # About 1 s on the machine that it was written on; the limit allows for a busy one.
    assert time.perf_counter() - start < 10
    columns = (again.unit_of, again.arm_of, again.replicate_of)
    assert sum(column.itemsize for column in columns) <= 10


def test_all_lists_what_exists() -> None:
    """`__all__` is a tuple, and every name in it is there."""
    assert isinstance(module.__all__, tuple)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
