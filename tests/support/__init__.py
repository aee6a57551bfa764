"""What several test packages share: a served application, tenants with credentials, and a second opinion on answers."""
