"""The model card of a package: README.md for the Hub, written from manifest and report."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from masu.specs.manifest import Ledger, Manifest
from masu.specs.report import Fidelity, Report, VerdictRecord
from masu.specs.summary import Summary

WORST_MATRICES = 5


@dataclass(frozen=True)
class Licence:
    """A licence as model cards name it; `other` goes with a name and a link."""

    id: str
    name: str | None = None
    link: str | None = None


def model_card(
    repo: str, manifest: Manifest, report: Report, summary: Summary, licence: Licence
) -> str:
    """README.md in the Hub's form: metadata in YAML, then what a reader wants to know.

    Args:
        repo: where the package goes, `org/name`.
    """
    parts = (
        _title(repo, manifest),
        _usage(repo, manifest),
        _contents(summary),
        _verdict(report.verdict),
        () if report.fidelity is None else _fidelity(report.fidelity),
        _left_out(manifest.ledger),
        _provenance(manifest),
    )
    body = "\n".join(line for part in parts for line in part)
    return f"---\n{_metadata(manifest, licence)}\n---\n\n{body}"


def _metadata(manifest: Manifest, licence: Licence) -> str:
    from huggingface_hub import ModelCardData

    source = manifest.source
    data = ModelCardData(
        license=licence.id,
        license_name=licence.name,
        license_link=licence.link,
        base_model=source.name if source.kind == "hub" else None,
        tags=["masu", manifest.engine, manifest.family],
        base_model_relation="quantized" if manifest.recipe is not None else None,
    )
    return data.to_yaml()


def _title(repo: str, manifest: Manifest) -> Iterator[str]:
    yield f"# {repo.partition('/')[2]}\n"
    yield (
        f"{_source(manifest)}, converted by masu {manifest.masu_version} into a package for"
        f" {manifest.engine}.\n"
    )


def _source(manifest: Manifest) -> str:
    source = manifest.source
    if source.kind == "hub":
        return f"[{source.name}](https://huggingface.co/{source.name}) at `{source.revision}`"
    if source.kind == "pypi":
        return f"`{source.name}` {source.revision} from the Python Package Index"
    return "A local checkpoint"


def _usage(repo: str, manifest: Manifest) -> Iterator[str]:
    yield f'```sh\nmasu pull {repo} -o package\nmasu run package "Hello"\n```\n'
    if manifest.recipe is None:
        return
    named = manifest.recipe.get("name")
    yield f"Quantised by the recipe `{named}`, which `manifest.json` records in full.\n"


def _contents(summary: Summary) -> Iterator[str]:
    yield "## Contents\n"
    yield (
        f"{summary.parameters:,} parameters in {summary.layers} layers,"
        f" {summary.weight_bytes:,} bytes, {summary.bits_per_weight:.2f} bits per weight.\n"
    )
    rows = [
        (label, f"{share.matrices}", f"{share.bytes:,}", f"{share.bits_per_weight:.2f}")
        for label, share in summary.formats.items()
    ]
    yield _table(("weight format", "matrices", "bytes", "bits per weight"), rows)


def _verdict(verdict: VerdictRecord | None) -> Iterator[str]:
    if verdict is None:
        return
    yield "## Verdict\n"
    yield (
        f"`{verdict.level}`: on {verdict.tokens} tokens no logit is further than"
        f" {verdict.error:.1e} from what the source says, in standard deviations of the logits;"
        f" {verdict.bound:.0e} is allowed.\n"
    )
    yield from (f"- {remark}\n" for remark in verdict.told)


def _fidelity(fidelity: Fidelity) -> Iterator[str]:
    yield "## Fidelity\n"
    yield (
        f"Compared with {fidelity.reference} on {fidelity.text.positions:,} tokens of the text"
        f" `{fidelity.text.name}`.\n"
    )
    figures = (
        ("mean KL divergence (nats)", f"{fidelity.mean_kl:.4g}"),
        ("99th percentile of it", f"{fidelity.p99_kl:.4g}"),
        ("same most likely token", f"{fidelity.top1_agreement:.2%}"),
        ("perplexity", f"{fidelity.perplexity:.4g}"),
        ("perplexity of the reference", f"{fidelity.reference_perplexity:.4g}"),
    )
    yield _table(("figure", "value"), figures)
    changed = [matrix for matrix in fidelity.matrices if matrix.error > 0]
    worst = sorted(changed, key=lambda matrix: -matrix.error)[:WORST_MATRICES]
    if worst:
        rows = [(f"`{m.name}`", m.format, f"{m.error:.2%}") for m in worst]
        yield _table(("matrices that changed most", "format", "relative error"), rows)


def _left_out(ledger: Ledger) -> Iterator[str]:
    """What the source does and the package does without, and the ledger's remarks."""
    groups = (ledger.tensors, ledger.config_keys, ledger.files)
    reasons = {
        entry.reason: None
        for group in groups
        for entry in group.values()
        if entry.status == "left_out" and entry.reason is not None
    }
    lines = [*(f"left out: {reason}" for reason in reasons), *ledger.notes]
    if lines:
        yield "## Notes\n"
        yield "".join(f"- {line}\n" for line in lines)


def _provenance(manifest: Manifest) -> Iterator[str]:
    yield "## Provenance\n"
    yield (
        "`manifest.json` holds the hash of every file and tensor, of every tensor of the source,"
        " and what became of it; `masu check` compares them.\n"
    )
    yield _table(("file", "sha256"), [(f"`{n}`", f"`{h}`") for n, h in manifest.files.items()])


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = (head, ("---",) * len(head), *rows)
    return "".join(f"| {' | '.join(_cell(cell) for cell in line)} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
