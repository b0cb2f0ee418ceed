"""`daily_table` and `lake_checks`: an asset with windows of its inputs' days, and rules judged
before its rows commit.

Lives here: the parameters of a lake's table as parameters of `dg.asset`, and the checks that
Dagster lists, which answer from receipts. Does not live here: reading and writing rows
(`io_manager`), the gates (`kernel.write.gates`), and the verdict on rows that were refused
(`dagster.adapter.verdicts`).
"""

import inspect
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import wraps
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.assets.contracts import (
    DAY_COLUMN,
    DECLARED,
    Rules,
    asset_partitions,
    asset_table_name,
    input_table_name,
)
from backfill_assets.assets.lakes import lake_at
from backfill_assets.assets.rule_arguments import GivenRules, OnBadDays, rules_from_arguments
from backfill_assets.dagster.adding import Verdicts, as_failures, window_mapping
from backfill_assets.kernel.core.addresses import local_root
from backfill_assets.kernel.core.contracts import Input
from backfill_assets.kernel.core.errors import SettingsError
from backfill_assets.kernel.tables.view import read_view
from backfill_assets.kernel.write.gates import NOT_NULL, ROW_COUNT, UNIQUE_KEY, check_name
from backfill_assets.pipeline.chosen import chosen_pipeline

# Arguments of `dg.asset` that `daily_table` sets itself, each with what to do instead.
REFUSED_ARGUMENTS = {
    "ins": "Declare inputs with `inputs`",
    "check_specs": "Declare rules here, and other checks with `dg.asset_check`",
    "io_manager_def": "Name a resource: io_manager_key",
}
JUDGED = (
    "A run judges its days by it before it writes them: it writes no day that fails, and fails "
    "itself. Dagster calls "
    "it non-blocking because a day that failed in an earlier run does not stop a later one."
)
NO_STEP = re.compile("[^A-Za-z0-9_]")  # what a key may have, and no name of a step
AnyInput = Input | dg.AssetKey | str | Sequence[str]
Body = Callable[..., Any]


def daily_table(  # noqa: PLR0913 - each is a word of a table
    *,
    inputs: Sequence[AnyInput] | Mapping[str, AnyInput] = (),
    day: str = "day",
    start: date | str | None = None,
    every: str = "",
    partitions_def: dg.TimeWindowPartitionsDefinition | None = None,
    unique: Sequence[str] = (),
    not_null: Sequence[str] = (),
    rows: tuple[int | None, int | None] = (None, None),
    rules: GivenRules = (),
    on_bad_days: OnBadDays = "",
    io_manager_key: str = "io_manager",
    **asset: Any,
) -> Callable[[Body], dg.AssetsDefinition]:
    """Make an asset of a function that returns the rows of its days; its IO manager is a
    `LakeIOManager`.

    A parameter gets the days of its input, pinned to one moment, in the form of its annotation. All
    days of a run are judged before one commit: a day that breaks a rule keeps its old rows. The
    checks are part of the asset: no run of it can leave them out.

    inputs: `Input("orders", before=6)` gives the parameter `orders` the days d - 6 through d of the
    asset `orders` for
      each day d of the run. A prefixed key is "shop/orders", and its parameter is `orders` too; a
      key alone (a text, a list, a `dg.AssetKey`) gives the same day. A mapping names parameters
      itself: `{"eu": Input("eu/orders")}`.
    day: the column with a row's day.
    start: the first day, or else partitions_def: a definition whose partitions are whole days,
      weeks, months, quarters or years, with keys that are dates.
    every: what a partition covers, from the first that begins on `start` or later (UTC): "week"
      (from Monday), "week from sunday", "month", "quarter" or "year"; else a day. A row's `day` is
      the first day of its partition then. The partition of today is there, too: it is made of the
      days that have come, and is stale with each further one. Between other partitions a parameter
      gets those that overlap; `before` and `after` count partitions of the asset itself.
    unique, not_null, rows, rules, on_bad_days: as for `lake_checks`.
    io_manager_key: the resource that stores the days.
    asset: whatever else `dg.asset` takes. The backfill policy is `single_run` unless another one is
    given.

    Raises SettingsError for an input without a parameter, a parameter without an input, a choice of
    an input that only tables of `lake.toml` have, no first day or two, a name that no table can
    have, rules with a fault, and arguments of `dg.asset` that are set here. A generator is refused.
    """

    arguments: dict[str, Any] = {
        "unique": unique,
        "not_null": not_null,
        "rows": rows,
        "rules": rules,
        "on_bad_days": on_bad_days,
    }

    def decorate(function: Body) -> dg.AssetsDefinition:
        """The asset of the function, whose rules are kept for its IO manager."""
        name = _name_of(function, asset)
        rule_set = rules_from_arguments(f"the daily table {name}", **arguments)
        windows = _input_windows(name, inputs)
        _refuse_arguments(name, function, windows, asset)
        key = _asset_key(function, asset)
        metadata = {DAY_COLUMN: day, **asset.get("metadata", {})}
        # For its error: the key, or the metadata, has to name a table.
        asset_table_name(key, metadata, "No asset was made")
        partitions = asset_partitions(
            f"the daily table {name}", start, partitions_def, every, "No asset was made"
        )
        words = {
            "backfill_policy": dg.BackfillPolicy.single_run(),
            **asset,
            "metadata": metadata,
            "partitions_def": partitions,
            "io_manager_key": io_manager_key,
            "check_specs": rule_check_specs(key, rule_set),
            "required_resource_keys": {io_manager_key, *asset.get("required_resource_keys", ())},
        }
        made = _make_asset(words, windows, _with_checks(function, io_manager_key, rule_set))
        _refuse_unfed_parameters(name, function, made, windows)
        DECLARED.add(made, rule_set)
        return made

    return decorate


