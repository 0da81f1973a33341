"""Where the bytes of a package came from: hashes of the source's files and tensors."""

import hashlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from masu.converter.checkpoint import Checkpoint, SourceTensor
from masu.converter.convert import ConversionPlan
from masu.specs.manifest import Source
from masu.specs.stream import FileRange, PlannedTensor

CHUNK = 8 * 1024 * 1024


def manifest_source(checkpoint: Checkpoint) -> Source:
    """The checkpoint's identity as the manifest records it."""
    return Source.model_validate(checkpoint.identity)


def hash_sources(
    checkpoint: Checkpoint, plan: ConversionPlan, stored: Mapping[str, str]
) -> dict[str, str]:
    """SHA-256 of the bytes of every source tensor that was used.

    Args:
        stored: hashes of the package's arrays: a tensor that was copied whole has the same one,
            and is not read again.
    """
    copied = dict(_copies(plan.stream))
    used = [name for name, entry in plan.ledger.tensors.items() if entry.status == "used"]
    tensors = [checkpoint.tensors[name] for name in used]
    with ThreadPoolExecutor(2) as pool:
        digests = pool.map(lambda tensor: _digest(tensor, copied, stored), tensors)
        return dict(zip(used, digests, strict=True))


def _copies(stream: tuple[PlannedTensor, ...]) -> Iterator[tuple[FileRange, str]]:
    """Source ranges that became a whole stored array, unchanged."""
    for tensor in stream:
        if tensor.copied is not None:
            [name] = tensor.arrays
            yield tensor.copied, name


def _digest(
    tensor: SourceTensor, copied: Mapping[FileRange, str], stored: Mapping[str, str]
) -> str:
    if tensor.stored in copied:
        return stored[copied[tensor.stored]]
    digest = hashlib.sha256()
    with tensor.stored.path.open("rb") as file:
        file.seek(tensor.stored.offset)
        left = tensor.stored.length
        while left and (data := file.read(min(CHUNK, left))):
            digest.update(data)
            left -= len(data)
    return digest.hexdigest()
