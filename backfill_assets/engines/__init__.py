"""The engine of a lake: its Java, its server process, sessions on it, and the errors of losing it.

Not here: reading and writing through a session (`lake`, `load`). Knows `core` only.
"""
