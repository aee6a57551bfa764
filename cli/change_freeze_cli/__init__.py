"""`freeze`: the Change-Freeze Service from a terminal, over only its public API.

`commands` and `schedule_commands` have the commands, `arguments` what they take, `views` what they print, `session`
whom they act for, `api` the requests. Nothing but Click and the standard library is needed; what takes long to import
is imported when it is used.
"""

__version__ = "0.1.0"
