"""A witness: what it cosigns, each answer that it gives, and how a ledger asks it over HTTP."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairtrial.custody.keys import Key, create_key
from fairtrial.custody.witness_server import WitnessServer
from fairtrial.custody.witnessing import Answer, Witness, ask_witness, with_lines
from fairtrial.ledger.checkpoint import (
    Checkpoint,
    SigningKey,
    open_checkpoint,
    sign_checkpoint,
    verify_note,
)
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.merkle import EMPTY_ROOT, leaf_hash, root_of
from fairtrial.ledger.note import Note, SignatureLine, format_note, parse_lines, parse_note
from fairtrial.ledger.proofs import (
    ConsistencyProof,
    consistency_spans,
    format_consistency,
    span_roots,
)

LOG_KEY = SigningKey(b"l" * 32)
LOG = LOG_KEY.verifier("log.example/one")
LEAVES = [leaf_hash(bytes([number])) for number in range(40)]
FORK = [*LEAVES[:5], *(leaf_hash(b"fork" + bytes([number])) for number in range(35))]
TIME = 1_800_000_000


def checkpoint(size: int, leaves: list[bytes] = LEAVES, key: SigningKey = LOG_KEY) -> bytes:
    """Returns a signed head of the log."""
    return sign_checkpoint(Checkpoint(LOG.name, size, root_of(leaves[:size])), key)


def hashes(old: int, size: int, leaves: list[bytes] = LEAVES) -> tuple[bytes, ...]:
    """Returns a consistency proof."""
    return span_roots(leaves, consistency_spans(old, size))


def request(old: int, size: int, leaves: list[bytes] = LEAVES) -> bytes:
    """Returns the request to cosign a head that grew from an old size."""
    proof = ConsistencyProof(old, hashes(old, size, leaves), checkpoint(size, leaves))
    return format_consistency(proof)


@pytest.fixture
def key(tmp_path: Path) -> Key:
    """A witness's key."""
    home = {"FAIRTRIAL_KEYS": str(tmp_path / "keys")}
    return create_key("w1", "witness", environment=home, signs_as="witness.example/w1")


@pytest.fixture
def witness(key: Key, tmp_path: Path) -> Witness:
    """A witness that knows one log and has seen nothing."""
    return Witness(key, [LOG], tmp_path / "seen")


def ask(witness: Witness, body: bytes) -> Answer:
    """Asks at the time of the tests."""
    return witness.add_checkpoint(body, time=TIME)


def test_head_that_grows_is_cosigned(witness: Witness, key: Key) -> None:
    """Each answer is a cosignature line that verifies beside the log's own."""
    old = 0
    for size in (1, 4, 5, 5, 31, 40):
        answer = ask(witness, request(old, size))
        assert 200 == answer.status
        note = with_lines(checkpoint(size), parse_lines(answer.body.decode()))
        opened = open_checkpoint(note, log=LOG, cosigners=[key.verifier()])
        assert [None, TIME] == [one.time for one in opened.signatures]
        old = size


def test_empty_log_can_be_cosigned(witness: Witness) -> None:
    """Size 0 goes with the empty root, and anything may grow from it."""
    assert 200 == ask(witness, request(0, 0)).status
    assert 200 == ask(witness, request(0, 3)).status


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 1\n",
        b"old x\n\n" + checkpoint(1),
        b"old 01\n\n" + checkpoint(1),
        b"old 0\nAAAA\n\n" + checkpoint(1),
        b"old 0\n\nno note\n",
        b"old 0\n\n" + checkpoint(1)[:-1],
        b"old 2\n\n" + checkpoint(1),
    ],
)
def test_malformed_request_is_400(witness: Witness, body: bytes) -> None:
    """What isn't a request, or goes backwards by its own words, is malformed."""
    assert 400 == ask(witness, body).status


def test_signed_nonsense_is_400(witness: Witness) -> None:
    """A note of the log that isn't a checkpoint isn't cosigned."""
    text = f"{LOG.name}\n01\nAAAA\n"
    note = format_note(Note(text, (LOG_KEY.sign_note(text, LOG.name),)))
    assert 400 == ask(witness, b"old 0\n\n" + note).status


def test_unknown_origin_is_404(witness: Witness) -> None:
    """A log that the witness wasn't told of isn't cosigned, whoever signed."""
    note = sign_checkpoint(Checkpoint("other.example/x", 1, bytes(32)), LOG_KEY)
    assert 404 == ask(witness, b"old 0\n\n" + note).status


