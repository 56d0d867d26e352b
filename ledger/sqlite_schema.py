"""The schema of a SQLite ledger, as text that never changes within a format version.

Leaves reading and writing to `sqlite.py`.

Rules:
- The row is (seq, leaf, entry); the slot's columns are generated from the entry and can't disagree.
- Triggers stop accidents: entries out of order, off the chain, in a taken slot, changed or deleted,
  `INSERT OR REPLACE` included. Against another program only hashes help.
- The views are for people (sqlite-utils, Datasette); no number of ours is computed from them.
"""

from __future__ import annotations

__all__ = ("APPLICATION_ID", "CHAIN_MESSAGE", "SCHEMA", "SLOT_MESSAGE", "USER_VERSION")

APPLICATION_ID = 1179931244
USER_VERSION = 1

CHAIN_MESSAGE = "the entry does not follow the last one"
SLOT_MESSAGE = "the slot is taken"

_TABLE = """\
CREATE TABLE entry (
 seq INTEGER PRIMARY KEY CHECK (seq>=0),
 leaf BLOB NOT NULL CHECK (typeof(leaf)='blob' AND length(leaf)=32),
 entry TEXT NOT NULL CHECK (typeof(entry)='text' AND length(CAST(entry AS BLOB))<=65535),
 experiment TEXT NOT NULL AS (json_extract(entry,'$.event.experiment')) VIRTUAL,
 position INTEGER NOT NULL AS (json_extract(entry,'$.event.position')) VIRTUAL,
 kind TEXT NOT NULL AS (substr(json_extract(entry,'$.event.kind'),1,instr(json_extract(entry,'$.event.kind'),'/')-1)) VIRTUAL,
 number INTEGER NOT NULL AS (json_extract(entry,'$.event.number')) VIRTUAL,
 UNIQUE (experiment,position,kind,number))"""  # noqa: E501 - the text of the format's description

# The header of an entry has one form, so that its place is a prefix and no JSON need be parsed.
_NEXT = """\
CREATE TRIGGER entry_next BEFORE INSERT ON entry
WHEN NEW.seq IS NOT coalesce((SELECT max(seq)+1 FROM entry),0)
BEGIN SELECT RAISE(ABORT,'the entry does not follow the last one'); END"""

_CHAIN = """\
CREATE TRIGGER entry_chain BEFORE INSERT ON entry
WHEN instr(NEW.entry,
 '{"v":1,"ledger":"'||coalesce((SELECT substr(entry,18,32) FROM entry WHERE seq=NEW.seq-1),substr(NEW.entry,18,32))
 ||'","seq":'||NEW.seq
 ||',"prev":"'||coalesce((SELECT lower(hex(leaf)) FROM entry WHERE seq=NEW.seq-1),lower(hex(zeroblob(32))))
 ||'","time":"') IS NOT 1
BEGIN SELECT RAISE(ABORT,'the entry does not follow the last one'); END"""  # noqa: E501 - one expression

_SLOT = """\
CREATE TRIGGER entry_slot BEFORE INSERT ON entry
WHEN EXISTS (SELECT 1 FROM entry WHERE experiment=NEW.experiment AND position=NEW.position
 AND kind=NEW.kind AND number=NEW.number)
BEGIN SELECT RAISE(ABORT,'the slot is taken'); END"""

_NO_UPDATE = """\
CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry
BEGIN SELECT RAISE(ABORT,'an entry is never changed'); END"""

_NO_DELETE = """\
CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry
BEGIN SELECT RAISE(ABORT,'an entry is never deleted'); END"""

_OUTCOMES = """\
CREATE VIEW outcomes AS SELECT
 seq,
 json_extract(entry,'$.time') AS time,
 experiment,
 position,
 json_extract(entry,'$.event.arm') AS arm,
 json_extract(entry,'$.event.unit') AS unit,
 json_extract(entry,'$.event.replicate') AS replicate,
 json_extract(entry,'$.event.status') AS status,
 json_extract(entry,'$.event.code') AS code,
 json_extract(entry,'$.event.scores.passed') AS passed,
 json_extract(entry,'$.event.scores.score') AS score,
 json_extract(entry,'$.event.scores') AS scores,
 json_extract(entry,'$.event.flag') AS flag,
 json_extract(entry,'$.event.answer') AS answer,
 json_extract(entry,'$.event.cost_nanousd')/1e9 AS cost_usd,
 json_extract(entry,'$.event.incurred_nanousd')/1e9 AS incurred_usd,
 json_extract(entry,'$.event.tokens') AS tokens,
 json_extract(entry,'$.event.duration_ms') AS duration_ms,
 json_extract(entry,'$.event.requested_model') AS requested_model,
 json_extract(entry,'$.event.served_model') AS served_model,
 json_extract(entry,'$.event.origin') AS origin,
 json_extract(entry,'$.event.session') AS session,
 json_extract(entry,'$.event.attempt') AS attempt
FROM entry WHERE kind='decision'"""

