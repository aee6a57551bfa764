"""How Stripe's API is spoken: forms, parameters, routes, lists, expansion, metadata."""
