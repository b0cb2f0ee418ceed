"""Tests of the room `engine`. A file per module; what needs a Spark session says so by its
fixture."""
