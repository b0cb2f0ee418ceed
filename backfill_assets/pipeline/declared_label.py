"""Declared labels, from `[labels] label` in lake.toml: a condition over aggregates ahead of a day and behind it.

Not here: finding the aggregates in the text (`lake.label_calls`), allowed expressions (`expressions`), computation
(`transforms`).
"""

from collections.abc import Sequence
from typing import get_args

from backfill_assets.core.column_types import EXACT, ColumnType, read_type
from backfill_assets.core.days import matures_after
from backfill_assets.lake.label_calls import LabelCall, label_calls
from backfill_assets.lake.settings import LakeSettings
from backfill_assets.pipeline.declared import Declared, compiled, sources
from backfill_assets.pipeline.expressions import Expression, read_expression, refused
from backfill_assets.pipeline.transforms.aggregation import RULES, Agg, Outcome, Reach, ahead, trailing

LABEL = "[labels] label"
AGGS: dict[str, Agg] = {agg: agg for agg in get_args(Agg) if agg != "days_since_last"}
ADVICE = "Write a condition over aggregates of the horizon, e.g. sum_ahead(total) > 2 * sum_behind(total)"


def declared_label(settings: LakeSettings) -> tuple[tuple[Declared, ...], Outcome]:
    """The aggregates of a label, each a column of its own, and the outcome that decides it. Raises SettingsError."""
    asked, known = settings.labels, sources(settings)
    if asked.label is None:
        terms, condition = _by_rule(settings)
    else:
        terms, condition = _terms(asked.label, settings)
        if not terms:
            raise refused(LABEL, f"{asked.label} looks at no event ahead or behind", ADVICE)
        told = {t.aggregation.name: _decided_by(t) for t in terms}
        # A typing error is more likely in a term's name than in a condition: the payload is named as well.
        named = read_expression(condition, {**known, **told}, LABEL)
        bare = [c for c in named.columns if c not in told]
        if bare:
            raise refused(LABEL, f"{', '.join(bare)} stands outside of an aggregate", ADVICE)
        if named.type not in (None, ColumnType("BOOLEAN")):
            raise refused(LABEL, f"{asked.label} is {named.type} and no truth", ADVICE)
        condition = named.sql
    matures = matures_after(asked.horizon_days, asked.maturity_days)
    return terms, Outcome(tuple(t.aggregation for t in terms), condition, matures)


def _by_rule(settings: LakeSettings) -> tuple[tuple[Declared, ...], str]:
    asked, known = settings.labels, sources(settings)
    where = f'[labels] measure = "{asked.measure}"'
    of = None if asked.measure == "events" else read_expression(asked.measure, known, where)
    agg = AGGS["count" if of is None else "sum"]
    sides = {"forward": ahead(asked.horizon_days), "backward": trailing(asked.horizon_days)}
    terms = tuple(compiled(name, agg, (of, None), reach, where) for name, reach in sides.items())
    return terms, RULES[asked.rule]


def _decided_by(term: Declared) -> ColumnType:
    kind = read_type(term.aggregation.type)
    return EXACT if kind.kind in ("INT", "BIGINT") else kind


def _terms(label: str, settings: LakeSettings) -> tuple[tuple[Declared, ...], str]:
    """The aggregates, one column for each different one, and the text with column names in their place."""
    known, condition, done = sources(settings), "", 0
    found: dict[tuple[str, str, str], Declared] = {}
    for call in _calls(label):
        of = read_expression(call.of, known, LABEL) if call.of.strip(" *") else None
        if of is None and call.agg != "count":
            name = f"{call.agg}_{call.side}"
            raise refused(LABEL, f"{name}() is of nothing", f"Write {name}(…) of a column, or count_{call.side}()")
        key = (call.agg, call.side, of.text.strip() if of else "")
        if key not in found:
            found[key] = _term(call.agg, call.side, of, settings, [t.aggregation.name for t in found.values()])
        condition += label[done : call.start] + found[key].aggregation.name
        done = call.end
    return tuple(found.values()), condition + label[done:]


def _term(agg: str, side: str, of: Expression | None, settings: LakeSettings, taken: list[str]) -> Declared:
    horizon = settings.labels.horizon_days
    reach: Reach = ahead(horizon) if side == "ahead" else trailing(horizon)
    base, used = f"{agg}_{side}", {*taken, *settings.features.entity}
    name = next(n for n in (base, *(f"{base}_{i}" for i in range(2, len(used) + 3))) if n not in used)
    return compiled(name, AGGS[agg], (of, None), reach, LABEL)


def _calls(label: str) -> Sequence[LabelCall]:
    """The calls of known aggregates; other calls stay in the text, where the check of the condition refuses them."""
    try:
        return [call for call in label_calls(label) if call.agg in AGGS]
    except ValueError as error:
        raise refused(LABEL, str(error), ADVICE) from None
