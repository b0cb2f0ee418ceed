"""The kernel: a request for days becomes files, a verdict, one commit, and a state of each day.

Here: five folders, each of which imports only those named before it (exceptions stand in
`pyproject.toml`): `core` (words, days, digests, receipts, states), `place` (where files lie), `log`
(a table's commits), `tables` (settings, staging, what a table holds), `write` (compute, audit,
judge, replace). Not here: anything that a lake can do without. Rooms use the kernel; it uses none
of them."""