_LOOKS = """\
CREATE VIEW looks AS SELECT
 entry.seq,
 json_extract(entry.entry,'$.time') AS time,
 entry.experiment,
 entry.number AS look,
 json_extract(entry.entry,'$.event.last') AS last,
 json_extract(entry.entry,'$.event.units') AS units,
 json_extract(entry.entry,'$.event.clusters') AS clusters,
 json_extract(comparison.value,'$.name') AS comparison,
 json_extract(comparison.value,'$.treatment') AS treatment,
 json_extract(comparison.value,'$.control') AS control,
 json_extract(endpoint.value,'$.name') AS endpoint,
 json_extract(endpoint.value,'$.information_fraction') AS information_fraction,
 json_extract(endpoint.value,'$.eligible') AS eligible,
 json_extract(endpoint.value,'$.n') AS n,
 json_extract(endpoint.value,'$.estimate') AS estimate,
 json_extract(endpoint.value,'$.standard_error') AS standard_error,
 json_extract(endpoint.value,'$.df') AS df,
 json_extract(endpoint.value,'$.p_value') AS p_value,
 json_extract(endpoint.value,'$.nominal_p') AS nominal_p,
 json_extract(endpoint.value,'$.t_critical') AS t_critical,
 json_extract(endpoint.value,'$.lower') AS lower,
 json_extract(endpoint.value,'$.upper') AS upper,
 json_extract(endpoint.value,'$.crossed') AS crossed,
 json_extract(endpoint.value,'$.undetermined') AS undetermined,
 json_extract(entry.entry,'$.event.basis.size') AS basis_size,
 json_extract(entry.entry,'$.event.basis.root') AS basis_root
FROM entry,
 json_each(entry.entry,'$.event.comparisons') AS comparison,
 json_each(comparison.value,'$.endpoints') AS endpoint
WHERE entry.kind='look'"""

_RESULTS = """\
CREATE VIEW results AS SELECT
 entry.seq,
 json_extract(entry.entry,'$.time') AS time,
 entry.experiment,
 json_extract(entry.entry,'$.event.verdict') AS verdict,
 json_extract(entry.entry,'$.event.reason_code') AS reason_code,
 json_extract(entry.entry,'$.event.reason') AS reason,
 json_extract(entry.entry,'$.event.evidence') AS evidence,
 json_extract(entry.entry,'$.event.as_registered') AS as_registered,
 json_extract(entry.entry,'$.event.stopped_by') AS stopped_by,
 json_extract(entry.entry,'$.event.look') AS look,
 json_extract(comparison.value,'$.name') AS comparison,
 json_extract(comparison.value,'$.verdict') AS comparison_verdict,
 json_extract(endpoint.value,'$.name') AS endpoint,
 json_extract(endpoint.value,'$.difference') AS difference,
 json_extract(endpoint.value,'$.lower') AS lower,
 json_extract(endpoint.value,'$.upper') AS upper,
 json_extract(endpoint.value,'$.p_value') AS p_value,
 json_extract(endpoint.value,'$.bound_lower') AS bound_lower,
 json_extract(endpoint.value,'$.bound_upper') AS bound_upper,
 json_extract(endpoint.value,'$.undetermined') AS undetermined,
 json_extract(entry.entry,'$.event.basis.size') AS basis_size,
 json_extract(entry.entry,'$.event.basis.root') AS basis_root
FROM entry,
 json_each(entry.entry,'$.event.comparisons') AS comparison,
 json_each(comparison.value,'$.endpoints') AS endpoint
WHERE entry.kind='result'"""

# The arm of an ended attempt stands in its attempt; a settled cost replaces the attempt's.
_SPEND = """\
CREATE VIEW spend AS SELECT
 experiment,
 arm,
 sum(kind='decision') AS outcomes,
 sum(kind='attempt_end') AS ended_attempts,
 sum(cost)/1e9 AS cost_usd,
 sum(incurred)/1e9 AS incurred_usd
FROM (
 SELECT experiment, kind,
  json_extract(entry,'$.event.arm') AS arm,
  json_extract(entry,'$.event.cost_nanousd') AS cost,
  json_extract(entry,'$.event.incurred_nanousd') AS incurred
 FROM entry WHERE kind='decision'
 UNION ALL
 SELECT ended.experiment, ended.kind,
  json_extract(attempt.entry,'$.event.arm'),
  coalesce(json_extract(settled.entry,'$.event.cost_nanousd'),json_extract(ended.entry,'$.event.cost_nanousd')),
  coalesce(json_extract(settled.entry,'$.event.cost_nanousd'),json_extract(ended.entry,'$.event.incurred_nanousd'))
 FROM entry AS ended
 JOIN entry AS attempt ON attempt.experiment=ended.experiment AND attempt.position=ended.position
  AND attempt.kind='attempt' AND attempt.number=ended.number
 LEFT JOIN entry AS settled ON settled.experiment=ended.experiment AND settled.position=ended.position
  AND settled.kind='settle'
  AND json_extract(settled.entry,'$.event.subject.seq')=ended.seq
 WHERE ended.kind='attempt_end'
) GROUP BY experiment, arm"""  # noqa: E501 - one expression

SCHEMA = (
    _TABLE,
    _NEXT,
    _CHAIN,
    _SLOT,
    _NO_UPDATE,
    _NO_DELETE,
    _OUTCOMES,
    _LOOKS,
    _RESULTS,
    _SPEND,
)
