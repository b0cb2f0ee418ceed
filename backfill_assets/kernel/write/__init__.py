"""The way of a write: a request for days, compute, audit, judge, replace. `kernel.write.rebuild`
draws it.

Not here: who asks for it (`dagster`, `plans`, `cli`), and which engine computes (`engines`).
"""
