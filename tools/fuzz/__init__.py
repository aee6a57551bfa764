"""`python -m tools.fuzz`: Schemathesis over the whole contract, once with each kind of credential.

A sandbox of its own is started, unless `--sandbox` names one. What Schemathesis sends follows from the contract, whose
example ids are replaced by ids that exist there, and from the seed, which is printed: a run can be had again.
"""
