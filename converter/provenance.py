"""Where the bytes of a package came from: hashes of the source's files and tensors."""

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from masu.converter.checkpoint import Checkpoint, SourceTensor
from masu.converter.convert import ConversionPlan
from masu.specs.manifest import Source
from masu.specs.stream import FileRange

CHUNK = 256 * 1024
"""Bytes read at a time: when they are hashed, they are still in a core's own cache."""


def manifest_source(checkpoint: Checkpoint) -> Source:
    """The checkpoint's identity as the manifest records it."""
    return Source.model_validate(checkpoint.identity)


def hash_sources(
    checkpoint: Checkpoint, plan: ConversionPlan, copied: Mapping[FileRange, str]
) -> dict[str, str]:
    """SHA-256 of the bytes of every source tensor that was used.

    Args:
        copied: hashes of stretches that were copied into the package; a tensor that is one of
            them is not read again.
    """
    used = [name for name, entry in plan.ledger.tensors.items() if entry.status == "used"]
    tensors = [checkpoint.tensors[name] for name in used]
    with ThreadPoolExecutor(2) as pool:
        digests = pool.map(lambda tensor: copied.get(tensor.stored) or _digest(tensor), tensors)
        return dict(zip(used, digests, strict=True))


def _digest(tensor: SourceTensor) -> str:
    digest, buffer = hashlib.sha256(), memoryview(bytearray(CHUNK))
    with tensor.stored.path.open("rb", buffering=0) as file:
        file.seek(tensor.stored.offset)
        left = tensor.stored.length
        while left and (count := file.readinto(buffer[:left])):
            digest.update(buffer[:count])
            left -= count
    return digest.hexdigest()
