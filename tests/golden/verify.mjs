// Checks golden files without a line of the project's own code: plain Node.js, SHA-256 of the
// runtime, BLAKE3 written here from its specification (github.com/BLAKE3-team/BLAKE3-specs).
//
//     node verify.mjs events FILE | ledger FILE | ids FILE | vectors FILE
//
// Prints one line of JSON with what it computed; a contradiction inside the file is exit code 1.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const IV = Uint32Array.of(
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
);
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8;
const KEYED_HASH = 16, DERIVE_KEY_CONTEXT = 32, DERIVE_KEY_MATERIAL = 64;
const CHUNK_BYTES = 1024, BLOCK_BYTES = 64;

const rotate = (word, bits) => (word >>> bits) | (word << (32 - bits));

function mix(s, a, b, c, d, x, y) {
  s[a] = s[a] + s[b] + x;
  s[d] = rotate(s[d] ^ s[a], 16);
  s[c] = s[c] + s[d];
  s[b] = rotate(s[b] ^ s[c], 12);
  s[a] = s[a] + s[b] + y;
  s[d] = rotate(s[d] ^ s[a], 8);
  s[c] = s[c] + s[d];
  s[b] = rotate(s[b] ^ s[c], 7);
}

// Specification, section 2.2: seven rounds over columns and diagonals, then both halves folded.
function compress({ value, block, counter, length, flags }) {
  const s = new Uint32Array(16);
  s.set(value);
  s.set(IV.subarray(0, 4), 8);
  s[12] = counter % 2 ** 32;
  s[13] = Math.floor(counter / 2 ** 32);
  s[14] = length;
  s[15] = flags;
  let m = block;
  for (let round = 0; round < 7; round++) {
    mix(s, 0, 4, 8, 12, m[0], m[1]);
    mix(s, 1, 5, 9, 13, m[2], m[3]);
    mix(s, 2, 6, 10, 14, m[4], m[5]);
    mix(s, 3, 7, 11, 15, m[6], m[7]);
    mix(s, 0, 5, 10, 15, m[8], m[9]);
    mix(s, 1, 6, 11, 12, m[10], m[11]);
    mix(s, 2, 7, 8, 13, m[12], m[13]);
    mix(s, 3, 4, 9, 14, m[14], m[15]);
    m = PERMUTATION.map((index) => m[index]);
  }
  for (let i = 0; i < 8; i++) s[i] ^= s[i + 8];
  return s.subarray(0, 8);
}

function words(bytes, count) {
  const padded = Buffer.alloc(4 * count);
  bytes.copy(padded);
  return Uint32Array.from({ length: count }, (_, i) => padded.readUInt32LE(4 * i));
}

// Section 2.4: a chunk is a chain of blocks; its last block is left for the caller to compress.
function chunk(key, bytes, counter, flags) {
  let value = key;
  const blocks = Math.max(1, Math.ceil(bytes.length / BLOCK_BYTES));
  for (let i = 0; ; i++) {
    const part = bytes.subarray(i * BLOCK_BYTES, (i + 1) * BLOCK_BYTES);
    const last = i === blocks - 1;
    const node = {
      value,
      block: words(part, 16),
      counter,
      length: part.length,
      flags: flags | (i === 0 ? CHUNK_START : 0) | (last ? CHUNK_END : 0),
    };
    if (last) return node;
    value = compress(node);
  }
}

// Section 2.1: the left subtree holds the largest power of two of chunks that leaves some for the right.
function tree(key, bytes, counter, flags) {
  const chunks = Math.ceil(bytes.length / CHUNK_BYTES);
  if (chunks <= 1) return chunk(key, bytes, counter, flags);
  let left = 1;
  while (2 * left < chunks) left *= 2;
  const cut = left * CHUNK_BYTES;
  const block = new Uint32Array(16);
  block.set(compress(tree(key, bytes.subarray(0, cut), counter, flags)), 0);
  block.set(compress(tree(key, bytes.subarray(cut), counter + left, flags)), 8);
  return { value: key, block, counter: 0, length: BLOCK_BYTES, flags: flags | PARENT };
}

