"""Pure hashing of the RFC 6962 SHA-256 tree: leaf, node, compact range, root, proofs.

Leaves it to others to say what the bytes of a leaf are (`entry.py`) and to sign a root.

Rules:
- Leaf = SHA-256(0x00 || bytes); node = SHA-256(0x01 || left || right).
- The empty tree is SHA-256("").
- A tree of n leaves splits at the largest power of two below n.

Source:
    RFC 6962, section 2.1; RFC 9162, sections 2.1.3.2 and 2.1.4.2 (verification of proofs).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import islice

__all__ = (
    "EMPTY_ROOT",
    "CompactRange",
    "consistency_proof",
    "inclusion_proof",
    "leaf_hash",
    "leaf_hashes",
    "node_hash",
    "root_of",
    "verify_consistency",
    "verify_inclusion",
)

EMPTY_ROOT = sha256(b"").digest()
_BLOCK_LEAVES = 1024
# A copy of a hash that has begun is made sooner than a hash is begun.
_LEAF, _NODE = sha256(b"\x00"), sha256(b"\x01")


def leaf_hash(data: bytes) -> bytes:
    """Returns the 32-byte hash of one leaf.

    Source:
        RFC 6962, section 2.1.
    """
    return sha256(b"\x00" + data).digest()


def leaf_hashes(entries: Iterable[bytes]) -> list[bytes]:
    """Returns the hash of each leaf, as `leaf_hash` does of one."""
    copy, leaves = _LEAF.copy, list[bytes]()
    for data in entries:
        leaf = copy()
        leaf.update(data)
        leaves.append(leaf.digest())
    return leaves


def node_hash(left: bytes, right: bytes) -> bytes:
    """Returns the 32-byte hash of two adjacent subtrees.

    Source:
        RFC 6962, section 2.1.
    """
    return sha256(b"\x01" + left + right).digest()


def _parents(level: Sequence[bytes]) -> list[bytes]:
    """Returns the hash of each two nodes of an even number, as `node_hash` does of two."""
    copy, parents = _NODE.copy, list[bytes]()
    for left, right in zip(level[::2], level[1::2], strict=True):
        parent = copy()
        parent.update(left + right)
        parents.append(parent.digest())
    return parents


class CompactRange:
    """The right-hand frontier of a growing tree: one hash for each set bit of its size.

    Args:
        size: Leaves so far.
        hashes: Roots of the perfect subtrees, largest (leftmost) first.

    Source:
        RFC 6962, section 2.1, read from the left; memory is log2(size) hashes.
    """

    __slots__ = ("_stack", "size")

    def __init__(self, size: int = 0, hashes: Sequence[bytes] = ()) -> None:
        if size < 0 or len(hashes) != size.bit_count() or any(len(h) != 32 for h in hashes):
            raise ValueError(f"a tree of {size} leaves has {size.bit_count()} hashes of 32 bytes")
        self.size = size
        self._stack = list(hashes)

    @property
    def hashes(self) -> tuple[bytes, ...]:
        """The subtree roots, largest first."""
        return tuple(self._stack)

    def append(self, leaf: bytes) -> None:
        """Adds one leaf hash at the right."""
        stack = self._stack
        size = self.size
        while size & 1:
            leaf = sha256(b"\x01" + stack.pop() + leaf).digest()
            size >>= 1
        stack.append(leaf)
        self.size += 1

    def extend(self, leaves: Iterable[bytes]) -> None:
        """Adds leaf hashes at the right, level by level: the same tree with fewer steps."""
        level, whole, size = list(leaves), list[bytes](), self.size
        self.size += len(level)
        while level:
            if size & 1:
                level.insert(0, self._stack.pop())
            if len(level) & 1:
                whole.append(level.pop())
            level, size = _parents(level), size >> 1
        self._stack += reversed(whole)

    def root(self) -> bytes:
        """Returns the root of all leaves so far."""
        if not self._stack:
            return EMPTY_ROOT
        root = self._stack[-1]
        for left in reversed(self._stack[:-1]):
            root = node_hash(left, root)
        return root

    def copy(self) -> CompactRange:
        """Returns an independent copy."""
        return CompactRange(self.size, self._stack)


def root_of(leaves: Iterable[bytes]) -> bytes:
    """Returns the root over leaf hashes, each of 32 bytes."""
    tree, rest = CompactRange(), iter(leaves)
    while block := list(islice(rest, _BLOCK_LEAVES)):
        tree.extend(block)
    return tree.root()


def _split(size: int) -> int:
    """Returns the largest power of two below `size` (size >= 2)."""
    return 1 << (size - 1).bit_length() - 1


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """Returns the audit path of leaf `index`, leaf sibling first.

    Args:
        leaves: All leaf hashes of the tree.
        index: 0-based, below `len(leaves)`.

    Raises:
        IndexError: The tree has no such leaf.

    Source:
        RFC 6962, section 2.1.1.
    """
    if not 0 <= index < len(leaves):
        raise IndexError(f"leaf {index} of a tree of {len(leaves)}")
    if len(leaves) == 1:
        return []
    k = _split(len(leaves))
    if index < k:
        return [*inclusion_proof(leaves[:k], index), root_of(leaves[k:])]
    return [*inclusion_proof(leaves[k:], index - k), root_of(leaves[:k])]


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """Returns the proof that the first `old_size` leaves are a prefix of the tree.

    Raises:
        ValueError: `old_size` is not between 0 and `len(leaves)`.

    Source:
        RFC 6962, section 2.1.2.
    """
    if not 0 <= old_size <= len(leaves):
        raise ValueError(f"no prefix of {old_size} in a tree of {len(leaves)}")
    return [] if old_size == 0 else _subproof(old_size, leaves, whole=True)


def _subproof(old_size: int, leaves: Sequence[bytes], *, whole: bool) -> list[bytes]:
    """Returns SUBPROOF(m, D[n], b) of RFC 6962, section 2.1.2."""
    if old_size == len(leaves):
        return [] if whole else [root_of(leaves)]
    k = _split(len(leaves))
    if old_size <= k:
        return [*_subproof(old_size, leaves[:k], whole=whole), root_of(leaves[k:])]
    return [*_subproof(old_size - k, leaves[k:], whole=False), root_of(leaves[:k])]


def verify_inclusion(
    leaf: bytes, *, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> bool:
    """Returns whether `proof` shows that `leaf` stands at `index` of the tree with `root`.

    Source:
        RFC 9162, section 2.1.3.2; refuses hashes that are not 32 bytes, which its text accepts.
    """
    if not 0 <= index < size or any(len(h) != 32 for h in (leaf, root, *proof)):
        return False
    fn, sn, node = index, size - 1, leaf
    for sibling in proof:
        if sn == 0:
            return False
        if fn & 1 or fn == sn:
            node = node_hash(sibling, node)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            node = node_hash(node, sibling)
        fn, sn = fn >> 1, sn >> 1
    return sn == 0 and node == root


def verify_consistency(
    *, old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> bool:
    """Returns whether `proof` shows the old tree to be a prefix of the new one.

    An old tree of size 0 is refused: whatever grows from nothing shows nothing.

    Source:
        RFC 9162, section 2.1.4.2; refuses hashes that are not 32 bytes, which its text accepts.
    """
    if not 0 <= old_size <= size or any(len(h) != 32 for h in (old_root, root, *proof)):
        return False
    if old_size == 0:
        return False
    if old_size == size:
        return not proof and old_root == root
    path = list(proof)
    if old_size & (old_size - 1) == 0:
        path.insert(0, old_root)
    return bool(path) and _walk_consistency(path, old_size, size) == (old_root, root)


def _walk_consistency(path: list[bytes], old_size: int, size: int) -> tuple[bytes, bytes] | None:
    """Returns the old and the new root that a path leads to, None when its length is wrong."""
    fn, sn = old_size - 1, size - 1
    while fn & 1:
        fn, sn = fn >> 1, sn >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if sn == 0:
            return None
        if fn & 1 or fn == sn:
            old, new = node_hash(sibling, old), node_hash(sibling, new)
            while not fn & 1 and fn:
                fn, sn = fn >> 1, sn >> 1
        else:
            new = node_hash(new, sibling)
        fn, sn = fn >> 1, sn >> 1
    return (old, new) if sn == 0 else None
