"""The landing folder: listing files, parsing them into the content store, and mapping their rows by `select`.

Imports `core` only. Lives here: everything up to typed rows of one file. Does not live here: the ledger of files and
days (`load`), and any table (`lake`).
"""
