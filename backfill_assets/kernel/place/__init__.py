"""Where a lake's files lie: the port `Place` (`kernel.place.port`), and the one that is a folder of
this machine.

Not here: object stores (`buckets`), which one is chosen by an address's scheme
(`kernel.place.choice`).
"""
