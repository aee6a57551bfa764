"""The processes and commands of the service, its configuration, and what they are composed of; `edge/` serves HTTP."""
