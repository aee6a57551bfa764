"""One module per tag, one function per operationId: each calls one service and returns its object."""
