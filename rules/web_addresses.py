"""Addresses of the pages for people, below the web origin: mails, GitHub and the pages themselves lead to them.

That of the MCP server is below the address of the API.
"""

HOME = "/"
SIGN_UP = "/sign-up"
VERIFY = "/verify"
SIGN_IN = "/sign-in"
SIGN_OUT = "/sign-out"
FORGOT = "/forgot"
RESET = "/reset"
INVITATION = "/invitation"
DEVICE = "/device"
AUTHORIZE = "/oauth/authorize"
CONNECTIONS = "/connections"
INSTALLED = "/installed"
BILLING = "/billing"
BILLING_PAYMENT = "/billing/payment"
BILLING_CHANGES = "/billing/changes"
ENFORCEMENT_AUTHORIZED = "/enforcement/authorized"
REFERENCE = "/docs"
ERROR_CODES = "/docs/errors"
MCP = "/mcp"
