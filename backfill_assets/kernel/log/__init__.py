"""The log of a table: its commits, what they add up to, where an adopted table's begin, signs of
life of those who write.

Not here: what a table's rows mean (`kernel.tables`), logs that others write (`foreign`, `intake`).
"""
