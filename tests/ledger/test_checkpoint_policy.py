"""Trust policies: the lines that are taken, what they mean, and each line that isn't."""

from __future__ import annotations

from itertools import combinations

import pytest

from fairtrial.ledger.checkpoint import SigningKey
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.note import VerifierKey, format_vkey
from fairtrial.ledger.policy import parse_policy


def witness(number: int) -> VerifierKey:
    """Returns a witness's key."""
    return SigningKey(bytes([number]) * 32).verifier(f"witness.example/w{number}", cosigner=True)


LOG = SigningKey(bytes(32)).verifier("log.example/one")
W = [witness(number) for number in range(1, 7)]
V = [format_vkey(key) for key in W]
EXAMPLE = f"""
# Two of three here and any of three there.
log {format_vkey(LOG)} https://log.example/
  witness X1 {V[0]}
witness\tX2\t{V[1]}  https://two.example/
witness X3 {V[2]}
group X 2 X1 X2 X3

witness Y1 {V[3]}
witness Y2 {V[4]}
witness Y3 {V[5]}
group Y any Y1 Y2 Y3
group both all X Y
quorum both
"""


def test_quorum_of_groups_is_met_by_just_these_sets() -> None:
    """Of all 64 subsets of six witnesses those with two X and a Y agree."""
    policy = parse_policy(EXAMPLE.encode())
    assert (LOG,) == policy.logs
    assert {"log.example/one": "https://log.example/", "X2": "https://two.example/"} == policy.urls
    for count in range(7):
        for some in combinations(range(6), count):
            expected = sum(one < 3 for one in some) >= 2 and any(one >= 3 for one in some)
            assert expected == policy.is_met({W[one] for one in some})


def test_key_of_a_stranger_adds_nothing() -> None:
    """Only the keys of the policy count."""
    policy = parse_policy(EXAMPLE.encode())
    assert not policy.is_met({W[0], W[3], LOG, witness(9)})


def test_single_witness_and_none_can_be_the_quorum() -> None:
    """A quorum may be one witness, or nobody."""
    one = parse_policy(f"witness X1 {V[0]}\nquorum X1".encode())
    assert one.is_met({W[0]})
    assert not one.is_met(set())
    nobody = parse_policy(b"quorum none\n")
    assert nobody.is_met(set())
    assert not nobody.has_quorum()


def test_names_are_octets() -> None:
    """Names may hold any octet above ASCII, UTF-8 or not."""
    policy = parse_policy(b"witness \xff " + V[0].encode() + b"\nquorum \xff\n")
    assert policy.is_met({W[0]})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (f"witness X1 {V[0]}", None),
        (f"witness X1 {V[0]}\nquorum X1\nquorum X1", 3),
        ("quorum X1", 1),
        (f"witness X1 {V[0]}\nwitness X1 {V[1]}\nquorum X1", 2),
        (f"witness X1 {V[0]}\nwitness X2 {V[0]}\nquorum X1", 2),
        (f"witness none {V[0]}\nquorum none", 1),
        (f"witness X1 {V[0]}\ngroup G 2 X1\nquorum G", 2),
        (f"witness X1 {V[0]}\ngroup G 0 X1\nquorum G", 2),
        (f"witness X1 {V[0]}\ngroup G 01 X1\nquorum G", 2),
        (f"witness X1 {V[0]}\ngroup G any\nquorum G", 2),
        (f"witness X1 {V[0]}\ngroup G any X1 X1\nquorum G", 2),
        (f"witness X1 {V[0]}\ngroup G any X1\ngroup H any X1\nquorum H", 3),
        (f"witness X1 {V[0]}\ngroup G any G\nquorum G", 2),
        (f"witness X1 {V[0]}\ngroup X1 any X1\nquorum X1", 2),
        (f"witness X1 {V[0]}\ngroup G any none\nquorum G", 2),
        (f"log {V[0]}\nquorum none", 1),
        (f"witness X1 {format_vkey(LOG)}\nquorum X1", 1),
        (f"log {format_vkey(LOG)}\nlog {format_vkey(LOG)}\nquorum none", 2),
        ("logs x\nquorum none", 1),
        ("log\nquorum none", 1),
        ("quorum none none", 1),
        ("quorum none\r", 1),
        ("\x7f\nquorum none", 1),
        ("\u00a0quorum none", 1),
    ],
)
def test_line_that_isnt_acceptable_is_named(text: str, line: int | None) -> None:
    """A policy that can't be trusted is refused, with its line."""
    with pytest.raises(RefusedError) as caught:
        parse_policy(text.encode())
    assert line is None or f"policy, line {line}" == caught.value.where


def test_the_same_key_under_another_name_is_a_duplicate() -> None:
    """Two names don't make one witness two."""
    other = format_vkey(W[0]._replace(name="other.example/w"))
    with pytest.raises(RefusedError, match="witness already"):
        parse_policy(f"witness A {V[0]}\nwitness B {other}\ngroup G 2 A B\nquorum G\n".encode())


def test_deep_nesting_has_a_limit() -> None:
    """Groups in groups are taken up to a number that no evaluation stumbles over."""
    lines = [f"witness w {V[0]}", "group g0 any w"]
    lines += [f"group g{n} any g{n - 1}" for n in range(1, 256)]
    assert parse_policy("\n".join([*lines, "quorum g255"]).encode()).is_met({W[0]})
    with pytest.raises(RefusedError, match="256 groups"):
        parse_policy("\n".join([*lines, "group g256 any g255", "quorum g256"]).encode())


def test_thirty_two_of_each_fit() -> None:
    """The size that every implementation should take."""
    keys = [SigningKey(bytes([9, number]) * 16) for number in range(32)]
    lines = [f"log {format_vkey(key.verifier(f'l{n}'))}" for n, key in enumerate(keys)]
    lines += [
        f"witness w{n} {format_vkey(key.verifier(f'w{n}', cosigner=True))}"
        for n, key in enumerate(keys)
    ]
    lines += [f"group g{n} any w{n}" for n in range(32)]
    lines += ["group all all " + " ".join(f"g{n}" for n in range(32)), "quorum all"]
    policy = parse_policy("\n".join(lines).encode())
    everyone = set(policy.witnesses.values())
    assert policy.is_met(everyone)
    assert not policy.is_met(everyone - {policy.witnesses["w7"]})
