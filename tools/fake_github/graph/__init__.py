"""GitHub's GraphQL API on a cut of its public schema."""
