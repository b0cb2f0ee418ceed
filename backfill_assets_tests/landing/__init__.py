"""Tests of the room `landing`, a file per module."""
