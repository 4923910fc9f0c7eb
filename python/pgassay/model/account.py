"""Where the time of a server's threads went, per arm: the items of an account."""

from typing import Literal

from pgassay.model.base import Frozen

ItemKind = Literal["cpu", "runnable", "client", "network", "wait"]
ItemState = Literal["running", "runnable", "asleep", "device"]


class AccountItem(Frozen):
    """One way to spend time.

    `kind`: `cpu` (on a processor, by the scheduler's own count; with a wait event where the processor
    worked within one, as when it copies from the page cache), `runnable` (waiting for a processor, by the
    same count), `client` (waiting for the client's next request), `network` (waiting for bytes to be sent
    or to come), `wait` (asleep in a wait event, or in none that PostgreSQL told). `state`: the scheduler's;
    `device` is an uninterruptible sleep. `seconds`: mean over the trials, summed over the threads; `share`:
    of the account's wall time.
    """

    kind: ItemKind
    state: ItemState
    wait_event_type: str = ""
    wait_event: str = ""
    seconds: float
    share: float


class Account(Frozen):
    """What the threads of one kind did, in means over the trials, because only means add up.

    `process`: backend, parallel worker, io worker, io_uring worker, checkpointer, …; `threads`: how many
    there were at a time, on average; `wall_s`: their time in the measured part, summed. `residue_s`:
    `wall_s` less all items; it may be negative. `asleep_s`: what the scheduler's counts of CPU and queue
    leave of the wall time; `asleep_sampled_s`: the same by samples alone, with its standard error
    `sampling_error_s`. `samples`: looks at one of these threads, over all trials. `cpu_unseen_s`: the part
    of `cpu` that was used after the last look at a thread before it ended, known from what its parent was
    told.
    """

    process: str
    threads: float
    wall_s: float
    items: tuple[AccountItem, ...]
    residue_s: float
    sampling_error_s: float
    samples: int
    cpu_unseen_s: float = 0.0
    asleep_s: float = 0.0
    asleep_sampled_s: float = 0.0


class ArmAccounts(Frozen):
    """The accounts of one arm, over the `trials` that were observed; `transactions` of a load, on average."""

    arm: str
    stratum: str = ""
    trials: int
    measured_s: float
    transactions: float | None = None
    accounts: tuple[Account, ...]