def _name_of(function: Body, asset: Mapping[str, Any]) -> str:
    """The last part of the asset's key, as the words of `dg.asset` say it."""
    if name := asset.get("name"):
        return str(name)
    path = getattr(asset.get("key"), "path", [function.__name__])
    return str(path[-1])


def _make_asset(
    words: Mapping[str, Any], windows: Mapping[str, Input], body: Body
) -> dg.AssetsDefinition:
    """The asset of a body, by words of `dg.asset` and the windows of its parameters."""
    with warnings.catch_warnings():
        # What Dagster may still change is ours to follow: the policy of runs, and windows cut where
        # days end.
        warnings.simplefilter("ignore", dg.BetaWarning)
        ins = {parameter: _asset_in(window) for parameter, window in windows.items()}
        made: dg.AssetsDefinition = dg.asset(**words, ins=ins)(body)
        return made


def _refuse_unfed_parameters(
    name: str, function: Body, made: dg.AssetsDefinition, windows: Mapping[str, Input]
) -> None:
    """Raise SettingsError for parameters that Dagster would fill and `inputs` does not name."""
    read = made.keys_by_input_name.keys() & inspect.signature(function).parameters.keys()
    if unknown := sorted(read - windows.keys()):
        raise _daily_table_error(
            name, f"the parameter {', '.join(unknown)} has no input", "Name it in `inputs`"
        )


def _with_checks(function: Body, io_manager_key: str, rules: Rules) -> Body:
    """The function as one that hands its rows to the IO manager, and tells its checks after the
    commit."""

    @wraps(function)
    def make(*args: Any, **kwargs: Any) -> Iterator[Any]:
        yield dg.Output(function(*args, **kwargs))
        if rules.checks:
            step = dg.AssetExecutionContext.get()
            keys = [dg.AssetCheckKey(step.asset_key, name) for name in rules.checks]
            yield from standing_results(
                step.instance, getattr(step.resources, io_manager_key), keys
            )

    # Dagster reads parameters from the signature; what the function returns is none of its types
    # any more.
    made: Any = make
    made.__signature__ = inspect.signature(function).replace(
        return_annotation=inspect.Signature.empty
    )
    made.__annotations__ = {**function.__annotations__}
    made.__annotations__.pop("return", None)
    return make


def _input_windows(
    name: str, inputs: Sequence[AnyInput] | Mapping[str, AnyInput]
) -> dict[str, Input]:
    """The inputs by parameter: as a mapping names it, else the last part of the input's key. Raises
    SettingsError for two of one parameter, and choices that only tables of `lake.toml` have."""
    given: Iterable[tuple[str, AnyInput]] = [("", one) for one in inputs]
    if isinstance(inputs, Mapping):
        given = inputs.items()
    found: dict[str, Input] = {}
    for parameter, one in given:
        window = one if isinstance(one, Input) else Input(_key_text(one))
        _refuse_lake_choices(name, window)
        key = parameter or dg.AssetKey.from_user_string(window.table).path[-1]
        if key in found:
            raise _daily_table_error(
                name,
                f"{found[key].table} and {window.table} would both be the parameter {key}",
                f'Name the parameters: inputs={{"{key}": …, "other": …}}',
            )
        found[key] = window
    return found


