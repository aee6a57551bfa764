"""The command `freeze`."""

from change_freeze_cli.commands import main

if __name__ == "__main__":
    main(prog_name="freeze")
