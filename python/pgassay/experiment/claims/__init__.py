"""Running the experiments whose claims are to be judged, in the time given.

claim_files.py: which files are meant; claim_status.py: where the claims of one stand; run_order.py: which
experiment is next, and for how long; run_claims.py: the run.
"""
