"""New lakes to try the package with: its examples (settings copied, landed files generated), and
the sample of `demo`.

The sample is a month of a small shop's orders, from a first day, a number of days and a seed alone.
In it: late and repeated rows, a file delivered twice, corrections (some after a newer one),
deletes, orders that move to another day or lack a customer, unusable lines, a customer with a
quarter of all orders, a day without deliveries. Not here: the content of examples (the folder
`examples/`), and loading (`learn.practice_command`, `STEPS.md`).
"""

import json
import os
import random
import shutil
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import backfill_assets.learn.examples as package
from backfill_assets.kernel.core.addresses import address_of, bucket_address
from backfill_assets.kernel.core.days import ONE_DAY, DayRange, end_of_day, midnight
from backfill_assets.kernel.core.errors import SettingsError, refuse_unknown_names
from backfill_assets.kernel.tables.settings import FILE_NAME, LakeSettings, lake_model
from backfill_assets.learn.examples.stories import STORIES
from backfill_assets.learn.examples.streams import STREAMS
from backfill_assets.learn.new_lake import lake_toml

SEED = 20240229
FEWEST_DAYS = 14  # fewer would have no room for rows that are two weeks late
ORDERS_A_DAY = (52, 74)
HOT_CUSTOMER, HOT_SHARE = "customer-001", 0.25
CUSTOMERS = 40
SECOND_FILE_EVERY = 3  # days; the others have one file
# Shares of orders, and the most seconds that each is late.
LATENESS = ((0.84, 600), (0.08, 6 * 3600), (0.05, 3 * 86400), (0.03, 16 * 86400))
SELECT = (
    "CAST(delivery AS bigint) AS seq, CAST(received_at AS timestamp) AS arrival_ts, "
    "CAST(version_at AS timestamp) AS version_ts, CAST(ordered_at AS timestamp) AS event_ts, "
    "order_id AS event_key, "
    "op, customer AS entity, CAST(amount AS bigint) AS value, CAST(returned AS int) AS flag"
)


@dataclass(frozen=True)
class Delivery:
    """One row of a landed file."""

    received: datetime
    version: datetime
    ordered: datetime | None  # None on deletes
    order: str
    op: str
    customer: str | None
    amount: int | None
    returned: int | None

    def line(self, number: int) -> str:
        """The row as a JSON line; `number` is unique in the whole sample."""
        body = {
            "delivery": number,
            "received_at": _moment_text(self.received),
            "version_at": _moment_text(self.version),
            "ordered_at": _moment_text(self.ordered) if self.ordered else None,
            "order_id": self.order,
            "op": self.op,
            "customer": self.customer,
            "amount": self.amount,
            "returned": self.returned,
        }
        return json.dumps(body)


