"""Accounts and credentials: sign-up, sign-in, sessions, access tokens, API keys, devices.

Everything runs in units of work of the database role `identity`, which sees all accounts, sessions and
memberships, but no freezes. Four invariants hold:

- **Account existence is not revealed.** Sign-up and password reset respond alike for every address, and so does a
  wrong password; slow work (hashing, mail) is done in every case. An account exists only once its address is
  confirmed, because otherwise the response to a sign-in would reveal it.
- **Attempts are counted before they are evaluated**, and the count is committed: concurrent guesses cannot exceed it.
- **Secrets are stored hashed**: tokens as SHA-256, passwords as Argon2id.
- **Revocation takes effect at once** in every process: sessions are looked up on each request and never cached.
"""
