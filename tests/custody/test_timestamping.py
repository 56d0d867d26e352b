"""RFC 3161 time stamps of an authority that openssl plays."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fairtrial.custody.anchor_acts import checkpoint_ledger, request_stamp
from fairtrial.custody.timestamping import check_stamp, fetch_stamp, stamp_request
from fairtrial.custody.vouching import read_pins
from fairtrial.engine.session import run
from fairtrial.ledger.errors import RefusedError
from fairtrial.ledger.events import Decision

from .anchor_trial import ACTOR, AnchorTrial, make_trial
from .timestamp_authority import Authority, require_timestamps

pytestmark = pytest.mark.slow
NOTE = b"a signed note\n"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """An authority that stamps."""
    require_timestamps()
    return Authority(tmp_path_factory.mktemp("authority") / "one")


def test_stamp_says_when_and_by_whom(authority: Authority) -> None:
    """A stamp over the note holds, and names time, authority and policy."""
    before = datetime.now(UTC).replace(microsecond=0)
    stamp = check_stamp(authority.stamp(stamp_request(NOTE)), NOTE, authority.roots)
    assert before.strftime("%Y-%m-%dT%H:%M:%SZ") <= stamp.time
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", stamp.time)
    assert ("CN=Test time stamps", "1.2.3.4.1") == stamp[1:]


def test_stamp_over_something_else_is_refused(authority: Authority) -> None:
    """A stamp belongs to the bytes that it was made for."""
    token = authority.stamp(stamp_request(NOTE))
    for other in (NOTE + b"\n", NOTE[:-1], b""):
        with pytest.raises(RefusedError, match="doesn't hold"):
            check_stamp(token, other, authority.roots)


def test_authority_has_to_be_one_of_the_callers(authority: Authority, tmp_path: Path) -> None:
    """The certificates inside a stamp vouch for nothing."""
    stranger = Authority(tmp_path / "stranger")
    token = authority.stamp(stamp_request(NOTE))
    with pytest.raises(RefusedError, match="doesn't hold"):
        check_stamp(token, NOTE, stranger.roots)
    assert check_stamp(token, NOTE, stranger.roots + authority.roots).time


def test_certificate_has_to_be_for_time_stamps(authority: Authority, tmp_path: Path) -> None:
    """A good stamp doesn't hold by a root that issued a certificate for something else."""
    plain = Authority(tmp_path / "plain", extensions="plain")
    with pytest.raises(subprocess.CalledProcessError):
        # openssl itself refuses to stamp with such a certificate.
        plain.stamp(stamp_request(NOTE))
    token = authority.stamp(stamp_request(NOTE))
    with pytest.raises(RefusedError, match="doesn't hold"):
        check_stamp(token, NOTE, plain.roots)


def test_every_changed_byte_of_a_stamp_is_noticed(authority: Authority) -> None:
    """No changed byte gives another time; one that carries nothing may stay without effect."""
    token = authority.stamp(stamp_request(NOTE))
    stamp = check_stamp(token, NOTE, authority.roots)
    refused = 0
    for place in range(0, len(token), 7):
        changed = bytearray(token)
        changed[place] ^= 0x01
        try:
            assert stamp == check_stamp(bytes(changed), NOTE, authority.roots)
        except RefusedError:
            refused += 1
    assert refused > len(token) // 7 * 0.9


@pytest.mark.parametrize("token", [b"", b"no stamp", b"\x30\x00"])
def test_what_is_no_stamp_is_refused(authority: Authority, token: bytes) -> None:
    """Any other bytes are refused in words."""
    with pytest.raises(RefusedError, match="aren't a time stamp"):
        check_stamp(token, NOTE, authority.roots)


def test_refusal_of_an_authority_is_no_stamp(authority: Authority) -> None:
    """An answer that grants nothing is refused."""
    with pytest.raises(RefusedError):
        check_stamp(authority.stamp(b"no request"), NOTE, authority.roots)


def test_roots_are_certificates(authority: Authority) -> None:
    """A file without certificates is refused before anything is believed."""
    token = authority.stamp(stamp_request(NOTE))
    for roots in (b"", b"no certificate"):
        with pytest.raises(RefusedError, match="certificates"):
            check_stamp(token, NOTE, roots)


