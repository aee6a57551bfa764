"""Who may do what: permissions, passwords, names and codes that people type."""
