"""The contract: its reader, the validation of requests, and the serialization of responses."""
