"""A small contract and its handlers: the machinery is tested without the product."""
