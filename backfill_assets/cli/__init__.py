"""The command `backfill-assets`: commands and their output for people and programs.

Not here: anything that decides or writes content (the rooms, `kernel`). A command
imports heavy libraries when it needs them, so that `--help` answers at once.
"""
