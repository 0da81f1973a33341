"""MXFP4, the blocks of GPT-OSS: the family's table takes them as they lie (`converter/mxfp4.py`).

Which tensors are quantised, their own types say; the config says only how.
"""

from typing import ClassVar, Literal

from masu.converter.quantised.method import Method
from masu.converter.quantised.method import Settings as MethodSettings
from masu.converter.quantised.module import Presented, Tensors


class Settings(MethodSettings):
    INERT: ClassVar = frozenset({"modules_to_not_convert", "dequantize"})

    quant_method: Literal["mxfp4"]


def present(settings: Settings, tensors: Tensors) -> Presented:
    return Presented(dict(tensors))


METHOD = Method(name="mxfp4", settings=Settings, present=present)
