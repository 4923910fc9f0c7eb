"""From slow statements to fixes proven on a copy.

The way: `run.py` goes from the symptom to the answer; `running/` has its steps: what is looked at, what is
proven, and how a stored run is continued (`resume.py`).

- What it starts from: `inputs/` earlier results, `source/` a running server and its copy, `facts/` the
  schema as the catalogs have it, `finder_inputs.py` the inputs of finders.
- Candidates: `finders/` and `rewrites/` propose them, `copy.py` is a copy to try them on, `names.py`
  quotes names, `same_results/` compares rows.
- The search, in `search/`: what is tried (`search.py`), what the planner says before it is timed
  (`planner_screen.py`), timed in turn (`paired_timing.py`), taken (`forward.py`), tried on top of that
  (`on_top.py`), proposed with that in place (`finders_again.py`), what generic plans do
  (`generic_plans.py`), how often and how long a proof runs (`executions.py`, `proof_time.py`).
  `timeouts/` is for statements that do not end.
- The proof, in `proof/`: its arms, its experiment, the effects that it shows, its two stages;
  `switchable.py` says what one server can switch, `alternatives.py` names what else the server could run on.
- The answer, in `answer/`: verdicts, sentences, apply.sql and undo.sql, provider settings, later costs.
"""
