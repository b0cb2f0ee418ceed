"""Labs and drills on lakes of their own: an unsafe form that fails beside the safe one, and faults
to mend.

Not here: drawing them (`cli.practice`).
"""
