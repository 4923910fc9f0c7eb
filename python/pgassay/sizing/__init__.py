"""Which volume a workload needs: requests that were recorded in trials, replayed on the volumes of the catalogue."""
