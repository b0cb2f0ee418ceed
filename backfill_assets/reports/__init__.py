"""What a person looks at: states of all days, a day's receipt, the whole lake on a page, lateness,
plots.

Uses the kernel and `reading`. Adds the commands `status`, `show`, `report`, `audit`, `lateness`,
`controls`, `prove`, `drift`. Not here: what Dagster's pages show (`dagster.adapter`). Guides:
trust, late-data.
"""
