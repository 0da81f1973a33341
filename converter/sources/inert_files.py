"""Why a file that lies beside config, texts and weights plays no part in the conversion."""

from collections.abc import Collection
from fnmatch import fnmatchcase

from masu.converter.sources.weight_files import is_duplicate

_PICKLE = "a pickle, which can run code, is never read"
_OTHER_FORMAT = "weights in another format; the safetensors files are read"
_TOKENIZER = "the tokenizer is read from tokenizer.json"
_MEDIA = "prepares images, sound or video; text models need none of it"

# The first pattern that fits gives the reason. Names are compared in lower case.
_REASONS = {
    "pytorch_model.bin.index.json": "the index of pickles, which are never read",
    "training_args.bin": "settings of the training",
    "*.bin": _PICKLE,
    "*.pt": _PICKLE,
    "*.pth": _PICKLE,
    "*.ckpt": _PICKLE,
    "*.pkl": _PICKLE,
    "*.h5": _OTHER_FORMAT,
    "*.msgpack": _OTHER_FORMAT,
    "*.onnx*": _OTHER_FORMAT,
    "*.ot": _OTHER_FORMAT,
    "*.gguf": _OTHER_FORMAT,
    "*.safetensors": "not in the shard index",
    "*.py": "code of a checkpoint is never run",
    "tokenizer.model*": _TOKENIZER,
    "spiece.model": _TOKENIZER,
    "sentencepiece*": _TOKENIZER,
    "vocab.*": _TOKENIZER,
    "merges.txt": _TOKENIZER,
    "tekken.json": _TOKENIZER,
    "*processor_config.json": _MEDIA,
    "readme*": "documentation",
    "license*": "a licence",
    "notice*": "a licence",
    "*.md": "documentation",
    "*.txt": "documentation",
    "*.pdf": "documentation",
    "*.png": "a picture",
    "*.jp*g": "a picture",
    "*.gif": "a picture",
    "*.svg": "a picture",
    "*.webp": "a picture",
    ".*": "hidden",
    "trainer_state.json": "a record of the training",
    "*results.json": "a record of the training",
    "original/": "the same weights in their author's own format",
    "onnx/": _OTHER_FORMAT,
    "additional_chat_templates/": "templates beside the default one",
    "*/": "only the top level of the folder is read",
}
_UNKNOWN = "not read by the conversion"


def why_inert(name: str, names: Collection[str]) -> str:
    """The reason, for a file or (with a slash at its end) a folder; `names` lie beside it."""
    if is_duplicate(name, names):
        return "the same weights in another form"
    lower = name.lower()
    return next((why for glob, why in _REASONS.items() if fnmatchcase(lower, glob)), _UNKNOWN)
