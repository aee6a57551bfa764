"""Password hashes as tests use them: real Argon2id at its lowest costs, half a millisecond instead of 100."""

from functools import cache

from services.core.password_hashing import PasswordHasher

HASHER = PasswordHasher(time_cost=1, memory_cost=8)


@cache
def hash_password(password: str) -> str:
    """Return the hash of a password, the same for the whole run."""
    return HASHER.hash(password)
