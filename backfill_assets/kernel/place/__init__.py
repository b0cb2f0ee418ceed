"""Where a lake's files lie: the port `Place` (`kernel.place.port`), and the one that is a folder of
this machine.

Also here: which room makes places of an address's scheme (`schemes`), the identity of a process,
and files that show its life (`processes`, `lease_watch`). Not here: object stores (`buckets`).
"""
