"""What tests of several packages share: servers, applications, clocks, and stand-ins for what is slow."""