def test_head_without_known_signature_is_403(witness: Witness) -> None:
    """Another key under the log's name, or a broken signature, is no signature."""
    other = checkpoint(1, key=SigningKey(b"x" * 32))
    broken = SignatureLine(LOG.name, LOG.key_id(), bytes(64))
    spoiled = format_note(Note(parse_note(checkpoint(1)).text, (broken,)))
    for note in (other, spoiled):
        assert 403 == ask(witness, b"old 0\n\n" + note).status


def test_other_old_size_is_409_with_the_size(witness: Witness) -> None:
    """The answer names the size that the witness has, in the media type of the protocol."""
    assert Answer(409, b"0\n", "text/x.tlog.size") == ask(witness, request(3, 5))
    ask(witness, request(0, 7))
    for old, size in ((0, 7), (5, 9), (0, 40), (8, 9)):
        assert Answer(409, b"7\n", "text/x.tlog.size") == ask(witness, request(old, size))


def test_smaller_head_is_never_cosigned(witness: Witness) -> None:
    """After a larger head no request leads to a smaller one."""
    ask(witness, request(0, 7))
    for old in range(8):
        for size in range(7):
            body = b"old %d\n\n" % old + checkpoint(size)
            assert ask(witness, body).status in (400, 409)


def test_fork_is_422_and_kept_as_evidence(witness: Witness, tmp_path: Path) -> None:
    """A head that contradicts the record isn't cosigned; the log's signed word for it is kept."""
    ask(witness, request(0, 7))
    fork = request(7, 9, FORK)
    assert 422 == ask(witness, fork).status
    (kept,) = (tmp_path / "seen").glob("*.evidence")
    assert checkpoint(9, FORK) == kept.read_bytes()
    assert 200 == ask(witness, request(7, 9)).status


def test_equal_size_with_another_root_is_422(witness: Witness) -> None:
    """Two heads of one size are never both cosigned."""
    ask(witness, request(0, 7))
    assert 422 == ask(witness, b"old 7\n\n" + checkpoint(7, FORK)).status


@pytest.mark.parametrize(
    "body",
    [
        b"old 0\n" + b"A" * 43 + b"=\n\n" + checkpoint(3),
        b"old 0\n\n" + sign_checkpoint(Checkpoint(LOG.name, 0, bytes(32)), LOG_KEY),
    ],
    ids=["proof from 0", "root of size 0"],
)
def test_proof_from_nothing_and_false_empty_root_are_422(witness: Witness, body: bytes) -> None:
    """From size 0 there is nothing to prove, and the empty tree has one root."""
    assert EMPTY_ROOT != bytes(32)
    assert 422 == ask(witness, body).status


def test_bad_proof_is_422(witness: Witness) -> None:
    """A proof that is cut, empty, or of other leaves doesn't verify."""
    ask(witness, request(0, 6))
    good = hashes(6, 13)
    for bad in ((), good[:-1], good[1:], (*good, good[0]), (bytes(32), *good[1:])):
        body = format_consistency(ConsistencyProof(6, bad, checkpoint(13)))
        assert 422 == ask(witness, body).status
    equal = format_consistency(ConsistencyProof(6, good, checkpoint(6)))
    assert 422 == ask(witness, equal).status


def test_record_outlives_the_process(witness: Witness, key: Key, tmp_path: Path) -> None:
    """A second witness over the same folder knows what the first one cosigned."""
    ask(witness, request(0, 7))
    again = Witness(key, [LOG], tmp_path / "seen")
    assert 409 == ask(again, request(0, 5)).status
    assert 200 == ask(again, request(7, 8)).status


def test_record_is_written_before_the_answer(witness: Witness, tmp_path: Path) -> None:
    """Where the record can't be kept there is no cosignature."""
    ask(witness, request(0, 7))
    (record,) = (tmp_path / "seen").glob("*.json")
    record.write_bytes(b"{")
    with serve(witness) as server, pytest.raises(RefusedError, match="503"):
        ask_witness(server.url, checkpoint(8), witness.key.verifier(), lambda old: hashes(old, 8))


def test_of_rival_heads_one_is_cosigned(witness: Witness) -> None:
    """Many requests at once from one old size: one size or root wins, the others are refused."""
    ask(witness, request(0, 5))
    rivals = [request(5, size, leaves) for size in range(6, 20) for leaves in (LEAVES, FORK)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda body: ask(witness, body).status, rivals))
    assert 1 == answers.count(200)
    assert {200, 409} == set(answers)


