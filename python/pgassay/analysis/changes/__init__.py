"""What changed within a trial and what happened then: series, events, and which of both coincide. Pure."""
