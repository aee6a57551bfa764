"""Marshmallow schemas and request shapes, built from the components of the contract."""
