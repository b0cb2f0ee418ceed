"""Places: what fills the port `kernel.place.port`, a folder or an object store, and the one choice between
them.

Here: requests to a store, its leases and markers, copies of its objects on this machine, and its
errors in plain words. Not here: what a file means (`lake`).
"""
