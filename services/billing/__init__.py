"""Plans of organisations: grants of operators, trials, what the plan in force includes, and the billing summary.

A source of plans stores its grants in `plan_grants`; the plan in force follows from all of them, where a credential is
read and in views alike. Losing a plan removes nothing.
"""
