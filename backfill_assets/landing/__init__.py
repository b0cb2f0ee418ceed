"""The landing folder: finding files, keeping their content in the stock, parsing them, and the mapping by `select`.

A leaf: knows `core` only. Lives here: everything up to typed rows of one file. Does not live here: the account of files
and days (`load`) and any table (`lake`).
"""
