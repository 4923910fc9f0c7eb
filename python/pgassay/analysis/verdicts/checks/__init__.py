"""What may speak against a verdict: twin, failures, carry-over, copies, the machine itself and its ledger."""
