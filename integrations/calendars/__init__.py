"""Calendars from outside, read into windows that schedules can have.

`ics` reads a file in a process of its own, with its memory and its time limited (`reader`), because nobody can promise
how long the libraries that expand rules take over a file that somebody made to keep them busy; and because icalendar
remembers time zones that a file defines for the rest of its process, so that one organisation's file would change how
another's is read. What a look at the text can refuse is refused before (`gate`). `holidays` asks a package that
computes public holidays.

Either gives `Reading`: windows in the terms of schedules, and what was left out, with the reason.
"""
