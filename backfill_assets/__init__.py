"""Daily-partitioned Spark assets on Delta Lake in Dagster, safe to rebuild: any day, any order, any number of times.

The rooms: `core` (words and rules) < `lake` (tables) < `operations` (verbs) < `orchestration` (Dagster) < `pipeline`
(the tables of this product) < `definitions` and `cli` (the two doors). Nothing happens at import.
"""
