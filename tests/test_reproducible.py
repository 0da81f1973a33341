"""The same weights, settings and version give the same bytes, wherever and however they run."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from checkpoints import copy_golden
from click.testing import CliRunner
from golden import GOLDEN
from package_copies import make_manifest
from safetensors.numpy import load_file, save_file

import masu.pipeline
import masu.rebuild
from masu.cli import main
from masu.quantizers.text import calibration_text
from masu.rebuild import recorded_calibration
from masu.specs.errors import RequestError, SourceError
from masu.specs.manifest import CalibrationRecord, Manifest
from masu.specs.models import ModelSpec
from masu.specs.package import Package
from masu.specs.recipe import Recipe, Rule

VARYING = {"report.json", "fingerprints.json"}
SHARDED = "qwen2"


def contents(package: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in sorted(package.iterdir()) if p.name not in VARYING}


def joined(folder: Path) -> Path:
    """The weights of all shards in one file, in another order, without an index."""
    shards = sorted(folder.glob("model-*.safetensors"))
    tensors = {name: t for shard in reversed(shards) for name, t in load_file(shard).items()}
    for shard in shards:
        shard.unlink()
    (folder / "model.safetensors.index.json").unlink()
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_everything_around_a_conversion_may_differ(tmp_path: Path) -> None:
    """Folder names, locale, time zone, hash seed, threads, working directory, file layout."""
    sharded = copy_golden(SHARDED, tmp_path / "a" / "sharded")
    single = joined(copy_golden(SHARDED, tmp_path / "b" / "all in one"))
    settings = [
        (sharded, {"PYTHONHASHSEED": "1", "LC_ALL": "C", "TZ": "UTC", "OMP_NUM_THREADS": "1"}),
        (single, {"PYTHONHASHSEED": "77", "LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu",
                  "OMP_NUM_THREADS": "4", "PYTHONUTF8": "1", "RAYON_NUM_THREADS": "3"}),
    ]  # fmt: skip
    packages = []
    for number, (source, environment) in enumerate(settings):
        where = tmp_path / f"run{number}"
        where.mkdir()
        command = [sys.executable, "-m", "masu", "convert", os.path.relpath(source, where),
                   "-o", f"p{number}", "--no-verify"]  # fmt: skip
        subprocess.run(command, cwd=where, env={**os.environ, **environment}, check=True,
                       capture_output=True)  # fmt: skip
        packages.append(contents(where / f"p{number}"))
    assert packages[0] == packages[1]
    assert len(packages[0]) == 4
    assert b"all in one" not in packages[0]["manifest.json"]


def rebuilt(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["convert", "--no-verify", *map(str, arguments)])
    return result.exit_code, result.stdout + result.stderr


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package whose settings are none of the defaults."""
    spec = ModelSpec(repo="x", user_role="human", chat_template="{{ messages[0].content }}")
    out = tmp_path / "package"
    masu.pipeline.convert(
        GOLDEN / SHARDED / "hf", out, spec=spec, dtype="float16", engine="uzu-0.5", verify=False
    )
    return out


def test_a_package_is_made_again_from_its_manifest(package: Path, tmp_path: Path) -> None:
    source = GOLDEN / SHARDED / "hf"
    code, said = rebuilt(
        "--from-manifest", package / "manifest.json", source, "-o", tmp_path / "again"
    )
    assert (code, "identical" in said, "not identical" in said) == (0, True, False), said
    assert contents(tmp_path / "again") == contents(package)


def test_a_recipe_is_applied_again(tmp_path: Path) -> None:
    source, out = GOLDEN / "llama" / "hf", tmp_path / "package"
    masu.pipeline.convert(source, out, recipe="mlx-4bit", verify=False)
    code, said = rebuilt("--from-manifest", out, source, "-o", tmp_path / "again")
    assert code == 0, said
    assert contents(tmp_path / "again") == contents(out)