@contextmanager
def serve(witness: Witness) -> Generator[WitnessServer]:
    """Serves a witness at a free port of the loopback address."""
    server = WitnessServer(witness, host="127.0.0.1", port=0, clock=lambda: TIME)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_witness_is_asked_over_http(witness: Witness, key: Key) -> None:
    """Whatever it has seen before, the client finds out the size and gets a line."""
    with serve(witness) as server:
        for size in (3, 3, 17, 40):
            note = checkpoint(size)
            line = ask_witness(
                server.url + "/",
                note,
                key.verifier(),
                lambda old, size=size: hashes(old, size),  # type: ignore[misc]  # bound per turn
            )
            signed = verify_note(parse_note(with_lines(note, [line])), [LOG, key.verifier()])
            assert {LOG, key.verifier()} == {one.key for one in signed}


@pytest.mark.parametrize(
    ("note", "word"),
    [
        (checkpoint(9, FORK), "grow"),
        (checkpoint(5), "7 entries already"),
        (sign_checkpoint(Checkpoint("other.example/x", 9, bytes(32)), LOG_KEY), "doesn't know"),
        (checkpoint(9, key=SigningKey(b"x" * 32)), "no key"),
    ],
)
def test_refusal_over_http_says_why(witness: Witness, key: Key, note: bytes, word: str) -> None:
    """Each status is told in words."""
    ask(witness, request(0, 7))
    with serve(witness) as server, pytest.raises(RefusedError, match="didn't cosign") as caught:
        ask_witness(server.url, note, key.verifier(), lambda old: hashes(old, 9, FORK))
    assert word in caught.value.found


def test_line_of_another_witness_is_not_taken(witness: Witness) -> None:
    """Only a line that verifies under the expected key counts."""
    stranger = SigningKey(b"y" * 32).verifier("witness.example/w1", cosigner=True)
    with serve(witness) as server, pytest.raises(RefusedError, match="no known key"):
        ask_witness(server.url, checkpoint(3), stranger, lambda old: hashes(old, 3))


def test_witness_of_the_first_version_is_understood(key: Key) -> None:
    """A 409 that names the size that was asked from means another root of that size."""

    class Old(Witness):
        """A witness that answers as version 1.0.0 does."""

        def add_checkpoint(self, body: bytes, *, time: int) -> Answer:
            """Names the same size again."""
            return Answer(409, b"5\n", "text/x.tlog.size")

    with (
        serve(Old(key, [LOG], Path("unused"))) as server,
        pytest.raises(RefusedError, match="didn't cosign") as caught,
    ):
        ask_witness(server.url, checkpoint(5), key.verifier(), lambda old: ())
    assert "another head of this size" in caught.value.found


def test_nobody_there_is_said(key: Key) -> None:
    """An address without a server, and what is no address, are refused in words."""
    for url in ("http://127.0.0.1:1", "ftp://127.0.0.1", "not an address", "http://127.0.0.1:x"):
        with pytest.raises(RefusedError):
            ask_witness(url, checkpoint(3), key.verifier(), lambda old: ())


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/add-checkpoint", {}, 405),
        ("POST", "/other", {"Content-Length": "0"}, 404),
        ("POST", "/add-checkpoint", {"Content-Length": "99999999"}, 413),
        ("POST", "/add-checkpoint", {"Content-Length": "-1"}, 413),
        ("POST", "/add-checkpoint", {"Content-Length": "9" * 5000}, 413),
        ("POST", "/add-checkpoint", {"Transfer-Encoding": "chunked"}, 413),
    ],
)
def test_server_has_one_call(
    witness: Witness, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    """Anything but a POST of a sized body to add-checkpoint is turned away unread."""
    with serve(witness) as server:
        connection = http.client.HTTPConnection(*server.server_address[:2], timeout=5)  # type: ignore[arg-type]  # host and port of an IPv4 address
        connection.putrequest(method, path)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        assert status == connection.getresponse().status
        connection.close()


def test_lines_replace_older_ones_of_the_same_key(key: Key) -> None:
    """A note holds each key's line once, the newest; others stay."""
    note = checkpoint(3)
    text = parse_note(note).text
    lines = [key.signer.cosign(text, key.signs_as, time=time) for time in (1, 2)]
    other = SignatureLine("other.example/x", b"abcd", b"kept")
    whole = with_lines(with_lines(with_lines(note, [other]), lines[:1]), lines[1:])
    assert [LOG.name, other.name, key.signs_as] == [line.name for line in parse_note(whole).lines]
    assert lines[1] == parse_note(whole).lines[-1]