def sample_files(first: date, days: int, seed: int = SEED) -> dict[str, str]:
    """File name -> text of all that arrived on `days` days from `first` on."""
    chance = random.Random(seed)  # noqa: S311  # made-up orders need no secrets
    files: dict[str, str] = {}
    counted = 0
    for day, deliveries in sorted(_arrivals(chance, first, days).items()):
        lines = []
        for delivery in sorted(deliveries, key=lambda d: (d.received, d.order, d.version)):
            counted += 1
            lines.append(delivery.line(counted))
        files |= _files_of_day(chance, day, lines, (day - first).days, first)
    again = sorted(files)[days // 3]
    return {**files, again.replace(".jsonl", "-resent.jsonl"): files[again]}


def _arrivals(chance: random.Random, first: date, days: int) -> dict[date, list[Delivery]]:
    """What arrived, by the day of arrival. Nothing did on the day in the middle: the line was down,
    and it all came the day after."""
    quiet = first + ONE_DAY * (days // 2)
    end = midnight(first) + ONE_DAY * days
    arrived = defaultdict[date, list[Delivery]](list)
    for number in range(days):
        day = first + ONE_DAY * number
        if day == quiet:
            continue
        for delivery in _orders_of_day(chance, day, first):
            is_held = delivery.received.date() == quiet
            received = delivery.received + ONE_DAY if is_held else delivery.received
            if received < end:
                arrived[received.date()].append(replace(delivery, received=received))
    return arrived


def _orders_of_day(chance: random.Random, day: date, first: date) -> Iterator[Delivery]:
    for number in range(chance.randint(*ORDERS_A_DAY)):
        ordered = midnight(day) + timedelta(
            seconds=chance.randrange(86_400), microseconds=chance.randrange(1_000_000)
        )
        received = ordered + timedelta(seconds=1 + chance.random() * _drawn_delay(chance))
        customer = HOT_CUSTOMER
        if chance.random() >= HOT_SHARE:
            number_of = 2 + min(int(chance.expovariate(0.08)), CUSTOMERS - 2)
            customer = f"customer-{number_of:03d}"
        order = Delivery(
            received,
            ordered,
            ordered,
            f"order-{day:%Y%m%d}-{number:03d}",
            "upsert",
            None if chance.random() < 0.02 else customer,
            chance.randrange(100, 20_000),
            int(chance.random() < 0.08),
        )
        yield order
        yield from _later_deliveries(chance, order, first)


def _drawn_delay(chance: random.Random) -> float:
    drawn = chance.random()
    for share, seconds in LATENESS:
        if drawn < share:
            return seconds
        drawn -= share
    return LATENESS[-1][1]


def _later_deliveries(chance: random.Random, order: Delivery, first: date) -> Iterator[Delivery]:
    """What arrives about an order afterwards: corrections, moves to the day before, deletes."""
    drawn = chance.random()
    after = timedelta(seconds=60 + chance.random() * 4 * 86_400)
    changed = replace(order, received=order.received + after, version=order.version + after)
    if drawn < 0.06:
        yield replace(changed, amount=chance.randrange(100, 20_000), returned=1)
    elif drawn < 0.08:
        # A correction and an older one that arrives after it: the older one never becomes current.
        yield replace(changed, amount=777)
        yield replace(
            changed,
            amount=666,
            version=changed.version - timedelta(seconds=30),
            received=changed.received + ONE_DAY,
        )
    elif drawn < 0.10 and order.ordered is not None and order.ordered.date() > first:
        yield replace(changed, ordered=order.ordered - ONE_DAY)
    elif drawn < 0.12:
        yield replace(changed, op="delete", ordered=None, customer=None, amount=None, returned=None)


def _files_of_day(
    chance: random.Random, day: date, lines: list[str], place: int, first: date
) -> dict[str, str]:
    """The day's lines in one file or two, some of them repeated, and the unusable lines for the day
    number `place`."""
    repeated = [line for line in lines if chance.random() < 0.02]
    cut = len(lines) if place % SECOND_FILE_EVERY else len(lines) * 2 // 3
    parts = [lines[:cut] + _unusable_lines(day, place, first), lines[cut:] + repeated]
    if cut == len(lines):
        parts = [parts[0] + repeated]
    names = [
        f"{day:%Y-%m}/orders-{day}{'' if i == 0 else f'-{i + 1}'}.jsonl" for i in range(len(parts))
    ]
    return {name: "\n".join(part) + "\n" for name, part in zip(names, parts, strict=True)}


def _unusable_lines(day: date, place: int, first: date) -> list[str]:
    """Lines that can never become deliveries, one kind per day of the week."""
    noon = midnight(day) + timedelta(hours=12)
    good = Delivery(noon, noon, noon, f"order-{day:%Y%m%d}-bad", "upsert", "customer-002", 500, 0)
    number = 900_000 + 10 * place
    kinds = {
        1: [good.line(number)[:-9]],
        2: [good.line(number) + " " + good.line(number + 1)],
        3: [
            good.line(number).replace("500", '"five hundred"'),
            good.line(number + 1).replace('"upsert"', '"merge"'),
        ],
        4: [replace(good, ordered=midnight(first) - timedelta(days=20)).line(number)],
        5: [replace(good, order="  ").line(number)],
        6: [replace(good, ordered=noon + timedelta(days=9)).line(number), "null"],
    }
    return kinds.get(place % 7, [])


def _moment_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%fZ}"


HOME = Path(package.__file__).parent
STEPS = "STEPS.md"
# A scan waits for files that were just written; these were delivered long ago.
DELIVERED = datetime.fromisoformat("2024-01-01T00:00:00Z").timestamp()
MARKER = ".demo"
DAYS = 30
SETTINGS: Mapping[str, Any] = {
    "files": "landing/**/*.jsonl",
    "format": "jsonl",
    "select": SELECT,
    "windows_days": [3, 7],
    "horizon_days": 3,
    "maturity_days": 2,
    "memory": "1g",
}


def example_titles() -> dict[str, str]:
    """Return the title of every example's steps, by the example's name."""
    titles = dict[str, str]()
    for path in HOME.glob(f"*/{STEPS}"):
        first = path.read_text(encoding="utf-8").splitlines()[0]
        titles[path.parent.name.replace("_", "-")] = first.removeprefix("# ")
    return dict(sorted(titles.items()))


def make_example(name: str, root: Path) -> None:
    """Make the lake of an example at `root`; raises SettingsError for unknown names and a folder
    that is not empty."""
    known = example_titles()
    refuse_unknown_names("example", [name], known, "Nothing was made")
    _refuse_in_bucket(root, "examples are made as", "Name a folder with --lake")
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise SettingsError(
            f"the lake {root}",
            "the folder is not empty",
            "It was left as it is",
            "Name another --lake",
        )
    shutil.copytree(
        HOME / name.replace("-", "_"), root, copy_function=shutil.copyfile, dirs_exist_ok=True
    )
    generated = {**STREAMS, **STORIES}.get(
        name, dict[str, str]
    )  # one without a generator makes its files by a step
    for place, text in generated().items():
        _write_delivered(root / place, text, DELIVERED)


def _write_delivered(path: Path, text: str, delivered: float) -> None:
    """Write a file as if it had been delivered at that time (seconds since 1970)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    os.utime(path, (delivered, delivered))


def days_until(today: date, days: int = DAYS) -> DayRange:
    """Return the days of a sample that ends the day before `today`."""
    return DayRange(today - ONE_DAY * days, today)


def sample_settings(days: DayRange) -> LakeSettings:
    """Return the settings of a sample of these days, without a file."""
    settings: LakeSettings = lake_model().model_validate(tomllib.loads(_sample_toml(days)))
    return settings


def make_sample(root: Path, days: DayRange, engine: str = "embedded") -> None:
    """Make the sample lake of these days; raises SettingsError for a folder that is not empty."""
    _refuse_in_bucket(root, "samples are made as", "Name a folder with --lake")
    if root.exists() and any(root.iterdir()):
        raise not_a_sample_error(root)
    root.mkdir(parents=True, exist_ok=True)
    (root / MARKER).write_text(
        json.dumps({"first": str(days.start), "end": str(days.end)}) + "\n", encoding="utf-8"
    )
    for name, text in sample_files(days.start, len(days)).items():
        path = root / "landing" / name
        _write_delivered(
            path, text, end_of_day(date.fromisoformat(path.stem[len("orders-") :][:10])).timestamp()
        )
    (root / FILE_NAME).write_text(_sample_toml(days, engine), encoding="utf-8")


def _sample_toml(days: DayRange, engine: str = "embedded") -> str:
    return lake_toml({**SETTINGS, "start_date": days.start, "engine": engine})


def not_a_sample_error(root: Path) -> SettingsError:
    """Return the error about a folder that is no sample."""
    return SettingsError(
        f"the lake {root}",
        "`demo` did not make it",
        "It was left as it is",
        "Name an empty folder with --lake, or use `backfill-assets backfill`",
    )


def sample_days(root: Path) -> DayRange | None:
    """Return the days of the sample lake at `root`, None without one; raises SettingsError for a
    damaged marker."""
    try:
        marker = json.loads((root / MARKER).read_text(encoding="utf-8"))
        return DayRange(date.fromisoformat(marker["first"]), date.fromisoformat(marker["end"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise SettingsError(
            str(root / MARKER),
            "it is not what `demo` writes",
            "The lake was left as it is",
            "Remove the lake by hand",
        ) from None


def _refuse_in_bucket(root: Path, what: str, fix: str) -> None:
    """Raise SettingsError where a lake lies in a bucket and `what` works in a folder only."""
    if bucket_address(root):
        culprit = f"it lies in a bucket, and {what} a lake in a folder"
        raise SettingsError(f"the lake {address_of(root)}", culprit, "Nothing was done", fix)
