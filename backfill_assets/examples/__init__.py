"""Lakes to learn from: each folder holds `lake.toml`, `STEPS.md` to follow, and in `files.tar.gz` what lands in it.

The files are data, the same on every machine: `landing` has landed, `later` is for the steps to move. To change some,
unpack, edit, and pack with `tar -czf files.tar.gz landing later`; the programs that drew them lie in git's history.
Does not live here: making a lake of one, and the sample of `demo` (`operations.example_lakes`).
"""
