"""Lakes to learn from: each folder holds `lake.toml`, `STEPS.md` to follow, landed files, and
files in `later/` that land later.

Not here: code; `operations.example_lakes` copies them, and `operations.sample` makes the rows of `demo`.
"""
