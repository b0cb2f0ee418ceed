"""Keeping a lake in order: the doctor, damaged logs mended, files that nothing needs deleted, small
ones joined.

Uses the kernel and most rooms. Adds the commands `doctor`, `verify`, `mend`, `maintain`,
`checklist`. Not here: erasing an entity (`erasure`). Guide: production.
"""
