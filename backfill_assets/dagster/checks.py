"""`lake_checks`: rules for the days of an asset, judged before its rows are committed.

Lives here: the checks that Dagster lists, whose step answers from receipts. Does not live here: the gates themselves
(`lake.gates`), and the verdict on rows that were refused (`orchestration.verdicts`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import dagster as dg

from backfill_assets.core.contracts import Rule
from backfill_assets.core.errors import SettingsError
from backfill_assets.dagster.contracts import table_of
from backfill_assets.dagster.lakes import lake_at
from backfill_assets.dagster.rules import DECLARED, Rules, as_rules
from backfill_assets.lake.gates import NOT_NULL, ROW_COUNT, RULES, UNIQUE_KEY
from backfill_assets.lake.view import read_view
from backfill_assets.orchestration.io_manager import as_failures
from backfill_assets.orchestration.verdicts import Verdicts
from backfill_assets.pipeline.chosen import chosen_pipeline


def lake_checks(
    asset: dg.AssetsDefinition,
    *,
    unique: Sequence[str] = (),
    not_null: Sequence[str] = (),
    rows: tuple[int | None, int | None] = (None, None),
    rules: Sequence[Rule] | Mapping[str, str] = (),
    on_bad_days: Literal["", "refuse", "keep_good"] = "",
) -> list[dg.AssetChecksDefinition]:
    """Checks for `Definitions(asset_checks=…)` that judge every day of an asset before its commit.

    `unique`: columns that tell the rows of a day apart, never NULL. `not_null`: further columns without NULL. `rows`:
    the least and the most rows of a day (None: no bound). `rules`: conditions on a row, by name, in Spark SQL; only
    FALSE breaks one. `on_bad_days`: "keep_good" writes the other days of a run ("": as `lake.toml` says, else no day is
    written). A day that breaks one keeps its old rows, in whichever process the asset runs and whether or not
    the checks are in the run, also under a key prefix that is put on later. Raises SettingsError for no rule at all,
    and for an asset that has other rules already. Does not judge rows that another IO manager stores.
    """
    rule_set = Rules(tuple(unique), tuple(not_null), rows, as_rules(rules), on_bad_days)
    if not rule_set.checks:
        raise SettingsError(
            f"the asset {asset.key.to_user_string()}", "lake_checks declares no rule", "No check was made",
            "Give unique, not_null, rows or rules",
        )  # fmt: skip
    DECLARED.add(asset, rule_set)
    io_manager = asset.get_io_manager_key_for_asset_key(asset.key)

    @dg.multi_asset_check(
        name=f"{'__'.join(asset.key.path)}__lake_checks", specs=specs_of(asset.key, rule_set), can_subset=True,
        required_resource_keys={io_manager},
    )  # fmt: skip
    def by_receipts(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        """Judge all written days by their receipts. A run has judged and reported the days that it refused."""
        with as_failures():
            keys = sorted(context.selected_asset_check_keys)
            yield from standing(context.instance, getattr(context.resources, io_manager), keys)

    return [by_receipts]


def specs_of(key: dg.AssetKey, rules: Rules) -> list[dg.AssetCheckSpec]:
    """The checks of an asset with these rules."""
    return [dg.AssetCheckSpec(name, asset=key, description=_description(name, rules)) for name in rules.checks]


def standing(
    instance: dg.DagsterInstance, io_manager: Any, keys: Sequence[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """The results of some checks of one asset: every day that stands failed, by receipts, or refused since. Raises
    SettingsError for an IO manager that is no LakeIOManager."""
    folder = getattr(io_manager, "lake", None)
    if folder is None:
        raise SettingsError(
            f"the asset {keys[0].asset_key.to_user_string()}", f"a {type(io_manager).__name__} stored its days",
            "Its days were not judged", "Give it a LakeIOManager, by io_manager_key",
        )  # fmt: skip
    lake = lake_at(folder)
    pipeline = chosen_pipeline(lake)
    contract = pipeline.contract(table_of(keys[0].asset_key), "Nothing was judged")
    states = pipeline.states(read_view(lake, pipeline.contracts))
    wanted = {key.name for key in keys}
    for found in Verdicts(instance, lake, states).of(contract, afresh=True):
        if found.check_name in wanted:
            yield dg.AssetCheckResult(
                passed=found.passed, check_name=found.check_name, asset_key=keys[0].asset_key, severity=found.severity,
                metadata=found.metadata,
            )  # fmt: skip


def _description(name: str, rules: Rules) -> str:
    """The check in words, as its page shows it."""
    least, most = ("any" if bound is None else f"{bound:,}" for bound in rules.rows)
    words = {
        UNIQUE_KEY: f"({', '.join(rules.unique)}) tells the rows of a day apart.",
        NOT_NULL: f"No NULL in {', '.join(dict.fromkeys((*rules.unique, *rules.not_null)))}.",
        ROW_COUNT: f"A day has at least {least} and at most {most} rows.",
        RULES: "; ".join(f"{r.name}: {r.expression}" for r in rules.rules),
    }
    return f"{words[name]} Judged before the commit: a day that fails keeps its rows."
