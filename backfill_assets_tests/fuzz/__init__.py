"""Bytes of a lake's own files are changed, and every command that reads must be right or say in one
line what is wrong. Here: the lake, the damage, the judge. Not here: what a crash or a store leaves
(`simulation`, `end_to_end/test_fault_*`), and damaged data files (`kernel/log`, `upkeep`)."""