def _refuse_lake_choices(name: str, window: Input) -> None:
    """Raise SettingsError for a choice of an input that only tables of `lake.toml` have."""
    is_window = window == Input(window.table, window.before, window.after)
    if is_window and not window.by and window.columns is None:
        return
    raise _daily_table_error(
        name,
        f"the input {window.table} has more than days: basis, columns or by",
        "Leave out all but before and after: the others are of tables of a lake.toml",
    )


def _key_text(key: dg.AssetKey | str | Sequence[str]) -> str:
    return key if isinstance(key, str) else dg.AssetKey.from_coercible(key).to_user_string()


def _asset_in(window: Input) -> dg.AssetIn:
    mapping = window_mapping(window.before, window.after)
    return dg.AssetIn(key=dg.AssetKey.from_user_string(window.table), partition_mapping=mapping)


def _asset_key(function: Body, asset: Mapping[str, Any]) -> dg.AssetKey:
    if (key := asset.get("key")) is not None:
        return dg.AssetKey.from_coercible(key)
    prefix = asset.get("key_prefix") or ()
    if isinstance(prefix, str):
        prefix = [prefix]
    return dg.AssetKey([*prefix, asset.get("name") or function.__name__])


def _refuse_arguments(
    name: str,
    function: Body,
    windows: Mapping[str, Input],
    asset_arguments: Mapping[str, Any],
) -> None:
    """Raise SettingsError for arguments of `dg.asset` that `daily_table` sets itself, a function
    that is a generator or a coroutine, and an input that no parameter takes. `windows`: the inputs
    by parameter; `asset_arguments`: what goes on to `dg.asset`."""
    for argument, fix in REFUSED_ARGUMENTS.items():
        if argument in asset_arguments:
            raise _daily_table_error(name, f"{argument} is no word of daily_table", fix)
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        raise _daily_table_error(
            name,
            "its function is a generator or a coroutine",
            "Return the rows of all days at once",
        )
    parameters = inspect.signature(function).parameters
    lost = list[str]()
    for parameter, window in windows.items():
        if parameter not in parameters:
            lost.append(f"{window.table} ({parameter})")
    if lost:
        culprit = f"no parameter takes the input {', '.join(lost)}"
        raise _daily_table_error(
            name, culprit, f"Add the parameter to {function.__name__}, or take the input out"
        )


def _daily_table_error(name: str, culprit: str, advice: str) -> SettingsError:
    return SettingsError(f"the daily table {name}", culprit, "No asset was made", advice)


def lake_checks(
    asset: dg.AssetsDefinition,
    *,
    unique: Sequence[str] = (),
    not_null: Sequence[str] = (),
    rows: tuple[int | None, int | None] = (None, None),
    rules: GivenRules = (),
    on_bad_days: OnBadDays = "",
) -> list[dg.AssetChecksDefinition]:
    """Checks for `Definitions(asset_checks=…)` that judge every day of an asset before its commit.

    `unique`: columns that tell the rows of a day apart, never NULL. `not_null`: further columns
    without NULL. `rows`: the least and the most rows of a day (None: no bound). `rules`: conditions
    on a row, by name, in Spark SQL; only FALSE breaks one. `on_bad_days`: "keep_good" writes the
    other days of a run ("": as `lake.toml` says, else no day is written). A day that breaks one
    keeps its old rows, in whichever process the asset runs and whether or not the checks are in the
    run, also under a key prefix that is put on later. Raises SettingsError for no rule at all, for
    arguments that say none (each is named), for an asset that has other rules already, and for
    graphs and multi-assets. Does not judge rows that another IO manager stores.
    """
    _refuse_multi_assets(asset)
    asset_table_name(asset.key, asset.metadata_by_key.get(asset.key, {}), "No check was made")
    owner = f"the asset {asset.key.to_user_string()}"
    rule_set = rules_from_arguments(
        owner, unique=unique, not_null=not_null, rows=rows, rules=rules, on_bad_days=on_bad_days
    )
    if not rule_set.checks:
        raise SettingsError(
            owner,
            "lake_checks declares no rule",
            "No check was made",
            "Give unique, not_null, rows or rules",
        )
    DECLARED.add(asset, rule_set)
    return [_checks_by_receipts(asset, rule_set)]


