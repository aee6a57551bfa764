"""The compatibility API: branches as clients of the classic service see and change them, by the services of `/v1`."""
