"""Running the experiments whose claims are to be judged, in the time given.

files.py: which files are meant; standing.py: where the claims of one stand; order.py: which experiment is
next, and for how long; run.py: the run.
"""
