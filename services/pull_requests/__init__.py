"""Pull requests as clients see them: verdict, freezes, exceptions, check."""
