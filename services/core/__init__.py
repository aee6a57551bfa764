"""What every service uses: the unit of work, its clock, pagination, look-ups, encryption, tokens.

The lowest level of `services/`: it imports no other package of it.
"""
