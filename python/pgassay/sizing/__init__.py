"""Which volume a workload needs: requests that trials recorded, replayed on the volumes of the catalogue."""
