"""Tests of the room `load`. A file per module; what needs a Spark session says so by its
fixture."""