def _checks_by_receipts(asset: dg.AssetsDefinition, rules: Rules) -> dg.AssetChecksDefinition:
    """The checks of an asset, whose button judges all written days by their receipts."""
    io_manager = asset.get_io_manager_key_for_asset_key(asset.key)

    @dg.multi_asset_check(
        name=f"{NO_STEP.sub('_', '__'.join(asset.key.path))}__lake_checks",
        can_subset=True,
        specs=rule_check_specs(asset.key, rules),
        required_resource_keys={io_manager},
    )
    def by_receipts(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        """Judge all written days by their receipts. A run has judged and reported the days that it
        refused."""
        manager = getattr(context.resources, io_manager)
        with as_failures(_lake_root(manager)):
            yield from standing_results(
                context.instance, manager, sorted(context.selected_asset_check_keys)
            )

    return by_receipts


def _refuse_multi_assets(asset: dg.AssetsDefinition) -> None:
    """Raise SettingsError for what is not one asset of one function."""
    if len([*asset.keys]) != 1 or not isinstance(asset.node_def, dg.OpDefinition):
        keys = ", ".join(sorted(key.to_user_string() for key in asset.keys))
        raise SettingsError(
            f"the asset {keys}",
            "it is a graph of ops, or several assets of one function",
            "No check was made",
            "Make it one function by `dg.asset`, or check it afterwards by `dg.asset_check`",
        )


def rule_check_specs(key: dg.AssetKey, rules: Rules) -> list[dg.AssetCheckSpec]:
    """The checks of an asset with these rules.

    They are not `blocking`. A refused day has failed its step, which stops all that follows in the
    run. A check that a step tells after its commit is red for days that earlier runs left refused:
    by `blocking` Dagster 1.13 would fail that step although its own days are right, and skip the
    assets downstream. Only WARN would let them pass, which shows a refused day in yellow.
    """
    return [
        dg.AssetCheckSpec(name, asset=key, description=_check_description(name, rules))
        for name in rules.checks
    ]


def standing_results(
    instance: dg.DagsterInstance, io_manager: Any, keys: Sequence[dg.AssetCheckKey]
) -> Iterator[dg.AssetCheckResult]:
    """The results of some checks of one asset: every day that stands failed, by receipts, or
    refused since. Raises SettingsError for an IO manager that is no LakeIOManager."""
    folder = getattr(io_manager, "lake", None)
    if folder is None:
        raise SettingsError(
            f"the asset {keys[0].asset_key.to_user_string()}",
            f"a {type(io_manager).__name__} stored its days",
            "Its days were not judged",
            "Give it a LakeIOManager, by io_manager_key",
        )
    lake = lake_at(folder)
    pipeline = chosen_pipeline(lake)
    contract = pipeline.contract(
        input_table_name(keys[0].asset_key, {}, pipeline.contracts), "Nothing was judged"
    )
    states = pipeline.states(read_view(lake, pipeline.contracts))
    yield from Verdicts(instance, lake, states).results(contract, keys, afresh=True)


def _lake_root(io_manager: Any) -> Path | None:
    """The lake's folder of a LakeIOManager; None of another one."""
    folder = getattr(io_manager, "lake", None)
    return local_root(folder) if folder is not None else None


def _check_description(name: str, rules: Rules) -> str:
    """The check in words, as its page shows it."""
    least, most = ("any" if bound is None else f"{bound:,}" for bound in rules.rows)
    words = {
        UNIQUE_KEY: f"({', '.join(rules.unique)}) tells the rows of a day apart.",
        NOT_NULL: f"No NULL in {', '.join(dict.fromkeys((*rules.unique, *rules.not_null)))}.",
        ROW_COUNT: f"A day has at least {least} and at most {most} rows.",
    }
    conditions = {
        check_name(rule): f"{rule.description}: `{rule.expression}`." for rule in rules.rules
    }
    return f"{(words | conditions)[name]} {JUDGED}"
