"""Names under which homes of Dagster's and lakes of earlier releases know what lies in
`dagster.adapter` now.

Not here: any code.
"""
