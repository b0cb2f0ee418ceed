"""Tests of the room `engine`, a file per module."""
