"""Lakes to learn from: each folder holds `lake.toml`, `STEPS.md` to follow, and a generator of what lands in it.

A leaf: knows `core` and the standard library only. Lives here: the content of the examples, the same bytes on every
machine. Does not live here: making a lake of one (`operations.example_lakes`) and the sample of `demo`
(`operations.example_lakes`).
"""
