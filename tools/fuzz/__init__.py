"""`python -m tools.fuzz`: Schemathesis over the whole contract, once with each kind of credential.

It starts a sandbox of its own, unless `--sandbox` names one. What Schemathesis sends follows from the contract, whose
example ids are replaced by ids that exist there, and from the seed, which is printed, so that a run can be repeated.

| module | holds |
|---|---|
| `__main__` | one run of Schemathesis for each credential |
| `hooks` | what Schemathesis loads: fixtures before each call, checks after it |
| `credentials` | the kinds of credential, and what each may call by the contract |
| `fixtures/` | objects in place of the contract's examples, for a run and for single calls |
| `audited` | the check that a request left the audit entries of its `x-audit` |
"""
