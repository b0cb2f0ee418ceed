"""The landing folder: listing files, parsing them into the content store, and mapping their rows by
`select`.

Imports `core` only. Not here: the ledger of files and days (`load`), and any table (`lake`).
"""