def test_calibrated_codes_are_the_same_again(tmp_path: Path) -> None:
    """On one machine; in another folder, and by the manifest."""
    int4 = {"type": "IntSpec", "bits": 4, "group_size": 32, "is_symmetric": False}
    rules = (Rule(match="*", format=int4, method="gptq"), Rule(match="embedding", format=int4))
    recipe = Recipe(name="own", description="", rules=rules)
    text = tmp_path / "text.txt"
    text.write_text("The box holds what was measured, and when it is full nothing is left. " * 12)
    source, outs = GOLDEN / "llama-tied" / "hf", [tmp_path / "one", tmp_path / "deep" / "two"]
    for out in outs:
        masu.pipeline.convert(source, out, recipe=recipe, calibration=text, verify=False)
    assert contents(outs[0]) == contents(outs[1])
    code, said = rebuilt(
        "--from-manifest", outs[0], source, "-o", tmp_path / "again", "--calibration", text
    )
    assert code == 0, said
    assert contents(tmp_path / "again") == contents(outs[0])
    recorded = Package.open(outs[0]).manifest
    assert recorded is not None
    assert recorded.calibration is not None
    known = recorded.calibration.model_dump()
    assert known.pop("tokens") > 32
    data = text.read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    assert known == {"kind": "file", "name": "text.txt", "sha256": sha256, "seed": None}


def calibrated_on(text: str, **fields: object) -> Manifest:
    """A manifest whose calibration text had this content."""
    record = {"kind": "file", "name": "mine.txt", "tokens": 40, "seed": None, **fields}
    record["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    manifest = make_manifest(GOLDEN / "llama/engine")
    return manifest.model_copy(update={"calibration": CalibrationRecord.model_validate(record)})


def test_another_calibration_text_is_named(tmp_path: Path) -> None:
    """Before anything is converted."""
    right, wrong = tmp_path / "mine.txt", tmp_path / "theirs.txt"
    right.write_text("what was read")
    wrong.write_text("what was not")
    manifest = calibrated_on("what was read")
    assert recorded_calibration(manifest, right) == right
    with pytest.raises(RequestError, match=r"theirs\.txt is another text"):
        recorded_calibration(manifest, wrong)
    with pytest.raises(RequestError, match=r"on mine\.txt .* does not hold"):
        recorded_calibration(manifest, None)
    with pytest.raises(RequestError, match="generated is another text"):
        recorded_calibration(manifest, "generated")


def test_the_texts_that_masu_has_need_not_be_named(tmp_path: Path) -> None:
    own = calibrated_on(calibration_text(), kind="own", name=None)
    assert recorded_calibration(own, None) is None
    older = calibrated_on("as it was", kind="own", name=None)
    with pytest.raises(RequestError, match="own text of this version is another"):
        recorded_calibration(older, None)
    made_up = calibrated_on("ids", kind="generated", name=None, seed=0)
    assert recorded_calibration(made_up, None) == "generated"
    with pytest.raises(RequestError, match="the model generated"):
        recorded_calibration(made_up, tmp_path / "any.txt")


def test_what_differs_is_named(package: Path, tmp_path: Path) -> None:
    source = copy_golden(SHARDED, tmp_path / "source")
    shard = sorted(source.glob("*.safetensors"))[0]
    tensors = load_file(shard)
    changed = sorted(tensors)[0]
    tensors[changed] = -tensors[changed]
    save_file(tensors, shard)
    arguments = ["--from-manifest", package, source, "-o", tmp_path / "again", "--json"]
    result = CliRunner().invoke(main, ["convert", "--no-verify", *map(str, arguments)])
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert report["identical"] is False
    assert any(f"source_tensors: {changed}" in line for line in report["differences"])
    assert not any("config.json" in line for line in report["differences"])


def test_local_files_must_be_named_again(package: Path, tmp_path: Path) -> None:
    code, said = rebuilt("--from-manifest", package, "-o", tmp_path / "again")
    assert code == 2
    assert "local folder" in said
    with pytest.raises(SourceError):
        masu.rebuild.rebuild(package)


def test_settings_come_from_the_manifest_alone(package: Path) -> None:
    code, said = rebuilt("--from-manifest", package, "--dtype", "float32")
    assert (code, "--dtype" in said) == (2, True)
    code, said = rebuilt()
    assert (code, "SOURCE" in said) == (2, True)


def test_a_damaged_manifest_is_no_reason_to_convert(package: Path, tmp_path: Path) -> None:
    manifest = package / "manifest.json"
    shutil.copy(manifest, tmp_path / "whole.json")
    manifest.write_text(manifest.read_text()[:-100])
    code, said = rebuilt(GOLDEN / SHARDED / "hf", "--from-manifest", manifest)
    assert (code, "manifest.json" in said) == (2, True)
