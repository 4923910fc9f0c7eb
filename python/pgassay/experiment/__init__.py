"""The loop: plan, run, stop, resume. The only room that knows both trials and analysis."""
