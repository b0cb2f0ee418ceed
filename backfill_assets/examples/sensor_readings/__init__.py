"""Temperatures of machines in two plants: DOUBLE with NaN, minimum, maximum, newest, an entity of two columns.

Lives here: the example `sensor-readings`. Does not live here: the other examples (`examples`).
"""
