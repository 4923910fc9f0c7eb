"""Machines connected by Dask: certificates, processes on each machine, and requests to their agents."""