@pytest.fixture
def url(authority: Authority) -> Iterator[str]:
    """The address of the authority on the loopback; /old answers with an older stamp."""
    old = authority.stamp(stamp_request(NOTE))

    class Handler(BaseHTTPRequestHandler):
        """Answers requests with stamps."""

        def do_POST(self) -> None:
            """Stamps what was posted."""
            query = self.rfile.read(int(self.headers["Content-Length"]))
            body = old if self.path == "/old" else authority.stamp(query)
            self.send_response(500 if self.path == "/broken" else 200)
            media = "text/html" if self.path == "/page" else "application/timestamp-reply"
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keeps the tests quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_stamp_is_fetched_and_verified(authority: Authority, url: str) -> None:
    """What comes over HTTP is verified before it is returned."""
    token = fetch_stamp(url, NOTE, authority.roots)
    assert check_stamp(token, NOTE, authority.roots).time


@pytest.mark.parametrize(
    ("path", "word"), [("/old", "Nonce"), ("/broken", "500"), ("/page", "text/html")]
)
def test_other_answers_are_no_stamp(authority: Authority, url: str, path: str, word: str) -> None:
    """A stamp of another request, an error and a page are refused."""
    with pytest.raises(RefusedError) as caught:
        fetch_stamp(url + path, NOTE, authority.roots)
    assert word in caught.value.found


@pytest.fixture
def trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, authority: Authority) -> AnchorTrial:
    """A trial whose keys, and the authority's certificates, are at hand."""
    made = make_trial(tmp_path, monkeypatch)
    made.key("lab")
    roots = tmp_path / "roots.pem"
    roots.write_bytes(authority.roots)
    made.setenv(FAIRTRIAL_KEY="lab", FAIRTRIAL_TSA_ROOTS=str(roots))
    return made


def test_required_stamp_is_asked_for_at_every_act(
    trial: AnchorTrial, authority: Authority, url: str, tmp_path: Path
) -> None:
    """With an address each act is stamped before the next, and the freeze before any outcome."""
    trial.setenv(FAIRTRIAL_TSA=url)
    trial.register("{anchor: timestamp}")
    trial.finish()
    anchors = trial.anchors()
    assert {"timestamp"} == {anchor.level for _, anchor in anchors}
    first = next(seq for seq, event in enumerate(trial.events()) if isinstance(event, Decision))
    assert (3, 3) == (anchors[0][0], anchors[0][1].basis.size)
    assert anchors[0][0] < first
    unknown = trial.replay()
    assert ("intact", "no") == (unknown.record, unknown.anchored)
    report = trial.replay(pins=read_pins(stamp_roots=tmp_path / "roots.pem"))
    assert ("intact", report.content) == (report.record, report.vouched["timestamp"])
    assert len(anchors) == len(report.anchored_by)
    assert re.match(
        r"time stamp of \d{4}-\d\d-\d\dT.*Z by CN=Test time stamps, embedded as entry 3"
        r" \(entries 0-2\)$",
        report.anchored_by[0],
    )


def test_stamp_may_come_by_files(trial: AnchorTrial, authority: Authority, tmp_path: Path) -> None:
    """Without an address the run waits until a stamp that was fetched elsewhere is embedded."""
    trial.register("{anchor: timestamp}")
    assert ["checkpoint"] == [anchor.level for _, anchor in trial.anchors()]
    with pytest.raises(RefusedError, match="wants a timestamp") as caught:
        run(trial.ledger, None, actor=ACTOR)
    assert "--token" in caught.value.todo
    note = request_stamp(trial.ledger, None, tmp_path / "stamp.tsq")
    token = tmp_path / "stamp.tsr"
    token.write_bytes(authority.stamp((tmp_path / "stamp.tsq").read_bytes()))
    other = next(path for path in trial.notes if path != note)
    with pytest.raises(RefusedError, match="doesn't hold"):
        checkpoint_ledger(trial.ledger, actor=ACTOR, note=other, token=token)
    done = checkpoint_ledger(trial.ledger, actor=ACTOR, note=note, token=token)
    assert done.event is not None
    assert "timestamp" == done.event.level
    trial.finish()


def test_stamp_by_a_stranger_is_told_and_counts_for_nothing(
    trial: AnchorTrial, url: str, tmp_path: Path
) -> None:
    """Whoever replays brings the certificates; an authority that they don't know isn't believed."""
    trial.setenv(FAIRTRIAL_TSA=url)
    trial.register("{anchor: timestamp}")
    stranger = Authority(tmp_path / "stranger")
    other = tmp_path / "other.pem"
    other.write_bytes(stranger.roots)
    report = trial.replay(pins=read_pins(stamp_roots=other))
    assert ("intact", "no") == (report.record, report.anchored)
    assert ["stamp_refused"] == [one.code for one in report.findings]
