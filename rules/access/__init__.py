"""Who may do what: permissions, entitlements of plans, passwords, names and codes that people type."""
