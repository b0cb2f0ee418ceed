"""To learn and to begin: examples, labs, drills, the demo, and a `lake.toml` that fits one's files.

Uses all else; nothing uses it. Adds the commands `demo`, `example`, `lab`, `drill`, `guide`,
`init`. Not here: any write path. Guides: practice, first-lake.
"""
