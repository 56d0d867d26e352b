"""Random numbers that stay the same on every machine and numpy version.

Job: turn a seed into signs, indices and weights from raw Philox words with a mapping of our own.
Leaves what is drawn for what to the callers.

Rules:
    - numpy keeps the words of a bit generator stable, not the distributions built on them
      (NEP 19), so nothing here calls `Generator`.
    - Every method draws from a stream of its own: the Philox key is (seed, stream).
    - The same arguments give the same array; how a caller splits its work doesn't matter,
      because it says at which word to begin.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = (
    "STREAM_BOOTSTRAP",
    "STREAM_PRECISION",
    "STREAM_SAMPLE_RATIO",
    "STREAM_SIGN_FLIP",
    "STREAM_SIMULATION",
    "STREAM_WILD",
    "indices",
    "signs",
    "uniforms",
    "words",
)

STREAM_SIGN_FLIP: Final = 1
STREAM_WILD: Final = 2
STREAM_BOOTSTRAP: Final = 3
STREAM_PRECISION: Final = 4
STREAM_SAMPLE_RATIO: Final = 5
# Endpoints of one simulation take the streams from here on.
STREAM_SIMULATION: Final = 16

_WORDS_A_BLOCK: Final = 4


def words(count: int, *, seed: int, stream: int, start_block: int = 0) -> npt.NDArray[np.uint64]:
    """Returns `count` raw 64-bit Philox words, shape (count,).

    Args:
        count: number of words, at least 0.
        seed: 0 <= seed < 2^64.
        stream: number of the method's stream, 0 <= stream < 2^64.
        start_block: Philox counter to begin at; one block is four words.
    """
    _check_words(count, seed, stream)
    key = np.array([seed, stream], dtype=np.uint64)
    counter = np.array([start_block, 0, 0, 0], dtype=np.uint64)
    return np.asarray(np.random.Philox(key=key, counter=counter).random_raw(count), np.uint64)


def signs(
    rows: int, columns: int, *, seed: int, stream: int, first_row: int = 0
) -> npt.NDArray[np.int8]:
    """Returns independent fair signs -1 or 1, shape (rows, columns).

    Row r takes whole Philox blocks of its own, so rows may be drawn in any chunks.
    """
    blocks = math.ceil(columns / (64 * _WORDS_A_BLOCK))
    raw = words(
        rows * blocks * _WORDS_A_BLOCK, seed=seed, stream=stream, start_block=first_row * blocks
    )
    octets = raw.astype("<u8").view(np.uint8).reshape(rows, -1)
    bits = np.unpackbits(octets, axis=1, count=columns, bitorder="little")
    return (2 * bits.astype(np.int8) - 1).astype(np.int8)


def indices(
    rows: int, columns: int, below: int, *, seed: int, stream: int, first_row: int = 0
) -> npt.NDArray[np.int64]:
    """Returns independent integers 0 <= i < `below`, shape (rows, columns).

    The upper and the lower 32 bits of a word give one index each, floor(u * below / 2^32); for
    the sizes allowed here no index is favoured by more than below / 2^32.
    """
    if not 1 <= below < 2**24:
        raise ValueError(f"below: expected 1 to 2^24 - 1, found {below}")
    blocks = math.ceil(columns / (2 * _WORDS_A_BLOCK))
    raw = words(
        rows * blocks * _WORDS_A_BLOCK, seed=seed, stream=stream, start_block=first_row * blocks
    )
    halves = raw.astype("<u8", copy=False).view("<u4").reshape(rows, -1)[:, :columns]
    scaled = halves.astype(np.uint64)
    scaled *= np.uint64(below)
    scaled >>= np.uint64(32)
    return scaled.view(np.int64)


def uniforms(count: int, *, seed: int, stream: int, run: int) -> npt.NDArray[np.float64]:
    """Returns `count` numbers inside (0, 1) for one run, shape (count,).

    The upper 52 bits of a word give (k + 1/2) / 2^52; each run takes whole blocks of its own.
    """
    blocks = math.ceil(count / _WORDS_A_BLOCK)
    raw = words(count, seed=seed, stream=stream, start_block=run * blocks)
    return ((raw >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def _check_words(count: int, seed: int, stream: int) -> None:
    if count < 0 or not 0 <= seed < 2**64 or not 0 <= stream < 2**64:
        raise ValueError(
            "words: expected count >= 0 and seed, stream in [0, 2^64), "
            f"found {count}, {seed}, {stream}"
        )