function digest(key, bytes, flags) {
  const node = tree(key, bytes, 0, flags);
  const output = compress({ ...node, counter: 0, flags: node.flags | ROOT });
  const bytesOut = Buffer.alloc(32);
  output.forEach((word, i) => bytesOut.writeUInt32LE(word, 4 * i));
  return bytesOut;
}

const blake3 = (bytes) => digest(IV, bytes, 0).toString("hex");
const blake3Keyed = (key, bytes) => digest(words(key, 8), bytes, KEYED_HASH).toString("hex");
function blake3Derive(context, bytes) {
  const key = digest(IV, Buffer.from(context, "utf8"), DERIVE_KEY_CONTEXT);
  return digest(words(key, 8), bytes, DERIVE_KEY_MATERIAL).toString("hex");
}

const sha256 = (...parts) => parts.reduce((h, part) => h.update(part), createHash("sha256")).digest();
const leafHash = (bytes) => sha256(Buffer.from([0]), bytes);

// RFC 6962, section 2.1, word for word.
function root(leaves) {
  if (leaves.length === 0) return sha256();
  if (leaves.length === 1) return leaves[0];
  let k = 1;
  while (2 * k < leaves.length) k *= 2;
  return sha256(Buffer.from([1]), root(leaves.slice(0, k)), root(leaves.slice(k)));
}

function fail(seq, what) {
  console.error(`entry ${seq}: ${what}`);
  process.exit(1);
}

// One chain of entries: place, chain, the event's bytes cut out as they stand, id, leaf, root.
function chain(lines, context) {
  const ids = [], leaves = [];
  let previous = Buffer.alloc(32);
  lines.forEach((line, seq) => {
    const text = line.toString("utf8");
    if (!Buffer.from(text, "utf8").equals(line)) fail(seq, "not UTF-8");
    const entry = JSON.parse(text);
    const marker = `"id":"${entry.id}","event":`;
    const event = line.subarray(line.indexOf(marker) + marker.length, line.length - 1);
    if (entry.seq !== seq) fail(seq, `says it is ${entry.seq}`);
    if (entry.prev !== previous.toString("hex")) fail(seq, "doesn't follow the one before");
    if (JSON.stringify(entry.event) !== JSON.stringify(JSON.parse(event))) fail(seq, "event cut");
    const id = `b3:${blake3Derive(context, event)}`;
    if (id !== entry.id) fail(seq, `id ${entry.id}, computed ${id}`);
    previous = leafHash(line);
    ids.push(id);
    leaves.push(previous);
  });
  return { ids, leaves: leaves.map((leaf) => leaf.toString("hex")), root: root(leaves).toString("hex") };
}

const CONTEXT = "fairtrial 2026-12-01 event id v1";
const [verb, path] = process.argv.slice(2);
const content = readFileSync(path);
let result;
if (verb === "events") {
  const golden = JSON.parse(content);
  result = chain(golden.events.map((row) => Buffer.from(row.entry, "utf8")), golden.context);
} else if (verb === "ledger") {
  const lines = [];
  for (let start = 0; start < content.length; ) {
    const end = content.indexOf(10, start);
    lines.push(content.subarray(start, end));
    start = end + 1;
  }
  result = chain(lines, CONTEXT);
} else if (verb === "ids") {
  const golden = JSON.parse(content);
  result = golden.accepted.map(({ event }) => `b3:${blake3Derive(golden.context, Buffer.from(event))}`);
} else {
  const vectors = JSON.parse(content);
  const key = Buffer.from(vectors.key_ascii, "ascii");
  result = vectors.cases.map(({ len }) => {
    const bytes = Buffer.from(Uint8Array.from({ length: len }, (_, i) => i % 251));
    return {
      len,
      hash: blake3(bytes),
      keyed_hash: blake3Keyed(key, bytes),
      derive_key: blake3Derive(vectors.context, bytes),
    };
  });
}
console.log(JSON.stringify(result));
