"""GitHub's state and rules: no HTTP, no GraphQL, no clock but the world's own."""
