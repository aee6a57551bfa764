"""Plans and what they include, and the grants that give an organisation its plan."""
