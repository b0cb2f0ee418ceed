"""The side door for operators: the command `backfill-assets`.

Lives here: commands, their output for people and programs, the sample lake. Does not live here: anything that decides
or writes content (`operations`, `orchestration`, `lake`). What is heavy is imported when a command needs it, so that
`--help` answers at once.
"""
