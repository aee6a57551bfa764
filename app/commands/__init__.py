"""What operators run with `python -m app <command>`; `app/__main__.py` lists the commands."""
