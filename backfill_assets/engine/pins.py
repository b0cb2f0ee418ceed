"""What the jars of a server must be: names and contents, by Delta's coordinate. An altered or foreign jar is refused.

Lives here: the pins and the one comparison with them. Does not live here: fetching (`cache`). Whoever can write
into the user's cache could otherwise have any code run in the server. A newer Delta needs its pins here first
(`sha256sum` of the jars that a trusted machine fetched).
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from backfill_assets.core.errors import BackfillError

PINS: Mapping[str, Mapping[str, str]] = {
    "io.delta:delta-spark_4.2_2.13:4.4.0": {
        "com.globalmentor_hadoop-bare-naked-local-fs-0.1.0.jar":
            "e0cc30fb0531eb0b59468dc0abf5b257533d2365b5e9f45e795edd707aa78c62",
        "io.delta_delta-kernel-api-4.4.0.jar":
            "ee9b5a14ac3b7efdff4d61a58478fe8eb0e5a3fbca43889dca7290795fe79a11",
        "io.delta_delta-kernel-defaults-4.4.0.jar":
            "225c975199e4718b38ee5b7e6da7f19e9585024262b2cec2656b32151a856b0b",
        "io.delta_delta-kernel-unitycatalog-4.4.0.jar":
            "cea22dfb4ac562b3cd27bf652697750e8336009d73fb06631363aaaad5345ffa",
        "io.delta_delta-spark_4.2_2.13-4.4.0.jar":
            "27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
        "io.delta_delta-storage-4.4.0.jar":
            "c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
        "io.unitycatalog_unitycatalog-client-0.6.0.jar":
            "48257499a86b801a3e2372cec55ac226ca1c1c7eabe5c118e7302f29a1fdbc19",
        "io.unitycatalog_unitycatalog-hadoop-0.6.0.jar":
            "c47b63c961c87102b9e1d63809a0915ba4c86b7652f57c8d39ca3a05b441a150",
    }
}  # fmt: skip


def is_complete(coordinate: str, jars: Sequence[Path]) -> bool:
    """True if no pinned jar is missing."""
    return set(PINS.get(coordinate, ())) <= {jar.name for jar in jars}


def prove(coordinate: str, jars: Sequence[Path]) -> None:
    """Raise BackfillError, naming the jar, unless each of the jars is as pinned."""
    pins = PINS.get(coordinate)
    if pins is None:
        raise BackfillError(
            f"Delta's jars ({coordinate})", "this package does not know what they must contain",
            "Spark was not started", f"Install the versions it was made for: {', '.join(PINS)}",
        )  # fmt: skip
    for jar in jars:
        with jar.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if pins.get(jar.name) != found:
            told = f"its sha256 is {found}, not {pins[jar.name]}" if jar.name in pins else "it is none of Delta's"
            raise BackfillError(
                f"the jar {jar}", told, "Spark was not started",
                f"Find out who changed it, then remove the folder {jar.parent}: the jars are fetched again",
            )  # fmt: skip
