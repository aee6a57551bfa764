"""Webhooks: signed, sent in the background, tried again, and withheld, shuffled or doubled at will."""
