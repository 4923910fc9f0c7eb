"""From slow statements to fixes proven on a copy.

The way: `run.py` goes from the symptom to the answer; `running/` has its steps: what is looked at, what is
proven, and what a later run continues from.

- What it starts from: `start/` earlier results, `source/` a running server and its copy, `facts/` the
  schema as the catalogs have it, `asking.py` the inputs of finders.
- Candidates: `finders/` and `rewrites/` propose them, `copy.py` is a copy to try them on, `names.py`
  quotes names, `same_results/` compares rows.
- The search, in `search/`: what is tried (`search.py`), what the planner says before it is timed
  (`touched.py`), timed in turn (`turns.py`), taken (`forward.py`), proposed with that in place
  (`finders_again.py`), what generic plans do (`generic_plans.py`), how often and how long a
  proof runs (`executions.py`, `proof_time.py`).
  `endless/` is for statements that do not end.
- The proof: `arms.py` chooses its arms, `switchable.py` says what one server can switch, `proof.py` is
  the experiment, `effects.py` reads it, `proving.py` has its two stages, `alternatives.py` names what
  else the server could run on.
- The answer, in `answer/`: verdicts, sentences, apply.sql and undo.sql, provider settings, later costs.
"""
