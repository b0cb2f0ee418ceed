"""Tests of the room `load`, a file per module."""
