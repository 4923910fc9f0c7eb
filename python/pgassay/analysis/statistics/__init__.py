"""The statistics: e-processes, confidence sequences, equivalence, power, change points. Pure."""
