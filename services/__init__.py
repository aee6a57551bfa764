"""What the product does: one module per noun, and the unit of work."""
