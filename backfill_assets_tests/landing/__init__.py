"""Tests of the room `landing`. A file per module; what needs a Spark session says so by its
fixture."""
