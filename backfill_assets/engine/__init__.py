"""The Spark engine of a lake: its Java, its server process, sessions on it, and the errors of losing it.

A leaf: knows `core` only. Lives here: finding, starting, sharing, supervising and stopping an engine. Does not live
here: what is read or written through a session (`lake`, `load`).
"""
