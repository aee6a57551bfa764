"""People: signing up and in, the sign-ins that are open, the keys that sign their tokens.

Everything here runs in units of the realm `identity`, whose role sees everybody's accounts, sign-ins and memberships
and no freeze. Four properties hold throughout:

- **Nobody learns who has an account.** Signing up and asking for a new password answer alike for every address, and
  so does a wrong password; the work that takes time (hashing, a mail) is done for all of them. An account begins to
  exist when its address is confirmed, for else the answer to a sign-in would tell whether there was one before.
- **A guess is counted before it is judged**, and the count is committed: any number of guesses at once are as many.
- **What was handed out is a secret of its own**: of tokens the database has hashes, of passwords Argon2id.
- **What ends, ends at once**, in every process: a session is looked up on every request, and nothing is remembered.
"""
