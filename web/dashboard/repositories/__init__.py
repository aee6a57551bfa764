"""Pages of repositories and their branches: what is enabled and watched, and whether a freeze really blocks there."""
