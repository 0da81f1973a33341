"""The verdict on a package: `verified` where transformers can say what the source computes.

Two comparisons make a chain. transformers against the plan: the source's values through the
family's table, in float64, each block on the input that transformers had there. And the plan
against the package: the same values rounded once to the package's type, against what is in the
file. So the bounds are those of float32 arithmetic, whatever type the package is stored in, and
what the rounding itself costs is measured apart.
"""

from dataclasses import replace
from pathlib import Path

from masu.converter.checkpoint import Checkpoint
from masu.converter.convert import ConversionPlan
from masu.specs.footprint import layers
from masu.verdict import PlanSource, Verdict, consistent
from masu.verification import transformers_model
from masu.verification.heads import NoReference
from masu.verification.prompts import Prompts, placeholders, prompts_for
from masu.verification.transformers_quantised import decoding
from masu.verification.walk import BlockErrors, bound, walk


def judge(
    folder: Path,
    plan: ConversionPlan,
    checkpoint: Checkpoint,
    exact: ConversionPlan | None = None,
) -> Verdict:
    """The best verdict that there can be, of a package at `folder` made by `plan`.

    Args:
        exact: the plan with the values of the source, where those of `plan` are rounded.

    Raises:
        PackageError: the strict load fails.
        TensorMismatch: the source itself computes no numbers.
    """
    stored = consistent(folder, plan)
    if not stored.passed:
        return stored
    try:
        prompts, found = compare(plan if exact is None else exact, checkpoint)
    except NoReference as reason:
        return replace(stored, reason=str(reason))
    return _verified(stored, plan, prompts, found, decoding(checkpoint))


def compare(plan: ConversionPlan, checkpoint: Checkpoint) -> tuple[Prompts, BlockErrors]:
    """The plan against transformers.

    Raises:
        NoReference: there is no model to compare with.
    """
    prompts = prompts_for(plan.config, plan.tokenizer, placeholders(checkpoint.config))
    model = transformers_model.load(checkpoint)
    traces = transformers_model.traced(model, prompts.sequences, len(layers(plan.config)))
    del model  # its weights, before the first block's are read
    return prompts, walk(PlanSource.of(plan, exact=True), traces)


def _verified(
    stored: Verdict, plan: ConversionPlan, prompts: Prompts, found: BlockErrors, told: str | None
) -> Verdict:
    block, error = max(found.errors.items(), key=lambda item: item[1] / bound(plan.config, item[0]))
    remarks = [] if told is None else [told]
    remarks += [f"not reached, as it takes too many tokens: {what}" for what in prompts.unreached]
    if found.left_out:
        remarks.append(f"left out, where a router is near a tie: {found.left_out} tokens")
    return replace(
        stored,
        level="verified",
        passed=found.diverging is None,
        error=error,
        bound=bound(plan.config, block),
        tokens=prompts.tokens,
        diverging=found.diverging,
        remarks=(*stored.remarks, *remarks),
    )
