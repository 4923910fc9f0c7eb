"""One trial: prepared, measured, verified and recorded by the protocol.

The order of `trial/run_trial.py`; each step is there because its absence has misled somebody.

1. For a cold trial, stop the server. Restore the working copy when it is not as it was. Settle: everything is
   written, Dirty and Writeback are at most 1 MB (a dirty page can't be evicted).
   Then, where the plan asks for it, the speeds of memory and of the disk are read: before the server starts,
   so that no arm can move them.
2. Start the server in its control group, unless the running one differs only in what a session can set.
3. Assert from inside: version, checksums, every setting asked for. A mismatch fails the trial.
4. Prefault shared memory after a new start. EXPLAIN every statement, which also warms the catalogs.
5. Buffers, then the measured session with its own catalogs, then pages: the cache state is made last, and
   verified.
6. Canary: a fixed task without I/O, for the covariate.
7. Snapshots of the counters, measure with samplers on CLOCK_MONOTONIC, snapshots again. Statistics are
   differenced and never reset.
8. Verify: bytes that the device delivered to the server's own processes, no WAL from a workload that reads,
   checkpoints seen by one that writes.
9. Write the folder under a temporary name, sync, rename.

A trial that fails in a server, or breaks a rule, is recorded like any other, with its reason. Only what the
user must mend (`UsageError`) and a record that can't be written end the experiment.
"""
