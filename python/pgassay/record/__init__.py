"""The on-disk contract of an experiment's folder: layout, versions, atomic writes, reading (`documents.py`).

    experiment.json                                 the plan (model/experiment.py); written once
    servers.json, swap.json                         of remote servers: settings; what was swapped
    state.json                                      how it ended; rewritten atomically
    blocks/000012.json                              BlockPlan: what a block is made of
    trials/000123/attempt-1/trial.json              TrialRecord (model/trial.py)
    trials/000123/attempt-1/plans.json              {statement: EXPLAIN (FORMAT JSON)}
    trials/000123/attempt-1/work_plans.json         {statement: WorkPlan}, executed after the trial
    trials/000123/attempt-1/latency.hdr             the load's histogram (V2, microseconds)
    trials/000123/attempt-1/latency.hlog            its further histograms, by second among others
    trials/000123/attempt-1/server.log
    trials/000123/attempt-1/observations/NAME.parquet  one columnar file per sampler

A trial's folder is written under a temporary name, synced and renamed: it is there whole or not at all. While
an experiment runs, its process holds a lock on the folder (`record/experiment_lock.py`), which writes nothing
and tells `pgassay watch` who runs it.
"""
