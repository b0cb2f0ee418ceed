"""Tables built beside a lake and switched at once, and snapshots: days kept under a name.

Uses the kernel and `plans`. Adds the commands `candidate` and `snapshot`. Not here: comparing a
candidate with the lake (`compare`). Guide: correcting-the-past.
"""
