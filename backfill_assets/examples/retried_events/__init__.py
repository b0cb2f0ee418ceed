"""Clicks that a producer sends again until somebody answers: duplicates, changed ones among them, and ties.

Lives here: the example `retried-events`. Does not live here: the other examples (`examples`).
"""
