"""Mail: templates, and delivery by SMTP."""
