"""Lakes to learn from: each folder holds `lake.toml`, `STEPS.md` to follow; what lands in it is
generated.

A leaf: knows `kernel.core` and the standard library only. Lives here: the content of the examples,
the same bytes on every machine. Does not live here: making a lake of one (`learn.example_lakes`)
and the sample of `demo` (`learn.example_lakes`).
"""
