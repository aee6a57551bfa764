"""The fault suite: every fault of the table, injected for real into the whole service, and judged the same way.

How to add a fault
------------------
Write a function in a module of `catalogue/` (a new module is found by itself) and give it a sentence as its name::

    @fault("A worker is killed in mid fan-out", within=90)
    def killed_in_mid_fan_out(trial: Trial) -> None:
        stack = trial.stack                  # everything that runs, and the ways to hurt it
        traps = trap_writes(stack)           # on the wires of who does the fan-out: the workers
        trial.client.freeze()                # over HTTP, insisting, and noted for the judge
        reconciler = first_caught(traps)           # its first write is held
        reconciler.kill()
        trial.injected()                     # recovery is counted from here (default: from the start)
        traps[reconciler].cut()
        reconciler.start()
        stack.skip(LEASE)

The function prepares, injects and (if that is part of the fault) heals. Then the runner mends whatever is left broken
(`Stack.mend`: faults of the simulator cleared, wires healed, servers and processes running), stops the load, waits
until everything is at rest, and judges: every open head carries the verdict of the database, nothing acknowledged is
lost or doubled, no `success` was sent that a freeze forbade, and all that within so many seconds. What only this fault
promises is said with `assert` or `trial.require`.

What there is: `stack.wire(process, "postgres" | "redis" | "fake_github" | "fake_stripe" | "fake_slack" | "mail")` can
`cut`, `refuse`, `hang`, `heal`, be late (`delay`) and `trap` one request or its answer; `stack.wires_to(server)` are
those of all processes, which `refuse`, `hang` and `heal` together;
`stack.github` is the simulated GitHub itself (`stack.github.faults.add("error", "graphql mutation", status=502)`),
`stack.stripe` the simulated Stripe, `stack.slack` the simulated Slack; `stack.processes[...]` take signals; `stack.sql`
looks past everything; `stack.skip(seconds)` lets stored time (leases, retries, pauses) pass at once in a quick run and
does nothing in a long one. Organisation `acme` is the fault's own; a load of freezes, lifts and pushes runs in `beta`
all the while (`load=False` keeps it away). `needs_redis=True` leaves a fault out where there is no Redis, `quick=False`
leaves it out of `make check`, which tries the others in `tests/faults/recovery/`. Other arguments are the function's:
faults that differ in a value are one function under several decorators.

`python -m tests.faults.suite --help` runs it.
"""
