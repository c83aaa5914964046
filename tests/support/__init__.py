"""What tests share: the extended-precision referee, and histories of requests that it judges."""
