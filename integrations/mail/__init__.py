"""Mail: the letters that are sent, and the server that takes them."""
