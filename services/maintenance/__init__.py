"""What the sweeper does on a timer: record ends, repair, delete what is kept long enough, request full passes."""
