"""What comes over the wire: addresses, schemas, limits and the process that listens; imports `work`, never reversed."""
