"""What is known about the enforcement of each branch, and requests to verify it again.

Below `enforcement/`, so that packages that show a status or change what is watched do not import the verification.
"""
