"""A package in the formats of a recipe, and what making it cost: no verdict, no report."""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

from masu.calibrating import calibrated
from masu.process import peak_bytes
from masu.quantizers.plan import plan_quantisation
from masu.specs.container_writer import write_container
from masu.specs.model import LanguageModelConfig
from masu.specs.package import CONFIG, TOKENIZER, WEIGHTS, Package
from masu.specs.package_stream import stream_of
from masu.specs.package_writer import PackageContents
from masu.specs.recipe import Recipe


def write_quantised(source: Path, out: Path, recipe: Recipe) -> dict[str, float]:
    """Wall seconds and the peak of this process, which should be one of its own."""
    package, began = Package.open(source), perf_counter()
    config, dtype, planes = package.config, package.dtype, package.planes
    assert isinstance(config, LanguageModelConfig)
    tokenizer = (source / TOKENIZER).read_bytes()
    plan = plan_quantisation(recipe, config, stream_of(package), dtype, planes)
    out.mkdir(parents=True)
    with TemporaryDirectory(dir=out.parent) as scratch:
        plan = calibrated(plan, tokenizer, dtype, planes, Path(scratch) / "codes")
        contents = PackageContents(
            config=plan.config, stream=plan.stream, tokenizer=tokenizer, dialect=package.dialect
        )
        write_container(out / WEIGHTS, contents.spelled, contents.metadata)
    (out / CONFIG).write_bytes(contents.config_json)
    (out / TOKENIZER).write_bytes(tokenizer)
    return {"seconds": perf_counter() - began, "peak_bytes": peak_bytes()}
